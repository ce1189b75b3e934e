"""A migrated store on each of the two engines, with a clock the test turns."""

import itertools
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.runtime.database import SQLITE, open_engine
from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.schema import metadata
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
    """One database for all tests that do not meet: each empties it first."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def migrated_postgres() -> Iterator[str]:
    """One migrated database for all tests that do not meet."""
    url = postgres.create_database()
    postgres.in_own_loop(postgres.migrated(url, [migrations.FOLDER]))
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy."""
    file = tmp_path_factory.mktemp("migrated") / "kozyr.db"
    postgres.in_own_loop(migrate(f"{SQLITE}:///{file}", [migrations.FOLDER]))
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database on each engine in turn."""
    if request.param == "sqlite":
        return f"{SQLITE}:///{tmp_path}/store/kozyr.db"
    url: str = request.getfixturevalue("emptied_postgres")
    empty(url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated database without any rows on each engine in turn.

    On PostgreSQL for the role that services connect as, which may do no more than it must.
    """
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "kozyr.db")
        return f"{SQLITE}:///{tmp_path}/kozyr.db"
    url: str = request.getfixturevalue("migrated_postgres")
    empty(url, EMPTYING)
    return postgres.as_service(url)


EMPTYING = f"""
    DO $$ DECLARE part regclass; BEGIN
        FOR part IN SELECT relid FROM pg_partition_tree('events') UNION ALL
            SELECT relid FROM pg_partition_tree('event_secrets')
        LOOP EXECUTE format('ALTER TABLE ONLY %s DISABLE TRIGGER USER', part); END LOOP;
    END $$;
    TRUNCATE {", ".join(metadata.tables)};
    DO $$ DECLARE off record; BEGIN
        FOR off IN SELECT tgrelid::regclass AS part, tgname FROM pg_trigger
            WHERE NOT tgisinternal AND tgenabled = 'D'
        LOOP
            EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %I', off.part, off.tgname);
        END LOOP;
    END $$;
"""  # noqa: S608 - made of constants


def empty(url: str, statements: str) -> None:
    """Runs statements on PostgreSQL, after whatever an earlier test has left connected is gone."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    postgres.execute(
        url.replace("+asyncpg", ""),
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}; {statements}",  # noqa: S608
    )


@pytest.fixture
async def store(store_url: str, clock: Clock) -> AsyncIterator[SqlStore]:
    """A store in a migrated database; its randomness counts up, so runs are equal."""
    numbers = itertools.count(1)
    store = SqlStore(
        open_engine(store_url),
        KEYS,
        clock=clock,
        random=lambda size: next(numbers).to_bytes(size, "big"),
    )
    yield store
    await store.close()
