"""The smallest stream there is: a counter that may not pass its limit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.kernel.decider import Decider
from services.kernel.envelope import Due, NewEvent, Plan, Recorded
from services.kernel.errors import precondition

LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Counter:
    """How far it has counted, when it last did, and how often each time was seen."""

    value: int = 0
    at: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """Asks to count on by `amount`."""

    amount: int


@dataclass(frozen=True, slots=True)
class Added:
    """Counted on by `amount`."""

    amount: int


def decide(state: Counter, command: Add) -> Sequence[Added]:
    """One event for each step; too many are refused."""
    if state.value + command.amount > LIMIT:
        raise precondition("TOO_MUCH", "The counter would pass its limit.")
    return [Added(1)] * command.amount


def evolve(state: Counter, event: Added, at: int) -> Counter:
    """Counts."""
    return replace(state, value=state.value + event.amount, at=at)


def encode(event: Added) -> NewEvent:
    """As one octet."""
    return NewEvent("Added", 1, bytes([event.amount]))


def decode(row: Recorded) -> Added:
    """From one octet."""
    return Added(row.payload[0])


def plan(before: Counter, after: Counter) -> Plan:
    """Something is due half a second after every count; the limit is the end."""
    return Plan(due=(Due("tick", "", 500),), ended=after.value == LIMIT)


COUNTER: Decider[Counter, Add, Added] = Decider(Counter(), decide, evolve, encode, decode, plan)
