"""Which table a request chose: whoever carries out the same request goes to the same table.

A request that opens or finds a table cannot know its id beforehand, so the id is written down
before anything is done there, and changed only after that table has refused.
"""

import hashlib
from uuid import UUID

from sqlalchemy import exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.schema import choices
from services.runtime.database import read, write


class Choices:
    """The choices of one database; every method raises StoreUnavailable when it is gone."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

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
                if instead_of is None:
                    values = {"request": _key(request), "table_id": table}
                    await connection.execute(insert(choices).values(values))
                else:
                    await connection.execute(
                        update(choices)
                        .where(choices.c.request == _key(request), choices.c.table_id == instead_of)
                        .values(table_id=table)
                    )
        except exc.IntegrityError:
            pass  # chosen before
        chosen = await self.find(request)
        return table if chosen is None else chosen


def _key(request: str) -> bytes:
    return hashlib.sha256(request.encode()).digest()
