"""The deal: who gets which cards, the trump, and who attacks first."""

from collections.abc import Sequence

from engines.api import Chance
from engines.cards import Card, suit
from engines.durak.model import HAND_SIZE, PACK, Dealt, DealtSecret, State


def deal(state: State, chance: Chance) -> Dealt:
    """Deal, show the trump card and find the starter (DURAK-3 to DURAK-6).

    Raises ValueError if `chance` gives anything but the 36 cards of the pack.
    """
    deck = tuple(chance.deck(state.deal, PACK))
    if sorted(deck) != list(PACK):
        raise ValueError("the deck is not the pack of 36 cards")
    shown = deck[min(HAND_SIZE * state.seats, len(deck) - 1)]
    trump = suit(shown)
    hands = dealt_hands(deck, state.seats)
    trumps = ((c, s) for s, hand in enumerate(hands) for c in hand if suit(c) is trump)
    lowest, starter = min(trumps, default=(None, None))
    if starter is None:
        starter = chance.seat(state.deal, "starter", state.seats)
    return Dealt(state.deal, state.seats, starter, lowest, trump, shown, DealtSecret(deck))


def dealt_hands(deck: Sequence[Card], seats: int) -> tuple[tuple[Card, ...], ...]:
    """Six cards for each seat, one at a time from seat 0 (DURAK-3)."""
    return tuple(tuple(deck[s : HAND_SIZE * seats : seats]) for s in range(seats))


def dealt_talon(deck: Sequence[Card], seats: int) -> tuple[Card, ...]:
    """The talon, top first: the shown trump card lies beneath (DURAK-3); six seats leave none."""
    rest = deck[HAND_SIZE * seats :]
    return (*rest[1:], *rest[:1])
