"""A table's events as they are stored, and back: the one place that knows both shapes."""

from collections.abc import Callable, Mapping
from typing import Any, assert_never
from uuid import UUID

from google.protobuf.message import DecodeError, Message
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.events.v1 import table_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.envelope import NewEvent, Recorded
from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from services.lobby.model import (
    BotLevel,
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    KickReason,
    LeftCause,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    Rules,
    SeatLeft,
    SeatOutcome,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    TableClosed,
    TableOpened,
    ToppedUp,
    Wish,
)
from services.lobby.variants import ENGINES, stored_options, variant_of, write_game_options
from services.runtime.store.api import Damaged

SCHEMA = 1
"""The schema every event is written with."""


def encode(event: Event) -> NewEvent:
    """The event ready to be stored. A table keeps no secret from itself."""
    message = _to_message(event)
    payload = message.SerializeToString(deterministic=True)
    return NewEvent(type(event).__name__, SCHEMA, payload)


def decode(row: Recorded) -> Event:
    """The event of a stored row; raises Damaged for one that this version cannot read."""
    try:
        if row.schema != SCHEMA:
            raise ValueError(f"schema {row.schema}")
        message, build = READERS[row.name]
        return build(message.FromString(row.payload))
    except (DecodeError, KeyError, ValueError, Refused) as problem:
        reason = f"is not an event that can be read ({type(problem).__name__})"
        raise Damaged(row.stream, row.version, reason) from problem


def _to_message(event: Event) -> Message:
    match event:
        case TableOpened():
            return _opened_message(event)
        case SeatTaken():
            return _taken_message(event)
        case SeatLeft(seat, cause, reason):
            return table_pb2.SeatLeft(
                seat=seat,
                cause=lobby_pb2.LeftCause.ValueType(cause),
                kick_reason=lobby_pb2.KickReason.ValueType(reason),
            )
        case ReadySet(seat, ready, again):
            return table_pb2.ReadySet(seat=seat, ready=ready, rematch=again)
        case ToppedUp(seat, chips):
            return table_pb2.ToppedUp(seat=seat, chips=chips)
        case HostChanged(host):
            return table_pb2.HostChanged(host_id=str(host))
        case PlayerInvited(player):
            return table_pb2.PlayerInvited(player_id=str(player))
        case PlayerUninvited(player):
            return table_pb2.PlayerUninvited(player_id=str(player))
        case StartBegun(game, seats):
            return table_pb2.StartBegun(game_id=str(game), seats=seats)
        case StartAbandoned(game, reason, unready):
            return table_pb2.StartAbandoned(game_id=str(game), reason=reason, unready=unready)
        case StartFailed(game):
            return table_pb2.StartFailed(game_id=str(game))
        case GameStarted(game):
            return table_pb2.GameStarted(game_id=str(game))
        case GameEnded():
            return _ended_message(event)
        case TableClosed():
            return table_pb2.TableClosed()
        case _:
            assert_never(event)


def _opened_message(event: TableOpened) -> table_pb2.TableOpened:
    rules = event.rules
    return table_pb2.TableOpened(
        host_id=str(event.host),
        options=write_game_options(rules.variant, rules.options),
        seats=rules.seats,
        turn_ms=rules.turn_ms,
        listed=rules.listed,
        invite_code=rules.invite_code,
        spectators=rules.spectators,
        absent_policy=variant_pb2.AbsentPolicy.ValueType(rules.absent),
        buy_in_min=rules.buy_in_min,
        buy_in_max=rules.buy_in_max,
        series=rules.series,
        time_bank_ms=rules.time_bank_ms,
        spectator_delay=rules.spectator_delay,
        bot_after=rules.bot_after,
        no_hints=rules.no_hints,
        no_chat=rules.no_chat,
        no_bots=rules.no_bots,
        by_invitation=rules.by_invitation,
        invited_ids=[str(player) for player in rules.invited],
    )


