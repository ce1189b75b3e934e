"""Whole games of Azi among bots of all levels end, with any number of seats, options and stacks.

python -m tests.services.ai.azi_ends --games 20000
"""

import argparse
import json
import sys
from collections import Counter
from functools import reduce
from random import Random

from engines import azi
from engines.api import Act, Command, Start
from services.ai.bots import Budget, Level, choose
from tests.engines import azi_worlds
from tests.engines.laws import Decks

MOVES_MAX = 2_000
"""No game of bots is longer: a bank of many azis has some hundreds of moves."""


def game(seed: int, worlds: int) -> azi.State:
    """The end of one game at a random table, each seat of a level of its own.

    Raises AssertionError if the game has no end within the guard.
    """
    rng = Random(f"ends/{seed}")
    state = azi_worlds.table(rng)
    levels = [rng.choice(tuple(Level)) for _ in state.players]
    chance, budget = Decks(seed), Budget(worlds)
    shown: list[list[azi.Happening]] = [[] for _ in levels]
    command: Command[azi.Move] = Start()
    for turn in range(MOVES_MAX):
        events = azi.decide(state, command, chance)
        state = reduce(azi.evolve, events, state)
        for seat in range(len(levels)):
            shown[seat] += azi.history(events, seat)
        if azi.is_over(state):
            return state
        seat = azi.to_act(state)[0]
        chances = Random(f"{seed}/{seat}/{turn}")
        view = azi.view(state, seat)
        move = choose("azi", view, shown[seat], levels[seat], chances, budget).move
        command = Act(seat, move)
    raise AssertionError(f"game {seed} is not over after {MOVES_MAX} moves")


def main() -> int:
    """Play many games and print how many ended, by seats, and the longest chain of deals."""
    parser = argparse.ArgumentParser(description="Whole games of Azi among bots end.")
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worlds", type=int, default=2)
    given = parser.parse_args()
    seats: Counter[int] = Counter()
    deals: Counter[int] = Counter()
    for seed in range(given.first, given.first + given.games):
        ended = game(seed, given.worlds)
        seats[len(ended.players)] += 1
        deals[ended.deal] += 1
    told = {"games": sum(seats.values()), "seats": dict(sorted(seats.items()))}
    sys.stdout.write(json.dumps({**told, "most_deals": max(deals)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
