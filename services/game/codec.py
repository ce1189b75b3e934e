"""Events of a game's log as they are stored, and back: the one place that decodes.

A stored name is `game.` or the engine's name, a dot, and the event's class (`azi.BidMade`). The
payload and the secret are protobuf messages of the same names in `kozyr.game.events.v1` and
`kozyr.<game>.events.v1`. A new shape of an event gets the next `schema` and an upcaster here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import DecodeError, Message

from kozyr.game.events.v1 import game_pb2 as stored
from services.game import model
from services.game.model import EngineEvent, Event
from services.kernel.envelope import NewEvent, Recorded
from services.kernel.errors import Refused
from services.runtime.store.api import Damaged
from services.runtime.wire.games import GAMES, options_from_wire, options_to_wire
from services.runtime.wire.mapping import Mapper

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of event is written: its payload, and its secret if it has one."""

    payload: Mapper[Any, Any]
    secret: Mapper[Any, Any] | None = None


SECRET = frozenset({"secret"})

FRAME: Mapping[str, Shape] = {
    f"game.{cls.__name__}": Shape(Mapper(cls, getattr(stored, cls.__name__)))
    for cls in (
        model.SeedCommitted,
        model.CommitsClosed,
        model.SeedRevealed,
        model.SeedsClosed,
        model.DealSeeded,
        model.DealRevealed,
        model.BotTookOver,
        model.PlayerReturned,
        model.GameFinished,
        model.GameCancelled,
    )
} | {
    "game.GameOpened": Shape(
        Mapper(model.GameOpened, stored.GameOpened, exclude=SECRET | {"options"}),
        Mapper(model.GameOpenedSecret, stored.GameOpenedSecret),
    )
}
