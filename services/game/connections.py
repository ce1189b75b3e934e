"""When players' streams of a game opened and closed: for disputes about who was there.

It is no part of the log and proves nothing; it is what the replica saw. A row is written soon after
and never for a move. What is not written when a process dies is lost; a seat of a game has a
bounded number of rows, and so has what waits to be written.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    Table,
    Uuid,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import database_now, read, write
from services.runtime.store.api import StoreUnavailable
from services.runtime.streams import refusals

connections = Table(
    "connections",
    MetaData(),
    Column("game", Uuid, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("connection", Uuid, primary_key=True),
    Column("seat", Integer, nullable=False),
    Column("opened", Boolean, primary_key=True),
)

ROWS_MAX = 300
"""Most rows of a seat of a game; what happens there later is not written down. Who comes and goes
without end hides nobody's but his own."""
WAITING_MAX = 10_000
"""Most rows that wait to be written; more push the oldest out."""
WRITE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Happened:
    """A stream opened or closed, at a moment of the monotonic clock (seconds)."""

    game: UUID
    connection: UUID
    seat: int
    opened: bool
    at: float


@dataclass(frozen=True, slots=True)
class Connection:
    """A row: database time in Unix microseconds."""

    at: int
    connection: UUID
    seat: int
    opened: bool


@dataclass(slots=True)
class Connections:
    """The record in the game's database."""

    engine: AsyncEngine
    waiting: deque[Happened] = field(default_factory=lambda: deque(maxlen=WAITING_MAX))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def open(self, game: UUID, seat: int | None) -> Iterator[None]:
        """A stream of a seat is open meanwhile; spectators' are nobody's concern."""
        if seat is None:
            yield
            return
        connection = uuid4()
        self.waiting.append(Happened(game, connection, seat, True, time.monotonic()))
        try:
            yield
        finally:
            self.waiting.append(Happened(game, connection, seat, False, time.monotonic()))

    async def run(self) -> None:
        """Write down for ever what happened."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            with suppress(StoreUnavailable):
                await self.flush()

    async def flush(self) -> None:
        """Write down what waits; what could not be written waits on."""
        async with self._turn:
            await self._flush()

    async def _flush(self) -> None:
        batch = list(self.waiting)
        if not batch:
            return
        counts = (
            select(connections.c.game, connections.c.seat, func.count())
            .where(connections.c.game.in_({each.game for each in batch}))
            .group_by(connections.c.game, connections.c.seat)
        )
        async with write(self.engine) as connection:
            there: Counter[tuple[UUID, int]] = Counter()
            for game, seat, rows_there in await connection.execute(counts):
                there[game, seat] = rows_there
            now, clock = await database_now(connection), time.monotonic()
            rows = []
            for each in batch:
                there[each.game, each.seat] += 1
                if there[each.game, each.seat] <= ROWS_MAX:
                    at = now - round((clock - each.at) * 1_000_000)
                    rows.append(
                        {
                            "game": each.game,
                            "at": at,
                            "connection": each.connection,
                            "seat": each.seat,
                            "opened": each.opened,
                        }
                    )
            if rows:
                await connection.execute(insert(connections), rows)
        written = set(map(id, batch))
        self.waiting = deque((e for e in self.waiting if id(e) not in written), WAITING_MAX)

    async def of_game(self, game: UUID) -> list[Connection]:
        """What is known of a game, in the order it happened; raises Refused.

        What waits here is written first, so that who asks right after a stream finds it.
        """
        query = (
            select(connections)
            .where(connections.c.game == game)
            .order_by(connections.c.at, connections.c.connection)
        )
        with refusals():
            await self.flush()
            async with read(self.engine) as connection:
                rows = (await connection.execute(query)).all()
        return [Connection(row.at, row.connection, row.seat, row.opened) for row in rows]

    async def erase(self, seats: Mapping[UUID, int]) -> int:
        """Remove what is known of one seat of each of these games; how many rows there were.

        Raises StoreUnavailable.
        """
        removed = 0
        async with write(self.engine) as connection:
            for seat in set(seats.values()):
                games = [game for game, number in seats.items() if number == seat]
                gone = await connection.execute(
                    delete(connections).where(
                        connections.c.game.in_(games), connections.c.seat == seat
                    )
                )
                removed += gone.rowcount
        return removed
