"""What every game engine offers: the one face the services, tests and tools know.

An engine is a package of plain functions over frozen, slotted dataclasses (`engines.azi`,
`engines.durak`, `engines.rami`); each satisfies `Game` as a module. Nothing here or in an engine
reads a clock, draws randomness or does I/O: entropy and time are arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar, cast

from engines.cards import Card

CHIPS_MAX = 2**63 - 1
"""The largest number of chips anywhere (int64)."""

S = TypeVar("S")
M = TypeVar("M")
E = TypeVar("E")
O = TypeVar("O")


class RuleViolation(Exception):
    """A command the rules refuse; the state is unchanged.

    `reason` is an UPPER_SNAKE word that clients may rely on (`MUST_FOLLOW_SUIT`), `rule` the
    number in the game's RULES.md (`AZI-12`), `facts` what a person needs to understand it. Facts
    hold only what the seat concerned already knows.
    """

    def __init__(self, reason: str, rule: str, **facts: object) -> None:
        super().__init__(reason, rule, facts)
        self.reason = reason
        self.rule = rule
        self.facts = facts

    def __str__(self) -> str:
        facts = ", ".join(f"{k}={v}" for k, v in self.facts.items())
        return f"{self.reason} ({self.rule})" + (f": {facts}" if facts else "")


class InvalidOption(Exception):
    """A table option that does not exist or is out of bounds; `option` names it."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


class Chance(Protocol):
    """Where a deal's cards and random seats come from: seeds in play, a fixed list in scenarios."""

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The whole pack in dealing order for deal number `deal` (from 1)."""
        ...

    def seat(self, deal: int, label: str, bound: int) -> int:
        """A uniform number in 0 … bound-1, drawn apart from the deck."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """Begin: collect fees and deal the first hands. Accepted once."""


@dataclass(frozen=True, slots=True)
class Act(Generic[M]):
    """A seat's own move."""

    seat: int
    move: M


@dataclass(frozen=True, slots=True)
class Timeout:
    """The seat's time is up: the rule's move is made for it and marked as the server's."""

    seat: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The seat leaves for good in mid-game (allowed at any moment before the end)."""

    seat: int


Command = Start | Act[M] | Timeout | Leave


class Game(Protocol[S, M, E]):
    """A game engine as a module."""

    NAME: str
    """`azi`, `durak` or `rami`."""
    RULES: str
    """The rules version in every stored game, `azi 1.0.0`."""
    SEATS: range
    """How many seats may play."""

    def initial(self, options: Any, seats: int, *_: Any, **carry: Any) -> S:
        """The state before `Start`. Azi takes `stacks` and `last_winner` as carry."""
        ...

    def decide(self, state: S, command: Command[M], chance: Chance) -> tuple[E, ...]:
        """The events that follow, at least one; raises RuleViolation and changes nothing."""
        ...

    def evolve(self, state: S, event: E) -> S:
        """The state after one event: total, never judges."""
        ...

    def to_act(self, state: S) -> tuple[int, ...]:
        """Seats that may move now, ascending; empty when over."""
        ...

    def legal(self, state: S, seat: int) -> tuple[M, ...]:
        """Moves `decide` accepts from this seat now."""
        ...

    def timeout_move(self, state: S, seat: int) -> M:
        """The move `Timeout(seat)` would make; for a seat in `to_act`."""
        ...

    def cause(self, events: Sequence[E]) -> Command[M]:
        """The command that must have led to these events of one append (for audits)."""
        ...

    def view(self, state: S, viewer: int | None, public: Any = None) -> Any:
        """What a seat, or the public (None), may see of this state.

        `public` is what the public sees of it, for whoever has that at hand already.
        """
        ...

    def show(self, event: E, viewer: int | None) -> Any:
        """The event as this viewer may see it, or None."""
        ...

    def is_over(self, state: S) -> bool:
        """Whether nothing more can happen."""
        ...


def option(
    default: int | bool | str,
    doc: str,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str | int, ...] | None = None,
) -> Any:
    """A field of an `Options` dataclass with its bounds and its description."""
    bounds = {"doc": doc, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=bounds)


def read_options(cls: type[O], given: Mapping[str, object]) -> O:
    """Build an `Options` dataclass from untrusted names and values.

    Raises InvalidOption for an unknown name, a wrong type, a value out of bounds, or whatever the
    dataclass itself refuses in `__post_init__`.
    """
    known = {f.name: f for f in fields(cast(Any, cls))}
    for name, value in given.items():
        if name not in known:
            raise InvalidOption(name, "no such option")
        _check_option(name, value, known[name].default, known[name].metadata)
    return cls(**given)


def _check_option(name: str, value: object, default: object, bounds: Mapping[str, Any]) -> None:
    if type(value) is not type(default):
        raise InvalidOption(name, f"must be of type {type(default).__name__}")
    if bounds["choices"] is not None and value not in bounds["choices"]:
        raise InvalidOption(name, f"must be one of {', '.join(map(str, bounds['choices']))}")
    if bounds["low"] is not None and cast(int, value) < bounds["low"]:
        raise InvalidOption(name, f"must be at least {bounds['low']}")
    if bounds["high"] is not None and cast(int, value) > bounds["high"]:
        raise InvalidOption(name, f"must be at most {bounds['high']}")
