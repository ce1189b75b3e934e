"""How much of the bank each kind of hand wins on average, found by solving sampled deals."""

from random import Random

from engines.azi.masks import BIT, TAKING
from engines.azi.model import PACK
from services.ai.bots.azi import hands
from services.ai.bots.azi.solving import Solver, equal_worth

PLAYERS = range(2, 7)
SAMPLES = {2: 500, 3: 400, 4: 160, 5: 40, 6: 24}
"""By players, how many deals are solved for one number."""
TURNED = PACK[0]
"""The card turned up in all of them: every other one gives the same numbers."""


def equity(seed: int, players: int, leads: bool, kind: int) -> float:
    """The part of the bank, 0 … 1, that a kind of hand wins leading, or following, to the tricks.

    All cards are open and everybody stays in; an azi counts as an equal part. Equal arguments give
    equal numbers.
    """
    rng = Random(f"{seed}/{players}/{leads}/{kind}")
    held = hands.example(kind, TURNED)
    rest = [BIT[card] for card in PACK if card != TURNED and not held & BIT[card]]
    worth, size = equal_worth(players), hands.HAND
    total = 0.0
    for _ in range(SAMPLES[players]):
        drawn = rng.sample(rest, (players - 1) * size)
        dealt = [held, *(sum(drawn[at : at + size]) for at in range(0, len(drawn), size))]
        leader = 0 if leads else rng.randrange(1, players)
        solver = Solver(hands.trumps(TURNED), TAKING[TURNED], worth, rng.randrange(players))
        total += solver.led(dealt, [0] * players, leader)[0]
    return total / SAMPLES[players]
