"""Ends of games that wallet or lobby refuse: what was refused and why, until it is done after all.

A refusal that time does not heal keeps a game's chips where they are, or its table waiting. It is
tried again slowly, logged each time, and named by every audit of the game.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Column, Integer, MetaData, Table, Text, Uuid, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.game.audit import Fault
from services.runtime.database import write

refused_ends = Table(
    "refused_ends",
    MetaData(),
    Column("stream", Uuid, primary_key=True),
    Column("step", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Endings:
    """The refused ends in the game's database. Methods raise StoreUnavailable."""

    engine: AsyncEngine

    async def refused(self, game_id: UUID, step: str, reason: str, attempts: int) -> None:
        """Write down that a step of the game's end (`settle`, `void`, `report`) was refused."""
        row = {"stream": game_id, "step": step, "reason": reason, "attempts": attempts}
        async with write(self.engine) as connection:
            await connection.execute(delete(refused_ends).where(refused_ends.c.stream == game_id))
            await connection.execute(insert(refused_ends).values(row))

    async def done(self, game_id: UUID) -> None:
        """The end was carried through."""
        async with write(self.engine) as connection:
            await connection.execute(delete(refused_ends).where(refused_ends.c.stream == game_id))


async def end_faults(connection: AsyncConnection, games: Sequence[UUID]) -> dict[UUID, Fault]:
    """What an audit says of the ends of those of the games that were refused theirs."""
    asked = select(refused_ends).where(refused_ends.c.stream.in_(games))
    return {
        row.stream: Fault(
            0, "END_REFUSED", f"{row.step} is refused: {row.reason}, {row.attempts} times"
        )
        for row in await connection.execute(asked)
    }
