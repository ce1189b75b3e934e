"""What appends cost: the store beside bare drivers, in interleaved rounds of one run.

`python -m tests.bench.store_rates [postgresql|sqlite] [ROUNDS] [SECONDS]` starts a PostgreSQL that
waits for the disk (the one `KOZYR_TEST_DATABASE_URL` names is used as it is). The bare side writes
the same event row into the same table, a connection a task (SQLite: one transaction an event);
the store also chains, looks the request id up, moves the head, and replaces a due row. CPU is of
this process and, for PostgreSQL, of its server's processes.
"""

import asyncio
import math
import os
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
import psutil  # type: ignore[import-untyped]

from services.kernel.envelope import Append, Due, NewEvent, Plan
from services.runtime.database import SQLITE, open_engine
from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.sql import SqlStore
from tests import postgres

TASKS = (1, 16, 64, 256)
PAYLOAD = bytes(range(100))
METADATA = b"\x0a\x06player"
RAW = (
    "INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata, "
    "request_id, body_hash, recorded_at, hash) "
)
RAW_POSTGRES = RAW + "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
RAW_SQLITE = RAW + "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
HASH = bytes(32)

Step = Callable[[int], Awaitable[None]]
"""Appends the event of this number."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Appends a second, and microseconds of CPU an append: of this process, of the server."""

    per_second: float
    client_us: float
    server_us: float


def stream_id() -> UUID:
    """A new stream, in time's order like every stream's id."""
    random = int.from_bytes(secrets.token_bytes(10)) & ~(0b11 << 62) | 0b10 << 62
    return UUID(int=time.time_ns() // 1_000_000 << 80 | 7 << 76 | random & (1 << 76) - 1)


async def measure(steps: list[Step], seconds: float, server: list[psutil.Process]) -> Rate:
    """Every task takes steps for so long."""
    done = 0
    end = time.perf_counter() + seconds

    async def work(step: Step) -> None:
        nonlocal done
        number = 0
        while time.perf_counter() < end:
            await step(number)
            number += 1
            done += 1

    used = cpu(server)
    mine, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work(step) for step in steps))
    took = time.perf_counter() - began
    mine = time.process_time() - mine
    each = 1e6 / max(done, 1)  # a slice in which nothing was finished has a rate of 0
    return Rate(done / took, each * mine, each * (cpu(server) - used))


def cpu(server: list[psutil.Process]) -> float:
    """Seconds of CPU the server's processes have used."""
    total = 0.0
    for parent in server:
        for process in [parent, *parent.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
    return total


def ours(store: SqlStore) -> Step:
    """Appends to a stream of its own, each time replacing the row of the turn before."""
    stream = stream_id()

    async def step(number: int) -> None:
        done = ((("turn", f"0.{number - 1}"),)) if number else ()
        await store.append(
            Append(
                stream=stream,
                expected=number,
                events=(NewEvent("CardPlayed", 1, PAYLOAD),),
                request_id=f"0/{number:032x}",
                body_hash=HASH,
                metadata=METADATA,
                plan=Plan(due=(Due("turn", f"0.{number}", 30_000),), done=done),
            )
        )

    return step


def row(stream: object, number: int) -> tuple[object, ...]:
    """The event row as the store writes it."""
    at = time.time_ns() // 1_000
    return (
        *(stream, number + 1, "CardPlayed", 1, PAYLOAD, None, METADATA),
        *(f"0/{number:032x}", HASH, at, HASH),
    )


def bare_postgres(connection: asyncpg.Connection, prepared: object) -> Step:
    """Inserts the row by itself."""
    stream = stream_id()

    async def step(number: int) -> None:
        await prepared.fetch(*row(stream, number))  # type: ignore[attr-defined]

    return step


async def rates_postgres(rounds: int, seconds: float) -> None:
    """The table for PostgreSQL."""
    url = postgres.create_database()
    await migrate(url, [migrations.FOLDER])
    plain = url.replace("+asyncpg", "")
    server = [psutil.Process(started.pid) for started in postgres.STARTED]
    for tasks in TASKS:
        bare, group = [], []
        connections = [await asyncpg.connect(plain, timeout=60) for _ in range(min(tasks, 190))]
        prepared = [await connection.prepare(RAW_POSTGRES) for connection in connections]
        if tasks > len(connections):
            connections = prepared = []
        store = SqlStore(open_engine(url), None)
        for _ in range(rounds):
            if connections:
                steps = [bare_postgres(*one) for one in zip(connections, prepared, strict=True)]
                bare.append(await measure(steps, seconds, server))
            steps = [ours(store) for _ in range(tasks)]
            group.append(await measure(steps, seconds, server))
        show("postgresql", tasks, bare, group)
        await store.close()
        for connection in connections:
            await connection.close()
    postgres.drop_database(url)


async def rates_sqlite(rounds: int, seconds: float) -> None:
    """The table for SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"{SQLITE}:///{folder}/store.db"
        await migrate(url, [migrations.FOLDER])
        for tasks in TASKS:
            bare, group = [], []
            store = SqlStore(open_engine(url), None)
            for _ in range(rounds):
                bare.append(await measure([bare_sqlite(Path(folder) / "store.db")], seconds, []))
                group.append(await measure([ours(store) for _ in range(tasks)], seconds, []))
            show("sqlite", tasks, bare, group)
            await store.close()


def bare_sqlite(file: Path) -> Step:
    """Inserts the row by itself, in a transaction of its own."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=10)
    connection.execute("PRAGMA synchronous=FULL")
    stream = stream_id().hex

    async def step(number: int) -> None:
        connection.execute(RAW_SQLITE, row(stream, number))

    return step


def show(engine: str, tasks: int, bare: list[Rate], group: list[Rate]) -> None:
    """One line: medians."""
    text = f"{engine:10} {tasks:4} tasks  store {told(group)}"
    if bare:
        ratio = statistics.median(
            one.per_second / other.per_second if other.per_second else math.inf
            for one, other in zip(group, bare, strict=True)
        )
        text += f"  bare {told(bare)}  ratio {ratio:.2f}"
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def told(rates: list[Rate]) -> str:
    """Medians of a side."""
    middle = [
        statistics.median(getattr(rate, field) for rate in rates)
        for field in Rate.__dataclass_fields__
    ]
    return "{:7.0f}/s {:5.1f}+{:5.1f} µs".format(*middle)


def main() -> None:
    """Measures."""
    engine, rounds, seconds = [*sys.argv[1:], *("postgresql", "3", "2")[len(sys.argv) - 1 :]]
    postgres.SETTINGS.update(fsync="on", full_page_writes="on", max_connections="300")
    run = postgres.open_run()
    try:
        if engine == "sqlite":
            asyncio.run(rates_sqlite(int(rounds), float(seconds)))
        else:
            postgres.server_url()
            asyncio.run(rates_postgres(int(rounds), float(seconds)))
    finally:
        if run is not None:
            postgres.close_run(run)


if __name__ == "__main__":
    os.nice(0)
    main()
