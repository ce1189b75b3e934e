"""Migrations bring any database to exactly the tables the code believes in."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Connection,
    PrimaryKeyConstraint,
    UniqueConstraint,
    column,
    inspect,
    select,
    table,
)

from services.game.server import FOLDERS
from services.runtime.database import close_engine, open_engine, read, write
from services.runtime.migrate import is_migrated, migrate, version_table
from services.runtime.store import migrations
from services.runtime.store.schema import metadata
from tests import postgres

SECOND = '''"""A second revision."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table("more", sa.Column("n", sa.Integer))
    {then}
'''
FIRST = SECOND.replace("0002", "0001").replace('down_revision = "0001"', "down_revision = None")


def tables(connection: Connection) -> dict[str, Any]:
    """Everything a database knows of its tables, version tables and partitions aside."""
    found = inspect(connection)
    partitions = set()
    if connection.dialect.name == "postgresql":
        asked = "SELECT relname FROM pg_class WHERE relispartition"
        partitions = set(connection.exec_driver_sql(asked).scalars())

    def named(things: list[Any]) -> list[Any]:
        return sorted(things, key=lambda thing: str(thing["name"]))

    return {
        name: (
            named([{**one, "type": str(one["type"])} for one in found.get_columns(name)]),
            found.get_pk_constraint(name),
            named(found.get_unique_constraints(name)),
            named(found.get_check_constraints(name)),
            named(found.get_indexes(name)),
            found.get_foreign_keys(name),
            found.get_table_options(name),
        )
        for name in found.get_table_names()
        if not name.endswith("_version") and name not in partitions
    }


async def described(url: str) -> dict[str, Any]:
    """The tables of the database at `url`."""
    engine = open_engine(url)
    async with read(engine) as connection:
        found = await connection.run_sync(tables)
    await close_engine(engine)
    return found


def folder(at: Path, name: str, **revisions: str) -> Path:
    """A version folder of a service, made for a test."""
    made = at / name / "migrations"
    made.mkdir(parents=True, exist_ok=True)
    for revision, source in revisions.items():
        (made / f"{revision}.py").write_text(source, "utf-8")
    return made


async def store_tables(url: str) -> dict[str, Any]:
    """The tables of a database, but for the one that PostgreSQL keeps for the release before."""
    found = await described(url)
    return {name: columns for name, columns in found.items() if name != "due"}


async def test_a_migrated_database_equals_the_metadata(
    database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Column by column and constraint by constraint, on each engine."""
    await migrate(database_url, [migrations.FOLDER])
    if database_url.startswith("sqlite"):
        other = f"sqlite+aiosqlite:///{tmp_path}/other.db"
    else:
        other = request.getfixturevalue("postgres_url")
    engine = open_engine(other)
    async with write(engine) as connection:
        await connection.run_sync(metadata.create_all)
    await close_engine(engine)
    migrated = await store_tables(database_url)
    assert migrated == await store_tables(other)
    assert set(migrated) == set(metadata.tables)


def test_every_unique_key_contains_the_stream() -> None:
    """So that the tables can be partitioned and distributed by stream as they are. Due rows have no
    key, as an index over one could not stay as it is while a row is set anew; the months that have
    left are of no stream."""
    keyed = set()
    for one in (each for each in metadata.sorted_tables if each.name != "archived_months"):
        for constraint in one.constraints:
            match constraint:
                case PrimaryKeyConstraint() | UniqueConstraint() if len(constraint.columns):
                    assert "stream" in constraint.columns, constraint.name
                    keyed.add(one.name)
        assert not any(index.unique for index in one.indexes)
    assert keyed == set(metadata.tables) - {"pulse", "work", "archived_months"}


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    """However often it is run, and by however many at the same time."""
    await asyncio.gather(*(migrate(database_url, [migrations.FOLDER]) for _ in range(4)))
    before = await described(database_url)
    await migrate(database_url, [migrations.FOLDER])
    assert await described(database_url) == before


async def test_folders_are_versioned_apart(database_url: str, tmp_path: Path) -> None:
    """Each service goes at its own pace, and a later revision is applied to what is there."""
    first = FIRST.replace("more", "wallets").format(then="")
    wallet = folder(tmp_path, "wallet", r0001_wallets=first)
    await migrate(database_url, [migrations.FOLDER, wallet])
    folder(tmp_path, "wallet", r0002_more=SECOND.format(then=""))
    await migrate(database_url, [wallet])
    assert set(await store_tables(database_url)) == {*metadata.tables, "wallets", "more"}
    engine = open_engine(database_url)
    async with read(engine) as connection:
        versions = [
            (
                await connection.execute(select(column("version_num")).select_from(table(name)))
            ).scalar()
            for name in (version_table(migrations.FOLDER), version_table(wallet))
        ]
    await close_engine(engine)
    assert versions == ["0006", "0002"]


async def test_a_migration_that_fails_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    """A revision that breaks off has not happened, and neither have those of the same run."""
    broken = folder(
        tmp_path,
        "wallet",
        r0001_wallets=FIRST.replace("more", "wallets").format(then=""),
        r0002_more=SECOND.format(then='raise RuntimeError("broken off")'),
    )
    await migrate(database_url, [migrations.FOLDER])
    with pytest.raises(RuntimeError, match="broken off"):
        await migrate(database_url, [broken])
    assert set(await store_tables(database_url)) == set(metadata.tables)


async def test_a_database_is_waited_for_until_it_is_migrated(postgres_url: str) -> None:
    """It is not while it is empty, half migrated, or its rights have not been given; it is then,
    and when a later release has been there, which migrating by this one leaves as it is."""
    service = postgres.as_service(postgres_url)
    assert not await is_migrated(service, FOLDERS)
    await migrate(postgres_url, FOLDERS[:1], postgres.SERVICE)
    assert not await is_migrated(service, FOLDERS)
    await migrate(postgres_url, FOLDERS)
    assert not await is_migrated(service, FOLDERS)
    assert await is_migrated(postgres_url, FOLDERS)
    await migrate(postgres_url, FOLDERS, postgres.SERVICE)
    assert await is_migrated(service, FOLDERS)
    later = f"UPDATE {version_table(FOLDERS[1])} SET version_num = '9999'"  # noqa: S608 - a name of ours
    engine = open_engine(postgres_url)
    async with write(engine) as connection:
        await connection.exec_driver_sql(later)
        await connection.exec_driver_sql(f"REVOKE SELECT ON events FROM {postgres.SERVICE}")  # noqa: S608
    await close_engine(engine)
    assert await is_migrated(service, FOLDERS)
    await migrate(postgres_url, FOLDERS, postgres.SERVICE)
    engine = open_engine(postgres_url)
    async with read(engine) as connection:
        asked = f"SELECT has_table_privilege('{postgres.SERVICE}', 'events', 'SELECT')"
        assert not (await connection.exec_driver_sql(asked)).scalar_one()
    await close_engine(engine)
