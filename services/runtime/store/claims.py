"""Due work: claiming it, giving it back, dropping it; a statement each on PostgreSQL.

On PostgreSQL the statements go to the driver as texts: a transaction through SQLAlchemy costs as
much as a handful of them, and the end of every game is claimed and dropped.
"""

import time
from collections.abc import Callable, Collection
from operator import itemgetter
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.envelope import Claimed
from services.runtime.database import database_now, now_us, read, write
from services.runtime.drivers import Drivers
from services.runtime.store.queries import SAME_CLAIM, SAME_WORK
from services.runtime.store.reading import direct_text
from services.runtime.store.rows import claim_key, work_key
from services.runtime.store.schema import work
from services.runtime.store.statements import CLOCK

AHEAD_US = 1_000_000
"""Rows that would be looked at so soon, and are not due then, are put right by a claim."""
CLAIM = f"""
    WITH moment AS MATERIALIZED (
        SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS at
    ), early AS (
        UPDATE work SET wake_at = work.ready_at FROM (
            SELECT stream, kind, key FROM work
            WHERE wake_at <= (SELECT at FROM moment) + {AHEAD_US} AND ready_at > wake_at
            AND ready_at > (SELECT at FROM moment) FOR UPDATE SKIP LOCKED
        ) renewed WHERE work.stream = renewed.stream AND work.kind = renewed.kind
        AND work.key = renewed.key
    ), ready AS MATERIALIZED (
        SELECT stream, kind, key, version, ready_at FROM work
        WHERE wake_at <= (SELECT at FROM moment) AND ready_at <= (SELECT at FROM moment) {{but}}
        ORDER BY ready_at LIMIT {{limit}} FOR UPDATE SKIP LOCKED
    )
    UPDATE work SET ready_at = (SELECT at FROM moment) + $2::bigint,
        wake_at = (SELECT at FROM moment) + $2::bigint, attempts = work.attempts + 1, worker = $3
    FROM ready
    WHERE work.stream = ready.stream AND work.kind = ready.kind AND work.key = ready.key
        AND work.version = ready.version
    RETURNING ready.ready_at, work.stream, work.kind, work.key, work.version, work.due_at,
        work.attempts
"""  # noqa: S608 - made of constants
"""The limit stands in the text, so that the planner knows how few rows there will be."""
BUT = "AND stream <> ALL($4::uuid[])"
LEFT_BEHIND = f"""
    WITH left_behind AS (
        DELETE FROM due WHERE ready_at <= coalesce($1::bigint, {CLOCK})
        RETURNING stream, version, due_at, ready_at, attempts, kind, key
    ), replaced AS (
        DELETE FROM work USING left_behind l WHERE work.stream = l.stream AND work.kind = l.kind
        AND work.key = l.key AND work.version < l.version
    )
    INSERT INTO work (stream, version, due_at, ready_at, wake_at, attempts, kind, key)
    SELECT stream, version, due_at, ready_at, ready_at, attempts, kind, key FROM left_behind l
    WHERE NOT EXISTS (SELECT FROM work WHERE work.stream = l.stream AND work.kind = l.kind
        AND work.key = l.key AND work.version >= l.version)
"""  # noqa: S608
"""Takes over due rows that 0.1.0 has stored, before the database was migrated or since; of two of a
name the later stays. It does not hold the heads, so an append may set a row of the same name at
that moment: then there are two, each is claimed at its own moment, and the earlier is moot."""
LEFT_EVERY_S = 1.0
DROP = delete(work).where(SAME_CLAIM)
NEXT = select(func.min(work.c.wake_at), now_us())


class Claims:
    """The due rows of one database; `clock` (Unix microseconds) stands in for its own in tests."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None) -> None:
        self._engine = engine
        self._drivers = Drivers(engine)
        self._clock = clock
        direct = (DROP, NEXT) if engine.dialect.name == "postgresql" else ()
        self._texts = {query: direct_text(query, engine) for query in direct}
        self._looked_behind = -LEFT_EVERY_S

    async def claim(
        self, worker: str, limit: int, lease_ms: int, but: Collection[UUID]
    ) -> list[Claimed]:
        """Takes due rows whose moment has come, longest due first, for `lease_ms`; none of the
        streams `but`."""
        lease_us = lease_ms * 1_000
        if not self._texts:
            return await self._claim(worker, limit, lease_us, but)
        now = None if self._clock is None else self._clock()
        text = CLAIM.format(limit=limit, but=BUT if but else "")
        given = (now, lease_us, worker, *([list(but)] if but else ()))
        async with self._drivers.lend() as connection:
            if time.monotonic() >= self._looked_behind + LEFT_EVERY_S:
                await connection.execute(LEFT_BEHIND, now)
                self._looked_behind = time.monotonic()
            rows = await connection.fetch(text, *given)
        return [Claimed(*row) for _, *row in sorted(map(tuple, rows), key=itemgetter(0))]

    async def _claim(
        self, worker: str, limit: int, lease_us: int, but: Collection[UUID]
    ) -> list[Claimed]:
        async with write(self._engine) as connection:
            now = await self.now(connection)
            ready = select(work).where(work.c.wake_at <= now, work.c.stream.not_in(but))
            ready = ready.order_by(work.c.wake_at).limit(limit)
            claimed = [
                Claimed(row.stream, row.kind, row.key, row.version, row.due_at, row.attempts + 1)
                for row in await connection.execute(ready)
            ]
            if claimed:
                taken = {
                    "ready_at": now + lease_us,
                    "wake_at": now + lease_us,
                    "attempts": work.c.attempts + 1,
                    "worker": worker,
                }
                statement = update(work).where(SAME_WORK).values(taken)
                await connection.execute(statement, [work_key(row) for row in claimed])
        return claimed

    async def postpone(self, claimed: Claimed, after_ms: int) -> None:
        """Gives a row back, to be claimed again after `after_ms`; nothing if the claim is over."""
        async with write(self._engine) as connection:
            ready_at = await self.now(connection) + after_ms * 1_000
            await connection.execute(
                update(work)
                .where(SAME_CLAIM)
                .values(ready_at=ready_at, wake_at=ready_at, worker=None),
                claim_key(claimed),
            )

    async def drop(self, claimed: Claimed) -> None:
        """Deletes a claimed row without an append; nothing if the claim is over."""
        given = claim_key(claimed)
        if direct := self._texts.get(DROP):
            text, names = direct
            async with self._drivers.lend() as connection:
                await connection.execute(text, *[given[name] for name in names])
            return
        async with write(self._engine) as connection:
            await connection.execute(DROP, given)

    async def next_due_ms(self, but: Collection[UUID]) -> int | None:
        """Milliseconds until a due row may be claimable (0: now), never later than one is; None if
        there is none. Those of the streams `but` do not count."""
        first: int | None
        direct = self._texts.get(NEXT)
        if direct and not but:
            async with self._drivers.lend() as connection:
                first, now = await connection.fetchrow(direct[0])
        else:
            async with read(self._engine) as connection:
                first, now = (await connection.execute(NEXT.where(work.c.stream.not_in(but)))).one()
        if first is None:
            return None
        return max(0, -(-(first - (now if self._clock is None else self._clock())) // 1_000))

    async def lag_ms(self) -> int:
        """How long the row that has waited longest has been claimable, milliseconds."""
        async with read(self._engine) as connection:
            first, now = (await connection.execute(NEXT)).one()
        return 0 if first is None else max(0, (now - first) // 1_000)

    async def now(self, connection: AsyncConnection) -> int:
        """The clock that moments are told by."""
        return await database_now(connection) if self._clock is None else self._clock()
