"""The drill: games in play while services, database and disk fail, and the reckoning after it."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from services.cli.operators import operator
from services.cli.terminal import grid
from services.runtime.settings import Settings
from tests.drill.database import Database, open_database
from tests.drill.faults import DISK_FULL, Faults, Lengths, Outage, Tell
from tests.drill.fleet import Fleet
from tests.drill.judging import DUE, WORKING, Findings, Judge
from tests.drill.playing import Party
from tests.drill.witness import Record, Witness

OUTAGE_MS = 1_000
"""A gap in service that is longer is credited."""
ENVIRONMENT: Mapping[str, str] = {
    "KOZYR_LOG_LEVEL": "info",
    "KOZYR_RATE_PER_SECOND": "100000",
    "KOZYR_RATE_BURST": "100000",
    "KOZYR_ADDRESS_RATE_PER_SECOND": "100000",
    "KOZYR_ADDRESS_RATE_BURST": "100000",
    "KOZYR_PEER_RATE_PER_SECOND": "100000",
    "KOZYR_PEER_RATE_BURST": "100000",
    "KOZYR_BOT_DELAY_MS": "50",
    "KOZYR_FEED_INTERVAL_MS": "100",
    "KOZYR_OUTAGE_MS": str(OUTAGE_MS),
    "KOZYR_AI_WORKERS": "1",
    "KOZYR_HEARTBEAT_MS": "5000",
    "KOZYR_KEEPALIVE_MS": "5000",
    "KOZYR_KEEPALIVE_TIMEOUT_MS": "2500",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How large and how long a drill is.

    `parties` are (game, people, bots, onlookers); `end_seconds` bounds how long the games under
    way may take to end once nothing is broken any more.
    """

    seconds: float
    replicas: dict[str, int]
    parties: tuple[tuple[str, int, int, int], ...]
    lengths: Lengths
    turn_ms: int
    end_seconds: float
    safe: bool


LONG = Form(
    seconds=180.0,
    replicas={"lobby": 2, "game": 3, "ai": 1, "wallet": 2},
    parties=(
        *(("azi", 2, 1, 1), ("durak", 2, 1, 1), ("rami", 2, 1, 1)),
        *(("azi", 3, 1, 0), ("durak", 3, 1, 0), ("rami", 3, 1, 0)),
        *(("azi", 4, 0, 0), ("durak", 4, 0, 0), ("rami", 4, 0, 0)),
    ),
    lengths=Lengths((0.5, 3.0), (0.0, 2.0), (0.0, 5.0), (3.0, 8.0), 30.0, 35.0),
    turn_ms=15_000,
    end_seconds=120.0,
    safe=True,
)
SHORT = Form(
    seconds=8.0,
    replicas={"lobby": 2, "game": 3, "ai": 1, "wallet": 2},
    parties=(("azi", 2, 1, 0), ("durak", 2, 1, 0), ("rami", 2, 1, 0)),
    lengths=Lengths((0.1, 0.3), (0.0, 0.2), (0.0, 0.5), (0.5, 1.0), 3.0, 4.0),
    turn_ms=5_000,
    end_seconds=60.0,
    safe=False,
)


@dataclass(slots=True)
class Outcome:
    """What a drill did and found."""

    seed: int
    record: Record
    faults: Faults
    findings: Findings
    parties: Sequence[Party]
    fleet: Fleet
    played_seconds: float
    end_seconds: float

    @property
    def held(self) -> bool:
        """Whether everything held, and there was something that could have failed."""
        return not self.findings.faults and self.findings.counts["acknowledged moves"] > 0

    def table(self) -> list[str]:
        """Counts and faults."""
        record, counts = self.record, self.findings.counts
        rows: list[tuple[object, ...]] = [("seed", self.seed)]
        rows += [("seconds under fault", f"{self.played_seconds:.0f}")]
        rows += [("seconds until every game had ended", f"{self.end_seconds:.1f}")]
        rows += sorted(counts.items())
        rows += [("streams opened", record.streams), ("streams resumed", record.resumed)]
        rows += [("messages watched", record.steps), ("tries that failed", record.failures.total())]
        rows += [("calls over 1 s", record.delayed), ("slowest call, s", f"{record.slowest:.1f}")]
        rows += [("starts that failed", sum(party.starts_failed for party in self.parties))]
        rows += [("processes that ended by themselves", len(self.fleet.ended))]
        rows += [
            (f"fault: {kind}", f"{count} ({self.faults.lasted[kind] / 1000:.1f} s)")
            for kind, count in sorted(self.faults.done.items())
        ]
        if not self.faults.database.can_be_full:
            rows += [("fault: disk full", "not tried: no file system could be mounted")]
        lost = sum(each.ended_at - each.began_at for each in self.faults.outages)
        rows += [("outages", len(self.faults.outages)), ("outages, s", f"{lost / 1e6:.1f}")]
        rows += [(f"failed try: {reason}", n) for reason, n in record.failures.most_common()]
        rows += [(f"move refused: {reason}", n) for reason, n in record.refused.most_common()]
        lines = [*grid(("what", "count"), rows), ""]
        lines += [f"ended: {e.name} {e.code} {e.words}" for e in self.fleet.ended]
        lines += [f"WRONG {kind}: {n}" for kind, n in self.findings.faults.items()]
        lines += [f"  {example}" for example in self.findings.examples]
        return [*lines, "all held" if self.held else "NOT all held"]


