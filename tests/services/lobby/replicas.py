"""Two replicas of a lobby at one database, without their servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from services.kernel.errors import Refused
from services.lobby.admission import Admission
from services.lobby.choices import Choices
from services.lobby.commands import Command
from services.lobby.conditions import Moot
from services.lobby.directory import Directory
from services.lobby.limitbook import LimitBook
from services.lobby.model import Event, Table
from services.lobby.openings import Openings
from services.lobby.players import Players
from services.lobby.quick import QuickPlay
from services.lobby.seatings import Seatings
from services.lobby.server import FOLDERS
from services.lobby.stakes import Stakes
from services.lobby.tables import DECIDER, Tables
from services.runtime.database import close_engine, open_engine
from services.runtime.migrate import migrate_engine
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests import postgres


@dataclass
class Replica:
    """A lobby's tables, its directory and quick play; everybody has plenty of chips."""

    streams: Streams[Table, Command, Event]
    directory: Directory
    store: SqlStore
    reads: list[int]
    tables: Tables
    quick: QuickPlay

    async def do(self, table_id: UUID, command: Command, number: int) -> None:
        """Carry a command out, if it is not refused."""
        with suppress(Refused, Moot):
            await self.streams.transact(
                table_id, command, request_id=f"{number}", body_hash=bytes(32)
            )


class Plenty:
    """Accounts in which there is always enough."""

    async def balance(self, player: UUID) -> int:
        """More than any stack."""
        return 1 << 60


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[Replica]:
    """A replica at a database."""
    engine = open_engine(url)
    await migrate_engine(engine, FOLDERS)
    store = SqlStore(engine, None)
    reads: list[int] = []
    reading = store.read_each

    async def counted(after: Any) -> Any:
        reads.append(len(after))
        return await reading(after)

    store.read_each = counted  # type: ignore[method-assign]
    streams = Streams(store, DECIDER, published=lambda c: made.published(c.stream, c.after.state))
    made, choices = Directory(engine, store, streams), Choices(engine)
    others = (
        cast(Any, Plenty()),
        Admission(streams, store, LimitBook(engine), Stakes(engine)),
        Seatings(engine),
    )
    tables = Tables(streams, store, Players(engine), choices, *others)
    quick = QuickPlay(tables, store, choices, made, Openings(engine))
    try:
        yield Replica(streams, made, store, reads, tables, quick)
    finally:
        await store.close()
        await close_engine(engine)


@asynccontextmanager
async def replicas(folder: Path, database: str) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas at one database."""
    if database == "sqlite":
        url = f"sqlite+aiosqlite:///{folder}/lobby.db"
    else:
        url = postgres.create_database()
    try:
        async with replica(url) as one, replica(url) as two:
            yield one, two
    finally:
        if database == "postgresql":
            postgres.drop_database(url)
