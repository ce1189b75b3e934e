"""A service's event store from its settings, and what keeps running beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime.database import close_engine, open_engine, read
from services.runtime.drain import Drain
from services.runtime.due import DueWorker
from services.runtime.feed import Feed
from services.runtime.keys import master_keys
from services.runtime.migrate import migrate_engine
from services.runtime.server import CannotStart
from services.runtime.settings import Settings
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.schema import stream_keys
from services.runtime.store.sealing import KeyUnknown, MasterKeys, SealBroken, unwrap
from services.runtime.store.sql import SqlStore

MIGRATIONS = Path(__file__).parent / "store" / "migrations"
"""The event store's own migrations."""
WATCHED_EVERY_S = 1.0
KEYS_TRIED = 8
"""So many streams' keys are tried before a master key counts as another than it is named."""


class Unhealthy(Exception):
    """A part that must keep running has stopped."""


async def open_store(
    settings: Settings, service: str, folders: Sequence[Path], *, secrets: bool
) -> tuple[AsyncEngine, SqlStore]:
    """A service's database and the store in it; an embedded one (SQLite) is migrated first.

    `secrets` is whether the service stores any; raises CannotStart when the master keys of those
    it has stored are not all there.
    """
    engine = open_engine(settings.database_url(service))
    try:
        if engine.dialect.name == "sqlite":
            await migrate_engine(engine, folders)
        keys = master_keys(settings) if secrets else None
        if keys is not None:
            await require_keys(engine, keys)
    except BaseException:
        await close_engine(engine)
        raise
    return engine, SqlStore(engine, keys)


async def require_keys(engine: AsyncEngine, keys: MasterKeys) -> None:
    """Raise CannotStart, naming what is missing, unless `keys` open every key that is in use.

    A key that bears the right name and opens nothing is missing too. A database that does not
    answer is let pass: what needs a key is refused when it is there.
    """
    try:
        async with read(engine) as connection:
            used = (await connection.execute(select(stream_keys.c.key_id).distinct())).scalars()
            missing = [k for k in sorted(used) if not await _opens(connection, keys, k)]
    except StoreUnavailable:
        return
    if missing:
        raise CannotStart(
            f"games are sealed with master keys that are not in the key folder: "
            f"{', '.join(missing)}; each belongs there as master.<id>.key"
        )


async def _opens(connection: AsyncConnection, keys: MasterKeys, key_id: str) -> bool:
    """Whether what is wrapped under this master key can be opened; a damaged row proves nothing."""
    of_key = select(stream_keys).where(stream_keys.c.key_id == key_id).limit(KEYS_TRIED)
    for row in await connection.execute(of_key):
        try:
            unwrap(keys, row.stream, row.key_id, row.wrapped)
        except KeyUnknown:
            return False
        except SealBroken:
            continue
        return True
    return False


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
