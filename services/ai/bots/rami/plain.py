"""Rami's bots that do not search: easy and normal.

Easy lays what it holds and throws away its dearest lonely card. Normal lays and adds so that the
fewest points stay, keeps cards with a future and does not feed the next seat.
"""

from collections.abc import Sequence

from engines.cards import Card, text
from engines.rami import Discard, DrawDiscard, DrawStock, LayOff, Meld, Move, View
from services.ai.bots.choice import Choice, Level
from services.ai.bots.rami.hands import Plan, best_plan, fits, neighbours, outs, points

OUT_WORTH = 2.0
"""What a card that may still come is worth to the card it would meld with, in points."""
FIT_COST = 6.0
"""What it costs to discard a card that fits a meld on the table, in points."""
FED_COST = 2.5
"""What it costs to discard a neighbour of a card that the next seat took, in points."""
HIDDEN_POINTS = 6.0
"""What an unknown card of another hand counts on average, late in a round."""
PATIENCE = 2
"""With an empty stock a bot waits so many rounds of turns for something better."""


def choose(view: View, level: Level) -> Choice[Move]:
    """A legal move for the seat whose view this is; every level but easy plays like normal."""
    if view.drawn is None:
        return _draw(view, level)
    lay = next((lay for lay in _plan(view, view.hand, level).lays if lay in view.legal), None)
    if isinstance(lay, Meld):
        return Choice(lay, f"Lay {_cards(lay)} and be rid of its points.")
    if isinstance(lay, LayOff):
        return Choice(lay, f"Add {_cards(lay)} to a meld on the table.")
    return _discard(view, level)


def _draw(view: View, level: Level) -> Choice[Move]:
    """From the pile only what is of use at once, for everybody sees it."""
    stock: Choice[Move] = Choice(DrawStock(), "The card on the pile is of no use to me at once.")
    if not view.discard or DrawDiscard() not in view.legal:
        return stock
    top = view.discard[-1]
    before = _plan(view, view.hand, level)
    after = _plan(view, (*view.hand, top), level)
    if top not in after.kept and (level is Level.EASY or _gains(view, before, after)):
        return Choice(DrawDiscard(), f"{text(top)} can be laid at once.")
    if view.stock or level is Level.EASY:
        return stock
    if _leads(view) or view.idle > PATIENCE * len(view.counts):
        return Choice(DrawStock(), "The stock is empty, and this ends the round.")
    return Choice(DrawDiscard(), "Drawing from the empty stock would end the round too early.")


def _leads(view: View) -> bool:
    """Whether the hand is probably the cheapest, so that the round may end (RAMI-20)."""
    known = {hand.seat: hand.cards for hand in view.known}
    others = []
    for seat, count in enumerate(view.counts):
        if seat != view.seat:
            cards = known.get(seat, ())
            certain = sum(points(c, ace_high=view.options.ace_high) for c in cards)
            others.append(certain + HIDDEN_POINTS * (count - len(cards)))
    return view.hand_points < min(others)


def _gains(view: View, before: Plan, after: Plan) -> bool:
    """Whether the hand is no dearer after taking the card, laying and discarding."""
    if after.goes_out:
        return True
    dearest = max(points(c, ace_high=view.options.ace_high) for c in after.kept)
    return after.points - dearest <= before.points


def _plan(view: View, hand: Sequence[Card], level: Level) -> Plan:
    return best_plan(
        hand,
        view.melds,
        ace_high=view.options.ace_high,
        keep=int(view.options.discard_to_win),
        lay_offs=level is not Level.EASY,
    )


def _discard(view: View, level: Level) -> Choice[Move]:
    discards = [move for move in view.legal if isinstance(move, Discard)]
    ace_high = view.options.ace_high

    def cost(of: Card) -> int:
        return points(of, ace_high=ace_high)

    if level is Level.EASY:
        lonely = [m for m in discards if not neighbours(m.card) & set(view.hand)] or discards
        dearest = max(lonely, key=lambda m: (cost(m.card), -m.card))
        return Choice(dearest, f"{text(dearest.card)} is dear and goes with nothing.")
    seen = frozenset((*view.hand, *view.discard, *(c for m in view.melds for c in m.cards)))
    following = ((view.seat or 0) + 1) % len(view.counts)
    taken = {card for hand in view.known if hand.seat == following for card in hand.cards}

    def gain(move: Discard) -> tuple[float, int]:
        own = cost(move.card) - OUT_WORTH * outs(move.card, view.hand, seen)
        fed = FIT_COST * fits(move.card, view.melds)
        fed += FED_COST * bool(neighbours(move.card) & taken)
        return own - fed, -move.card

    best = max(discards, key=gain)
    return Choice(best, f"{text(best.card)} is worth the least to me and to the next seat.")


def _cards(lay: Meld | LayOff) -> str:
    return " ".join(text(c) for c in lay.cards)
