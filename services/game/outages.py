"""Outages: spans in which no replica was alive or the database took no write.

Every replica renews one row, the lifeline. Whoever finds it older than `longest_ms` writes down
the gap as an outage. Players are credited the part of it that fell into their turn.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    Table,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import database_now, read, write
from services.runtime.store.api import StoreUnavailable

metadata = MetaData()
lifeline = Table(
    "lifeline",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
)
outages = Table(
    "outages",
    metadata,
    Column("began_at", BigInteger, primary_key=True, autoincrement=False),
    Column("ended_at", BigInteger, nullable=False),
)

NEVER = 0
"""The lifeline before the first beat."""
BEATS_IN_AN_OUTAGE = 4
"""The lifeline is renewed so many times in the shortest outage."""


@dataclass(frozen=True, slots=True)
class Outages:
    """The outages of the game service, kept in its database. Times are Unix microseconds."""

    engine: AsyncEngine
    longest_ms: int

    async def beat(self) -> None:
        """Renew the lifeline; a gap longer than `longest_ms` becomes an outage."""
        async with write(self.engine) as connection:
            now = await database_now(connection)
            row = select(lifeline.c.at).with_for_update()
            last = (await connection.execute(row)).scalar_one()
            if last != NEVER and now - last > self.longest_ms * 1_000:
                gap = {"began_at": last, "ended_at": now}
                await connection.execute(insert(outages).values(gap))
            if now > last:
                await connection.execute(update(lifeline).values(at=now))

    async def since(self, at: int) -> int:
        """How much of the time after `at` was outage, in microseconds."""
        postgres = self.engine.dialect.name == "postgresql"
        later = func.greatest if postgres else func.max
        began: ColumnElement[int] = later(outages.c.began_at, at)
        lost = select(func.sum(outages.c.ended_at - began)).where(outages.c.ended_at > at)
        async with read(self.engine) as connection:
            return int((await connection.execute(lost)).scalar_one() or 0)

    async def keep_alive(self) -> None:
        """Beat for ever; while the database is gone, there is nothing to beat for."""
        while True:
            with suppress(StoreUnavailable):
                await self.beat()
            await asyncio.sleep(self.longest_ms / BEATS_IN_AN_OUTAGE / 1_000)
