"""Events of a game's log as they are stored, and back: the one place that decodes.

A stored name is `game.` or the engine's name, a dot, and the event's class (`azi.BidMade`). The
payload and the secret are protobuf messages of the same names in `kozyr.game.events.v1` and
`kozyr.<game>.events.v1`. A new shape of an event gets the next `schema` and an upcaster here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError, Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import variant_pb2

from engines.api import InvalidOption
from engines.records import maker
from services.game import model
from services.game.model import EngineEvent, Event, GameOpened, GameOpenedSecret
from services.game.rulebook import RULEBOOK, unknown
from services.kernel.envelope import NewEvent, Recorded
from services.kernel.errors import Refused, from_option, invalid
from services.runtime.store.api import Damaged
from services.runtime.wire import games as wire
from services.runtime.wire.games import octets
from services.runtime.wire.mapping import Mapper

SCHEMA = 1
_new_event = maker(NewEvent)
Upcaster = Callable[[bytes], bytes]
UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""By name and schema of a stored event: its public octets as the next schema writes them. Pure."""
FRAME = "game"
"""Before the dot in the names of the service's own events."""
_FRAMED = f"{FRAME}."

EVENTS: Mapping[str, Mapper[Any, Any]] = {
    cls.__name__: Mapper(cls, getattr(stored, cls.__name__))
    for cls in (
        model.SeedCommitted,
        model.CommitsClosed,
        model.SeedRevealed,
        model.SeedsClosed,
        model.DealSeeded,
        model.ClockCredited,
        model.DealRevealed,
        model.BotTookOver,
        model.PlayerReturned,
        model.GameFinished,
        model.GameCancelled,
    )
}
OPENED: Mapper[GameOpened, stored.GameOpened] = Mapper(
    GameOpened, stored.GameOpened, exclude=frozenset(("options", "secret"))
)
OPENED_SECRET: Mapper[GameOpenedSecret, stored.GameOpenedSecret] = Mapper(
    GameOpenedSecret, stored.GameOpenedSecret
)


def encode(event: Event) -> NewEvent:
    """An event as it is stored."""
    match event:
        case EngineEvent():
            variant = type(event.event).__module__.split(".")[1]
            name, payload, secret = wire.of(variant).encode_event(event.event)
            return _new_event(f"{variant}.{name}", SCHEMA, payload, secret)
        case GameOpened():
            message = OPENED.to_wire(event)
            options = wire.of(event.rules.partition(" ")[0]).options.to_wire(event.options)
            getattr(message.options, event.rules.partition(" ")[0]).CopyFrom(options)
            secret = OPENED_SECRET.to_octets(event.secret)
            return NewEvent(f"{FRAME}.GameOpened", SCHEMA, octets(message), secret)
        case _:
            name = type(event).__name__
            return NewEvent(f"{FRAME}.{name}", SCHEMA, EVENTS[name].to_octets(event))


def decode(row: Recorded) -> Event:
    """A stored event; raises Damaged for a row that is none of ours, and Refused UNKNOWN_RULES for
    a game that was opened with options of a later release."""
    try:
        return _decode(row)
    except (DecodeError, KeyError, TypeError, ValueError, Refused) as problem:
        if (later := _later_rules(row)) is not None:
            raise later from problem
        reason = f"is not an event that can be read ({type(problem).__name__})"
        raise Damaged(row.stream, row.version, reason) from problem


def _later_rules(row: Recorded) -> Refused | None:
    """What to say of an opening that cannot be read because its rules are not here."""
    if row.name != f"{FRAME}.GameOpened":
        return None
    try:
        rules = stored.GameOpened.FromString(row.payload).rules
    except DecodeError:
        return None
    return None if rules in RULEBOOK or not rules else unknown(rules)


def payload_message(row: Recorded) -> Message:
    """The public part of a stored event as its message."""
    kind, _, name = row.name.partition(".")
    if kind != FRAME:
        message: Message = wire.of(kind).events[name].public.message.FromString(row.payload)
        return message
    shape: type[Message] = getattr(stored, name)
    return shape.FromString(row.payload)


def shown_secret(row: Recorded) -> bytes | None:
    """The secret octets an auditor may see after the end: all but the seed of the bots' choices."""
    if row.name == f"{FRAME}.GameOpened" and row.secret is not None:
        return octets(stored.GameOpenedSecret(server_seed=_opened_secret(row).server_seed))
    return row.secret


def options_from_wire(options: variant_pb2.GameOptions) -> tuple[str, Any]:
    """Which game, and its options; raises Refused naming the field."""
    variant = options.WhichOneof("options")
    if variant is None:
        raise invalid("options", "is required")
    path = f"options.{variant}"
    try:
        return variant, wire.of(variant).options.from_wire(getattr(options, variant), path)
    except InvalidOption as problem:
        raise from_option(problem, path) from None


def _decode(row: Recorded) -> Event:
    if is_open(row):
        return open_event(row.name, row.payload)
    if row.schema != SCHEMA:
        return _decode(_upcast(row))
    kind, _, name = row.name.partition(".")
    if kind != FRAME:
        return EngineEvent(wire.of(kind).decode_event(name, row.payload, row.secret))
    if name != "GameOpened":
        mapper = EVENTS[name]
        event: Event = mapper.from_wire(mapper.message.FromString(row.payload), name)
        return event
    message = stored.GameOpened.FromString(row.payload)
    _, options = options_from_wire(message.options)
    return OPENED.from_wire(message, name, options=options, secret=_opened_secret(row))


def _upcast(row: Recorded) -> Recorded:
    """The row as the schema after its own writes it; raises ValueError where nothing leads on."""
    upcast = UPCASTERS.get((row.name, row.schema))
    if upcast is None or row.schema > SCHEMA:
        raise ValueError(f"schema {row.schema}")
    return replace(row, schema=row.schema + 1, payload=upcast(row.payload))


def is_open(row: Recorded) -> bool:
    """Whether a row says an engine's event without a secret, and as it would be written today."""
    return row.schema == SCHEMA and row.secret is None and not row.name.startswith(_FRAMED)


@lru_cache(maxsize=4_096)
def open_event(full_name: str, payload: bytes) -> EngineEvent:
    """An engine event without a secret. There are few of them: nine in ten that are stored say what
    one before has said, of another game."""
    kind, _, name = full_name.partition(".")
    return EngineEvent(wire.of(kind).decode_event(name, payload, None))


def _opened_secret(row: Recorded) -> GameOpenedSecret:
    if row.secret is None:
        raise ValueError("a missing secret")
    return OPENED_SECRET.from_wire(stored.GameOpenedSecret.FromString(row.secret))
