"""Ends of Durak that are proven won, and what becomes of them against opponents of all kinds.

python -m tests.services.ai.durak_ends --positions 500
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from random import Random
from typing import Any

from engines import durak
from engines.api import Act
from engines.durak.core import Core
from engines.durak.projection import from_state, move
from services.ai.bots import USUAL, Level, choose
from services.ai.bots.durak import endgame
from tests.engines.laws import Decks
from tests.services.ai.positions import Position, at_random, bot, play

DECKS = Decks(0)

Opponent = Callable[[Any, Random], durak.Move]
"""Makes the move of the seat to act; may look at all cards."""


def always() -> bool:
    """There is time."""
    return True


def stubborn(state: Any, rng: Random) -> durak.Move:
    """The move that keeps most, and of those the one after which a win takes longest to prove."""
    core = from_state(state)
    solved = endgame.solved(core, always)
    moves = core.legal() if solved is None else list(solved.moves)
    rng.shuffle(moves)
    return move(core, max(moves, key=lambda code: _trouble(core, code)))


def _trouble(core: Core, code: int) -> int:
    """How many positions the other seat's win takes; most where it is not found."""
    seat, then = core.seat, core.clone()
    then.apply(code)
    while then.seat == seat:
        then.apply(then.legal()[-1])
    if then.seat < 0:
        return 0
    solved = endgame.solved(then, always)
    return solved.looks if solved is not None and solved.value == 1 else endgame.NODES_MAX + 1


def level(of: Level) -> Opponent:
    """A bot of this level, without a history."""

    def moved(state: Any, rng: Random) -> durak.Move:
        (seat,) = durak.to_act(state)
        mover = bot(of, rng.random())
        chosen: durak.Move = mover(Position("durak", state, (), seat))
        return chosen

    return moved


def any_move(state: Any, rng: Random) -> durak.Move:
    """Any legal move."""
    return rng.choice(durak.legal(state, durak.to_act(state)[0]))


OPPONENTS: Mapping[str, Opponent] = {
    "random": any_move,
    "easy": level(Level.EASY),
    "normal": level(Level.NORMAL),
    "hard": level(Level.HARD),
    "stubborn": stubborn,
}
"""The opponents by name."""


def won_ends(rng: Random, number: int) -> Iterator[Position]:
    """So many positions with the talon empty that are proven won for the seat to act.

    One a game; games of bots and of chance, at any table, two seats left.
    """
    found = 0
    while found < number:
        seats, seed = rng.choice((2, 2, 2, 3, 4)), rng.random()
        options = durak.Options(rng.random() < 0.7, rng.random() < 0.7)
        levels = (Level.EASY, Level.NORMAL, Level.NORMAL, Level.HARD)
        movers = [bot(rng.choice(levels), seed) for _ in range(seats)]
        movers[0] = rng.choice((movers[0], at_random(seed)))
        start = durak.initial(options, seats)
        for position in play("durak", start, Decks(int(seed * 2**40)), movers):
            if _is_won(position):
                found += 1
                yield position
                break


def _is_won(position: Position) -> bool:
    state = position.state
    if state.talon or len(position.view.legal) < 2 or sum(map(bool, state.hands)) != 2:
        return False
    solved = endgame.solved(from_state(state), always)
    return solved is not None and solved.value == 1


def is_held(end: Position, opponent: Opponent, rng: Random) -> bool:
    """Whether a hard bot wins from here, with what it is usually given."""
    state = end.state
    while not durak.is_over(state):
        (seat,) = durak.to_act(state)
        if seat == end.seat:
            view = durak.view(state, seat)
            chosen = choose("durak", view, end.history, Level.HARD, rng, USUAL).move
        else:
            chosen = opponent(state, rng)
        state = reduce(durak.evolve, durak.decide(state, Act(seat, chosen), DECKS), state)
    return not state.null and state.durak != end.seat


def main() -> int:
    """Play many ends and print how many were won, as JSON."""
    parser = argparse.ArgumentParser(description="Proven wins, against every opponent.")
    parser.add_argument("--positions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    held = dict.fromkeys(OPPONENTS, 0)
    for number, end in enumerate(won_ends(Random(given.seed), given.positions)):
        for name, opponent in OPPONENTS.items():
            held[name] += is_held(end, opponent, Random(f"{given.seed}/{number}"))
    sys.stdout.write(json.dumps({**vars(given), "won": held}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
