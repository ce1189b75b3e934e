"""A wallet's database of each engine, fresh for a test or shared by a module."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine
from services.wallet.server import FOLDERS
from tests import postgres

ENGINES = ("sqlite", "postgresql")


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database, gone afterwards."""
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{folder}/wallet.db"
        return
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A migrated database of the test's own; it runs once on SQLite and once on PostgreSQL, there
    by the role that services connect as."""
    with database(request.param, tmp_path) as url:
        made = open_engine(await postgres.migrated(url, FOLDERS))
        yield made
        await close_engine(made)


@pytest.fixture(params=ENGINES, scope="module")
def shared_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A migrated database for a whole module, of either engine, as above."""
    with database(request.param, tmp_path_factory.mktemp("shared")) as url:
        yield postgres.in_own_loop(postgres.migrated(url, FOLDERS))


@pytest.fixture
async def shared_engine(shared_url: str) -> AsyncIterator[AsyncEngine]:
    """The module's database, opened for one test."""
    made = open_engine(shared_url)
    yield made
    await close_engine(made)


@dataclass(frozen=True)
class Bench:
    """A database and a loop that outlive the examples of a property."""

    engine: AsyncEngine
    run: Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(scope="module")
def bench(shared_url: str) -> Iterator[Bench]:
    """One opened database for all examples of a module."""
    with asyncio.Runner() as runner:
        made = open_engine(shared_url)
        yield Bench(made, runner.run)
        runner.run(close_engine(made))
