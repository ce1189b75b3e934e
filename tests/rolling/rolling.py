"""A rolling restart of every service under load, and the reckoning after it.

People play at their tables while wallet, game, ai and lobby are replaced one after the other, as
the manifests have Kubernetes do it (`pace.py`, `pods.py`). Nothing of it may be noticed.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from services.cli.bench.measuring import percentile
from services.cli.operators import operator
from services.cli.terminal import grid
from tests.drill.drill import ENVIRONMENT as OF_THE_DRILL
from tests.drill.drill import OUTAGE_MS
from tests.drill.judging import DUE, WORKING, Findings, Judge
from tests.rolling.driving import Drivers, Played, Task, driven, tables
from tests.rolling.lines import Lines, lines_of
from tests.rolling.pace import Pace, paces
from tests.rolling.pods import Pod, Pods

ORDER = ("wallet", "game", "ai", "lobby")
"""Who is called before who calls."""
AS_BY_DEFAULT = ("KOZYR_KEEPALIVE", "KOZYR_HEARTBEAT", "KOZYR_OUTAGE", "KOZYR_FEED")
ENVIRONMENT: Mapping[str, str] = {
    **{k: v for k, v in OF_THE_DRILL.items() if not k.startswith(AS_BY_DEFAULT)},
    "KOZYR_BOT_DELAY_MS": "400",
    "KOZYR_WELCOME_CHIPS": "1000000",
}
"""As in the drill, but that connections, streams and outages are as in production."""
LEAST_THINK, MOST_THINK = 0.05, 6.0
"""Seconds a move, on average."""
JITTER = 0.5
"""Thinking takes so much less or more, as a share of its mean."""
PATIENCE_MS = 20_000
UNAVAILABLE = ("DRAINING", "PEER_UNAVAILABLE", "STREAM_ENDED")
"""Why a client may have to try again while a replica goes."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Form:
    """How large it is: tables, replicas of each service, processes of players, moves that all
    people make together a second (which sets how long each thinks).

    For `quiet` seconds nothing is restarted, before and after; `hurry` is how many times as fast as
    in the manifests replicas are replaced; `together` replaces all services at once.
    """

    tables: int
    replicas: int
    drivers: int
    moves: float
    quiet: float
    hurry: float
    coming: float
    end: float
    turn_ms: int
    together: bool = False

    @property
    def think(self) -> tuple[float, float]:
        """How long a move is thought about, seconds."""
        mean = min(MOST_THINK, max(LEAST_THINK, self.tables / self.moves))
        return mean * (1 - JITTER), mean * (1 + JITTER)


