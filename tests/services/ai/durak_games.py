"""Whole games of Durak between bots of all levels, at every table: all of them end by themselves.

python -m tests.services.ai.durak_games --games 20000
"""

import argparse
import json
import sys
from collections import Counter
from functools import partial
from random import Random
from typing import Any

from engines import durak
from engines.durak.model import NullReason
from services.ai.bots import Budget, Level, choose
from tests.engines.laws import Decks
from tests.services.ai.positions import Mover, Position, play

WORLDS = Budget(worlds=8)
"""What a hard bot looks at: a few, so that many games are played."""
PLAIN = (Level.EASY, Level.NORMAL)
"""Who sits at most tables; hard bots take most of the time."""
SEARCHED = 0.05
"""At how many of the tables hard bots sit as well."""


def moved(level: Level, rng: Random, position: Position) -> Any:
    """The move of a bot of this level."""
    chosen = choose("durak", position.view, position.history, level, rng, WORLDS)
    return chosen.move


def ended(seed: int) -> tuple[int, int, bool]:
    """How one game ended: its seats, its bouts, and whether by itself (DURAK-24)."""
    rng = Random(f"games/{seed}")
    seats = rng.choice(durak.SEATS)
    options = durak.Options(rng.random() < 0.7, rng.random() < 0.7)
    alike = rng.random() < 0.3
    sitting = tuple(Level) if rng.random() < SEARCHED else PLAIN
    levels = [max(sitting)] * seats if alike else rng.choices(sitting, k=seats)
    movers: list[Mover] = [partial(moved, level, rng) for level in levels]
    *_, last = play("durak", durak.initial(options, seats), Decks(seed), movers)
    reasons = [event.reason for event in last.events if isinstance(event, durak.DealNull)]
    return seats, last.state.bout, NullReason.TOO_MANY_BOUTS not in reasons


def main() -> int:
    """Play many games and print how they ended, as JSON; 1 if one did not end by itself."""
    parser = argparse.ArgumentParser(description="Games of bots that all end by themselves.")
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tables: Counter[int] = Counter()
    longest = endless = 0
    for seed in range(given.seed, given.seed + given.games):
        seats, bouts, by_itself = ended(seed)
        tables[seats] += 1
        longest = max(longest, bouts)
        endless += not by_itself
    told = {**vars(given), "seats": dict(sorted(tables.items())), "longest": longest}
    sys.stdout.write(json.dumps({**told, "endless": endless}) + "\n")
    return bool(endless)


if __name__ == "__main__":
    sys.exit(main())
