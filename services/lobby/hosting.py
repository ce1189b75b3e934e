"""What a host may decide: table rules from a request, checked and complete."""

import base64
import secrets
from uuid import UUID

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2

from engines.api import InvalidOption
from services.kernel.errors import invalid
from services.kernel.seats import BOT_AFTER_MAX, SPECTATOR_DELAY_MAX, AbsentPolicy
from services.lobby.domain import INVITED_MAX
from services.lobby.model import Rules, Variant, Visibility
from services.lobby.variants import ENGINES, default_options, read_game_options, variant_of
from services.runtime import validate
from services.runtime.settings import Settings

BUY_IN_MAX = 10**12
"""The largest buy-in a table may allow, in chips."""
FEES_MIN = 20
"""The least buy-in of a table that names none, in entry fees."""
FEES_MAX = 100
"""The largest buy-in of a table that names none, in entry fees."""
QUICK_SEATS = 4
"""The seats of a table that quick play opens, if the player does not care."""
CODE_BYTES = 10


def table_rules(asked: lobby_pb2.TableRules, settings: Settings) -> Rules:
    """The rules of a table to open, defaults filled in; raises Refused naming the field."""
    variant = variant_of(asked.options)
    try:
        options = read_game_options(asked.options)
    except InvalidOption as error:
        field = f"rules.options.{variant.name.lower()}.{error.option}"
        raise invalid(field, error.problem, "INVALID_OPTION") from None
    low, high = _buy_in(getattr(options, "entry_fee", 0), asked.buy_in_min, asked.buy_in_max)
    visibility = Visibility(asked.visibility or Visibility.PUBLIC)
    absent = AbsentPolicy(asked.absent_policy or AbsentPolicy.EXPIRE)
    if asked.no_bots and absent is AbsentPolicy.BOT:
        raise invalid("rules.absent_policy", "no bots are allowed at this table (no_bots)")
    return Rules(
        variant=variant,
        options=options,
        seats=_seats(variant, asked.seats, "rules.seats"),
        seats_min=ENGINES[variant].SEATS.start,
        turn_ms=_turn_ms(asked.turn_ms, settings),
        listed=visibility is Visibility.PUBLIC,
        invite_code="" if visibility is Visibility.PUBLIC else _invite_code(),
        spectators=asked.spectators,
        absent=absent,
        entry_fee=getattr(options, "entry_fee", 0),
        buy_in_min=low,
        buy_in_max=high,
        series=variant is Variant.DURAK and not asked.no_series,
        time_bank_ms=_bounded("time_bank_ms", asked.time_bank_ms, settings.time_bank_max_ms),
        spectator_delay=_spectator_delay(asked),
        bot_after=_bot_after(asked),
        no_hints=asked.no_hints,
        no_chat=asked.no_chat,
        no_bots=asked.no_bots,
        by_invitation=visibility is Visibility.INVITED,
        invited=_invited(asked, visibility),
    )


def quick_rules(variant: Variant, seats: int, fee: int, settings: Settings) -> Rules:
    """The rules quick play opens tables with: defaults but for the fee, spectators welcome."""
    low, high = stack_bounds(fee)
    return Rules(
        variant=variant,
        options=quick_options(variant, fee),
        seats=_seats(variant, seats or QUICK_SEATS, "seats"),
        seats_min=ENGINES[variant].SEATS.start,
        turn_ms=settings.turn_time_default_ms,
        listed=True,
        invite_code="",
        spectators=True,
        absent=AbsentPolicy.EXPIRE,
        entry_fee=fee,
        buy_in_min=low,
        buy_in_max=high,
        series=variant is Variant.DURAK,
    )


def quick_options(variant: Variant, fee: int) -> object:
    """The options quick play plays by: all defaults, but for the fee of games that have one."""
    return ENGINES[variant].Options(entry_fee=fee) if fee else default_options(variant)


def _invited(asked: lobby_pb2.TableRules, visibility: Visibility) -> tuple[UUID, ...]:
    """Whom the host named, each once; at other tables nobody is named."""
    field = "rules.invited_player_ids"
    if asked.invited_player_ids and visibility is not Visibility.INVITED:
        raise invalid(field, "only at a table by invitation (VISIBILITY_INVITED)")
    if len(asked.invited_player_ids) > INVITED_MAX:
        raise invalid(field, f"at most {INVITED_MAX} players")
    named = (
        validate.uuid(f"{field}[{n}]", player) for n, player in enumerate(asked.invited_player_ids)
    )
    return tuple(dict.fromkeys(named))


def _seats(variant: Variant, seats: int, field: str) -> int:
    allowed = ENGINES[variant].SEATS
    if seats not in allowed:
        raise invalid(field, f"must be {allowed.start} to {allowed.stop - 1}")
    return seats


def _turn_ms(asked: int, settings: Settings) -> int:
    low, high = settings.turn_time_min_ms, settings.turn_time_max_ms
    turn_ms = asked or settings.turn_time_default_ms
    if not low <= turn_ms <= high:
        raise invalid("rules.turn_ms", f"must be {low} to {high}")
    return turn_ms


def _spectator_delay(asked: lobby_pb2.TableRules) -> int:
    """How many decisions behind spectators are; nobody is where there are none."""
    delay = _bounded("spectator_delay", asked.spectator_delay, SPECTATOR_DELAY_MAX)
    if delay and not asked.spectators:
        raise invalid("rules.spectator_delay", "nobody may watch at this table")
    return delay


def _bot_after(asked: lobby_pb2.TableRules) -> int:
    """After how many missed turns a bot takes over, 0 for the usual number."""
    after = _bounded("bot_after", asked.bot_after, BOT_AFTER_MAX)
    if after and asked.absent_policy != variant_pb2.ABSENT_POLICY_BOT:
        raise invalid("rules.bot_after", "no bot takes over at this table")
    return after


def _bounded(name: str, value: int, high: int) -> int:
    if not 0 <= value <= high:
        raise invalid(f"rules.{name}", f"must be 0 to {high}")
    return value


def stack_bounds(fee: int) -> tuple[int, int]:
    """The bounds of a stack at a table that names none."""
    return _buy_in(fee, 0, 0)


def _buy_in(fee: int, low: int, high: int) -> tuple[int, int]:
    """The bounds of a stack; without a fee there are no stacks, and both are 0."""
    if not fee:
        if low or high:
            raise invalid(
                "rules.buy_in_min" if low else "rules.buy_in_max", "no chips are played for"
            )
        return 0, 0
    low = low or fee * FEES_MIN
    high = high or max(fee * FEES_MAX, low)
    if not fee <= low <= BUY_IN_MAX:
        raise invalid("rules.buy_in_min", f"must be {fee} (the entry fee) to {BUY_IN_MAX}")
    if not low <= high <= BUY_IN_MAX:
        raise invalid("rules.buy_in_max", f"must be {low} (the least buy-in) to {BUY_IN_MAX}")
    return low, high


def _invite_code() -> str:
    return base64.b32encode(secrets.token_bytes(CODE_BYTES)).decode().lower()
