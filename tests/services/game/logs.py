"""Games played through the decider alone, for tests: given, when, then."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from engines import azi, durak, rami
from services.game import domain
from services.game.evolve import evolve
from services.game.model import Event, SeatOpened, Stage, State
from services.game.pacing import Pace
from services.game.rulebook import engine_for
from services.game.work import plan
from services.kernel.envelope import Plan
from services.kernel.seats import AbsentPolicy, BotLevel

ENGINES: dict[str, Any] = {"azi": azi, "durak": durak, "rami": rami}
GAME_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
TABLE_ID = "01890a5d-ac96-774b-bcce-000000000000"


def player(seat: int) -> str:
    """The id of the player in a seat."""
    return str(UUID(int=0x01890A5D_AC96_774B_BCCE_000000000100 + seat))


def opening(variant: str, count: int = 2, people: int | None = None, **changes: Any) -> domain.Open:
    """A command to open a game; the first `people` seats (all by default) are persons."""
    people = count if people is None else people
    chips = variant == "azi"
    command = domain.Open(
        game_id=GAME_ID,
        variant=variant,
        table_id=TABLE_ID,
        options=ENGINES[variant].Options(),
        seats=tuple(
            SeatOpened(
                player_id=player(n),
                bot_level=None if n < people else BotLevel.EASY,
                stack=100 if chips else 0,
                reservation_id=player(n + 100) if chips else "",
            )
            for n in range(count)
        ),
        last_winner=None,
        turn_ms=30_000,
        seed_ms=1,
        spectators=False,
        absent_policy=AbsentPolicy.EXPIRE,
        server_seed=bytes(range(32)),
        bot_seed=bytes(32),
    )
    return replace(command, **changes)


@dataclass
class Log:
    """A game's log in memory. `at` is the clock, microseconds; each append takes a second."""

    state: State = field(default_factory=State)
    appends: list[tuple[Event, ...]] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    at: int = 0

    def when(self, command: domain.GameCommand) -> tuple[Event, ...]:
        """Decide, append, and return the new events."""
        events = tuple(domain.decide(self.state, command))
        assert events, "a decision has at least one event"
        before, self.at = self.state, self.at + 1_000_000
        for event in events:
            self.state = evolve(self.state, event, self.at)
        self.appends.append(events)
        self.plans.append(plan(before, self.state, Pace(50)))
        return events

    def deal(self) -> None:
        """Close whatever seed stage is open, so that the first deal is made."""
        while self.state.stage in (Stage.COMMITTING, Stage.REVEALING):
            self.when(domain.CloseSeeds(self.state.stage))

    def play_random(self, rng: Random, moves: int = 100_000) -> None:
        """Make up to so many random legal moves, until the game is over."""
        engine = engine_for(self.state.rules)
        while not self.state.ended and moves:
            moves -= 1
            seat = rng.choice(engine.to_act(self.state.engine))
            move = rng.choice(engine.legal(self.state.engine, seat))
            self.when(domain.Play(seat, self.state.turn, move))


def opened(variant: str, count: int = 2, **changes: Any) -> Log:
    """A game that has been opened."""
    log = Log()
    log.when(opening(variant, count, **changes))
    return log


def dealt(variant: str, count: int = 2, **changes: Any) -> Log:
    """A game whose first deal has been made, no player having given a seed."""
    log = opened(variant, count, **changes)
    log.deal()
    return log


def names(events: Sequence[Event]) -> list[str]:
    """The class names of events, the engine's own among them."""
    return [type(getattr(event, "event", event)).__name__ for event in events]
