"""`store`: appends a second beside raw inserts and beside the `eventsourcing` library.

Raw is asyncpg with a connection and a prepared statement a task, one row a transaction, into the
very table our rows go to. Ours also chains the row's hash, moves the head, refuses a second use of
a request id, and replaces the row of the next deadline. All sides write streams of 200 events.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from engines.records import maker
from services.cli.bench import postgres
from services.cli.bench.measuring import (
    Effort,
    Report,
    Side,
    Slice,
    Step,
    cpu_us,
    database_us,
    drive,
    interleaved,
    rate,
    ratio,
)
from services.cli.bench.peers import Missing, Recorder, open_postgres, open_sqlite
from services.kernel.envelope import Append, Due, NewEvent, Plan
from services.runtime.database import open_engine
from services.runtime.eventstore import MIGRATIONS
from services.runtime.migrate import migrate_engine
from services.runtime.moments import new_id
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore

NAME = "store"
SECONDS = 1.0
FEW, SQLITE_TASKS = 1, 16
"""Other numbers of tasks the ratios are taken at."""
EVENTS_A_STREAM = 200
TURN_MS = 30_000

EVENT = "durak.Attacked"
PAYLOAD = bytes(range(27))
"""As long as the events of the three games are in the mean."""
METADATA = b"\x0a\x06player"
BODY_HASH = bytes(range(32))
HASH = bytes(range(32, 64))

INSERT = (
    "INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata, "
    "request_id, body_hash, recorded_at, hash) "
    "VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9, $10)"
)


_append, _new_event, _plan, _due = maker(Append), maker(NewEvent), maker(Plan), maker(Due)
"""As the services make them."""


class Line:
    """One task's stream: where it is, and a new one when it is long enough."""

    def __init__(self) -> None:
        self.stream = new_id()
        self.version = 0
        self.due: tuple[tuple[str, str], ...] = ()

    def advance(self) -> None:
        """The next event has been stored."""
        self.version += 1
        if self.version == EVENTS_A_STREAM:
            self.__init__()  # type: ignore[misc]


def appending(store: SqlStore) -> Step:
    """A step of ours: one event, as a move makes it, with the deadline of the next."""
    line = Line()

    async def step() -> int:
        version = line.version
        key = ("turn", f"{version % 2}.{version + 1}.0")
        append = _append(
            stream=line.stream,
            expected=version,
            events=(_new_event(EVENT, 1, PAYLOAD, None),),
            request_id=f"{version % 2}/{uuid4()}",
            body_hash=BODY_HASH,
            metadata=METADATA,
            plan=_plan((_due(*key, TURN_MS),), line.due, (), False),
            not_after=None,
            follows=None,
        )
        await store.append(append)
        line.due = (key,)
        line.advance()
        return 1

    return step


def inserting(statement: Any) -> Step:
    """A raw step: the same row into the same table, and nothing else."""
    line = Line()

    async def step() -> int:
        version = line.version
        await statement.fetch(
            line.stream,
            version + 1,
            EVENT,
            1,
            PAYLOAD,
            METADATA,
            f"{version % 2}/{uuid4()}",
            BODY_HASH,
            time.time_ns() // 1_000,
            HASH,
        )
        line.advance()
        return 1

    return step


def master_keys() -> MasterKeys:
    """A key to seal with."""
    return MasterKeys("1", {"1": secrets.token_bytes(32)})


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the store's numbers."""
    report = Report(NAME)
    with tempfile.TemporaryDirectory(prefix="kozyr-bench-") as folder:
        async with postgres.database(server_url, [MIGRATIONS]) as url:
            await _postgres(effort, url, report, tell)
        tell("SQLite")
        await _sqlite(effort, Path(folder), report)
    return report


