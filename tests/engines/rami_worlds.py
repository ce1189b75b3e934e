"""Other worlds of Rami: what else could be true for all that a viewer knows."""

from dataclasses import replace
from random import Random

from engines.cards import Card
from engines.rami import Source, State


def resample(state: State, viewer: int | None, rng: Random) -> State:
    """Another state that agrees with the public history and with what the viewer knows.

    Everything the viewer cannot know is dealt again: the stock and other hands, apart from cards
    taken from the discard pile for all to see. What another seat drew from the stock in this turn
    may be any hidden card of its hand, or, once it has laid cards, the one it really was.
    """
    pool = [*state.stock]
    for seat, hand in enumerate(state.hands):
        if seat != viewer:
            pool += [c for c in hand if c not in state.known[seat]]
    rng.shuffle(pool)
    hands = []
    for seat, hand in enumerate(state.hands):
        fresh = [c if seat == viewer or c in state.known[seat] else pool.pop() for c in hand]
        hands.append(tuple(fresh))
    return replace(
        state,
        hands=tuple(hands),
        stock=tuple(pool),
        drawn_card=_drawn_card(state, viewer, tuple(hands), rng),
    )


def _drawn_card(
    state: State, viewer: int | None, hands: tuple[tuple[Card, ...], ...], rng: Random
) -> Card | None:
    seat = state.actor
    if viewer == seat or state.drawn is not Source.STOCK:
        return state.drawn_card
    hidden = [c for c in hands[seat] if c not in state.known[seat]]
    return rng.choice(hidden) if state.drawn_card in state.hands[seat] else state.drawn_card
