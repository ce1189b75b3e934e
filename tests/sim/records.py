"""What the judge knows of a game and of a table."""

from dataclasses import dataclass, field
from uuid import UUID

from services.game.model import State
from services.kernel.envelope import Recorded
from services.lobby.model import Table
from tests.sim.knowledge import Known


@dataclass(slots=True)
class Record:
    """A game as the judge knows it. `moments` has state, head and knowledge by version."""

    rows: list[Recorded] = field(default_factory=list)
    state: State = field(default_factory=State)
    known: Known = ()
    moments: dict[int, tuple[State, bytes, Known, Known]] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    """The version of the append of each request."""
    banks: list[int] = field(default_factory=list)
    """What each seat's time bank must hold at least, microseconds; empty where there are none."""


@dataclass(slots=True)
class Sitting:
    """A table as the judge knows it."""

    table: Table = field(default_factory=Table)
    version: int = 0
    started: set[UUID] = field(default_factory=set)
    failed: set[UUID] = field(default_factory=set)
    ended: list[UUID] = field(default_factory=list)
