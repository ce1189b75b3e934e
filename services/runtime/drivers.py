"""A PostgreSQL engine's connections as asyncpg knows them, for what is asked most.

What passes through SQLAlchemy costs several times what the driver takes, and a visit to its pool as
much as reading a hundred rows. So statements are handed to the driver, and connections kept.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import DATABASE_ERRORS, judge

Driver: TypeAlias = Any
"""A connection of asyncpg, which has no types of its own."""


class Drivers:
    """Connections that come from an engine's pool, up to `kept` of which do not go back to it.

    How many are in use at once is the pool's to limit. When the engine is disposed of, those that
    are kept are ended with its own.
    """

    def __init__(self, engine: AsyncEngine, kept: int = 1) -> None:
        self._engine = engine
        self._kept = kept
        self._idle: list[Driver] = []
        self._era = 0
        event.listen(engine.sync_engine, "engine_disposed", self._disposed)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Driver]:
        """A connection on which each statement is a transaction of its own.

        One on which something failed is not used again. Raises StoreUnavailable when the database
        is gone or refuses.
        """
        era, whole = self._era, False
        try:
            pooled, driver = None, self._at_hand()
            if driver is None:
                pooled = await self._engine.raw_connection()
                driver = pooled.driver_connection
            try:
                yield driver
                whole = era == self._era
            finally:
                self._take_back(driver, pooled, whole=whole)
        except DATABASE_ERRORS as error:
            if refusal := await judge(self._engine, error):
                raise refusal from error
            raise

    def _take_back(self, driver: Driver, pooled: Any, *, whole: bool) -> None:
        """Keep a connection, or let the pool have its own (`pooled`); end it unless it is whole."""
        if whole and pooled is not None and len(self._idle) >= self._kept:
            pooled.close()
            return
        if pooled is not None:
            pooled.detach()
        if whole:
            self._idle.append(driver)
        else:
            driver.terminate()

    def _at_hand(self) -> Driver:
        """A connection that was kept, None if there is none."""
        while self._idle:
            driver = self._idle.pop()
            if not driver.is_closed():
                return driver
        return None

    def _disposed(self, engine: object) -> None:
        """The engine lets all its connections go: so do we, those that are lent when they are
        back."""
        self._era += 1
        while self._idle:
            self._idle.pop().terminate()
