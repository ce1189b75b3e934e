"""What the wallet decides: commands on accounts and reservations become balanced transfers.

All of it is pure. `decide` looks at the books a command needs and answers with a `Change`, or
raises `Refused` and changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never
from uuid import UUID

from engines.records import maker
from services.kernel.errors import Kind, Refused, invalid, precondition
from services.wallet.books import (
    CHIPS_MAX,
    ISSUER,
    Account,
    AccountKind,
    Books,
    Change,
    Game,
    GameState,
    Leg,
    Reservation,
    ReservationState,
    Transfer,
    TransferKind,
    check_chips,
    posted,
    unknown_account,
)
from services.wallet.compensation import (
    Amendment,
    Collect,
    Compensate,
    Forfeit,
    FundReserve,
    amend,
    touched,
)

TTL_MS_MIN = 100
TTL_MS_MAX = 3_600_000
"""How long a reservation may be held without being pinned: up to an hour."""
_leg, _transfer, _reservation = maker(Leg), maker(Transfer), maker(Reservation)

EXPIRED = "EXPIRED"
"""The reason of a reservation that went back by itself."""


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """Open a player's or a bot's account with `welcome` chips."""

    account: UUID
    kind: AccountKind
    welcome: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Give chips from the issuer to a player's or bot's account, or to bots' accounts only."""

    account: UUID
    chips: int
    reason: str
    bots_only: bool = False


@dataclass(frozen=True, slots=True)
class Reserve:
    """Hold chips of an account for a game, for `ttl_ms` unless the game pins them."""

    id: UUID
    account: UUID
    game: UUID
    chips: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A reservation as the game was told of it."""

    reservation: UUID
    account: UUID
    chips: int


@dataclass(frozen=True, slots=True)
class Pin:
    """Bind all of a game's reservations to it."""

    game: UUID
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What a seat gave to banks and got from them."""

    reservation: UUID
    paid_in: int
    paid_out: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Pay a finished game's escrow out to all seats."""

    game: UUID
    lines: tuple[Line, ...]
    head: bytes


@dataclass(frozen=True, slots=True)
class Void:
    """Give a game's chips back and refuse it for ever; pinned ones only if `pinned_too`."""

    game: UUID
    reason: str
    pinned_too: bool


@dataclass(frozen=True, slots=True)
class Expire:
    """Give a game's reservations back whose time has passed; the game may reserve anew."""

    game: UUID


Command: TypeAlias = OpenAccount | Grant | Reserve | Pin | Settle | Void | Expire | Amendment


def game_of(command: Command) -> UUID | None:
    """The game a command is about."""
    match command:
        case OpenAccount() | Grant() | FundReserve() | Forfeit():
            return None
        case Reserve() | Pin() | Settle() | Void() | Expire() | Compensate() | Collect():
            return command.game
        case _:
            assert_never(command)


def accounts_of(command: Command, reservations: Sequence[Reservation]) -> tuple[UUID, ...]:
    """The accounts a command may touch, given its game's reservations; some may be named twice."""
    match command:
        case OpenAccount() | Grant():
            return (command.account, ISSUER)
        case FundReserve() | Compensate() | Collect() | Forfeit():
            return touched(command)
        case Reserve():
            return (command.account, command.game)
        case Pin():
            return ()
        case Settle() | Void() | Expire():
            return (command.game, *(r.account for r in reservations if r.is_held))
        case _:
            assert_never(command)


def has_expired(books: Books, game: UUID) -> bool:
    """Whether a pending reservation of the game has outlived its time and must go back first."""
    return bool(_expired(books, game))


def decide(books: Books, command: Command, transfer_id: UUID) -> Change:
    """What the command does; `transfer_id` names the transfer it may make.

    Raises Refused. A command that finds its work done, by itself or by its like, changes nothing.
    """
    match command:
        case OpenAccount():
            return _open(books, command, transfer_id)
        case Grant():
            return _grant(books, command, transfer_id)
        case Reserve():
            return _reserve(books, command, transfer_id)
        case Pin():
            return _pin(books, command)
        case Settle():
            return _settle(books, command, transfer_id)
        case Void():
            return _void(books, command, transfer_id)
        case Expire():
            return _give_back(books, _expired(books, command.game), EXPIRED, transfer_id)
        case FundReserve() | Compensate() | Collect() | Forfeit():
            return amend(books, command, transfer_id)
        case _:
            assert_never(command)


# ---------------------------------------------------------------------------------------- accounts


def _open(books: Books, command: OpenAccount, transfer_id: UUID) -> Change:
    known = books.accounts.get(command.account)
    if known is not None and known.kind is command.kind:
        return Change()
    if known is not None or command.account == ISSUER:
        raise Refused(Kind.EXISTS, "ACCOUNT_EXISTS", "there is an account of another kind")
    opened = Account(command.account, command.kind)
    if not command.welcome:
        return Change((opened,))
    transfer = _issue(TransferKind.WELCOME, opened.id, command.welcome, None, transfer_id)
    return posted(books, transfer, (opened,))


