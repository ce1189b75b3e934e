"""Outages: spans in which no replica was alive or the database took no write.

Every replica renews one row, the lifeline. Whoever finds it older than `longest_ms` writes down
the gap as an outage. A database may renew that row and yet take no move (its disk is full, or
another holds a game's lock): so a span in which a game's appends were refused counts as well.
Players are credited the part of all that fell into their turn.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    Table,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime.database import database_now, read, write
from services.runtime.store.api import StoreUnavailable
from services.runtime.streams import wall_clock

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


SILENT_SECONDS = 5.0
"""A refused append that is not tried again within this time tells nothing about the time after."""


@dataclass(slots=True)
class Refusal:
    """A span in which this process could append nothing to a game, on its monotonic clock.

    `began_at` is its begin by the database's clock, once that is known.
    """

    first: float
    last: float
    taken: float | None = None
    began_at: int | None = None

    def until(self, now: float) -> float:
        """Its end as far as it is known at `now`."""
        return min(now, self.last + SILENT_SECONDS) if self.taken is None else self.taken


@dataclass(slots=True)
class Outages:
    """The outages of the game service, kept in its database. Times are Unix microseconds."""

    engine: AsyncEngine
    longest_ms: int
    clock: Callable[[], float] = time.monotonic
    ahead_us: int = 0
    """How far the database's clock was ahead of this machine's at the latest beat, microseconds."""
    _refusals: dict[UUID, Refusal] = field(default_factory=dict)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    def refused(self, game_id: UUID) -> None:
        """The store did not take an append to this game."""
        now = self.clock()
        kept = self._refusals.get(game_id)
        if kept is None or kept.taken is not None or now - kept.last > SILENT_SECONDS:
            self._refusals[game_id] = Refusal(now, now)
        else:
            kept.last = now

    def taken(self, game_id: UUID) -> None:
        """The store took an append to this game; what it refused until now is to be noted."""
        kept = self._refusals.get(game_id)
        if kept is not None and kept.taken is None:
            kept.taken = kept.until(self.clock())
            self._over.set()

    async def beat(self) -> None:
        """Renew the lifeline; a gap longer than `longest_ms` becomes an outage.

        So does a span for which a game's appends were refused.
        """
        async with write(self.engine) as connection:
            now = await database_now(connection)
            self.ahead_us = now - wall_clock()
            row = select(lifeline.c.at).with_for_update()
            last = (await connection.execute(row)).scalar_one()
            if last != NEVER and now - last > self.longest_ms * 1_000:
                gap = {"began_at": last, "ended_at": now}
                await connection.execute(insert(outages).values(gap))
            if now > last:
                await connection.execute(update(lifeline).values(at=now))
            noted = dict(self._refusals)
            for refusal in noted.values():
                await self._note(connection, refusal, now)
        for game_id, refusal in noted.items():
            over = refusal.taken is not None or self.clock() - refusal.last > SILENT_SECONDS
            if over and self._refusals.get(game_id) is refusal:
                del self._refusals[game_id]

    async def _note(self, connection: AsyncConnection, refusal: Refusal, now: int) -> None:
        """Write a refusal down as an outage, or how much longer a known one has become."""
        clock = self.clock()
        lasted = refusal.until(clock) - refusal.first
        if lasted * 1_000 <= self.longest_ms:
            return
        if refusal.began_at is None:
            refusal.began_at = now - round((clock - refusal.first) * 1_000_000)
        span = {"ended_at": refusal.began_at + round(lasted * 1_000_000)}
        known = outages.c.began_at == refusal.began_at
        longer = update(outages).where(known).values(span)
        if not (await connection.execute(longer)).rowcount:
            row = {"began_at": refusal.began_at, **span}
            await connection.execute(insert(outages).values(row))

    async def since(self, at: int) -> int:
        """How much of the time after `at` was outage, in microseconds, each moment once."""
        spans = select(outages).where(outages.c.ended_at > at).order_by(outages.c.began_at)
        async with read(self.engine) as connection:
            rows = (await connection.execute(spans)).all()
        lost, reached = 0, at
        for row in rows:
            lost += max(0, row.ended_at - max(row.began_at, reached))
            reached = max(reached, row.ended_at)
        return lost

    async def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """The outages that touch a span of time, all in Unix microseconds."""
        spans = (
            select(outages)
            .where(outages.c.ended_at > first, outages.c.began_at < last)
            .order_by(outages.c.began_at)
        )
        async with read(self.engine) as connection:
            rows = (await connection.execute(spans)).all()
        return [(row.began_at, row.ended_at) for row in rows]

    async def keep_alive(self) -> None:
        """Beat for ever; while the database is gone, there is nothing to beat for."""
        while True:
            with suppress(StoreUnavailable):
                await self.beat()
            self._over.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.longest_ms / BEATS_IN_AN_OUTAGE / 1_000):
                    await self._over.wait()
