"""Who is not heard: by a player, wherever he sits, and at a table by order of its host.

Whom a player has muted is shown to nobody but himself. A table's silences last until a host lifts
them or the table closes.
"""

from collections.abc import Callable
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    MetaData,
    Table,
    Uuid,
    delete,
    exc,
    func,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import precondition
from services.runtime.database import database_now, read, write
from services.runtime.store.schema import heads
from services.runtime.turns import take_turns

MUTED_MAX = 200
"""The most players whom one may have muted, and who may be silenced at one table."""

metadata = MetaData()

mutes = Table(
    "mutes",
    metadata,
    Column("of", Uuid, primary_key=True),
    Column("player_id", Uuid, primary_key=True),
    Column("since", BigInteger, nullable=False),
)
"""`of` is who does not hear `player_id`: a player, or a table, at which nobody hears him."""


class Mutes:
    """The mutes of one database; every method raises StoreUnavailable when it is gone.

    A list holds `most` players. `clock` (Unix microseconds) stands in for the database's in tests.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        clock: Callable[[], int] | None = None,
        most: int = MUTED_MAX,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._most = most

    async def add(self, of: UUID, player: UUID) -> None:
        """`of`, a player or a table, hears a player no more; raises Refused TOO_MANY_MUTES."""
        try:
            async with write(self._engine) as connection:
                await take_turns(connection, [b"mutes" + of.bytes])
                if await self._has(connection, of, player):
                    return
                many = select(func.count()).where(mutes.c.of == of)
                if (await connection.execute(many)).scalar_one() >= self._most:
                    raise precondition(
                        "TOO_MANY_MUTES",
                        f"at most {self._most} players are muted",
                        limit="mutes",
                        most=str(self._most),
                    )
                now = await database_now(connection) if self._clock is None else self._clock()
                await connection.execute(insert(mutes).values(of=of, player_id=player, since=now))
        except exc.IntegrityError:
            pass  # the same was asked for at the same moment

    async def drop(self, of: UUID, player: UUID) -> None:
        """`of` hears a player again."""
        async with write(self._engine) as connection:
            await connection.execute(delete(mutes).where(_is(of, player)))

    async def of(self, of: UUID) -> list[UUID]:
        """Whom a player or a table does not hear, in the order in which that was asked for."""
        query = select(mutes.c.player_id).where(mutes.c.of == of)
        async with read(self._engine) as connection:
            rows = await connection.execute(query.order_by(mutes.c.since, mutes.c.player_id))
            return list(rows.scalars())

    async def silenced(self, table: UUID, player: UUID) -> bool:
        """Whether a player may say nothing at a table."""
        async with read(self._engine) as connection:
            return await self._has(connection, table, player)

    async def silenced_at(self, player: UUID) -> list[UUID]:
        """The tables at which a player may say nothing."""
        query = select(mutes.c.of).join(heads, heads.c.stream == mutes.c.of)
        async with read(self._engine) as connection:
            rows = await connection.execute(query.where(mutes.c.player_id == player))
            return sorted(rows.scalars())

    async def erase(self, player: UUID) -> None:
        """Remove a player's own list, and himself from all others."""
        async with write(self._engine) as connection:
            mine = (mutes.c.of == player) | (mutes.c.player_id == player)
            await connection.execute(delete(mutes).where(mine))

    async def sweep(self) -> None:
        """Remove the silences of tables that have closed."""
        closed = select(heads.c.stream).join(mutes, heads.c.stream == mutes.c.of)
        async with write(self._engine) as connection:
            gone = mutes.c.of.in_(closed.where(heads.c.ended))
            await connection.execute(delete(mutes).where(gone))

    async def _has(self, connection: AsyncConnection, of: UUID, player: UUID) -> bool:
        query = select(mutes.c.of).where(_is(of, player))
        return (await connection.execute(query)).one_or_none() is not None


def _is(of: UUID, player: UUID) -> ColumnElement[bool]:
    return (mutes.c.of == of) & (mutes.c.player_id == player)
