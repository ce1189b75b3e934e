"""Connections that are kept beside an engine's pool."""

from contextlib import AsyncExitStack

import pytest
from asyncpg.exceptions import PostgresError

from services.runtime.database import close_engine, open_engine
from services.runtime.drivers import Drivers


async def test_a_connection_is_kept_for_the_next_statement(postgres_url: str) -> None:
    """Whoever comes after is lent the one that is back, and the pool has its place free again."""
    engine = open_engine(postgres_url, pool_size=1)
    drivers = Drivers(engine)
    async with drivers.lend() as first:
        assert await first.fetchval("SELECT 1") == 1
    async with drivers.lend() as second, engine.connect():
        assert second is first
    await close_engine(engine)
    assert first.is_closed()


async def test_no_more_are_kept_than_it_was_told(postgres_url: str) -> None:
    """The others go back to the pool, which has them for whoever comes next."""
    engine = open_engine(postgres_url, pool_size=3)
    drivers = Drivers(engine, kept=2)
    async with AsyncExitStack() as stack:
        lent = [await stack.enter_async_context(drivers.lend()) for _ in range(3)]
    async with AsyncExitStack() as stack:
        again = [await stack.enter_async_context(drivers.lend()) for _ in range(3)]
    assert {*map(id, again)} == {*map(id, lent)}
    await close_engine(engine)
    assert all(driver.is_closed() for driver in lent)


async def test_what_failed_is_not_used_again(postgres_url: str) -> None:
    """A kept connection, or the pool's, on which a statement failed is ended, its place is free."""
    engine = open_engine(postgres_url, pool_size=1)
    drivers = Drivers(engine)
    for _ in range(3):
        with pytest.raises(PostgresError):
            async with drivers.lend() as failed:
                await failed.fetchval("SELECT 1 / 0")
        assert failed.is_closed()
        async with drivers.lend() as driver:
            assert await driver.fetchval("SELECT 1") == 1
    await close_engine(engine)


async def test_one_that_died_meanwhile_is_not_lent(postgres_url: str) -> None:
    """The server ended it, or somebody here did: a new one takes its place."""
    engine = open_engine(postgres_url)
    drivers = Drivers(engine)
    async with drivers.lend() as first:
        pass
    first.terminate()
    async with drivers.lend() as second:
        assert await second.fetchval("SELECT 1") == 1
    await close_engine(engine)


async def test_what_is_lent_when_the_engine_goes_is_ended_when_it_is_back(
    postgres_url: str,
) -> None:
    """Its server may be the one that was left, so it is not kept; nor is it torn from its user."""
    engine = open_engine(postgres_url)
    drivers = Drivers(engine)
    async with drivers.lend() as kept:
        pass
    async with drivers.lend() as lent, drivers.lend() as pooled:
        assert lent is kept
        await engine.dispose()
        assert await lent.fetchval("SELECT 1") == 1
        assert await pooled.fetchval("SELECT 1") == 1
    assert lent.is_closed()
    async with drivers.lend() as new:
        assert new not in (lent, pooled)
    await close_engine(engine)
