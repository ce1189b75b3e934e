"""A service's event store from its settings, and what keeps running beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import open_engine
from services.runtime.drain import Drain
from services.runtime.due import DueWorker
from services.runtime.feed import Feed
from services.runtime.keys import master_keys
from services.runtime.migrate import migrate_engine
from services.runtime.settings import Settings
from services.runtime.store.sql import SqlStore

MIGRATIONS = Path(__file__).parent / "store" / "migrations"
"""The event store's own migrations."""
WATCHED_EVERY_S = 1.0


class Unhealthy(Exception):
    """A part that must keep running has stopped."""


async def open_store(
    settings: Settings, service: str, folders: Sequence[Path]
) -> tuple[AsyncEngine, SqlStore]:
    """A service's database and the store in it; an embedded one (SQLite) is migrated first."""
    url = settings.database_url(service)
    engine = open_engine(url)
    if engine.dialect.name == "sqlite":
        await migrate_engine(engine, folders)
    return engine, SqlStore(engine, master_keys(settings))


def supervised(
    drain: Drain, *, feed: Feed, due: DueWorker
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """The feed and the worker as tasks of a process: started and watched.

    The feed stops when the process drains, so that streams end; `close_store` stops the worker.
    """

    async def run_feed() -> None:
        feed.start()
        await _until(drain, lambda: feed.healthy)
        await feed.stop()

    async def run_due() -> None:
        due.start()
        await _until(drain, lambda: due.healthy)

    return {"feed": run_feed, "due": run_due}


async def close_store(store: SqlStore, *, feed: Feed, due: DueWorker) -> None:
    """Let work under way finish, then the store."""
    await due.stop()
    await feed.stop()
    await store.close()


async def _until(drain: Drain, healthy: Callable[[], bool]) -> None:
    """Return when the process drains; raise Unhealthy when the part has stopped before.

    Two looks in a row must find it so: after a pause of the whole process (a frozen machine) the
    first one comes before the part could have come round.
    """
    failing = False
    while not drain.started.is_set():
        failed, failing = failing, not healthy()
        if failed and failing:
            raise Unhealthy
        try:
            async with asyncio.timeout(WATCHED_EVERY_S):
                await drain.started.wait()
        except TimeoutError:
            continue
