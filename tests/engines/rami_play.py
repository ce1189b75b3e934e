"""Rami for tests: positions from text, moves made, refusals caught, and keen players."""

from collections.abc import Iterator
from functools import reduce
from random import Random
from typing import Any

import pytest

from engines import rami
from engines.api import Act, Command, RuleViolation, Start
from engines.cards import Card, parse
from engines.rami.scenario import position
from tests.engines.laws import Decks

CHANCE = Decks(1)


def cards(listed: str) -> tuple[Card, ...]:
    """The cards of a text such as `"5H 6H"`."""
    return tuple(parse(c) for c in listed.split())


def at(*hands: str, options: dict[str, Any] | None = None, **setup: Any) -> rami.State:
    """A position with these hands; seat 0 is to act unless the setup says otherwise."""
    setup = {"hands": [hand.split() for hand in hands], "to_act": 0, **setup}
    return position({"id": "", "game": "rami", "options": options or {}, "setup": setup})


def after(state: rami.State, *commands: Command[rami.Move]) -> rami.State:
    """The state after commands that are accepted."""
    for command in commands:
        state = reduce(rami.evolve, rami.decide(state, command, CHANCE), state)
    return state


def refusal(state: rami.State, command: Any) -> RuleViolation:
    """Why the command is refused."""
    with pytest.raises(RuleViolation) as caught:
        rami.decide(state, command, CHANCE)
    return caught.value


def begun(seats: int, **options: Any) -> rami.State:
    """A match with its first round dealt."""
    return after(rami.initial(rami.Options(**options), seats), Start())


def keen(state: rami.State, rng: Random) -> rami.Move:
    """The move of a player who lays all he can, most cards first, and so goes out often."""
    moves = rami.legal(state, state.actor)
    lays = [m for m in moves if isinstance(m, rami.Meld | rami.LayOff)]
    return max(lays, key=lambda m: (len(m.cards), m.cards)) if lays else rng.choice(moves)


def keen_match(
    options: rami.Options, seats: int, seed: int
) -> Iterator[tuple[rami.State, tuple[rami.Event, ...], rami.State]]:
    """A match of such players: the state before each append, its events, the state after."""
    state, chance, rng = rami.initial(options, seats), Decks(seed), Random(seed)
    command: Command[rami.Move] = Start()
    while not rami.is_over(state):
        events = rami.decide(state, command, chance)
        after = reduce(rami.evolve, events, state)
        yield state, events, after
        state = after
        if not rami.is_over(state):
            command = Act(state.actor, keen(state, rng))