LONG = Form(
    *(200, 2, 2, 60.0),
    quiet=30.0,
    hurry=1.0,
    coming=20.0,
    end=300.0,
    turn_ms=15_000,
)
SHORT = Form(
    *(3, 1, 1, 30.0),
    quiet=0.5,
    hurry=10.0,
    coming=0.0,
    end=60.0,
    turn_ms=5_000,
    together=True,
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the run, Unix seconds, and the share of all cores that was busy in it."""

    name: str
    began: float
    ended: float
    busy: float


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    seed: int
    form: Form
    played: Played = field(default_factory=Played)
    findings: Findings = field(default_factory=Findings)
    phases: list[Phase] = field(default_factory=list)
    pods: Sequence[Pod] = ()
    lines: Lines = field(default_factory=Lines)

    @property
    def restarts(self) -> int:
        """How many replicas took the place of another."""
        return len(self.pods) - self.form.replicas * len(ORDER)

    @property
    def held(self) -> bool:
        """Whether everything held, and all there was to do was done."""
        done = self.restarts == self.form.replicas * len(ORDER)
        return not self.findings.faults and done and bool(self.played.record.moves)

    def table(self) -> list[str]:
        """Counts, times and faults."""
        record, counts = self.played.record, self.findings.counts
        rows: list[tuple[object, ...]] = [
            ("seed", self.seed),
            ("tables", self.form.tables),
            ("replicas restarted", self.restarts),
            ("longest from SIGTERM to the end, s", f"{max(p.seconds for p in self.pods):.1f}"),
            ("streams opened", record.streams),
            ("streams resumed", record.resumed),
            ("messages watched", record.steps),
            *sorted(counts.items()),
            *((f"move refused: {why}", n) for why, n in record.refused.most_common()),
            *((f"tried again by a client: {w}", n) for w, n in self.played.repeated.most_common()),
            *((f"answered UNAVAILABLE: {w}", n) for w, n in self.lines.unavailable.most_common()),
            *((f"log: {what}", n) for what, n in self.lines.warnings.most_common()),
        ]
        lines = [*grid(("what", "count"), rows), ""]
        named = ("phase", "s", "cores busy", "moves", "p50 ms", "p99 ms", "most ms")
        lines += [*grid(named, [self._row(phase) for phase in self.phases]), ""]
        lines += [f"WRONG {kind}: {n}" for kind, n in self.findings.faults.items()]
        lines += [f"  {example}" for example in self.findings.examples]
        return [*lines, "nothing was noticed" if self.held else "NOT all held"]

    def _row(self, phase: Phase) -> tuple[object, ...]:
        took = [s for at, s in self.played.record.answered if phase.began <= at < phase.ended]
        spread = [f"{percentile(took, p) * 1000:.1f}" if took else "-" for p in (0.5, 0.99, 1.0)]
        seconds = phase.ended - phase.began
        return (phase.name, f"{seconds:.0f}", f"{phase.busy:.0%}", len(took), *spread)


async def rolling(
    folder: Path, databases: Mapping[str, str], seed: int, form: Form, tell: Tell
) -> Outcome:
    """Play, restart everything, judge. `databases` are migrated, one a service.

    Raises TimeoutError where replicas do not start or games do not begin.
    """
    outcome = Outcome(seed, form)
    hurried = {name: pace.hurried(form.hurry) for name, pace in paces().items()}
    async with Pods(folder, form.replicas, hurried, databases, ENVIRONMENT) as pods:
        tell(f"{len(pods.all)} processes are up")
        task = Task(
            settings=pods.settings,
            tables=tables(form.tables),
            seed=random.Random(seed).random(),
            think=form.think,
            turn_ms=form.turn_ms,
            coming=form.coming,
            end=form.end,
        )
        async with driven(task, form.drivers) as drivers:
            await _restarted(pods, drivers, outcome, hurried, tell)
            tell("over; games under way end")
            outcome.played = await drivers.end()
        tell("judging")
        await _judge(pods, databases, outcome)
    outcome.pods = pods.all
    _processes(pods.all, outcome)
    return outcome


async def _restarted(
    pods: Pods, drivers: Drivers, outcome: Outcome, hurried: Mapping[str, Pace], tell: Tell
) -> None:
    """A quiet time, the restarts, a quiet time."""
    form = outcome.form

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        began, busy = time.time(), _jiffies()
        yield
        now = _jiffies()
        share = (now[0] - busy[0]) / max(1, now[1] - busy[1])
        outcome.phases.append(Phase(name, began, time.time(), share))
        tell(f"{name}: {time.time() - began:.0f} s")

    await drivers.all_playing(form.coming + 90.0)
    tell(f"{form.tables} tables play")
    with phase("quiet"):
        await asyncio.sleep(form.quiet)
    if form.together:
        with phase("all at once"):
            await asyncio.gather(*map(pods.roll, ORDER))
    else:
        for name in ORDER:
            with phase(name):
                await pods.roll(name)
    with phase("quiet again"):
        await asyncio.sleep(form.quiet / 2)


async def _judge(pods: Pods, databases: Mapping[str, str], outcome: Outcome) -> None:
    """What logs, ledger and players say, and what may not have happened at all."""
    played, findings = outcome.played, outcome.played.findings
    house = operator(pods.settings, PATIENCE_MS)

    async def due() -> list[tuple[str, str, int]]:
        return [(name, *row) for name in WORKING for row in await _rows(databases[name], DUE)]

    try:
        await Judge(house, due, played.record, (), OUTAGE_MS, findings).all()
    finally:
        await house.close()
    outcome.findings = findings
    for kind, number in played.record.wrong.items():
        findings.faults[kind] += number
    findings.examples += played.record.examples
    for kind in ("clocks credited", "bots timed out", "people timed out"):
        if findings.counts[kind]:
            findings.fault(kind, str(findings.counts[kind]))
    if played.starts_failed:
        findings.fault("a start failed", str(played.starts_failed))
    if played.twice:
        findings.fault("a message twice", str(played.twice))
    for why, number in played.repeated.items():
        if not why.endswith(UNAVAILABLE):
            findings.fault("tried again for another reason", f"{why}: {number}")


def _processes(pods: Sequence[Pod], outcome: Outcome) -> None:
    """Every replica ended when it was asked to, by itself, with 0; none logged an error."""
    for pod in pods:
        lines = lines_of(pod.log)
        outcome.lines.add(lines)
        if pod.killed:
            outcome.findings.fault("not ended in time", pod.name)
        elif pod.code != 0 or not pod.asked:
            outcome.findings.fault("ended otherwise", f"{pod.name} {pod.code}")
        if lines.errors:
            outcome.findings.fault("an error was logged", "\n".join((pod.name, *lines.errors)))


async def _rows(url: str, statement: str) -> list[tuple[str, int]]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""), timeout=10)
    try:
        return [(row[0], row[1]) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def _jiffies() -> tuple[int, int]:
    """How long the cores of this machine were busy, and how long that could have been."""
    first = Path("/proc/stat").read_text("ascii").splitlines()[0]
    spent = [int(word) for word in first.split()[1:9]]
    idle = spent[3] + spent[4]
    return sum(spent) - idle, sum(spent)
