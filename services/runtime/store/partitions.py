"""The partitions of the months to come, made ahead by every replica that happens to look first.

`make_partitions` (a function of the database, which acts by the rights of the tables' owner) makes
those that are missing for the present month and `AHEAD` more; where none is missing it reads the
catalogue and takes no lock. Streams of a month nobody made lie in the table of the rest and are
found there as well: what is lost is that the month could be taken away by itself.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime import log
from services.runtime.database import DATABASE_ERRORS, read
from services.runtime.store.api import StoreUnavailable

AHEAD = 3
EVERY_S = 3_600.0
RETRY_S = 300.0
SHORT_S = 7 * 86_400.0
"""Health fails when what has been made will last no longer."""
TURN_S = 0.05
TURNS = 100
"""One replica at a time makes one table's. Each that found the turn taken may have left a table to
another that did the same, so it comes again, so often at most, until none is missing."""

TABLES = ("events", "event_secrets", "work")
MAKE = text("SELECT make_partitions(:wanted, :ahead)")
LEFT = text(
    "SELECT extract(epoch FROM min(month) - clock_timestamp() AT TIME ZONE 'UTC')::float8 "
    "FROM missing_partitions(:ahead)"
)


class PartitionsRunOut(Exception):
    """The partitions that have been made will not last much longer."""


class Partitions:
    """Sees to the partitions of one database; there are none in SQLite."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._lasts_until = float("inf")

    @property
    def tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """What a process runs beside its service."""
        return {"partitions": self.keep} if self._engine.dialect.name == "postgresql" else {}

    async def check(self) -> None:
        """Raises PartitionsRunOut a week before that happens."""
        if self._lasts_until - self._clock() < SHORT_S:
            raise PartitionsRunOut

    async def keep(self) -> None:
        """Makes them for ever."""
        while True:
            made = await self.make()
            await asyncio.sleep(EVERY_S if made else RETRY_S)

    async def make(self) -> bool:
        """Makes what is missing; False while something is, with a line in the log if it failed."""
        left, problem = await self._make()
        for _ in range(TURNS):
            if left is None or problem:
                break
            await asyncio.sleep(TURN_S)
            left, problem = await self._make()
        if problem:
            log.get().error("partitions_not_made", **problem)
        return left is None and not problem

    async def _make(self) -> tuple[float | None, Mapping[str, str]]:
        """Makes what is missing of each table whose turn is free; for how many seconds there are
        partitions, None where none is missing, and what went wrong."""
        problem: dict[str, str] = {}
        left: float | None = None
        try:
            async with read(self._engine) as connection:
                try:
                    for table in TABLES:
                        made = await connection.execute(MAKE, {"wanted": table, "ahead": AHEAD})
                        if count := made.scalar_one():
                            log.get().info("partitions_made", count=count)
                except DATABASE_ERRORS as error:
                    problem = log.failure(error)
                left = (await connection.execute(LEFT, {"ahead": AHEAD})).scalar_one()
            self._lasts_until = float("inf") if left is None else self._clock() + left
        except (StoreUnavailable, *DATABASE_ERRORS) as error:
            problem = log.failure(error)
        return left, problem
