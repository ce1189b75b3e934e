"""The PostgreSQL the tests use keeps its promises."""

import asyncio

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests import postgres


async def test_a_test_gets_a_database_of_its_own(postgres_url: str) -> None:
    """The database is empty, is real PostgreSQL, and SQLAlchemy reaches it by its URL."""
    engine = create_async_engine(postgres_url)
    async with engine.begin() as connection:
        version = (await connection.execute(text("SHOW server_version_num"))).scalar_one()
        tables = await connection.execute(
            text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        )
        assert tables.scalar_one() == 0
        await connection.execute(text("CREATE TABLE t (n bigint)"))
    await engine.dispose()
    assert int(version) >= 140000


async def test_two_databases_know_nothing_of_each_other(postgres_url: str) -> None:
    """What one test creates, no other sees, even on the same server at the same time."""
    urls = await asyncio.gather(*(asyncio.to_thread(postgres.create_database) for _ in range(4)))
    assert len({*urls, postgres_url}) == 5
    for url in urls:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        await connection.execute("CREATE TABLE t (n bigint)")
        await connection.close()
        postgres.drop_database(url)
        with pytest.raises(asyncpg.exceptions.InvalidCatalogNameError):
            await asyncpg.connect(url.replace("+asyncpg", ""))


async def test_a_database_is_dropped_with_what_is_connected(postgres_url: str) -> None:
    """A test that leaks a connection does not keep its database alive."""
    url = postgres.create_database()
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    postgres.drop_database(url)
    with pytest.raises(
        (asyncpg.exceptions.PostgresError, asyncpg.exceptions.InterfaceError, OSError)
    ):
        await connection.fetch("SELECT 1")
    connection.terminate()