async def drill(folder: Path, seed: int, form: Form, tell: Tell) -> Outcome:
    """Play, break, wait for calm, judge. Raises Failure when the services do not come up."""
    with open_database(folder, safe=form.safe) as database:
        await database.make()
        urls = {name: database.url(name) for name in ("lobby", "game", "wallet")}
        async with Fleet(folder, form.replicas, urls, ENVIRONMENT) as fleet:
            tell(f"{len(fleet.replicas)} processes are up")
            return await _drilled(fleet, database, seed, form, tell)


async def _drilled(fleet: Fleet, database: Database, seed: int, form: Form, tell: Tell) -> Outcome:
    rng, record = random.Random(seed), Record()
    faults = Faults(fleet, database, form.lengths, random.Random(rng.random()), tell)
    async with AsyncExitStack() as closing:
        parties = await parties_of(fleet.settings, form, record, rng, closing)
        over = asyncio.Event()
        playing = [asyncio.create_task(party.play(over), name=party.kind) for party in parties]
        while not all(party.running for party in parties):
            await asyncio.sleep(0.05)
        breaking = asyncio.create_task(faults.run(over))
        began = time.monotonic()
        await asyncio.wait(
            [*playing, breaking], timeout=form.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        over.set()
        await breaking
        calm = time.monotonic()
        tell(f"calm after {calm - began:.0f} s; {sum(p.finished for p in parties)} games ended")
        findings = await finish(playing, form.end_seconds)
        ended = time.monotonic()
        house = operator(fleet.settings, patience_ms=20_000)
        closing.push_async_callback(house.close)
        outages = [felt for o in faults.outages if (felt := _felt(o, record))]
        await Judge(house, partial(_due, database), record, outages, OUTAGE_MS, findings).all()
        for kind, number in record.wrong.items():
            findings.faults[kind] += number
        findings.examples += record.examples
        return Outcome(seed, record, faults, findings, parties, fleet, calm - began, ended - calm)


async def finish(playing: Sequence[asyncio.Task[None]], seconds: float) -> Findings:
    """Wait until all have played to the end; whoever could not is a fault."""
    findings = Findings()
    _, stuck = await asyncio.wait(playing, timeout=seconds)
    for task in stuck:
        findings.fault("players still wait", task.get_name())
        task.cancel()
    outcomes = await asyncio.gather(*playing, return_exceptions=True)
    for task, outcome in zip(playing, outcomes, strict=True):
        if isinstance(outcome, Exception):
            findings.fault("a player was failed", f"{task.get_name()}: {_words(outcome)}")
    return findings


async def parties_of(
    settings: Settings, form: Form, record: Record, rng: random.Random, closing: AsyncExitStack
) -> list[Party]:
    """People signed up, ready to sit down."""

    async def witness(name: str) -> Witness:
        made = Witness(settings, record)
        closing.push_async_callback(made.close)
        await made.sign_up(name)
        return made

    return [
        Party(
            kind=kind,
            people=[await witness(f"{kind} {number}.{i}") for i in range(people)],
            guests=[await witness(f"guest {number}.{i}") for i in range(guests)],
            bots=bots,
            turn_ms=form.turn_ms,
            sleeps=True,
            rng=random.Random(rng.random()),
            record=record,
        )
        for number, (kind, people, bots, guests) in enumerate(form.parties)
    ]


async def _due(database: Database) -> list[tuple[str, str, int]]:
    return [(name, *row) for name in WORKING for row in await database.run(name, DUE)]


def _felt(outage: Outage, record: Record) -> Outage | None:
    """The outage as players felt it: on a full disk there is room left for a while."""
    if outage.why != DISK_FULL:
        return outage
    refused = [at for at in record.not_stored if outage.began_at <= at <= outage.ended_at]
    return Outage(min(refused), outage.ended_at, outage.why) if refused else None


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_words(each) for each in error.exceptions)
    return f"{type(error).__name__} {error}"
