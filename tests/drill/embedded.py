"""The same on one laptop: four services on SQLite whose disk runs full, logs included."""

import asyncio
import random
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.cli.operators import operator
from services.cli.stack import Stack
from tests.drill.database import BALLAST, fill, give_back, small_disk
from tests.drill.drill import ENVIRONMENT, OUTAGE_MS, Form, finish, parties_of
from tests.drill.faults import Outage, Tell
from tests.drill.judging import DUE, WORKING, Findings, Judge
from tests.drill.witness import Record

DISK_MB = 48
PLAY_SECONDS = 1.5
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of it."""

    record: Record
    findings: Findings


async def full_disk(folder: Path, seed: int, form: Form, tell: Tell) -> Filled:
    """Play, fill the disk, kill the game service on it, free the disk, judge."""
    place, rng, record = folder / "sqlite", random.Random(seed), Record()
    place.mkdir()
    with small_disk(place, folder / "sqlite.img", DISK_MB) as disk:
        async with (
            Stack(place / "data", environment=ENVIRONMENT) as stack,
            AsyncExitStack() as end,
        ):
            parties = await parties_of(stack.settings, form, record, rng, end)
            over = asyncio.Event()
            playing = [asyncio.create_task(p.play(over), name=p.kind) for p in parties]
            while not all(party.running for party in parties):
                await asyncio.sleep(0.05)
            await asyncio.sleep(PLAY_SECONDS)
            began = time.time_ns() // 1_000
            with _without_room(stack, disk):
                await asyncio.sleep(rng.uniform(*form.lengths.disk))
                await stack.kill("game")
            await stack.start("game")
            full = Outage(began, time.time_ns() // 1_000, "disk full")
            tell(f"disk full for {(full.ended_at - began) / 1e6:.1f} s, then game killed")
            await asyncio.sleep(PLAY_SECONDS)
            over.set()
            findings = await finish(playing, form.end_seconds)
            refused = [at for at in record.not_stored if began <= at <= full.ended_at]
            findings.counts["moves refused by a full disk"] = len(refused)
            felt = [Outage(min(refused), full.ended_at, full.why)] if refused else []
            house = operator(stack.settings)
            end.push_async_callback(house.close)

            async def due() -> list[tuple[str, str, int]]:
                files = [(name, stack.data / f"{name}.db") for name in WORKING]
                return [
                    (name, *row)
                    for name, file in files
                    for row in await asyncio.to_thread(_rows, file)
                ]

            await Judge(house, due, record, felt, OUTAGE_MS, findings).all()
    for kind, number in record.wrong.items():
        findings.faults[kind] += number
    findings.examples += record.examples
    return Filled(record, findings)


@contextmanager
def _without_room(stack: Stack, disk: Path | None) -> Iterator[None]:
    """No file of the services can grow: their disk is full, or their processes may not.

    The second, where no file system could be mounted, is a limit on the size of files.
    """
    if disk is not None:
        fill(disk / BALLAST)
        yield
        give_back(disk / BALLAST)
        return
    pids = [process.pid for process in stack._processes.values()]
    least = min(file.stat().st_size for file in stack.data.glob("*.db-wal"))
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (least, resource.RLIM_INFINITY))
    yield
    for process in stack._processes.values():
        if process.returncode is None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, NO_LIMIT)


def _rows(file: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return list(connection.execute(DUE))
