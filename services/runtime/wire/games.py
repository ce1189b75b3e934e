"""The three games on the wire and in the log: options, moves, views, happenings, events.

`of("azi")` gives a game's engine with its mappers. A stored event is its class's name, its public
octets and, for the few that hide cards, its secret octets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from types import ModuleType
from typing import Any, get_args, get_type_hints

from google.protobuf.message import Message
from kozyr.azi.events.v1 import azi_pb2 as azi_events
from kozyr.azi.v1 import azi_pb2
from kozyr.durak.events.v1 import durak_pb2 as durak_events
from kozyr.durak.v1 import durak_pb2
from kozyr.game.v1 import variant_pb2
from kozyr.rami.events.v1 import rami_pb2 as rami_events
from kozyr.rami.v1 import rami_pb2

from engines import azi, durak, rami
from engines.api import Game, read_options
from services.runtime.wire.mapping import Mapper

HIDDEN = "secret"
"""The field of an event class that holds what nobody may know yet."""

AnyMapper = Mapper[Any, Any]


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event class's stored form: the mapper of its public part, and of its secret if any."""

    public: AnyMapper
    secret: AnyMapper | None


@dataclass(frozen=True, slots=True)
class GameWire:
    """A game's engine and its mappers. `events` goes by class name, the storage format."""

    engine: Game[Any, Any, Any]
    options: AnyMapper
    move: AnyMapper
    view: AnyMapper
    happening: AnyMapper
    events: Mapping[str, StoredEvent]

    def encode_event(self, event: Any) -> tuple[str, bytes, bytes | None]:
        """Name, public octets, secret octets (None if the event has no secret)."""
        name = type(event).__name__
        stored = self.events[name]
        payload = stored.public.to_octets(event)
        if stored.secret is None:
            return name, payload, None
        return name, payload, stored.secret.to_octets(event.secret)

    def decode_event(self, name: str, payload: bytes, secret: bytes | None) -> Any:
        """The event; raises KeyError for an unknown name, ValueError for a secret too few or many.

        Octets that are not such an event raise DecodeError, fields out of bounds Refused.
        """
        stored = self.events[name]
        if (stored.secret is None) != (secret is None):
            raise ValueError(f"{name}: {'a missing' if secret is None else 'an unexpected'} secret")
        message = stored.public.message.FromString(payload)
        if stored.secret is None:
            return stored.public.from_wire(message, name)
        hidden = stored.secret.from_wire(stored.secret.message.FromString(secret), HIDDEN)
        return stored.public.from_wire(message, name, secret=hidden)


@cache
def of(name: str) -> GameWire:
    """The game `azi`, `durak` or `rami`; raises KeyError for another name."""
    engine, public, stored = _MODULES[name]
    face: Any = engine
    return GameWire(
        engine=face,
        options=Mapper(face.Options, public.Options, build=partial(read_options, face.Options)),
        move=Mapper(face.Move, public.Move),
        view=Mapper(face.View, public.View),
        happening=Mapper(face.Happening, public.Happening),
        events={cls.__name__: _stored(cls, stored) for cls in get_args(face.Event)},
    )


def octets(message: Message) -> bytes:
    """A message as it is stored: fields in order, the same octets every time."""
    return message.SerializeToString(deterministic=True)


def _stored(cls: Any, messages: ModuleType) -> StoredEvent:
    message = getattr(messages, cls.__name__)
    if HIDDEN not in {field.name for field in fields(cls)}:
        return StoredEvent(Mapper(cls, message), None)
    hidden = get_type_hints(cls)[HIDDEN]
    return StoredEvent(
        Mapper(cls, message, exclude=frozenset((HIDDEN,))),
        Mapper(hidden, getattr(messages, hidden.__name__)),
    )


_MODULES: Mapping[str, tuple[ModuleType, Any, ModuleType]] = {
    "azi": (azi, azi_pb2, azi_events),
    "durak": (durak, durak_pb2, durak_events),
    "rami": (rami, rami_pb2, rami_events),
}
GAMES = tuple(_MODULES)
"""The games' names."""
VARIANTS: Mapping[str, variant_pb2.Variant.ValueType] = {
    "azi": variant_pb2.VARIANT_AZI,
    "durak": variant_pb2.VARIANT_DURAK,
    "rami": variant_pb2.VARIANT_RAMI,
}
"""The games on the wire, by name."""
NAMES: Mapping[int, str] = {variant: name for name, variant in VARIANTS.items()}
"""The games' names, by what they are on the wire."""
