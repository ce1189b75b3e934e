"""What was removed from an embedded database leaves its file.

Every connection has SQLite overwrite what it deletes, but where rows moved within a table (a page
was split, two were joined) an old copy of one may stay between the others. So a table is copied,
and its old pages are overwritten as a whole; the write-ahead log, which holds pages as they were,
is copied into the file and emptied. It costs as much as the table is large, however large the log.

PostgreSQL's files hold a removed row until its room is used again; that is its operator's to do
(`docs/privacy.md`).
"""

import asyncio
from contextlib import closing

from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Kind, Refused
from services.runtime.database import DATABASE_ERRORS, FILES, DatabaseFile, judge

MADE_FOR = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN (?, ?) AND sql IS NOT NULL"
TRIES = 40
PAUSE_S = 0.05
"""The log is emptied between two reads; it is tried so often, and nobody waits meanwhile."""
AGAIN_MS = 2_000


class Shredder:
    """Shreds tables for many who ask: those who ask while it is at it share the next round, and
    rounds are `pause_s` apart, so that writers find their time however many ask."""

    def __init__(self, engine: AsyncEngine, *tables: str, pause_s: float = 1.0) -> None:
        self._engine = engine
        self._tables = tables
        self._pause_s = pause_s
        self._turn = asyncio.Lock()
        self._begun = self._done = 0
        self._not_before = 0.0

    async def shred(self) -> None:
        """Return once a round has been done that began after this call; raises as `shred` does."""
        asked, clock = self._begun, asyncio.get_running_loop().time
        async with self._turn:
            if self._done > asked:
                return
            await asyncio.sleep(self._not_before - clock())
            self._begun += 1
            try:
                await shred(self._engine, *self._tables)
            finally:
                self._not_before = clock() + self._pause_s
            self._done = self._begun


async def shred(engine: AsyncEngine, *tables: str) -> None:
    """Leave nothing of removed rows of tables in a SQLite file; nothing to do on PostgreSQL.

    No other table may be named in a table's own definition. Writers wait while one is copied.
    Raises StoreUnavailable, and Refused FILE_IN_USE while somebody reads what was there before:
    then it is to be tried again.
    """
    file = FILES.get(engine.sync_engine)
    if file is None:
        return
    try:
        for table in tables:
            async with file.turn:
                await asyncio.to_thread(_copy, file, table)
        for _ in range(TRIES):
            async with file.turn:
                if await asyncio.to_thread(_empty_log, file):
                    return
            await asyncio.sleep(PAUSE_S)
    except DATABASE_ERRORS as error:
        if refusal := await judge(engine, error):
            raise refusal from None
        raise
    problem = "somebody reads what was there before"
    raise Refused(Kind.CONFLICT, "FILE_IN_USE", problem, retry_after_ms=AGAIN_MS)


def _copy(file: DatabaseFile, table: str) -> None:
    """Put a copy with the same rows in the table's place, with its indexes and triggers."""
    with closing(file.connect()) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("BEGIN IMMEDIATE")
        ((made,),) = connection.execute(MADE_FOR, (table, "table", "table"))
        others = connection.execute(MADE_FOR, (table, "index", "trigger")).fetchall()
        columns = made[made.index("(") :]
        connection.execute(f'CREATE TABLE "{table}_shredded" {columns}')
        connection.execute(f'INSERT INTO "{table}_shredded" SELECT * FROM "{table}"')  # noqa: S608
        connection.execute(f'DROP TABLE "{table}"')
        connection.execute(f'ALTER TABLE "{table}_shredded" RENAME TO "{table}"')
        for (sql,) in others:
            connection.execute(sql)
        connection.execute("COMMIT")


def _empty_log(file: DatabaseFile) -> bool:
    """Whether the log was empty or could be emptied."""
    with closing(file.connect()) as connection:
        connection.execute("PRAGMA busy_timeout=0")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
