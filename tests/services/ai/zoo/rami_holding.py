"""A player of Rami who holds his combinations back while nobody else is near going out.

He sees hands with the eyes of release 0.1.0 and does not search: he lays when that goes out, or
when another hand has few cards left; else he discards the card of most points less its outs.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from engines.rami import Discard, Happening, LayOff, Meld, View
from tests.services.ai.zoo import release_0_1_0
from tests.services.ai.zoo.release_0_1_0.choice import Level
from tests.services.ai.zoo.release_0_1_0.hands import best_plan, outs, points

FEW = 4
"""A hand with fewer cards is near going out."""
OUT_WORTH = 6.0
"""What a card that may still come is worth, in points."""


def holding(game: str, view: View, history: Sequence[Happening], rng: Random) -> Any:
    """The move of that player."""
    move = release_0_1_0.choose(game, view, history, Level.NORMAL, rng).move
    others = [count for seat, count in enumerate(view.counts) if seat != view.seat]
    if view.drawn is None or min(others) < FEW:
        return move
    options = view.options
    keep = int(options.discard_to_win)
    plan = best_plan(view.hand, view.melds, ace_high=options.ace_high, keep=keep)
    if plan.goes_out and isinstance(move, Meld | LayOff):
        return move
    seen = frozenset((*view.hand, *view.discard, *(c for m in view.melds for c in m.cards)))
    discards = [m for m in view.legal if isinstance(m, Discard)]

    def gladly(each: Discard) -> tuple[bool, float, int]:
        worth = points(each.card, ace_high=options.ace_high)
        future = OUT_WORTH * outs(each.card, view.hand, seen)
        return each.card in plan.kept, worth - future, -each.card

    return max(discards, key=gladly)
