"""A service's event store from its settings, and what keeps running beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime import metrics
from services.runtime.database import close_engine, open_engine, read
from services.runtime.drain import Drain
from services.runtime.due import DueWorker
from services.runtime.exposition import Reading
from services.runtime.feed import Feed
from services.runtime.keys import master_keys
from services.runtime.migrate import migrate_engine
from services.runtime.server import CannotStart
from services.runtime.settings import Settings
from services.runtime.store import masters
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.reading import Published
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore

MIGRATIONS = Path(__file__).parent / "store" / "migrations"
"""The event store's own migrations."""
WATCHED_EVERY_S = 1.0
NAMED = 3
"""Games that are named where a service does not start."""
LOGGED = 1_000
"""Games that are named in the log, a line each, where it starts without their key."""

log = structlog.get_logger(__name__)


class Unhealthy(Exception):
    """A part that must keep running has stopped."""


async def open_store(
    settings: Settings,
    service: str,
    folders: Sequence[Path],
    *,
    secrets: bool,
    published: Published | None = None,
) -> tuple[AsyncEngine, SqlStore]:
    """A service's database and the store in it; an embedded one (SQLite) is migrated first.

    `secrets` is whether the service stores any, `published` what finds those of a stream in its
    own events where its key is missing. Raises CannotStart when the master keys of streams that
    have not ended are not all there.
    """
    engine = open_engine(settings.database_url(service))
    try:
        if engine.dialect.name == "sqlite":
            await migrate_engine(engine, folders)
        keys = master_keys(settings) if secrets else None
        if keys is not None:
            keys = await require_keys(engine, keys, settings.master_keys_lost.split(","))
    except BaseException:
        await close_engine(engine)
        raise
    return engine, SqlStore(engine, keys, published=published)


async def require_keys(
    engine: AsyncEngine, keys: MasterKeys, lost: Collection[str] = ()
) -> MasterKeys:
    """The keys that open what they should; raises CannotStart, naming what is missing and whom it
    closes, unless they open every stream that has not ended.

    A key that bears the right name and opens nothing is missing too. Streams of keys that are
    `lost` stay closed. A database that does not answer is let pass: what needs a key is refused
    when it is there.
    """
    try:
        async with read(engine) as connection:
            used = await masters.uses(connection)
            missing = [use for use in used if not await masters.opens(connection, keys, use.key_id)]
            needed = [use for use in missing if _needed(use, keys, lost)]
            named = [
                str(stream)
                for use in needed
                for stream in await masters.running_of(connection, use.key_id, NAMED)
            ]
    except StoreUnavailable:
        return keys
    if needed:
        running = sum(use.running for use in needed)
        raise CannotStart(
            f"games are sealed with master keys that are not in the key folder: "
            f"{', '.join(use.key_id for use in needed)}; each belongs there as master.<id>.key; "
            f"closed are {running} running games: {', '.join(named[:NAMED])}"
            f"{' …' if running > NAMED else ''}"
        )
    for use in missing:
        log.error("master_key_missing", key=use.key_id, count=use.running)
        async with read(engine) as connection:
            for stream in await masters.running_of(connection, use.key_id, LOGGED):
                log.error("game_closed", key=use.key_id, game=stream)
    absent = {use.key_id for use in missing}
    return MasterKeys(keys.current, {k: v for k, v in keys.keys.items() if k not in absent})


def _needed(use: masters.Use, keys: MasterKeys, lost: Collection[str]) -> bool:
    """Whether nothing can go on without this key: streams that have not ended are sealed with it,
    or new ones would be sealed with another that bears its name."""
    return use.key_id == keys.current or (use.running > 0 and use.key_id not in lost)


def supervised(
    drain: Drain, *, feed: Feed, due: DueWorker
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """The feed and the worker as tasks of a process: started and watched.

    The feed stops when the process drains, so that streams end; `close_store` stops the worker.
    """

    async def run_due() -> None:
        due.start()
        await _until(drain, lambda: due.healthy)

    return {"feed": fed(drain, feed), "due": run_due}


def fed(drain: Drain, feed: Feed) -> Callable[[], Awaitable[None]]:
    """A feed as a task of a process: started and watched, and stopped when the process drains."""

    async def run_feed() -> None:
        feed.start()
        await _until(drain, lambda: feed.healthy)
        await feed.stop()

    return run_feed


def measured(store: SqlStore, *, feed: Feed, due: DueWorker) -> Reading:
    """Brings the gauges of a store up to date, and of what works on it."""

    async def read_gauges() -> None:
        metrics.APPENDS_WAITING.of().set(store.waiting)
        metrics.DUE_WORKING.of().set(due.working)
        metrics.FEED_STREAMS.of().set(feed.watched)
        metrics.DUE_LAG.of().set(await store.lag_ms() / 1_000)

    return read_gauges


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
