"""Migrations: Alembic driven from here, no configuration files.

A folder of versions (`services/<name>/migrations`, `services/runtime/store/migrations`) is a
package whose modules `rNNNN_word.py` are Alembic revisions: `revision`, `down_revision` and
`upgrade()`. There is no way down: a stored event is never taken back, and neither is its table.
"""

from collections.abc import Sequence
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import close_engine, open_engine, write

TURN = 0x6B6F7A79
"""The advisory lock under which PostgreSQL databases are migrated by one process at a time."""


async def migrate(url: str, folders: Sequence[Path]) -> None:
    """Brings the database at `url` up to date with the version folders, in this order.

    Each folder has a version table of its own and is applied whole or not at all. Nothing happens
    where everything is up to date. Raises StoreUnavailable and DatabaseInUse as `open_engine`.
    """
    engine = open_engine(url, patient=True)
    try:
        await migrate_engine(engine, folders)
    finally:
        await close_engine(engine)


async def migrate_engine(engine: AsyncEngine, folders: Sequence[Path]) -> None:
    """As `migrate`, on an engine that is open."""
    for folder in folders:
        async with write(engine) as connection:
            await connection.run_sync(apply, folder)


def version_table(folder: Path) -> str:
    """Where a folder's version stands: `store_version` for `…/store/migrations`."""
    return f"{folder.parent.name}_version"


def apply(connection: Connection, folder: Path) -> None:
    """Runs a folder's missing revisions inside the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN})
    script = ScriptDirectory(folder, version_locations=[folder])

    def missing(revision: str | tuple[str, ...], context: MigrationContext) -> list[RevisionStep]:
        return list(script._upgrade_revs("head", revision))  # type: ignore[arg-type]  # noqa: SLF001

    context = MigrationContext.configure(
        connection, opts={"version_table": version_table(folder), "fn": missing}
    )
    with Operations.context(context):
        context.run_migrations()
