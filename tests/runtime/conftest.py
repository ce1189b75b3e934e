"""A migrated store on each of the two engines, with a clock the test turns."""

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.runtime.database import open_engine
from services.runtime.migrate import migrate_engine
from services.runtime.store import migrations
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore
from tests import postgres

KEYS = MasterKeys("first", {"first": bytes(range(32))})


@dataclass(slots=True)
class Clock:
    """A clock that stands still until it is turned, Unix microseconds."""

    now: int = 1_700_000_000_000_000

    def __call__(self) -> int:
        """The time it shows."""
        return self.now

    def turn(self, ms: int) -> None:
        """Turns it by milliseconds."""
        self.now += ms * 1_000


@pytest.fixture
def clock() -> Clock:
    """The clock that stands in for the database's."""
    return Clock()


@pytest.fixture(scope="session")
def emptied_postgres() -> Iterator[str]:
    """One database for all tests that may not see each other's tables but do not meet."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/store/kozyr.db"
    url: str = request.getfixturevalue("emptied_postgres")
    plain = url.replace("+asyncpg", "")
    postgres.execute(
        plain,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    postgres.execute(plain, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return url


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[SqlStore]:
    """A store in an empty migrated database; its randomness counts up, so runs are equal."""
    engine = open_engine(database_url)
    await migrate_engine(engine, [migrations.FOLDER])
    numbers = itertools.count(1)
    store = SqlStore(
        engine, KEYS, clock=clock, random=lambda size: next(numbers).to_bytes(size, "big")
    )
    yield store
    await store.close()