def _grant(books: Books, command: Grant, transfer_id: UUID) -> Change:
    account = _holder(books, command.account)
    if command.bots_only and account.kind is not AccountKind.BOT:
        raise Refused(Kind.DENIED, "BOTS_ONLY", "this caller may grant chips to bots only")
    check_chips("chips", command.chips)
    transfer = _issue(TransferKind.GRANT, account.id, command.chips, command.reason, transfer_id)
    return posted(books, transfer)


def _issue(
    kind: TransferKind, account: UUID, chips: int, reason: str | None, transfer_id: UUID
) -> Transfer:
    legs = (Leg(ISSUER, -chips), Leg(account, chips))
    return Transfer(transfer_id, kind, legs, reason=reason)


def _holder(books: Books, account: UUID) -> Account:
    """A player's or bot's account; the issuer and escrows move by their own commands only."""
    known = books.accounts.get(account)
    if known is None or known.kind not in (AccountKind.PLAYER, AccountKind.BOT):
        raise unknown_account(account)
    return known


# ------------------------------------------------------------------------------------ reservations


def _reserve(books: Books, command: Reserve, transfer_id: UUID) -> Change:
    known = next((r for r in books.reservations if r.id == command.id), None)
    game = books.game or Game(command.game)
    check_chips("chips", command.chips)
    if not TTL_MS_MIN <= command.ttl_ms <= TTL_MS_MAX:
        raise invalid("ttl_ms", f"must be {TTL_MS_MIN} to {TTL_MS_MAX}")
    if known is not None:
        return _reserved_before(known, command)
    match game.state:
        case GameState.OPEN:
            pass
        case GameState.PINNED:
            raise precondition("RESERVATION_PINNED", "the game was opened with its reservations")
        case GameState.SETTLED:
            raise _already_settled()
        case GameState.VOIDED:
            raise precondition("GAME_VOIDED", "the game was voided and will never open")
        case _:
            assert_never(game.state)
    account = _holder(books, command.account)
    escrow = books.accounts.get(command.game)
    if escrow is not None and escrow.kind is not AccountKind.ESCROW:
        raise Refused(Kind.EXISTS, "ACCOUNT_EXISTS", "the game's id is that of another account")
    opened = () if escrow is not None else (Account(command.game, AccountKind.ESCROW),)
    number = 1 + sum(r.game == command.game for r in books.reservations)
    expires_at = books.now + command.ttl_ms * 1_000
    made = _reservation(
        *(command.id, command.game, number, account.id, command.chips, expires_at),
        *(ReservationState.PENDING, 0, 0, None),
    )
    legs = (_leg(account.id, -command.chips), _leg(command.game, command.chips))
    transfer = _transfer(transfer_id, TransferKind.RESERVE, legs, command.game, None)
    return posted(books, transfer, opened, game, (made,))


def _reserved_before(known: Reservation, command: Reserve) -> Change:
    """Another request for a reservation that there is: fine while it still holds the chips."""
    if (known.game, known.account, known.chips) != (command.game, command.account, command.chips):
        raise _mismatch("is another reservation's", known.id)
    match known.state:
        case ReservationState.PENDING | ReservationState.PINNED:
            return Change()
        case ReservationState.POSTED:
            raise _already_settled()
        case ReservationState.VOIDED:
            raise _gone(known)
        case _:
            assert_never(known.state)


def _pin(books: Books, command: Pin) -> Change:
    game = books.game
    if game is not None and game.state is GameState.SETTLED:
        raise _already_settled()
    if game is not None and game.state is GameState.VOIDED:
        raise precondition("GAME_VOIDED", "the game was voided and will never open")
    known = {r.id: r for r in books.reservations}
    for claim in command.claims:
        reservation = known.get(claim.reservation)
        if reservation is None:
            raise _mismatch("is none of the game's", claim.reservation)
        if (reservation.account, reservation.chips) != (claim.account, claim.chips):
            raise _mismatch("has another account or another number of chips", claim.reservation)
        if not reservation.is_held:
            raise _gone(reservation)
    held = tuple(r for r in books.reservations if r.is_held)
    if sorted(r.id for r in held) != sorted(c.reservation for c in command.claims):
        raise _mismatch("claims must name each of the game's reservations once")
    if game is None or not held:
        raise _mismatch("the game has no reservations")
    if game.state is GameState.PINNED:
        return Change()
    pinned = tuple(replace(r, state=ReservationState.PINNED) for r in held)
    return Change(game=replace(game, state=GameState.PINNED), reservations=pinned)


