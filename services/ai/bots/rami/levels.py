"""Rami's bots.

Easy lays what it holds and throws away its dearest lonely card. Normal lays and adds so that the
fewest points stay, keeps cards with a future and does not feed the next seat. Hard holds back what
would help the others, and tries its moves out in many worlds that fit what it has seen.
"""

from collections.abc import Sequence
from random import Random

from engines.rami import Happening, Move, View
from services.ai.bots.budget import Budget
from services.ai.bots.choice import Choice, Level
from services.ai.bots.rami import plain, search


def choose(
    view: View, history: Sequence[Happening], level: Level, rng: Random, budget: Budget
) -> Choice[Move]:
    """A legal move for the seat whose view this is."""
    if level is Level.HARD:
        return search.choose(view, history, rng, budget)
    return plain.choose(view, level)
