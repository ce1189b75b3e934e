"""Matches against opponents of the zoo: `kozyr bench bots` with more to choose from.

python -m tests.services.ai.match --game durak --a hard --b previous-hard --deals 200
"""

import argparse
import json
import sys
from functools import partial

from services.ai.bots import Budget, Level
from services.cli.bench.bots import LEVELS, summed_up
from services.cli.bench.matches import Match, Played, Player, bot, play
from tests.services.ai.zoo import ZOO


def player(name: str, budget: Budget) -> Player:
    """A level's bot or an opponent of the zoo, by name."""
    return partial(bot, LEVELS[name], budget) if name in LEVELS else ZOO[name]


def level(of: Level, worlds: int | None = None) -> Player:
    """A level's bot; of one that searches, with so many worlds."""
    return partial(bot, of, Budget(worlds))


def match(game: str, a: Player, b: Player, deals: range, seats: int = 2, seed: int = 0) -> Played:
    """What `a` scores against `b` on all other seats, over these deals, in this process."""
    return play(Match(game, a, b, seats, seed), deals, lambda _: None, processes=1)


def main() -> int:
    """Play one match and print what came of it as JSON."""
    parser = argparse.ArgumentParser(description="A match against an opponent of the zoo.")
    parser.add_argument("--game", required=True)
    parser.add_argument("--a", required=True, choices=(*LEVELS, *ZOO))
    parser.add_argument("--b", required=True, choices=(*LEVELS, *ZOO))
    parser.add_argument("--seats", type=int, default=2)
    parser.add_argument("--deals", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    budget = Budget(given.worlds)
    a, b = player(given.a, budget), player(given.b, budget)
    wanted = Match(given.game, a, b, given.seats, given.seed)
    played = play(wanted, range(given.deals), lambda _: None, given.processes)
    told = summed_up(given.game, given.seats, given.seed, played)
    sys.stdout.write(json.dumps({**vars(given), **told}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
