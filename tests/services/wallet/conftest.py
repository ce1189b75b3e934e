"""A wallet's database of each engine, fresh for whoever asks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine
from services.runtime.migrate import migrate_engine
from services.wallet.server import FOLDERS
from tests import postgres

ENGINES = ("sqlite", "postgresql")


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A migrated wallet database; the test runs once on SQLite and once on PostgreSQL."""
    url = f"sqlite+aiosqlite:///{tmp_path}/wallet.db"
    if request.param == "postgresql":
        url = postgres.create_database()
    opened = open_engine(url)
    try:
        await migrate_engine(opened, FOLDERS)
        yield opened
    finally:
        await close_engine(opened)
        if request.param == "postgresql":
            postgres.drop_database(url)
