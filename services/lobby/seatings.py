"""One at a time for each player: while he is counted and sits down, at whatever replica.

Tables are logs of their own, so what is written at one is not seen by what is decided at another at
the same moment. A player who sits down therefore has a row here meanwhile, which one call holds.
Should its process die, the row is free again after `LEASE_MS`; a process that freezes in between
for longer may let one table too many pass.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID
from weakref import WeakValueDictionary

from sqlalchemy import BigInteger, Column, MetaData, Table, Uuid, delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Kind, Refused
from services.runtime.database import now_us, write
from services.runtime.store.api import StoreUnavailable

LEASE_MS = 20_000
WAIT_S = 5.0
PAUSE_S = 0.03
RETRY_MS = 500

seatings = Table(
    "seatings",
    MetaData(),
    Column("player_id", Uuid, primary_key=True),
    Column("holder", Uuid, nullable=False),
    Column("until_at", BigInteger, nullable=False),
)


class Seatings:
    """The rows of one database. An embedded one has one process, which needs none."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._shared = engine.dialect.name == "postgresql"
        self._here: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, player: UUID) -> AsyncIterator[None]:
        """Nobody else counts this player's tables or seats him meanwhile.

        Raises Refused SEATING_UNDER_WAY where another call takes too long, StoreUnavailable.
        """
        async with self._here.setdefault(player, asyncio.Lock()):
            if not self._shared:
                yield
                return
            holder = UUID(bytes=secrets.token_bytes(16))
            try:
                await self._hold(player, holder)
                yield
            finally:
                with suppress(StoreUnavailable):
                    await self._let_go(player, holder)

    async def erase(self, player: UUID) -> None:
        """Remove what a process that died has left of a player."""
        async with write(self._engine) as connection:
            await connection.execute(delete(seatings).where(seatings.c.player_id == player))

    async def _hold(self, player: UUID, holder: UUID) -> None:
        until_at = now_us() + LEASE_MS * 1_000
        row = insert(seatings).values(player_id=player, holder=holder, until_at=until_at)
        mine = row.on_conflict_do_update(
            index_elements=[seatings.c.player_id],
            set_={"holder": holder, "until_at": until_at},
            where=seatings.c.until_at <= now_us(),
        ).returning(seatings.c.holder)
        clock = asyncio.get_running_loop().time
        until = clock() + WAIT_S
        while True:
            async with write(self._engine) as connection:
                if (await connection.execute(mine)).one_or_none() is not None:
                    return
            if clock() > until:
                raise Refused(
                    Kind.CONFLICT,
                    "SEATING_UNDER_WAY",
                    "the player is just sitting down elsewhere",
                    retry_after_ms=RETRY_MS,
                )
            await asyncio.sleep(PAUSE_S)

    async def _let_go(self, player: UUID, holder: UUID) -> None:
        held = (seatings.c.player_id == player) & (seatings.c.holder == holder)
        async with write(self._engine) as connection:
            await connection.execute(delete(seatings).where(held))
