"""A decider: how one kind of stream decides, evolves and is written down."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.kernel.envelope import NewEvent, Plan, Recorded

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Decider(Generic[S, C, E]):
    """The pure functions of one kind of stream.

    `decide(state, command)` gives the events that follow, at least one, or raises `Refused` and
    changes nothing. `evolve(state, event, at)` is total; `at` is the event's `recorded_at`.
    `plan(before, after)` says what the append does beside its events.

    `restamp(before, after, at, to)` is the state that would have been after `before` had the append
    been recorded at `to` and not `at`, a moment later than any in `before`. Where there is none,
    events are folded again once their time is known.
    """

    initial: S
    decide: Callable[[S, C], Sequence[E]]
    evolve: Callable[[S, E, int], S]
    encode: Callable[[E], NewEvent]
    decode: Callable[[Recorded], E]
    plan: Callable[[S, S], Plan]
    restamp: Callable[[S, S, int, int], S] | None = None


def fold(decider: Decider[S, C, E], state: S, rows: Iterable[Recorded]) -> S:
    """The state after these stored events."""
    evolve, decode = decider.evolve, decider.decode
    for row in rows:
        state = evolve(state, decode(row), row.recorded_at)
    return state
