"""How things are measured: slices of equal length, side by side, round after round.

A slice drives one side for a fixed time and counts. A round runs each side once, the next round in
the opposite order, and a ratio is the median of the rounds' own ratios, so that what the machine
does meanwhile meets both sides alike.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from services.runtime.server import loop_factory
from services.runtime.settings import EventLoop

T = TypeVar("T")

CURVE = (1, 16, 64, 256)
"""At how many tasks or games growth is shown."""
LIVE_GAMES = 10_000
OPEN_STREAMS = 5_000
"""The load of `memory`."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure.

    `seconds` is the length of a slice (None: what suits the benchmark), `curve` the numbers of
    tasks at which growth is shown, `many` the one at which ratios are taken, `games` and `streams`
    the load of `memory`, `events` about how many events `replay` writes. `database_url` names a
    PostgreSQL to use instead of the embedded one; its user may create databases.
    """

    seconds: float | None = None
    rounds: int = 3
    curve: tuple[int, ...] = CURVE
    many: int = 64
    games: int = LIVE_GAMES
    streams: int = OPEN_STREAMS
    events: int = 6_000
    database_url: str | None = None

    def slice(self, otherwise: float) -> float:
        """The length of a slice in seconds."""
        return otherwise if self.seconds is None else self.seconds


@dataclass(slots=True)
class Report:
    """What a benchmark found: ratios and absolute numbers by key, what was left out and why.

    `failed` names what must not have happened while it was measured.
    """

    name: str
    ratios: dict[str, float] = field(default_factory=dict)
    absolute: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """One JSON object; `skipped` and `failed` only where something was."""
        said: dict[str, Any] = {
            "name": self.name,
            "ratios": {key: shortened(value) for key, value in self.ratios.items()},
            "absolute": {key: shortened(value) for key, value in self.absolute.items()},
        }
        said |= {"skipped": self.skipped} if self.skipped else {}
        return said | ({"failed": self.failed} if self.failed else {})


def shortened(value: float) -> float:
    """Four significant digits: there is no more in a measurement."""
    return float(f"{value:.4g}")


Step = Callable[[], Awaitable[int]]
"""Does one piece of work and says how many it was; negative when there is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one side did in one slice; `cpu` is the CPU time of the process that was looked at,
    `database` that of PostgreSQL's sessions, both in seconds."""

    count: int
    seconds: float
    cpu: float = 0.0
    database: float = 0.0

    @property
    def rate(self) -> float:
        """Pieces of work a second."""
        return self.count / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of the process's CPU for a piece of work."""
        return self.cpu / self.count * 1e6 if self.count else 0.0

    @property
    def database_us(self) -> float:
        """Microseconds of PostgreSQL's CPU for a piece of work."""
        return self.database / self.count * 1e6 if self.count else 0.0


async def drive(steps: Sequence[Step], seconds: float, pid: int | None = None) -> Slice:
    """Run every step over and over, each in a task of its own, for so many seconds.

    Each step is run at least once. With `pid` the CPU time of that process is taken too. The first
    step that has nothing left to do ends the slice.
    """
    began = time.perf_counter()
    cpu = cpu_seconds(pid)
    end = began + seconds
    done = 0

    async def run(step: Step) -> None:
        nonlocal done, end
        while True:
            count = await step()
            if count < 0:
                end = 0.0
                return
            done += count
            if time.perf_counter() >= end:
                return

    await asyncio.gather(*(run(step) for step in steps))
    return Slice(done, time.perf_counter() - began, cpu_seconds(pid) - cpu)


Side = Callable[[], Awaitable[Slice]]


async def interleaved(sides: Mapping[str, Side], rounds: int) -> dict[str, list[Slice]]:
    """Each side's slices, a round at a time, every other round in the opposite order."""
    found: dict[str, list[Slice]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides.items())
        for name, side in order if number % 2 == 0 else reversed(order):
            found[name].append(await side())
    return found


def ratio(ours: Sequence[Slice], theirs: Sequence[Slice]) -> float:
    """The median of our rate over theirs, round by round."""
    return statistics.median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def rate(slices: Sequence[Slice]) -> float:
    """The median rate."""
    return statistics.median(s.rate for s in slices)


def cpu_us(slices: Sequence[Slice]) -> float:
    """The median CPU time of the process for a piece of work, microseconds."""
    return statistics.median(s.cpu_us for s in slices)


def database_us(slices: Sequence[Slice]) -> float:
    """The median CPU time of PostgreSQL's sessions for a piece of work, microseconds."""
    return statistics.median(s.database_us for s in slices)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cpu_seconds(pid: int | None) -> float:
    """The CPU time a process has used, user and system; 0 for none, or where /proc is not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in RAM (RSS); 0 where /proc is not."""
    try:
        text = Path(f"/proc/{pid}/statm").read_text("ascii")
    except OSError:
        return 0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on the loop that services run on."""
    with asyncio.Runner(loop_factory=loop_factory(EventLoop.AUTO)) as runner:
        return runner.run(work)