async def _postgres(effort: Effort, url: str, report: Report, tell: Callable[[str], None]) -> None:
    seconds, many = effort.slice(SECONDS), effort.many
    spare = await postgres.connections_max(url.replace(postgres.DRIVER, "postgresql")) - many - 30
    curve = [tasks for tasks in sorted({FEW, many, *effort.curve}) if tasks <= spare]
    store = SqlStore(open_engine(url), master_keys())
    opened = await postgres.connections(url, max(curve))
    sessions = postgres.Sessions(opened[0], embedded=effort.database_url is None)
    statements = [await connection.prepare(INSERT) for connection in opened]
    recorder = _peer(report, "eventsourcing on PostgreSQL", partial(open_postgres, url, many))
    sides: dict[str, Side] = {}
    for tasks in curve:
        sides[f"raw {tasks}"] = partial(
            _slice,
            [inserting(s) for s in statements[:tasks]],
            seconds,
            sessions,
            partial(tell, f"raw, {tasks}"),
        )
        sides[f"ours {tasks}"] = partial(
            _slice,
            [appending(store) for _ in range(tasks)],
            seconds,
            sessions,
            partial(tell, f"ours, {tasks}"),
        )
    if recorder is not None:
        sides["eventsourcing"] = partial(_threads, recorder, many, seconds, tell)
    try:
        for side in (f"ours {many}", f"raw {many}"):
            await sides[side]()
        found = await interleaved(sides, effort.rounds)
    finally:
        await postgres.close(opened)
        await store.close()
        if recorder is not None:
            recorder.close()
    report.ratios["store.append_vs_raw"] = ratio(found[f"ours {many}"], found[f"raw {many}"])
    report.ratios["store.append_vs_raw_1"] = ratio(found[f"ours {FEW}"], found[f"raw {FEW}"])
    if recorder is not None:
        report.ratios["store.append_vs_eventsourcing"] = ratio(
            found[f"ours {many}"], found["eventsourcing"]
        )
        report.absolute["store.eventsourcing_per_s"] = rate(found["eventsourcing"])
    for tasks in curve:
        report.absolute[f"store.append_per_s_{tasks}"] = rate(found[f"ours {tasks}"])
        report.absolute[f"store.raw_per_s_{tasks}"] = rate(found[f"raw {tasks}"])
    for name, side in (("append", "ours"), ("raw", "raw")):
        slices = found[f"{side} {many}"]
        report.absolute[f"store.{name}_cpu_us"] = cpu_us(slices)
        report.absolute[f"store.{name}_database_cpu_us"] = database_us(slices)


async def _sqlite(effort: Effort, folder: Path, report: Report) -> None:
    seconds = effort.slice(SECONDS)
    engine = open_engine(f"sqlite+aiosqlite:///{folder / 'ours.db'}")
    await migrate_engine(engine, [MIGRATIONS])
    store = SqlStore(engine, master_keys())
    recorder = _peer(
        report, "eventsourcing on SQLite", partial(open_sqlite, folder / "theirs.db", SQLITE_TASKS)
    )
    steps = [appending(store) for _ in range(SQLITE_TASKS)]
    sides: dict[str, Side] = {"ours": partial(drive, steps, seconds)}
    if recorder is not None:
        sides["theirs"] = partial(_threads, recorder, SQLITE_TASKS, seconds, _quiet)
    try:
        found = await interleaved(sides, effort.rounds)
    finally:
        await store.close()
        if recorder is not None:
            recorder.close()
    if recorder is not None:
        report.ratios["store.sqlite_vs_eventsourcing"] = ratio(found["ours"], found["theirs"])
        report.absolute["store.sqlite_eventsourcing_per_s"] = rate(found["theirs"])
    report.absolute[f"store.sqlite_append_per_s_{SQLITE_TASKS}"] = rate(found["ours"])


async def _slice(
    steps: list[Step], seconds: float, sessions: postgres.Sessions, say: Callable[[], None]
) -> Slice:
    say()
    return await both_bills(steps, seconds, sessions)


async def both_bills(steps: list[Step], seconds: float, sessions: postgres.Sessions) -> Slice:
    """A slice with the CPU time of this process and of PostgreSQL's sessions."""
    before = await sessions.seconds()
    done = await drive(steps, seconds, os.getpid())
    return replace(done, database=await sessions.spent(before))


async def _threads(
    recorder: Recorder, threads: int, seconds: float, tell: Callable[[str], None]
) -> Slice:
    tell(f"eventsourcing, {threads} threads")
    return await recorder.slice(threads, seconds, EVENTS_A_STREAM, PAYLOAD, EVENT)


def _peer(report: Report, name: str, opening: Callable[[], Recorder]) -> Recorder | None:
    try:
        return opening()
    except Missing as missing:
        report.skipped[name] = str(missing)
        return None


def _quiet(_news: str) -> None:
    pass
