"""Due rows come and go with every append; what they leave in PostgreSQL is swept up by its users.

The server's own sweeper comes once a minute at most, and until then every row that is gone lies in
the table and in its indexes, where claims and appends pass it. A few thousand are swept in a few
milliseconds. Only what no running transaction can see any more goes.
"""

import time

from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import DATABASE_ERRORS, read
from services.runtime.store.api import StoreUnavailable

ENOUGH = 2_000
"""After so many due rows that this process has set or deleted it is looked whether to sweep."""
PAUSE_S = 1.0
"""It is not looked again before: a sweep reads whole indexes, however little it finds."""
LITTERED = """
    SELECT relid::regclass::text FROM pg_partition_tree('due')
    WHERE isleaf AND pg_stat_get_dead_tuples(relid) >= 500
"""
SWEEP = "VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF, PROCESS_TOAST OFF)"
"""Waits for nobody, and takes no lock that anybody waits for."""


class Sweeper:
    """Counts what is left behind and has it swept up."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._left = 0
        self._not_before = 0.0
        self._sweeping = engine.dialect.name != "postgresql"

    def due(self, rows: int) -> bool:
        """Takes in that so many due rows were written; whether it is time to `sweep`."""
        self._left += rows
        if self._left < ENOUGH or self._sweeping:
            return False
        return time.monotonic() >= self._not_before

    async def sweep(self) -> None:
        """Sweeps, if the role may and nobody else is at it: a table that stays as it is harms
        nobody, and the server's own sweeper comes in the end."""
        self._sweeping, self._left = True, 0
        try:
            async with read(self._engine) as connection:
                littered = (await connection.exec_driver_sql(LITTERED)).scalars().all()
                if littered:
                    await connection.exec_driver_sql(f"{SWEEP} {', '.join(littered)}")
        except (StoreUnavailable, *DATABASE_ERRORS):
            return
        finally:
            self._sweeping = False
            self._not_before = time.monotonic() + PAUSE_S
