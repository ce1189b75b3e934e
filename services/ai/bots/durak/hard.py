"""How a hard bot of Durak decides: it searches, and solves the end of a game between two.

All it knows it reads from the view and the history of each call anew: where the cards lie that were
seen, which ranks a seat lacks, and what the others' moves tell of the rest.
"""

from collections.abc import Sequence
from random import Random
from typing import assert_never

from engines.cards import text
from engines.durak import Attack, Beat, Happening, Move, Pass, Take, View
from engines.durak.core import PASS, TAKE
from engines.durak.projection import move as named
from services.ai.bots.budget import Budget
from services.ai.bots.choice import Choice
from services.ai.bots.durak import beliefs, endgame
from services.ai.bots.durak.plain import is_stale
from services.ai.bots.durak.playouts import DUEL
from services.ai.bots.durak.search import grown
from services.ai.bots.durak.worlds import Unknown, unknown

DUEL_USUAL, TABLE_USUAL = 2_800, 1_600
"""Worlds that take about 80 ms between two, and among more."""
MIX = 0.4
"""How much of the time the search takes the others to play by the rule."""
TRAPPING = 0.7
"""The same where best play decides nothing any more and only mistakes do."""
TRAP_COST = 4
"""How many worlds each one counts for where the position is solved: moves are chosen among equals.
"""
SOLVING = 0.5
"""How much of its time the bot gives to solving a position, before it searches."""


def choose(view: View, history: Sequence[Happening], rng: Random, budget: Budget) -> Choice[Move]:
    """A legal move for the view's seat; raises Impossible for a view that no world fits."""
    told = {} if view.seat is None else beliefs.weights(view.seat, history, view.options)
    hidden = unknown(view, told)
    core = hidden.core
    meter = budget.begin(DUEL_USUAL if core.seats == DUEL else TABLE_USUAL)
    end = _solved(hidden, budget)
    if end is not None and len(end.moves) == 1:
        return Choice(named(core, end.moves[0]), _KEPT[end.value])
    if end is None:
        moves = core.moves()
        if core.table and is_stale(view, history):
            moves = _moving_on(moves)
        tree = grown(hidden, moves, MIX, rng, meter)
    else:
        tree = grown(hidden, sum(end.moves), TRAPPING, rng, meter, TRAP_COST)
    best = max(tree, key=lambda move: (tree[move].tries, tree[move].won))
    move = named(core, best)
    return Choice(move, _searched(move) if end is None else _KEPT[end.value])


def _moving_on(moves: int) -> int:
    """No taking by choice, and no adding: some cards must be gone when bouts go round."""
    return PASS if moves & PASS else moves & ~TAKE or moves


def _solved(hidden: Unknown, budget: Budget) -> endgame.Solved | None:
    """The worth of a position that lies open between two; None for others and deep ones."""
    if not hidden.certain:
        return None
    core = hidden.world(Random(0))
    among_two = core.seats - len(core.out) == DUEL or not core.talon_left
    if not among_two or sum(map(bool, core.hands)) > DUEL:
        return None
    if budget.cpu_ms is not None:
        budget = budget.within(budget.cpu_ms * SOLVING)
    meter = budget.begin(DUEL_USUAL)
    return endgame.solved(core, lambda: meter.allows(0))


_KEPT = {
    1: "Every card is known now, and this wins whatever the others do.",
    0: "Every card is known now, and this keeps the game from being lost.",
    -1: "Every card is known now, and this asks the most of the others.",
}


def _searched(move: Move) -> str:
    match move:
        case Attack(card):
            return f"Over the hands the others may hold, laying {text(card)} does best."
        case Beat(card):
            return f"Over the hands the others may hold, beating with {text(card)} does best."
        case Take():
            return "Over the hands the others may hold, taking does better than beating."
        case Pass():
            return "Over the hands the others may hold, adding nothing does best."
        case _:
            assert_never(move)
