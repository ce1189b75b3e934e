"""Whole matches of Rami between bots of all levels, at every table: all end by themselves.

python -m tests.services.ai.rami_games --games 20000
"""

import argparse
import json
import sys
from collections import Counter
from functools import reduce
from random import Random
from typing import Any

from engines import rami
from engines.api import Act, Start
from services.ai.bots import Budget, Level, choose
from tests.engines.laws import Decks

WORLDS = Budget(worlds=4)
"""What a hard bot looks at: a few, so that many games are played."""
LEVELS = (Level.EASY, Level.NORMAL)
"""Who sits at most tables; hard bots take most of the time."""
HARD_TABLES = 0.04
"""The share of tables with hard bots."""
TARGETS = (1, 1, 1, 1, 30, 100)
"""Matches of one round, of some, of many."""


def ended(seed: int, tables: Counter[str]) -> None:
    """Play one match; count its seats, its rounds and how they ended."""
    rng = Random(f"games/{seed}")
    seats = rng.choice(rami.SEATS)
    levels = list(Level) if rng.random() < HARD_TABLES else LEVELS
    alike = rng.random() < 0.3
    sitting = [rng.choice(levels)] * seats if alike else rng.choices(levels, k=seats)
    options = rami.Options(
        ace_high=rng.random() < 0.3,
        discard_to_win=rng.random() < 0.3,
        forbid_same_discard=rng.random() < 0.7,
        target=rng.choice(TARGETS),
    )
    state, chance = rami.initial(options, seats), Decks(seed)
    command: Any = Start()
    shown: list[list[Any]] = [[] for _ in sitting]
    while not rami.is_over(state):
        events = rami.decide(state, command, chance)
        state = reduce(rami.evolve, events, state)
        for event in events:
            match event:
                case rami.RoundScored(ending=ending):
                    tables[ending.name.lower()] += 1
                case rami.Dealt():
                    shown = [[] for _ in sitting]
                case _:
                    pass
            for seat, seen in enumerate(shown):
                seen.append(rami.show(event, seat))
        if not rami.is_over(state):
            seat = state.actor
            view = rami.view(state, seat)
            chosen = choose("rami", view, shown[seat], sitting[seat], rng, WORLDS)
            command = Act(seat, chosen.move)
    tables[f"seats {seats}"] += 1
    tables["longest"] = max(tables["longest"], state.round)


def main() -> int:
    """Play many matches and print how they ended, as JSON; 1 if the guard ended a round."""
    parser = argparse.ArgumentParser(description="Matches of bots that all end by themselves.")
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tables: Counter[str] = Counter(guard=0)
    for seed in range(given.seed, given.seed + given.games):
        ended(seed, tables)
    sys.stdout.write(json.dumps({**vars(given), **dict(sorted(tables.items()))}) + "\n")
    return bool(tables["guard"])


if __name__ == "__main__":
    sys.exit(main())
