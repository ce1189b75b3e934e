"""Azi's cards as bits.

A card is the bit `1 << suit * 9 + rank` with the six as rank 0: nine neighbouring bits are a suit.
"""

from collections.abc import Iterable

from engines.azi.model import PACK
from engines.azi.tricks import strength
from engines.cards import SIX, Card, rank, suit

_RANKS = 9

BIT = {card: 1 << suit(card) * _RANKS + rank(card) - SIX for card in PACK}
"""By a card, its bit."""
CARD = {bit: card for card, bit in BIT.items()}
"""By a bit, its card."""


def mask(cards: Iterable[Card]) -> int:
    """The cards as a mask."""
    return sum([BIT[card] for card in cards])


def _takers(card: Card, turned: Card) -> int:
    """The cards that take a trick from a card which is the best so far (AZI-30)."""
    able = (c for c in PACK if suit(c) in (suit(card), suit(turned)))
    return mask(c for c in able if strength(c, turned) > strength(card, turned))


SUIT = {BIT[card]: ((1 << _RANKS) - 1) << suit(card) * _RANKS for card in PACK}
"""By a card's bit, all cards of its suit."""
TAKING = {turned: {BIT[card]: _takers(card, turned) for card in PACK} for turned in PACK}
"""By the turned card and a card's bit, the cards that take a trick from it."""
