"""What the lobby keeps of players' games and limits, on either database, with its own clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.limitbook import LimitBook
from services.lobby.model import Variant
from services.lobby.players import Players
from services.lobby.server import FOLDERS
from services.lobby.stakes import Stakes
from services.lobby.standings import GameEnd, SeatEnd, Standings
from services.runtime.database import close_engine, open_engine
from tests import postgres

DATABASES = ("sqlite", "postgresql")
TABLE = UUID(int=0x7AB1E)
NOON = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()) * 1_000_000
"""A Wednesday."""
HOUR = 3_600 * 1_000_000
GAMES_MAX = 5
"""So many games a player may play in at once."""


@dataclass(slots=True)
class Clock:
    """The time, Unix microseconds."""

    now: int = NOON

    def __call__(self) -> int:
        """The time."""
        return self.now


@dataclass(frozen=True, slots=True)
class Books:
    """One replica's books."""

    engine: AsyncEngine
    players: Players
    limits: LimitBook
    stakes: Stakes
    standings: Standings


@dataclass(frozen=True, slots=True)
class Library:
    """Two replicas of a lobby at one database, told the time by one clock."""

    clock: Clock
    replicas: tuple[Books, Books]

    @property
    def books(self) -> Books:
        """One of the two."""
        return self.replicas[0]

    async def person(self, name: str = "Nino") -> UUID:
        """Somebody who has signed up."""
        request = f"{name} signs up at {self.clock.now}"
        return (await self.books.players.sign_up(name, request)).player.player


@asynccontextmanager
async def library(folder: Path, database: str) -> AsyncIterator[Library]:
    """Books on a database of their own, reached as services reach it."""
    owner = postgres.create_database() if database == "postgresql" else ""
    clock, engines = Clock(), []
    try:
        given = owner or f"sqlite+aiosqlite:///{folder / 'lobby.db'}"
        url = await postgres.migrated(given, FOLDERS)
        engines = [open_engine(url), open_engine(url)]
        first, second = (
            Books(
                engine,
                Players(engine, clock),
                LimitBook(engine, clock),
                Stakes(engine, clock, GAMES_MAX),
                Standings(engine, clock),
            )
            for engine in engines
        )
        yield Library(clock, (first, second))
    finally:
        for engine in engines:
            await close_engine(engine)
        if owner:
            postgres.drop_database(owner)


def azi_end(game: UUID, *stacks: tuple[UUID, int, int]) -> GameEnd:
    """An Azi game of people came out like this: for each a player, what he brought and took."""
    best = max(out - brought for _, brought, out in stacks)
    seats = tuple(
        SeatEnd(player, int(out - brought == best), 0, out - brought == best, False, brought, out)
        for player, brought, out in stacks
    )
    return GameEnd(game, TABLE, Variant.AZI, True, True, False, seats)
