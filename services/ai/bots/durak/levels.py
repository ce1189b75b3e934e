"""Durak's bots, one for each level."""

from collections.abc import Sequence
from random import Random

from engines.durak import Happening, Move, View
from services.ai.bots.budget import Budget
from services.ai.bots.choice import Choice, Level
from services.ai.bots.durak import hard, plain
from services.ai.bots.durak.worlds import Impossible


def choose(
    view: View, history: Sequence[Happening], level: Level, rng: Random, budget: Budget
) -> Choice[Move]:
    """A legal move for the seat whose view this is.

    For a view that was made up, and that no cards fit, hard plays as normal does.
    """
    if level is not Level.HARD:
        return plain.choose(view, history, level, rng)
    try:
        return hard.choose(view, history, rng, budget)
    except Impossible:
        return plain.choose(view, history, Level.NORMAL, rng)
