"""Due work: claiming it, giving it back, dropping it; a statement each on PostgreSQL.

On PostgreSQL the statements go to the driver as texts: a transaction through SQLAlchemy costs as
much as a handful of them, and the end of every game is claimed and dropped.
"""

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
from services.runtime.store.schema import due

CLAIM = """
    WITH moment AS MATERIALIZED (
        SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS at
    ), ready AS MATERIALIZED (
        SELECT stream, kind, key, ready_at FROM due WHERE ready_at <= (SELECT at FROM moment)
        {but} ORDER BY ready_at LIMIT {limit} FOR UPDATE SKIP LOCKED
    )
    UPDATE due SET ready_at = (SELECT at FROM moment) + $2::bigint, attempts = due.attempts + 1,
        worker = $3
    FROM ready WHERE due.stream = ready.stream AND due.kind = ready.kind AND due.key = ready.key
    RETURNING ready.ready_at, due.stream, due.kind, due.key, due.version, due.due_at, due.attempts
"""
"""The limit stands in the text, so that the planner knows how few rows there will be."""
BUT = "AND stream <> ALL($4::uuid[])"
DROP = delete(due).where(SAME_CLAIM)
NEXT = select(func.min(due.c.ready_at), now_us())


class Claims:
    """The due rows of one database; `clock` (Unix microseconds) stands in for its own in tests."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None) -> None:
        self._engine = engine
        self._drivers = Drivers(engine)
        self._clock = clock
        direct = (DROP, NEXT) if engine.dialect.name == "postgresql" else ()
        self._texts = {query: direct_text(query, engine) for query in direct}

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
            rows = await connection.fetch(text, *given)
        return [Claimed(*work) for _, *work in sorted(map(tuple, rows), key=itemgetter(0))]

    async def _claim(
        self, worker: str, limit: int, lease_us: int, but: Collection[UUID]
    ) -> list[Claimed]:
        async with write(self._engine) as connection:
            now = await self.now(connection)
            ready = select(due).where(due.c.ready_at <= now, due.c.stream.not_in(but))
            ready = ready.order_by(due.c.ready_at).limit(limit)
            claimed = [
                Claimed(row.stream, row.kind, row.key, row.version, row.due_at, row.attempts + 1)
                for row in await connection.execute(ready)
            ]
            if claimed:
                taken = {
                    "ready_at": now + lease_us,
                    "attempts": due.c.attempts + 1,
                    "worker": worker,
                }
                statement = update(due).where(SAME_WORK).values(taken)
                await connection.execute(statement, [work_key(row) for row in claimed])
        return claimed

    async def postpone(self, claimed: Claimed, after_ms: int) -> None:
        """Gives a row back, to be claimed again after `after_ms`; nothing if the claim is over."""
        async with write(self._engine) as connection:
            ready_at = await self.now(connection) + after_ms * 1_000
            await connection.execute(
                update(due).where(SAME_CLAIM).values(ready_at=ready_at, worker=None),
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
        """Milliseconds until the next due row is claimable (0: now), None if there is none; those
        of the streams `but` do not count."""
        first: int | None
        direct = self._texts.get(NEXT)
        if direct and not but:
            async with self._drivers.lend() as connection:
                first, now = await connection.fetchrow(direct[0])
        else:
            async with read(self._engine) as connection:
                first, now = (await connection.execute(NEXT.where(due.c.stream.not_in(but)))).one()
        if first is None:
            return None
        return max(0, -(-(first - (now if self._clock is None else self._clock())) // 1_000))

    async def now(self, connection: AsyncConnection) -> int:
        """The clock that moments are told by."""
        return await database_now(connection) if self._clock is None else self._clock()
