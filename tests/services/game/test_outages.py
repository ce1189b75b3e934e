"""Outages: what the database did not take is lost time, each moment of it once."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from services.game.outages import SILENT_SECONDS, Outages
from services.game.server import FOLDERS
from services.runtime.database import close_engine, database_now, open_engine, read
from services.runtime.migrate import migrate_engine

LONGEST_MS = 1_000
GAMES = (UUID(int=1), UUID(int=2))
NEAR = 300_000
"""Microseconds by which a span may be off: the beat reads two clocks one after the other."""


class Clock:
    """A monotonic clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time, seconds."""
        return self.now


class Book:
    """Outages on a clock of the test's own."""

    def __init__(self, kept: Outages, clock: Clock) -> None:
        self.kept = kept
        self.clock = clock

    async def now(self) -> int:
        """The database's clock."""
        async with read(self.kept.engine) as connection:
            return await database_now(connection)

    async def lost(self) -> int:
        """All that was ever lost, in microseconds, after another beat."""
        await self.kept.beat()
        return await self.kept.since(0)

    def refuse(self, game_id: UUID, seconds: float) -> None:
        """Refuse a game's appends for so long, tried again each second."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.kept.refused(game_id)
            self.clock.now = min(end, self.clock.now + 1.0)


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    """No outage yet."""
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'game.db'}")
    await migrate_engine(engine, FOLDERS)
    clock = Clock()
    yield Book(Outages(engine, LONGEST_MS, clock), clock)
    await close_engine(engine)


async def test_refused_appends_are_an_outage_although_the_lifeline_beats(book: Book) -> None:
    """From the first refusal on to the append that was taken; other games' appends end nothing."""
    await book.kept.beat()
    book.refuse(GAMES[0], 4.0)
    book.kept.taken(GAMES[1])
    book.refuse(GAMES[0], 2.0)
    assert abs(await book.lost() - 6_000_000) < NEAR
    book.refuse(GAMES[0], 1.0)
    book.kept.taken(GAMES[0])
    book.clock.now += 60.0
    assert abs(await book.lost() - 7_000_000) < NEAR
    assert abs(await book.lost() - 7_000_000) < NEAR


async def test_a_short_refusal_is_no_outage(book: Book) -> None:
    """A lost connection that is made again at once takes nobody's time."""
    book.refuse(GAMES[0], 0.5)
    book.kept.taken(GAMES[0])
    assert await book.lost() == 0


async def test_a_refusal_that_nobody_repeats_says_little(book: Book) -> None:
    """Without another try it counts for a few seconds, and a later one is a new one."""
    book.kept.refused(GAMES[0])
    book.clock.now += 600.0
    assert abs(await book.lost() - SILENT_SECONDS * 1_000_000) < NEAR
    book.kept.refused(GAMES[0])
    book.clock.now += 0.5
    book.kept.taken(GAMES[0])
    assert abs(await book.lost() - SILENT_SECONDS * 1_000_000) < NEAR


async def test_a_moment_lost_twice_counts_once(book: Book) -> None:
    """Games refused at the same time, and by several replicas, overlap."""
    book.kept.refused(GAMES[0])
    book.clock.now += 1.0
    book.kept.refused(GAMES[1])
    book.clock.now += 2.0
    assert abs(await book.lost() - 3_000_000) < NEAR
    began = await book.now() - 1_000_000
    assert abs(await book.kept.since(began) - 1_000_000) < NEAR
