"""A game in this process: the engine, its events, and what a seat is shown of it.

What is shown is made by the game service's own `views`, so a screen knows no difference.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kozyr.game.v1 import view_pb2

from engines.api import Chance, Command
from services.cli.play.session import Moment
from services.client.variants import engine
from services.game.model import Seat, SeedStatus, Stage, State
from services.game.results import result_of
from services.game.views import game_view, result_message
from services.kernel.seats import BotLevel
from services.runtime.wire import games as wire

PERSON = 0
"""The seat of the person; bots have all others."""


@dataclass(slots=True)
class Dealt:
    """One game: its rules, who sits there, its state and its events; and the seat with whose eyes
    it is seen, None for somebody's who has none."""

    game: str
    game_id: UUID
    table_id: str
    chance: Chance
    seats: tuple[Seat, ...]
    state: Any
    events: list[Any] = field(default_factory=list)
    viewer: int | None = PERSON

    @property
    def engine(self) -> Any:
        """The engine of the game."""
        return engine(self.game)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self.engine.is_over(self.state))

    def apply(self, command: Command[Any]) -> Moment:
        """Carry a command out; what the viewer sees of it. Raises RuleViolation."""
        events = self.engine.decide(self.state, command, self.chance)
        for event in events:
            self.state = self.engine.evolve(self.state, event)
        self.events += events
        return Moment(self.view(), tuple(self._happenings(events)))

    def view(self) -> view_pb2.GameView:
        """The game as the viewer sees it."""
        stage = Stage.FINISHED if self.over else Stage.PLAYING
        state = State(
            game_id=self.game_id,
            stage=stage,
            version=len(self.events),
            recorded_at=time.time_ns() // 1_000,
            table_id=self.table_id,
            rules=self.engine.RULES,
            seats=self.seats,
            engine=self.state,
        )
        view = game_view(state, self.viewer, b"")
        view.ClearField("clock")
        if self.over:
            view.result.CopyFrom(result_message(result_of(state)))
        return view

    def _happenings(self, events: Sequence[Any]) -> Iterator[view_pb2.Happening]:
        for event in events:
            shown = self.engine.show(event, self.viewer)
            if shown is not None:
                happening = view_pb2.Happening()
                message = wire.of(self.game).happening.to_wire(shown)
                getattr(happening, self.game).CopyFrom(message)
                yield happening


def seat(player_id: str, level: int, stack: int) -> Seat:
    """A seat of a game; level 0 is a person."""
    return Seat(player_id, BotLevel(level) if level else None, stack, "", SeedStatus.ABSENT)
