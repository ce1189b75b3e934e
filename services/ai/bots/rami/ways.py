"""The ways to go on in a turn of Rami that are worth trying."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engines.cards import Card
from engines.rami import Discard, DrawDiscard, DrawStock, LayOff, Meld, Move, View
from services.ai.bots.rami.hands import best_plan


@dataclass(frozen=True, slots=True)
class Way:
    """A way to go on in this turn, of which `move` is the first move.

    `laid` is what is laid, `discarded` the card that ends the turn, `left` the hand after it. With
    no discard and cards left, the card from the stock is yet to be seen.
    """

    move: Move
    left: tuple[Card, ...]
    laid: tuple[Meld | LayOff, ...] = ()
    discarded: Card | None = None
    taken: bool = False
    """Whether the visible discard is taken first."""

    @property
    def waits(self) -> bool:
        """Whether the way goes on by what the stock brings."""
        return self.discarded is None and bool(self.left)


def ways(view: View) -> tuple[Way, ...]:
    """What the seat to act may do in this turn, each with every discard.

    It may lay what leaves the fewest points, or only add to what lies on the table, or hold
    everything back. When it can go out there is nothing else to try.
    """
    if view.drawn is None:
        found = [Way(DrawStock(), view.hand)]
        if DrawDiscard() in view.legal:
            top = view.discard[-1]
            found += _turns(view, (*view.hand, top), DrawDiscard(), top)
    else:
        found = list(_turns(view, view.hand, None, view.taken))
    return tuple([way for way in found if not way.left][:1] or found)


def _turns(view: View, hand: Sequence[Card], draw: Move | None, top: Card | None) -> Iterator[Way]:
    """The ways of a hand after the draw; `top` is the card that was taken from the pile."""
    options, taken = view.options, draw is not None
    keep = int(options.discard_to_win)
    plan = best_plan(hand, view.melds, ace_high=options.ace_high, keep=keep)
    if not plan.kept:
        yield Way(draw or plan.lays[0], (), plan.lays, None, taken)
        return
    added = tuple(lay for lay in plan.lays if isinstance(lay, LayOff))
    for lays in dict.fromkeys((plan.lays, added, ())):
        laid = {card for lay in lays for card in lay.cards}
        kept = tuple(card for card in hand if card not in laid)
        for card in kept:
            if card != top or not options.forbid_same_discard or len(kept) == 1:
                move = draw or (lays[0] if lays else Discard(card))
                left = tuple(other for other in kept if other != card)
                yield Way(move, left, lays, card, taken)
