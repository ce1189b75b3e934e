"""The law that ties a game's core to its decider: the same moves, the same successor, the same end.

A core is carried along a game that the decider plays. At every decision its legal moves are the
decider's; every move taken, and a few that were not, leaves it where the decider's state is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from random import Random
from typing import Any, Generic, TypeVar

from engines.api import Act, Start
from tests.engines.laws import Laws, Step

S = TypeVar("S")
M = TypeVar("M")
E = TypeVar("E")

TRIED = 2
"""Moves that are tried at each decision besides the one that is made."""


@dataclass(frozen=True, kw_only=True)
class Tie(Generic[S, M, E]):
    """A game's decider and its core.

    Attributes:
        laws: the game.
        projection: its module of that name.
        told: tells a core what chance brought among the events.
        standing: what of a core's attributes is written otherwise than in a fresh one.
        others: moves that the decider accepts from the seat though `legal` does not list them.
    """

    laws: Laws[S, M, E]
    projection: Any
    told: Callable[[Any, Sequence[E]], None]
    standing: Callable[[Any], dict[str, object]]
    others: Callable[[S, int, Random], Iterable[M]] = lambda *_: ()


def play(tie: Tie[S, M, E], steps: Iterable[Step[S, M, E]], rng: Random) -> int:
    """Follow a game with a core; returns how many moves were compared."""
    core: Any = None
    compared = 0
    for step in steps:
        if core is None:
            core = tie.projection.from_state(step.before)
        if isinstance(step.command, Act):
            core.seat = step.command.seat
            core.apply(tie.projection.code(core, step.command.move))
            compared += 1
        if isinstance(step.command, Act | Start):
            tie.told(core, step.events)
        else:
            core = tie.projection.from_state(step.after)
        _stands(tie, core, step.after, step)
        for seat in tie.laws.game.to_act(step.after):
            compared += _branches(tie, core, step, seat, rng)
        _stands(tie, core, step.after, step)
    return compared


def _branches(tie: Tie[S, M, E], core: Any, step: Step[S, M, E], seat: int, rng: Random) -> int:
    """Compare the legal moves of a seat, and what some of them lead to."""
    game, state, projection = tie.laws.game, step.after, tie.projection
    asked = core.clone()
    asked.seat = seat
    codes = asked.legal()
    listed = game.legal(state, seat)
    found = [projection.move(asked, code) for code in codes]
    assert len(set(codes)) == len(codes), f"a move twice in {found}: {state}"
    assert set(found) == set(listed), f"{found}, not {listed}: {state}"
    assert [projection.code(asked, move) for move in found] == list(codes), state
    tried = [*rng.sample(listed, min(TRIED, len(listed))), *tie.others(state, seat, rng)]
    for move in tried:
        events = game.decide(state, Act(seat, move), step.chance)
        after = asked.clone()
        after.apply(projection.code(after, move))
        tie.told(after, events)
        _stands(tie, after, reduce(game.evolve, events, state), (state, move))
    return len(tried)


def _stands(tie: Tie[S, M, E], core: Any, state: S, came: object) -> None:
    """The core stands as one made from the state does, in every attribute."""
    fresh = tie.projection.from_state(state)
    differing = {
        name: (mine, other)
        for name in core.__slots__
        if (mine := getattr(core, name)) != (other := getattr(fresh, name))
    }
    if differing:
        mine, other = tie.standing(core), tie.standing(fresh)
        rest = {n: d for n, d in differing.items() if n not in mine or mine[n] != other[n]}
        assert not rest, f"{rest} in {state} after {came}"
    seats = tie.laws.game.to_act(state)
    assert core.seat == (seats[0] if seats else -1), state
