"""A whole lobby over real loopback gRPC, with a wallet and a game service in memory beside it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.server import FOLDERS
from services.runtime.database import close_engine, open_engine
from tests import postgres
from tests.services.lobby.hall import Hall, lobby_hall
from tests.services.lobby.ways import Clock, Ways


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    """A lobby at work."""
    async with lobby_hall(tmp_path) as opened:
        yield opened


@pytest.fixture
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """An empty migrated lobby database, SQLite unless the test is for both engines."""
    url = f"sqlite+aiosqlite:///{tmp_path}/lobby.db"
    if getattr(request, "param", "sqlite") == "postgresql":
        url = request.getfixturevalue("postgres_url")
    opened = open_engine(await postgres.migrated(url, FOLDERS))
    yield opened
    await close_engine(opened)


@pytest.fixture
def clock() -> Clock:
    """The clock that stands in for the database's."""
    return Clock()


@pytest.fixture
async def ways(engine: AsyncEngine, clock: Clock) -> AsyncIterator[Ways]:
    """The ways to sign in to an empty database."""
    made = Ways(engine, clock)
    yield made
    made.close()
