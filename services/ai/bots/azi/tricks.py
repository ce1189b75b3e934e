"""Azi's tricks played the plain way."""

from collections.abc import Sequence

from engines.azi import strength
from engines.cards import Card, suit


def strongest(cards: Sequence[Card], turned: Card) -> Card:
    """The card to lead."""
    return max(cards, key=lambda card: (strength(card, turned), -card))


def weakest(cards: Sequence[Card], turned: Card) -> Card:
    """The card to lose."""
    return min(cards, key=lambda card: (strength(card, turned), card))


def follow(cards: Sequence[Card], trick: Sequence[Card], turned: Card) -> Card:
    """Of the cards that may be played the cheapest that takes the trick so far, else the lowest."""
    best = trick[0]
    for card in trick[1:]:
        if _takes(card, best, turned):
            best = card
    winners = [card for card in cards if _takes(card, best, turned)]
    return weakest(winners or cards, turned)


def _takes(card: Card, best: Card, turned: Card) -> bool:
    """Whether a card takes a trick from the best card so far (AZI-30)."""
    if suit(card) is not suit(best) and suit(card) is not suit(turned):
        return False
    return strength(card, turned) > strength(best, turned)
