"""The owner of a store's tables, who may do what the role of a service may not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection

from services.runtime.database import close_engine, open_engine, write
from services.runtime.store.sql import SqlStore
from tests import postgres


@asynccontextmanager
async def as_owner(store: SqlStore) -> AsyncIterator[AsyncConnection]:
    """A connection in a transaction, on PostgreSQL as the owner of the store's tables."""
    engine = store._engine
    if engine.dialect.name == "sqlite":
        async with write(engine) as connection:
            yield connection
        return
    other = open_engine(postgres.as_owner(engine.url.render_as_string(hide_password=False)))
    try:
        async with write(other) as connection:
            yield connection
    finally:
        await close_engine(other)
