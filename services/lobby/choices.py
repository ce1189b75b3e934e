"""Which table a request chose: whoever carries out the same request goes to the same table.

A request that opens or finds a table cannot know its id beforehand, so the id is written down
before anything is done there, and changed only after that table has refused. It is forgotten when
nobody will repeat the request any more.
"""

import hashlib
from collections.abc import Callable
from uuid import UUID

from sqlalchemy import delete, exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.lobby.schema import choices
from services.runtime.database import database_now, read, write

KEEP_MS = 30 * 86_400_000


class Choices:
    """The choices of one database, each kept for `keep_ms` from when it was made last; every method
    raises StoreUnavailable when it is gone. `clock` (Unix microseconds) stands in for the
    database's in tests."""

    def __init__(
        self,
        engine: AsyncEngine,
        keep_ms: int = KEEP_MS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._engine = engine
        self._keep_us = keep_ms * 1_000
        self._clock = clock

    async def find(self, request: str) -> UUID | None:
        """The table this request chose."""
        async with read(self._engine) as connection:
            return await connection.scalar(
                select(choices.c.table_id).where(choices.c.request == _key(request))
            )

    async def choose(self, request: str, table: UUID, instead_of: UUID | None = None) -> UUID:
        """Choose a table, first or instead of one that refused; the table that stands chosen.

        It is another one if somebody carrying out the same request was faster.
        """
        try:
            async with write(self._engine) as connection:
                chosen_now = {"table_id": table, "chosen_at": await self._now(connection)}
                if instead_of is None:
                    values = {"request": _key(request), **chosen_now}
                    await connection.execute(insert(choices).values(values))
                else:
                    await connection.execute(
                        update(choices)
                        .where(choices.c.request == _key(request), choices.c.table_id == instead_of)
                        .values(chosen_now)
                    )
        except exc.IntegrityError:
            pass  # chosen before
        chosen = await self.find(request)
        return table if chosen is None else chosen

    async def sweep(self) -> None:
        """Forget what was chosen long ago; what bears no moment is given this one."""
        moment = choices.c.chosen_at
        async with write(self._engine) as connection:
            now = await self._now(connection)
            await connection.execute(delete(choices).where(moment <= now - self._keep_us))
            unknown = update(choices).where(moment.is_(None))
            await connection.execute(unknown.values(chosen_at=now))

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()


def _key(request: str) -> bytes:
    return hashlib.sha256(request.encode()).digest()
