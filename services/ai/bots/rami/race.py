"""What points are worth in a match of Rami: the chance of being first at the target.

Rounds are won by either of two players alike, and a round brings so many points that each further
one is as likely as the one before: then the chance follows from those of fewer points. Among more
players a seat's chance is its share of the products of its chances against each other one.
"""

from collections.abc import Sequence
from functools import cache
from math import prod

MEAN_GAIN = {2: 10.0, 3: 22.0, 4: 70.0}
"""The points of a round among bots, by the number of seats."""
_AWAY = 100
"""The leader is taken to need at most so many points, the others as many more as they do."""
_NEEDED = 160
"""Nobody is taken to need more points."""


def standing(scores: Sequence[int], target: int) -> tuple[int, ...]:
    """What each seat needs, brought within the bounds of what is told apart."""
    nearer = max(target - max(scores) - _AWAY, 0)
    return tuple(min(target - score - nearer, _NEEDED) for score in scores)


@cache
def chance(needs: tuple[int, ...], seat: int) -> float:
    """The chance of a seat to win the match; of seats that need nothing the first has won."""
    for index, need in enumerate(needs):
        if need <= 0:
            return float(index == seat)
    duels = _duels(MEAN_GAIN[len(needs)])
    shares = [
        prod(duels[need][other] for j, other in enumerate(needs) if j != i)
        for i, need in enumerate(needs)
    ]
    return shares[seat] / sum(shares)


@cache
def _duels(mean: float) -> list[list[float]]:
    """By what the one and the other need, the chance that the one has it first."""
    more = 1 - 1 / mean
    ahead = [1.0] * (_NEEDED + 1)
    """By what the other needs, the chance after a round that the one has won."""
    found = [[1.0] * (_NEEDED + 1)]
    for _ in range(_NEEDED):
        fewer, behind, row = found[-1], 0.0, [0.0]
        for other in range(1, _NEEDED + 1):
            ahead[other] = (1 - more) * fewer[other] + more * ahead[other]
            behind = (1 - more) * row[-1] + more * behind
            row.append((ahead[other] + behind) / 2)
        found.append(row)
    return found
