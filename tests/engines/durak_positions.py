"""Durak positions for tests, set up directly, and what commands make of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

import engines.durak as durak
from engines.api import Command, RuleViolation
from engines.cards import Card, Suit, parse
from engines.durak.model import PACK, Event, Move, Options, Phase, State


class Listed:
    """A `Chance` that deals a listed deck, and counts how often a seat is drawn."""

    def __init__(self, deck: Sequence[Card], starter: int = 0) -> None:
        self._deck, self._starter = tuple(deck), starter
        self.asked: list[tuple[int, str, int]] = []

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The listed deck."""
        return self._deck

    def seat(self, deal: int, label: str, bound: int) -> int:
        """The listed seat."""
        self.asked.append((deal, label, bound))
        return self._starter


NOTHING = Listed(())
"""For commands that deal nothing."""


def cards(names: str) -> tuple[Card, ...]:
    """Cards by their names."""
    return tuple(parse(name) for name in names.split())


def told(state: State, command: Command[Move], chance: Listed = NOTHING) -> tuple[Event, ...]:
    """The events of a command."""
    return durak.decide(state, command, chance)


def after(state: State, *commands: Command[Move], chance: Listed = NOTHING) -> State:
    """The state after some commands."""
    for command in commands:
        state = reduce(durak.evolve, told(state, command, chance), state)
    return state


def refusal(state: State, command: Command[Move]) -> str:
    """The reason a command is refused for."""
    with pytest.raises(RuleViolation) as caught:
        told(state, command)
    return caught.value.reason


def bout(hands: Sequence[str], *, talon: str = "", trump: Suit = Suit.CLUBS, **more: Any) -> State:
    """The opening of a bout by seat 0 against seat 1; cards not named are discarded."""
    held = tuple(cards(hand) for hand in hands)
    used = {c for hand in held for c in hand} | set(cards(talon))
    start = replace(
        durak.initial(Options(), len(hands)),
        turn=1,
        phase=Phase.ATTACKING,
        hands=held,
        talon=cards(talon),
        trump=trump,
        shown=cards(talon)[-1] if talon else None,
        discarded=tuple(c for c in PACK if c not in used),
        attacker=0,
        defender=1,
        limit=min(6, len(held[1])),
        bout=1,
    )
    return replace(start, **more)


def stacked(seats: int, hands: Sequence[str], shown: str) -> tuple[Card, ...]:
    """A deck that begins with these hands, dealt one card at a time, and then the shown card."""
    held = [cards(hand) for hand in hands]
    first = [hand[i] for i in range(6) for hand in held]
    if seats < 6:
        first += cards(shown)
    return (*first, *(c for c in PACK if c not in first))
