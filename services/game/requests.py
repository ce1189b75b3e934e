"""Requests of the game service read into commands; every refusal names the field."""

import secrets
import time
from functools import lru_cache
from typing import Any
from uuid import UUID

from kozyr.game.v1 import game_pb2, variant_pb2
from kozyr.wallet.v1 import wallet_pb2

from engines.shuffle import SERVER_SEED_BYTES
from services.game import domain
from services.game.codec import options_from_wire
from services.game.model import SeatOpened, Stage, State
from services.kernel.errors import invalid
from services.kernel.seats import BOT_AFTER_MAX, SPECTATOR_DELAY_MAX, AbsentPolicy, BotLevel
from services.runtime import validate
from services.runtime.settings import Settings
from services.runtime.wire import games as wire

SEED_MS_MIN = 1
SEED_MS_MAX = 60_000
"""Longest time for hashes, and again for seeds, in milliseconds."""
AGE_MAX_MS = 366 * 86_400_000
AHEAD_MAX_MS = 86_400_000
"""How old the id of a new game may be (its start may have waited), and how far ahead of this
machine's clock."""


def open_command(request: game_pb2.CreateGameRequest, settings: Settings) -> domain.Open:
    """The game to open, with fresh secrets."""
    variant, options = options_from_wire(request.options)
    policy = validate.choice(
        "absent_policy", request.absent_policy, [policy.value for policy in AbsentPolicy]
    )
    return domain.Open(
        game_id=new_game_id("game_id", request.game_id),
        variant=variant,
        table_id=str(validate.uuid("table_id", request.table_id)),
        options=options,
        seats=tuple(_seat(n, seat) for n, seat in enumerate(request.seats)),
        last_winner=request.last_winner if request.HasField("last_winner") else None,
        turn_ms=validate.number(
            "turn_ms",
            request.turn_ms,
            low=settings.turn_time_min_ms,
            high=settings.turn_time_max_ms,
        ),
        seed_ms=validate.number("seed_ms", request.seed_ms, low=SEED_MS_MIN, high=SEED_MS_MAX),
        spectators=request.spectators,
        absent_policy=AbsentPolicy(policy),
        time_bank_ms=validate.number(
            "time_bank_ms", request.time_bank_ms, low=0, high=settings.time_bank_max_ms
        ),
        spectator_delay=validate.number(
            "spectator_delay", request.spectator_delay, low=0, high=SPECTATOR_DELAY_MAX
        ),
        bot_after=validate.number("bot_after", request.bot_after, low=0, high=BOT_AFTER_MAX),
        no_hints=request.no_hints,
        server_seed=secrets.token_bytes(SERVER_SEED_BYTES),
        bot_seed=secrets.token_bytes(SERVER_SEED_BYTES),
    )


def move_of(state: State, move: variant_pb2.Move) -> Any:
    """The engine's move; raises Refused naming the field, also for a move of another game."""
    if state.stage is Stage.ABSENT or move.WhichOneof("move") != state.variant:
        raise invalid("move", "is not a move of this game")
    return wire.of(state.variant).move.from_wire(
        getattr(move, state.variant), f"move.{state.variant}"
    )


@lru_cache(maxsize=16_384)  # calls name the same few games again and again
def game_id(field: str, text: str) -> UUID:
    """A game's id: a UUID version 7."""
    parsed = validate.uuid(field, text)
    if parsed.version != 7:
        raise invalid(field, "must be a UUID version 7")
    return parsed


def new_game_id(field: str, text: str) -> UUID:
    """The id of a game that is about to begin; its time decides where the log will lie."""
    parsed = game_id(field, text)
    age_ms = time.time_ns() // 1_000_000 - (parsed.int >> 80)
    if not -AHEAD_MAX_MS <= age_ms <= AGE_MAX_MS:
        raise invalid(field, "must have been made within the last year, and not in the future")
    return parsed


def pin_request(command: domain.Open) -> wallet_pb2.PinRequest | None:
    """What the wallet must bind to this game before it opens; None where no chips are played."""
    claims = [
        wallet_pb2.ReservationClaim(
            reservation_id=seat.reservation_id, account_id=seat.player_id, chips=seat.stack
        )
        for seat in command.seats
        if seat.reservation_id
    ]
    if not claims:
        return None
    return wallet_pb2.PinRequest(
        request_id=f"pin:{command.game_id}", game_id=str(command.game_id), claims=claims
    )


def _seat(number: int, seat: game_pb2.SeatSetup) -> SeatOpened:
    where = f"seats[{number}]"
    levels = [0, *(level.value for level in BotLevel)]
    level = validate.choice(f"{where}.bot_level", seat.bot_level, levels)
    if seat.stack < 0:
        raise invalid(f"{where}.stack", "must not be negative")
    reservation = validate.optional_uuid(f"{where}.reservation_id", seat.reservation_id)
    return SeatOpened(
        player_id=str(validate.uuid(f"{where}.player_id", seat.player_id)),
        bot_level=BotLevel(level) if level else None,
        stack=seat.stack,
        reservation_id="" if reservation is None else str(reservation),
    )