def opened(message: table_pb2.TableOpened) -> TableOpened:
    """The opening of a table as it was stored."""
    variant = variant_of(message.options)
    options = stored_options(message.options)
    rules = Rules(
        variant=variant,
        options=options,
        seats=message.seats,
        seats_min=ENGINES[variant].SEATS.start,
        turn_ms=message.turn_ms,
        listed=message.listed,
        invite_code=message.invite_code,
        spectators=message.spectators,
        absent=AbsentPolicy(message.absent_policy),
        entry_fee=getattr(options, "entry_fee", 0),
        buy_in_min=message.buy_in_min,
        buy_in_max=message.buy_in_max,
        series=message.series,
        time_bank_ms=message.time_bank_ms,
        spectator_delay=message.spectator_delay,
        bot_after=message.bot_after,
        no_hints=message.no_hints,
        no_chat=message.no_chat,
        no_bots=message.no_bots,
        by_invitation=message.by_invitation,
        invited=tuple(UUID(player) for player in message.invited_ids),
    )
    return TableOpened(UUID(message.host_id), rules)


def _taken_message(event: SeatTaken) -> table_pb2.SeatTaken:
    message = table_pb2.SeatTaken(
        seat=event.seat,
        player_id=str(event.player),
        bot_level=variant_pb2.BotLevel.ValueType(event.bot),
        stack=event.stack,
    )
    if event.wish:
        message.fill_level = variant_pb2.BotLevel.ValueType(event.wish.level)
        message.fill_after_ms = event.wish.after_ms
    return message


def _taken(message: table_pb2.SeatTaken) -> SeatTaken:
    level, wish = BotLevel(message.fill_level), None
    if level is not BotLevel.PERSON:
        wish = Wish(level, message.fill_after_ms)
    return SeatTaken(
        message.seat, UUID(message.player_id), BotLevel(message.bot_level), message.stack, wish
    )


def _ended_message(event: GameEnded) -> table_pb2.GameEnded:
    return table_pb2.GameEnded(
        game_id=str(event.game),
        finished=event.finished,
        outcomes=[
            table_pb2.SeatOutcome(seat=o.seat, stack=o.stack, first=o.first, durak=o.durak)
            for o in event.outcomes
        ],
        winner_id=str(event.winner) if event.winner else "",
    )


def _ended(message: table_pb2.GameEnded) -> GameEnded:
    return GameEnded(
        game=UUID(message.game_id),
        finished=message.finished,
        outcomes=tuple(SeatOutcome(o.seat, o.stack, o.first, o.durak) for o in message.outcomes),
        winner=UUID(message.winner_id) if message.winner_id else None,
    )


READERS: Mapping[str, tuple[type[Message], Callable[[Any], Event]]] = {
    "TableOpened": (table_pb2.TableOpened, opened),
    "SeatTaken": (table_pb2.SeatTaken, _taken),
    "SeatLeft": (
        table_pb2.SeatLeft,
        lambda m: SeatLeft(m.seat, LeftCause(m.cause), KickReason(m.kick_reason)),
    ),
    "ReadySet": (table_pb2.ReadySet, lambda m: ReadySet(m.seat, m.ready, m.rematch)),
    "ToppedUp": (table_pb2.ToppedUp, lambda m: ToppedUp(m.seat, m.chips)),
    "HostChanged": (table_pb2.HostChanged, lambda m: HostChanged(UUID(m.host_id))),
    "PlayerInvited": (table_pb2.PlayerInvited, lambda m: PlayerInvited(UUID(m.player_id))),
    "PlayerUninvited": (table_pb2.PlayerUninvited, lambda m: PlayerUninvited(UUID(m.player_id))),
    "StartBegun": (
        table_pb2.StartBegun,
        lambda m: StartBegun(UUID(m.game_id), tuple(m.seats)),
    ),
    "StartAbandoned": (
        table_pb2.StartAbandoned,
        lambda m: StartAbandoned(UUID(m.game_id), m.reason, tuple(m.unready)),
    ),
    "StartFailed": (table_pb2.StartFailed, lambda m: StartFailed(UUID(m.game_id))),
    "GameStarted": (table_pb2.GameStarted, lambda m: GameStarted(UUID(m.game_id))),
    "GameEnded": (table_pb2.GameEnded, _ended),
    "TableClosed": (table_pb2.TableClosed, lambda _: TableClosed()),
}
