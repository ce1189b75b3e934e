"""Reading requests: their fields checked, as the commands they ask for."""

import re
from uuid import UUID

from kozyr.wallet.v1 import wallet_pb2 as pb

from services.kernel.errors import denied, invalid
from services.runtime import validate
from services.runtime.auth import Caller, Role
from services.wallet.books import CHIPS_MAX, AccountKind, Leg
from services.wallet.compensation import Collect, Compensate, Forfeit, FundReserve
from services.wallet.domain import (
    TTL_MS_MAX,
    TTL_MS_MIN,
    Claim,
    Grant,
    Line,
    OpenAccount,
    Pin,
    Reserve,
    Settle,
    Void,
)

GAME = "game"
"""The service that may void a game it has opened."""
HEAD_BYTES = 32
REASON_MAX = 200
SEATS_MAX = 64
"""Most reservations a game may pin."""
WORD = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def whose(account_id: str, caller: Caller) -> UUID:
    """The account meant, empty meaning the caller's own; decided before anything is looked up.

    Raises Refused PERMISSION_DENIED `NOT_YOUR_ACCOUNT` for a player who asks for another's.
    """
    if caller.role is not Role.PLAYER:
        return validate.uuid("account_id", account_id)
    if account_id not in ("", caller.subject):
        raise denied("NOT_YOUR_ACCOUNT", "players see their own account only")
    return validate.uuid("account_id", caller.subject)


def read_open(request: pb.OpenAccountRequest, welcome: int) -> OpenAccount:
    """An account to open; bots get no welcome."""
    account = validate.uuid("account_id", request.account_id)
    allowed = (pb.ACCOUNT_KIND_PLAYER, pb.ACCOUNT_KIND_BOT)
    kind = AccountKind(validate.choice("kind", request.kind, allowed))
    return OpenAccount(account, kind, welcome if kind is AccountKind.PLAYER else 0)


def read_grant(request: pb.GrantRequest, caller: Caller) -> Grant:
    """A grant; only operators may give to anybody."""
    return Grant(
        validate.uuid("account_id", request.account_id),
        validate.number("chips", request.chips, low=1, high=CHIPS_MAX),
        validate.text("reason", request.reason, high=REASON_MAX),
        bots_only=caller.role is not Role.OPERATOR,
    )


def read_reserve(request: pb.ReserveRequest) -> Reserve:
    """A reservation to make."""
    return Reserve(
        validate.uuid("reservation_id", request.reservation_id),
        validate.uuid("account_id", request.account_id),
        validate.uuid("game_id", request.game_id),
        validate.number("chips", request.chips, low=1, high=CHIPS_MAX),
        validate.number("ttl_ms", request.ttl_ms, low=TTL_MS_MIN, high=TTL_MS_MAX),
    )


def read_pin(request: pb.PinRequest) -> Pin:
    """The claims of an opening game."""
    game = validate.uuid("game_id", request.game_id)
    _some("claims", len(request.claims))
    claims = []
    for index, claim in enumerate(request.claims):
        at = f"claims[{index}]"
        reservation = validate.uuid(f"{at}.reservation_id", claim.reservation_id)
        account = validate.uuid(f"{at}.account_id", claim.account_id)
        chips = validate.number(f"{at}.chips", claim.chips, low=1, high=CHIPS_MAX)
        claims.append(Claim(reservation, account, chips))
    return Pin(game, tuple(claims))


def read_settle(request: pb.SettleRequest) -> Settle:
    """A finished game's accounts."""
    game = validate.uuid("game_id", request.game_id)
    _some("lines", len(request.lines))
    lines = []
    for index, line in enumerate(request.lines):
        at = f"lines[{index}]"
        reservation = validate.uuid(f"{at}.reservation_id", line.reservation_id)
        paid_in = validate.number(f"{at}.paid_in", line.paid_in, low=0, high=CHIPS_MAX)
        paid_out = validate.number(f"{at}.paid_out", line.paid_out, low=0, high=CHIPS_MAX)
        lines.append(Line(reservation, paid_in, paid_out))
    head = validate.octets("head", request.head, low=HEAD_BYTES, high=HEAD_BYTES)
    return Settle(game, tuple(lines), head)


def read_void(request: pb.VoidRequest, caller: Caller) -> Void:
    """A game's chips to give back; pinned ones only if the game itself or an operator says so."""
    game = validate.uuid("game_id", request.game_id)
    if not WORD.fullmatch(request.reason):
        raise invalid("reason", "must be an UPPER_SNAKE word of up to 64 characters")
    is_final = caller.role is Role.OPERATOR or caller.subject == GAME
    return Void(game, request.reason, pinned_too=is_final)


def read_fund(request: pb.FundReserveRequest) -> FundReserve:
    """Chips for the dispute reserve."""
    chips = validate.number("chips", request.chips, low=1, high=CHIPS_MAX)
    return FundReserve(chips, validate.text("reason", request.reason, high=REASON_MAX))


def read_compensate(request: pb.CompensateRequest) -> Compensate:
    """A ruling to carry out."""
    dispute = validate.uuid("dispute_id", request.dispute_id)
    game = validate.uuid("game_id", request.game_id)
    _some("moves", len(request.moves))
    moves = [
        Leg(validate.uuid(f"moves[{index}].account_id", move.account_id), move.chips)
        for index, move in enumerate(request.moves)
    ]
    return Compensate(dispute, game, tuple(moves))


def read_collect(request: pb.CollectRequest) -> Collect:
    """A claim to collect."""
    return Collect(
        validate.uuid("dispute_id", request.dispute_id),
        validate.uuid("game_id", request.game_id),
        validate.uuid("account_id", request.account_id),
        validate.number("chips", request.chips, low=1, high=CHIPS_MAX),
    )


def read_forfeit(request: pb.ForfeitRequest) -> Forfeit:
    """Whose chips go back to the house."""
    return Forfeit(validate.uuid("account_id", request.account_id), request.forfeit)


def _some(field: str, count: int) -> None:
    if not 1 <= count <= SEATS_MAX:
        raise invalid(field, f"must have 1 to {SEATS_MAX} items")
