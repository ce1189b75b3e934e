"""Games played by bots, and the positions on their way, for tests and measurements."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from random import Random
from typing import Any

from engines.api import Act, Start
from services.ai.bots import Budget, Choice, Level, choose
from services.runtime.wire import games
from tests.engines import azi_worlds, durak_worlds
from tests.engines.laws import Decks

RAMI_TARGET = 20
"""The target of random matches: a few rounds."""
MOVES_MAX = 60_000
FEW = Budget(worlds=16)
"""What a search may use where its strength does not matter."""


@dataclass(frozen=True)
class Position:
    """A state in which `seat` decides, and all that has happened."""

    game: str
    state: Any
    events: tuple[Any, ...]
    seat: int

    @property
    def view(self) -> Any:
        """What the seat sees."""
        return games.of(self.game).engine.view(self.state, self.seat)

    @property
    def history(self) -> tuple[Any, ...]:
        """What the seat was shown, in order."""
        engine: Any = games.of(self.game).engine
        shown: tuple[Any, ...] = engine.history(self.events, self.seat)
        return shown


Mover = Callable[[Position], Any]
"""Makes the move of the position's seat."""


def bot(level: Level, seed: object) -> Mover:
    """A mover that asks a bot; its chances follow from the seed, the seat and the turn."""

    def move(position: Position) -> Any:
        return asked(position, level, seed).move

    return move


def asked(position: Position, level: Level, seed: object) -> Choice[Any]:
    """What a bot of this level answers in this position."""
    rng = Random(f"{seed}/{position.seat}/{position.state.turn}")
    return choose(position.game, position.view, position.history, level, rng, FEW)


def at_random(seed: object) -> Mover:
    """A mover that takes any legal move."""
    rng = Random(f"{seed}")

    def move(position: Position) -> Any:
        return rng.choice(games.of(position.game).engine.legal(position.state, position.seat))

    return move


def table(game: str, rng: Random) -> Any:
    """A state before the start, with any number of seats and any options."""
    match game:
        case "azi":
            return azi_worlds.table(rng)
        case "durak":
            return durak_worlds.start(rng)
        case _:
            rami = games.of("rami").engine
            options = rami.Options(  # type: ignore[attr-defined]
                ace_high=rng.random() < 0.5,
                discard_to_win=rng.random() < 0.5,
                forbid_same_discard=rng.random() < 0.5,
                target=RAMI_TARGET,
            )
            return rami.initial(options, rng.choice(rami.SEATS))


def play(game: str, state: Any, decks: Any, movers: Sequence[Mover]) -> Iterator[Position]:
    """Every position of a game in which a seat decides, then the final state as a last one.

    `movers` has one for each seat. The last position is of seat 0 and has no legal move.
    """
    engine = games.of(game).engine
    events: list[Any] = []
    command: Any = Start()
    for _ in range(MOVES_MAX):
        new = engine.decide(state, command, decks)
        state = reduce(engine.evolve, new, state)
        events += new
        if engine.is_over(state):
            yield Position(game, state, tuple(events), 0)
            return
        position = Position(game, state, tuple(events), engine.to_act(state)[0])
        yield position
        command = Act(position.seat, movers[position.seat](position))
    raise AssertionError(f"{game} is not over after {MOVES_MAX} moves")


def random_games(game: str, seeds: range) -> Iterator[Iterator[Position]]:
    """Games at any table between bots of mixed levels."""
    for seed in seeds:
        rng = Random(f"{game}/{seed}")
        state = table(game, rng)
        movers = [bot(rng.choice(list(Level)), seed) for _ in range(6)]
        yield play(game, state, Decks(seed), movers)
