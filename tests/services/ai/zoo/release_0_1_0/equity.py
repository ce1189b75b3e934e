"""How likely an Azi hand of three wins the bank, as a formula.

A logistic model whose weights were fitted, for each number of players, to 120 000 deals played out
the plain way (the strongest card is led, the cheapest winner follows) by seats that all stay in;
an azi counts as an equal part of the bank. It is calibrated to two points in a hundred.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from engines.azi import strength
from engines.cards import SIX, Card, card, rank, suit

RANKS = 9
PLAYERS = range(2, 7)


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature of a hand adds to the logarithm of its odds.

    `trumps` by how many higher trumps there are, `plain` by rank from the six up, `counts` by the
    number of trumps, `paired` for two plain cards of one suit beside a trump, `suited` for one,
    two, three cards of one suit without a trump.
    """

    trumps: tuple[float, ...]
    plain: tuple[float, ...]
    counts: tuple[float, ...]
    paired: float
    suited: tuple[float, ...]


def equity(hand: Sequence[Card], turned: Card, players: int) -> float:
    """The part of the bank a hand of up to three cards wins on average, following, 0 … 1."""
    weights = _WEIGHTS[min(max(players, PLAYERS.start), PLAYERS.stop - 1)]
    higher = sorted(
        (strength(c, turned) for r in range(RANKS) if (c := card(suit(turned), SIX + r)) != turned),
        reverse=True,
    )
    trumps = [c for c in hand if suit(c) is suit(turned)]
    plain = [c for c in hand if suit(c) is not suit(turned)]
    odds = weights.counts[len(trumps)]
    odds += sum(weights.trumps[higher.index(strength(c, turned))] for c in trumps)
    odds += sum(weights.plain[rank(c) - SIX] for c in plain)
    longest = max((sum(suit(c) is suit(other) for c in plain) for other in plain), default=0)
    if len(trumps) == 1 and longest > 1:
        odds += weights.paired
    elif not trumps and longest:
        odds += weights.suited[longest - 1]
    return 1 / (1 + exp(-odds))


_WEIGHTS = {
    2: Weights(
        trumps=(1.68, 1.43, 1.09, 0.88, 0.67, 0.48, 0.29, 0.11),
        plain=(-0.83, -0.68, -0.58, -0.47, -0.24, -0.1, 0.2, 0.49, 0.85),
        counts=(-0.46, -0.32, 0.65, 1.89),
        paired=-0.01,
        suited=(0.0, -0.01, -0.45),
    ),
    3: Weights(
        trumps=(1.78, 1.38, 0.96, 0.59, 0.36, 0.15, 0.0, -0.11),
        plain=(-0.92, -0.89, -0.84, -0.74, -0.57, -0.42, -0.13, 0.27, 0.74),
        counts=(-0.69, -0.88, 0.32, 1.78),
        paired=0.08,
        suited=(0.0, -0.19, -0.5),
    ),
    4: Weights(
        trumps=(1.78, 1.2, 0.74, 0.37, 0.07, -0.12, -0.19, -0.27),
        plain=(-0.88, -0.85, -0.84, -0.77, -0.69, -0.56, -0.38, -0.06, 0.51),
        counts=(-0.68, -1.22, -0.02, 1.61),
        paired=0.21,
        suited=(0.0, -0.32, -0.36),
    ),
    5: Weights(
        trumps=(1.68, 1.02, 0.51, 0.18, -0.03, -0.19, -0.24, -0.35),
        plain=(-0.81, -0.76, -0.76, -0.75, -0.73, -0.68, -0.5, -0.27, 0.38),
        counts=(-0.64, -1.34, -0.28, 1.49),
        paired=0.19,
        suited=(0.0, -0.34, -0.3),
    ),
    6: Weights(
        trumps=(1.64, 0.81, 0.35, 0.06, -0.09, -0.25, -0.37, -0.38),
        plain=(-0.75, -0.72, -0.71, -0.74, -0.69, -0.68, -0.58, -0.39, 0.2),
        counts=(-0.6, -1.41, -0.44, 1.35),
        paired=0.15,
        suited=(0.0, -0.32, -0.28),
    ),
}
