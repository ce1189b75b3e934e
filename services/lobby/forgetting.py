"""What goes with a player of what he played and how he limited it."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.schema import (
    exclusions,
    limit_changes,
    limits,
    listings,
    player_games,
    standings,
)
from services.lobby.usage import take_turns
from services.runtime.database import write

TABLES = (player_games, standings, listings, limits, exclusions, limit_changes)


@dataclass(frozen=True, slots=True)
class Playing:
    """What one database holds of players' games, numbers and limits.

    Whatever would write more of it, once an erasure can no longer be refused, looks at that in the
    player's turn; so nothing comes after this.
    """

    engine: AsyncEngine

    async def erase(self, player: UUID) -> None:
        """Remove all of it; may be repeated. Raises StoreUnavailable."""
        async with write(self.engine) as connection:
            await take_turns(connection, [player])
            for table in TABLES:
                await connection.execute(delete(table).where(table.c.player_id == player))
