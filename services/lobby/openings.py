"""Which tables quick play opens, in order: so that two who find none at once open one, not two.

Each game's openings are numbered. Whoever finds no table to sit at takes the number after the last
one he has seen; if another was faster he looks again, and sees what that one is opening. The table
is opened by whoever comes to it first.
"""

from dataclasses import dataclass
from uuid import UUID

from kozyr.lobby.events.v1 import table_pb2
from sqlalchemy import delete, exc, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby import codec
from services.lobby.model import BotLevel, Rules, TableOpened, Variant
from services.lobby.schema import openings
from services.runtime.database import read, write

KEPT = 50
"""So many of a game's last openings are kept; what is older has long been opened, or never is."""
NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a table is opened with: its rules, and the level of the bots that its players wait for
    if need be, PERSON for none."""

    rules: Rules
    level: BotLevel


@dataclass(frozen=True, slots=True)
class Latest:
    """The number of a game's last opening, and the last ones as they are stored: most are of tables
    that are known already, so they are read where they are needed."""

    number: int
    stored: dict[UUID, tuple[bytes, int]]

    def terms(self, table_id: UUID) -> Terms | None:
        """What a table is opened with; None where it is not among the last ones."""
        if table_id not in self.stored:
            return None
        opening, level = self.stored[table_id]
        message = table_pb2.TableOpened.FromString(opening)
        return Terms(codec.opened(message).rules, BotLevel(level))


class Openings:
    """The openings of one database; every method raises StoreUnavailable when it is gone."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def latest(self, variant: Variant) -> Latest:
        """A game's last openings."""
        query = (
            select(openings)
            .where(openings.c.variant == variant)
            .order_by(openings.c.number.desc())
            .limit(KEPT)
        )
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        stored = {row.table_id: (row.terms, row.level) for row in rows}
        return Latest(rows[0].number if rows else 0, stored)

    async def add(self, number: int, table_id: UUID, terms: Terms) -> bool:
        """Open a table by this number; False when it is another's."""
        variant = terms.rules.variant
        values = {
            "variant": int(variant),
            "number": number,
            "table_id": table_id,
            "level": int(terms.level),
            "terms": codec.encode(TableOpened(NOBODY, terms.rules)).payload,
        }
        try:
            async with write(self._engine) as connection:
                await connection.execute(insert(openings).values(values))
                await connection.execute(
                    delete(openings).where(
                        openings.c.variant == variant, openings.c.number <= number - KEPT
                    )
                )
        except exc.IntegrityError:
            return False
        return True