def _settle(books: Books, command: Settle, transfer_id: UUID) -> Change:
    game = books.game
    if game is None:
        raise _mismatch("the game has no reservations")
    match game.state:
        case GameState.OPEN:
            raise precondition("RESERVATION_NOT_PINNED", "the game was never opened")
        case GameState.VOIDED:
            raise precondition("ALREADY_VOIDED", "the game's chips went back")
        case GameState.SETTLED:
            if _is_as_settled(game, books.reservations, command):
                return Change()
            raise _already_settled()
        case GameState.PINNED:
            return _pay_out(books, game, command, transfer_id)
        case _:
            assert_never(game.state)


def _is_as_settled(game: Game, reservations: Sequence[Reservation], command: Settle) -> bool:
    posted = (r for r in reservations if r.state is ReservationState.POSTED)
    lines = {Line(r.id, r.paid_in, r.paid_out) for r in posted}
    same = set(command.lines) == lines and len(command.lines) == len(lines)
    return same and command.head == game.head


def _pay_out(books: Books, game: Game, command: Settle, transfer_id: UUID) -> Change:
    held = {r.id: r for r in books.reservations if r.is_held}
    if sorted(held) != sorted(line.reservation for line in command.lines):
        raise _mismatch("lines must name each of the game's reservations once")
    for line in command.lines:
        for field, chips in (("paid_in", line.paid_in), ("paid_out", line.paid_out)):
            if not 0 <= chips <= CHIPS_MAX:
                raise invalid(f"lines.{field}", f"must be 0 to {CHIPS_MAX}")
    if sum(line.paid_in - line.paid_out for line in command.lines):
        raise precondition("UNBALANCED", "what seats paid in is not what they were paid out")
    ended = tuple(
        replace(
            held[line.reservation],
            state=ReservationState.POSTED,
            paid_in=line.paid_in,
            paid_out=line.paid_out,
        )
        for line in command.lines
    )
    for reservation in ended:
        if reservation.final < 0:
            raise precondition(
                "SEAT_OVERDRAWN",
                "a seat paid in more than it had",
                reservation_id=str(reservation.id),
            )
    legs = _out_of(game.id, [(r.account, r.final) for r in ended])
    transfer = Transfer(transfer_id, TransferKind.SETTLE, legs, game.id)
    settled = replace(game, state=GameState.SETTLED, transfer=transfer.id, head=command.head)
    return posted(books, transfer, (), settled, ended)


def _void(books: Books, command: Void, transfer_id: UUID) -> Change:
    game = books.game or Game(command.game)
    match game.state:
        case GameState.SETTLED:
            raise _already_settled()
        case GameState.VOIDED:
            return Change()
        case GameState.PINNED if not command.pinned_too:
            raise precondition("RESERVATION_PINNED", "only the game's end can release its chips")
        case GameState.OPEN | GameState.PINNED:
            pass
        case _:
            assert_never(game.state)
    held = tuple(r for r in books.reservations if r.is_held)
    voided = replace(game, state=GameState.VOIDED, reason=command.reason)
    return _give_back(books, held, command.reason, transfer_id, voided)


def _give_back(
    books: Books,
    held: Sequence[Reservation],
    reason: str,
    transfer_id: UUID,
    game: Game | None = None,
) -> Change:
    """Reservations of one game voided, their chips back where they came from; the game becomes
    `game`, if that is told."""
    if not held:
        return Change(game=game)
    escrow = held[0].game
    legs = _out_of(escrow, [(r.account, r.chips) for r in held])
    voided = tuple(replace(r, state=ReservationState.VOIDED, reason=reason) for r in held)
    transfer = Transfer(transfer_id, TransferKind.VOID, legs, escrow, reason)
    return posted(books, transfer, (), game, voided)


def _out_of(escrow: UUID, parts: Sequence[tuple[UUID, int]]) -> tuple[Leg, ...]:
    """Legs from an escrow to accounts; an account that gets nothing has none."""
    sums: dict[UUID, int] = {}
    for account, chips in parts:
        sums[account] = sums.get(account, 0) + chips
    paid = tuple(Leg(account, chips) for account, chips in sums.items() if chips)
    return (Leg(escrow, -sum(sums.values())), *paid)


def _expired(books: Books, game: UUID) -> tuple[Reservation, ...]:
    return tuple(
        [
            r
            for r in books.reservations
            if r.expires_at <= books.now and r.state is ReservationState.PENDING and r.game == game
        ]
    )


# ---------------------------------------------------------------------------------------- refusals


def _mismatch(problem: str, reservation: UUID | None = None) -> Refused:
    if reservation is None:
        return precondition("RESERVATION_MISMATCH", problem)
    facts = {"reservation_id": str(reservation)}
    return precondition("RESERVATION_MISMATCH", f"the reservation {problem}", **facts)


def _gone(reservation: Reservation) -> Refused:
    facts = {"reservation_id": str(reservation.id)}
    if reservation.reason == EXPIRED:
        return precondition("RESERVATION_EXPIRED", "the reservation's time had passed", **facts)
    return precondition("ALREADY_VOIDED", "the reservation's chips went back", **facts)


def _already_settled() -> Refused:
    return precondition("ALREADY_SETTLED", "the game was settled before")
