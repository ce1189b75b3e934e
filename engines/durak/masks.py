"""Durak's cards as bits.

A card is the bit `1 << rank * 4 + suit` with the six as rank 0: the lowest bit of a hand is its
lowest card, four neighbouring bits are a rank.
"""

from collections.abc import Iterable

from engines.cards import SIX, Card, rank, suit
from engines.durak.model import PACK

_SUITS = 4
_SIXES = 0x111111111
_RANK = 0xF


BIT = {card: 1 << (rank(card) - SIX) * _SUITS + suit(card) for card in PACK}
"""By a card, its bit."""
CARD = {bit: card for card, bit in BIT.items()}
"""By a bit, its card."""


def mask(cards: Iterable[Card]) -> int:
    """The cards as a mask."""
    return sum([BIT[card] for card in cards])


def ranks_of(of: int) -> int:
    """All cards of the ranks that the mask has."""
    return ((of | of >> 1 | of >> 2 | of >> 3) & _SIXES) * _RANK


def of_ranks(ranks: Iterable[int]) -> int:
    """All cards of these ranks."""
    return sum([_RANK << (number - SIX) * _SUITS for number in set(ranks)])


def _beaters(card: Card, trump: int) -> int:
    """The cards that beat a card (DURAK-2)."""
    higher = mask(c for c in PACK if suit(c) is suit(card) and rank(c) > rank(card))
    return higher if suit(card) == trump else higher | TRUMPS[trump]


TRUMPS = tuple(_SIXES << trump for trump in range(_SUITS))
"""All cards of each suit."""
BEATING = tuple({BIT[card]: _beaters(card, trump) for card in PACK} for trump in range(_SUITS))
"""For each trump suit, by the bit of an attack card: the cards that beat it."""
RANKS = {bit: ranks_of(bit) for bit in CARD}
"""By the bit of a card, all cards of its rank."""
