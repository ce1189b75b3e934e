"""Migrations: Alembic driven from here, no configuration files.

A folder of versions (`services/<name>/migrations`, `services/runtime/store/migrations`) is a
package whose modules `rNNNN_word.py` are Alembic revisions: `revision`, `down_revision` and
`upgrade()`. There is no way down: a stored event is never taken back, and neither is its table.

A revision that changes large tables of PostgreSQL has a `prepare(connection)` as well. It runs
before, each statement in a transaction of its own, beside a release that works on the same tables,
and may be repeated; then `upgrade()` runs in a transaction of its own and needs but a moment.
Neither waits for a lock for longer than `LOCK_MS`, as whoever comes later would wait behind it:
they try again until they get it.

The package's `RIGHTS` say what a role that services connect as may do, by table or function.
"""

import asyncio
import runpy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine, read, write
from services.runtime.store.api import StoreUnavailable

TURN = 0x6B6F7A79
"""The advisory lock under which PostgreSQL databases are migrated by one process at a time."""
TURN_POLL_S = 0.1
"""It is asked for this often and never waited for: who waits in a statement holds up others that
build an index beside running transactions."""
LOCK_MS = 300
"""Shorter than the second after which PostgreSQL looks for deadlocks and ends one of two."""
LOCK_TRIES = 1_000
LOCK_PAUSE_S = 0.2
Rights = Mapping[str, Sequence[str]]
"""Privileges by what they are for: a table, or `FUNCTION name(types)`."""
BUSY = ("55P03", "40P01")
"""A lock was not to be had in time, a deadlock."""


class NoSuchRole(Exception):
    """The role that services are to connect as does not exist."""


async def migrate(url: str, folders: Sequence[Path], role: str | None = None) -> None:
    """Brings the database at `url` up to date with the version folders, in this order.

    Each folder has a version table of its own. Its missing revisions are applied together, whole or
    not at all, up to one with a `prepare`, which is applied by itself. Nothing happens where
    everything is up to date. `role` is given its rights if it is another than the tables' owner, on
    PostgreSQL. Raises StoreUnavailable, NoSuchRole and DatabaseInUse as `open_engine`.
    """
    engine = open_engine(url, patient=True)
    try:
        await migrate_engine(engine, folders, role)
    finally:
        await close_engine(engine)


async def migrate_engine(
    engine: AsyncEngine, folders: Sequence[Path], role: str | None = None
) -> None:
    """As `migrate`, on an engine that is open. A PostgreSQL database that a later release has
    migrated stays as it is, the rights of the role included.
    """
    if engine.dialect.name != "postgresql":
        for folder in folders:
            async with write(engine) as connection:
                await connection.run_sync(_apply, folder, online=False)
        return
    async with _turn(engine):
        if await _is_later(engine, folders):
            return
        for folder in folders:
            while await _proceed(engine, folder):
                pass
        if role is not None:
            async with write(engine) as connection:
                for folder in folders:
                    given = {**rights(folder), version_table(folder): ("SELECT",)}
                    await connection.run_sync(grant, given, role)


async def is_migrated(url: str, folders: Sequence[Path]) -> bool:
    """Whether the PostgreSQL database at `url` has all that the version folders make, and whoever
    asks may see it; one that a later release has migrated does. Raises StoreUnavailable.
    """
    engine = open_engine(url)
    try:
        if await _is_later(engine, folders):
            return True
        async with read(engine) as connection:
            for folder in folders:
                if await connection.run_sync(missing, folder):
                    return False
    except ProgrammingError:
        return False  # the tables are there, the role has not been given its rights yet
    finally:
        await close_engine(engine)
    return True


async def _is_later(engine: AsyncEngine, folders: Sequence[Path]) -> bool:
    """Whether a release has migrated the database whose revisions are not all ours: a later one,
    from ours on."""
    async with read(engine) as connection:
        for folder in folders:
            try:
                await connection.run_sync(missing, folder)
            except CommandError:
                return True
    return False


def version_table(folder: Path) -> str:
    """Where a folder's version stands: `store_version` for `…/store/migrations`."""
    return f"{folder.parent.name}_version"


def rights(folder: Path) -> Rights:
    """What services may do with what the folder's revisions make: `RIGHTS` of its package."""
    package = folder / "__init__.py"
    if not package.exists():
        return {}
    found: Rights = runpy.run_path(str(package)).get("RIGHTS", {})
    return found


