"""Cards, ranks, suits and packs shared by the three games.

A card is an integer 0…51, `suit * 13 + rank`; ranks run `23456789TJQKA` (0…12) and suits
`SHDC` (0…3). Text such as `"TS"` (ten of spades) is used only at the edge.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NewType

Card = NewType("Card", int)

RANKS = "23456789TJQKA"
SUITS = "SHDC"
PACK_SIZE = 52


class Suit(IntEnum):
    """A suit, in the order that breaks ties between cards of one rank."""

    SPADES = 0
    HEARTS = 1
    DIAMONDS = 2
    CLUBS = 3


SIX = RANKS.index("6")
JACK = RANKS.index("J")
KING = RANKS.index("K")
ACE = RANKS.index("A")


def card(suit: int, rank: int) -> Card:
    """The card of that suit (0…3) and rank (0…12)."""
    return Card(suit * 13 + rank)


def suit(of: Card) -> Suit:
    """The card's suit."""
    return _SUIT[of]


def rank(of: Card) -> int:
    """The card's rank, 0 (two) … 12 (ace)."""
    return of % 13


def parse(text: str) -> Card:
    """Read `"TS"`; raises ValueError for anything that is not a rank and a suit."""
    if len(text) != 2 or text[0] not in RANKS or text[1] not in SUITS:
        raise ValueError(f"not a card: {text!r}")
    return card(SUITS.index(text[1]), RANKS.index(text[0]))


def text(of: Card) -> str:
    """Write a card as rank and suit, `"TS"`."""
    return RANKS[of % 13] + SUITS[of // 13]


def texts(cards: Iterable[Card]) -> str:
    """Write several cards, separated by blanks."""
    return " ".join(text(c) for c in cards)


def pack(suits: str, lowest: str) -> tuple[Card, ...]:
    """All cards of the given suits from rank `lowest` to the ace, in ascending order."""
    return tuple(
        card(SUITS.index(s), r) for s in suits for r in range(RANKS.index(lowest), len(RANKS))
    )


_SUIT = tuple(Suit(c // 13) for c in range(PACK_SIZE))
