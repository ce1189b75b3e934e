"""Cards in play: the one order of strength, what may be played, and who takes a trick."""

from collections.abc import Sequence

from engines.azi.model import Play
from engines.cards import ACE, SIX, Card, Suit, rank, suit

_TRUMP = 100
_ABOVE_ACE = ACE + 1


def strength(card: Card, turned: Card) -> int:
    """How high a card stands: by rank, trumps above the rest, a six on stage on top (AZI-6).

    Cards of two plain suits compare by rank; only the led one can take a trick.
    """
    if suit(card) != suit(turned):
        return rank(card)
    on_stage = rank(card) == SIX and rank(turned) == ACE
    return _TRUMP + (_ABOVE_ACE if on_stage else rank(card))


def taker(plays: Sequence[Play], turned: Card) -> int:
    """The seat whose card takes the trick (AZI-30)."""
    led = suit(plays[0].card)
    able = [p for p in plays if suit(p.card) in (led, suit(turned))]
    return max(able, key=lambda p: strength(p.card, turned)).seat


def obliged(hand: Sequence[Card], trick: Sequence[Play], turned: Card) -> Suit | None:
    """The suit the hand must play to the trick, if any (AZI-27 … AZI-29)."""
    if not trick:
        return None
    held = {suit(card) for card in hand}
    return next((s for s in (suit(trick[0].card), suit(turned)) if s in held), None)


def playable(hand: Sequence[Card], trick: Sequence[Play], turned: Card) -> tuple[Card, ...]:
    """The cards of the hand that may be played, ascending."""
    must = obliged(hand, trick, turned)
    return tuple(sorted(c for c in hand if must is None or suit(c) is must))


def lowest(cards: Sequence[Card], turned: Card) -> Card:
    """The lowest card by strength, then by suit in the order S H D (AZI-46)."""
    return min(cards, key=lambda c: (strength(c, turned), c))