def grant(connection: Connection, given: Rights, role: str) -> None:
    """Gives a role exactly these rights; nothing to whom the tables belong anyway.

    Raises NoSuchRole.
    """
    run = connection.exec_driver_sql
    known = run(
        "SELECT pg_has_role($1, current_user, 'USAGE') FROM pg_roles WHERE rolname = $1", (role,)
    )
    owner = known.scalar_one_or_none()
    if owner is None:
        raise NoSuchRole(role)
    if owner:
        return
    name, schema = run("SELECT quote_ident($1), quote_ident(current_schema())", (role,)).one()
    run(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    for thing, privileges in given.items():
        run(f"REVOKE ALL ON {thing} FROM {name}")
        run(f"GRANT {', '.join(privileges)} ON {thing} TO {name}")


@asynccontextmanager
async def _turn(engine: AsyncEngine) -> AsyncIterator[None]:
    """Holds the advisory lock on a connection of its own."""
    async with read(engine) as connection:
        asked = text("SELECT pg_try_advisory_lock(:turn)")
        while True:
            if (await connection.execute(asked, {"turn": TURN})).scalar_one():
                break
            await asyncio.sleep(TURN_POLL_S)
        try:
            yield
        finally:
            await connection.invalidate()


async def _proceed(engine: AsyncEngine, folder: Path) -> bool:
    """Applies revisions of a folder up to the next that has a `prepare`; whether any were left."""
    async with read(engine) as connection:
        left = [step.revision.module for step in await connection.run_sync(missing, folder)]
    if not left:
        return False
    prepare: Callable[[Connection], None] | None = getattr(left[0], "prepare", None)
    if prepare is not None:
        await again_while_busy(lambda: _prepare(engine, prepare))
    await again_while_busy(lambda: _upgrade(engine, folder, online=prepare is not None))
    return True


async def _prepare(engine: AsyncEngine, prepare: Callable[[Connection], None]) -> None:
    async with read(engine) as connection:
        await connection.execute(text(f"SET lock_timeout = {LOCK_MS}"))
        try:
            await connection.run_sync(prepare)
        finally:
            await connection.execute(text("RESET lock_timeout"))


async def _upgrade(engine: AsyncEngine, folder: Path, *, online: bool) -> None:
    async with write(engine) as connection:
        if online:
            await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
        await connection.run_sync(_apply, folder, online=online)


async def again_while_busy(attempt: Callable[[], Awaitable[None]]) -> None:
    """Tries what waits for no lock longer than `LOCK_MS` until it has it.

    Raises StoreUnavailable.
    """
    for left in reversed(range(LOCK_TRIES)):
        try:
            await attempt()
            return
        except StoreUnavailable as refusal:
            state = getattr(getattr(refusal.__cause__, "orig", None), "sqlstate", None)
            if state not in BUSY or not left:
                raise
        await asyncio.sleep(LOCK_PAUSE_S)


def missing(connection: Connection, folder: Path) -> list[RevisionStep]:
    """The revisions of a folder that have not been applied."""
    context = MigrationContext.configure(connection, opts={"version_table": version_table(folder)})
    return _steps(folder, context.get_current_heads())


def _steps(folder: Path, revision: str | tuple[str, ...]) -> list[RevisionStep]:
    script = ScriptDirectory(folder, version_locations=[folder])
    return list(script._upgrade_revs("head", revision))  # type: ignore[arg-type]  # noqa: SLF001


def _apply(connection: Connection, folder: Path, *, online: bool) -> None:
    """Runs a folder's missing revisions inside the connection's transaction: on PostgreSQL one that
    was prepared, or all before the next that must be."""
    prepared = connection.dialect.name == "postgresql"

    def chosen(revision: str | tuple[str, ...], context: MigrationContext) -> list[RevisionStep]:
        steps = _steps(folder, revision)
        if online:
            return steps[:1]
        later = (n for n, s in enumerate(steps) if hasattr(s.revision.module, "prepare"))
        return steps[: next(later, len(steps))] if prepared else steps

    context = MigrationContext.configure(
        connection, opts={"version_table": version_table(folder), "fn": chosen}
    )
    with Operations.context(context):
        context.run_migrations()
