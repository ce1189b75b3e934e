"""What a list of tables costs, by how many are open: CPU microseconds and rows read.

`python -m tests.bench.listing_cost [postgresql|sqlite] [TABLES ...]` opens tables of which only the
oldest has a free seat, and asks a replica that has not opened them for tables with a free seat: the
first time (it learns of all of them), again with nothing changed, and again after one table
changed at another replica. Beside it, what the same costs by looking through the tables' tags and
loading each of them, as a list would without a directory. CPU is of this process and, for
PostgreSQL, of its server's processes.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil  # type: ignore[import-untyped]

from services.kernel.ids import uuid7
from services.lobby.commands import AddBot, Command, Open, SetReady
from services.lobby.directory import OVERLAP_US, Directory
from services.lobby.evolve import TAG_OPEN
from services.lobby.filters import Wanted, candidates, fits
from services.lobby.server import FOLDERS
from services.lobby.tables import DECIDER, Tables
from services.runtime.database import close_engine, open_engine
from services.runtime.migrate import migrate_engine
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests import postgres
from tests.services.lobby.tables import bot, durak_rules, game, player

FREE = Wanted(None, None, False, False, 1, 0, 10**12, None)
ROUNDS = 50


class Replica:
    """A lobby's tables and directory; `rows` counts what it reads."""

    def __init__(self, engine: Any) -> None:
        self.rows = 0
        self.store = SqlStore(engine, None)
        for name in ("read", "read_each", "tagged"):
            setattr(self.store, name, self._counted(getattr(self.store, name)))
        self.streams = Streams(self.store, DECIDER)
        self.directory = Directory(engine, self.store, self.streams)
        taking = self.directory._take_in

        async def take_in(versions: dict[UUID, int]) -> None:
            self.rows += len(versions)
            await taking(versions)

        self.directory._take_in = take_in  # type: ignore[method-assign]
        nobody: Any = None
        self.tables = Tables(self.streams, self.store, *(nobody,) * 5)

    def _counted(self, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counting(*given: Any, **named: Any) -> Any:
            found = await read(*given, **named)
            each = found.values() if isinstance(found, dict) else [found]
            self.rows += sum(map(len, each))
            return found

        return counting

    async def do(self, table_id: UUID, command: Command, number: int) -> None:
        """Carry a command out."""
        request = f"{table_id} {number}"
        await self.streams.transact(table_id, command, request_id=request, body_hash=bytes(32))

    async def list(self) -> None:
        """A page of tables with a free seat."""
        await self.directory.fresh()
        found = [t for t, table in candidates(self.directory, FREE) if fits(table, FREE)]
        assert found

    async def scan(self) -> None:
        """The same by tags."""
        before = None
        while True:
            looked = [found async for found in self.tables.scan(TAG_OPEN, before)]
            if any(fits(found.table, FREE) for found in looked):
                return
            before = looked[-1].table_id


async def main(database: str, counts: list[int]) -> None:
    """Measure at each number of tables."""
    async with engine_of(database) as engine:
        await migrate_engine(engine, FOLDERS)
        writer, opened = Replica(engine), 0
        for count in counts:
            while opened < count:
                some = range(opened, min(opened + 100, count))
                await asyncio.gather(*(full_table(writer, number) for number in some))
                opened = some.stop
            await measured(database, engine, writer, count)


async def full_table(writer: Replica, number: int) -> None:
    """A listed table; all but the first are full, and play."""
    table_id = table_at(number)
    await writer.do(table_id, Open(player(number), durak_rules(2), 0, game(number)), 0)
    if number:
        added = AddBot(player(number), bot(number), None, 0, game(number))
        await writer.do(table_id, added, 1)
        await writer.do(table_id, SetReady(player(number), True, game(number)), 2)


def table_at(number: int) -> UUID:
    """The table of a number."""
    return uuid7(1_800_000_000_000 + number, bytes(10))


async def measured(database: str, engine: Any, writer: Replica, count: int) -> None:
    """Tell what lists cost at so many tables."""
    reader = Replica(engine)
    await told(database, count, "first", reader, reader.list, 1)
    await asyncio.sleep(OVERLAP_US / 1e6)  # what was just opened is looked at again for so long
    await told(database, count, "again", reader, reader.list, ROUNDS)

    spent = [0.0, 0.0, 0.0]
    for number in range(ROUNDS):
        ready = SetReady(player(0), bool(number % 2), game(0))
        await writer.do(table_at(0), ready, 1_000 * count + number)
        cost = await costs(database, reader, reader.list, 1)
        spent = [a + b for a, b in zip(spent, cost, strict=True)]
    show(count, "one changed", [each / ROUNDS for each in spent])
    await told(database, count, "by tags", reader, reader.scan, 3)


async def told(
    database: str,
    count: int,
    what: str,
    reader: Replica,
    ask: Callable[[], Awaitable[None]],
    n: int,
) -> None:
    """Ask so often, and tell what once cost."""
    show(count, what, [each / n for each in await costs(database, reader, ask, n)])


async def costs(
    database: str, reader: Replica, ask: Callable[[], Awaitable[None]], rounds: int
) -> list[float]:
    """CPU microseconds here and at the server, and rows."""
    reader.rows, server, here = 0, server_cpu(database), time.process_time()
    for _ in range(rounds):
        await ask()
    spent = time.process_time() - here
    return [spent * 1e6, (server_cpu(database) - server) * 1e6, reader.rows]


def show(count: int, what: str, cost: list[float]) -> None:
    """One line."""
    here, server, rows = cost
    sys.stdout.write(
        f"{count:6} tables  {what:<12} {here:10.0f} µs  server {server:9.0f} µs  {rows:9.1f} rows\n"
    )


def server_cpu(database: str) -> float:
    """CPU seconds of the server's processes so far."""
    if database == "sqlite":
        return 0.0
    total = 0.0
    for started in postgres.STARTED:
        parent = psutil.Process(started.pid)
        for process in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total


@asynccontextmanager
async def engine_of(database: str) -> AsyncIterator[Any]:
    """An empty database."""
    with tempfile.TemporaryDirectory() as folder:
        own = database == "postgresql"
        url = postgres.create_database() if own else f"sqlite+aiosqlite:///{Path(folder)}/lobby.db"
        engine = open_engine(url)
        try:
            yield engine
        finally:
            await close_engine(engine)
            if own:
                postgres.drop_database(url)


def run(database: str, counts: list[int]) -> None:
    """Measure, with a PostgreSQL of our own where one is asked for."""
    ours = postgres.open_run() if database == "postgresql" else None
    try:
        if database == "postgresql":
            postgres.server_url()
        asyncio.run(main(database, counts))
    finally:
        if ours is not None:
            postgres.close_run(ours)


if __name__ == "__main__":
    KIND = sys.argv[1] if len(sys.argv) > 1 else "sqlite"
    run(KIND, [int(each) for each in sys.argv[2:]] or [100, 1_000, 5_000])
