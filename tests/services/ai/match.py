"""Matches between bots on duplicate deals: every deal is played from every seat.

The unit is a deal, scored as the mean over its seats, so that luck of the cards cancels out;
intervals are 95 % of the mean over deals. Run as a program it prints the table of strengths:

    python -m tests.services.ai.match [DEALS] [SEED]
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from engines import azi, durak, rami
from services.ai.bots import Level
from tests.engines.laws import Decks
from tests.services.ai.positions import Mover, Position, at_random, bot, play

AZI_STACK = 100
"""Chips of every seat, in entry fees."""

Make = Callable[[object], Mover]
"""Makes a player whose chances follow from the given seed."""


@dataclass(frozen=True)
class Score:
    """The mean score of a player over deals, half its interval, and the games played."""

    mean: float
    margin: float
    games: int

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.margin:.3f} ({self.games} games)"


def level(of: Level) -> Make:
    """Bots of a level."""
    return lambda seed: bot(of, seed)


def chance(seed: object) -> Mover:
    """A player who takes any legal move."""
    return at_random(seed)


def match(game: str, hero: Make, others: Make, deals: Iterable[int], seats: int = 2) -> Score:
    """What `hero` scores against `others` on all other seats, over these deals.

    Durak: the share of games in which it is not the durak (of two seats; a null counts half).
    Rami: the share of rounds it wins. Azi: entry fees won in a game.
    """
    means, games = [], 0
    for deal in deals:
        scores = []
        for seat in range(seats):
            movers = [others(f"{deal}/{seat}/{at}") for at in range(seats)]
            movers[seat] = hero(f"{deal}/{seat}/hero")
            *_, last = play(game, _table(game, seats, deal), Decks(deal), movers)
            scores.append(_score(last, seat))
        means.append(fmean(scores))
        games += seats
    return Score(fmean(means), 1.96 * stdev(means) / sqrt(len(means)), games)


def _table(game: str, seats: int, deal: int) -> Any:
    match game:
        case "azi":
            stacks = (AZI_STACK,) * seats
            return azi.initial(azi.Options(), seats, stacks=stacks, last_winner=deal % seats)
        case "durak":
            return durak.initial(durak.Options(), seats)
        case _:
            return rami.initial(rami.Options(target=1), seats)


def _score(last: Position, seat: int) -> float:
    state = last.state
    match last.game:
        case "azi":
            return float(state.players[seat].stack - AZI_STACK)
        case "durak":
            return 0.5 if state.null else float(state.durak != seat)
        case _:
            # a round without points (all hands empty of them) wins no match but ends one here
            return float(state.winner == seat)


def main() -> int:
    """Print the table of strengths."""
    deals = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    block = range(seed * 1_000_000, seed * 1_000_000 + deals)
    easy, normal, hard = (level(each) for each in Level)
    pairs: list[tuple[str, str, Make, Make, int]] = [
        (game, f"{name} v {against}", hero, others, seats)
        for game, seats in (("durak", 2), ("rami", 2), ("azi", 3))
        for name, hero, against, others in (
            ("easy", easy, "random", chance),
            ("normal", normal, "random", chance),
            ("normal", normal, "easy", easy),
            ("hard", hard, "easy", easy),
            ("hard", hard, "normal", normal),
        )
    ]
    for game, label, hero, others, seats in pairs:
        score = match(game, hero, others, block, seats)
        sys.stdout.write(f"{game:6} {label:18} {score}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
