"""A month taken out of a PostgreSQL database, and put back, by the owner of its tables.

Each is one transaction, so there is nothing in between that could be left behind: the partitions of
the log and of the due work are detached, ids of the month are refused from then on, and the month
stands in `archived_months`. No lock is waited for longer than a third of a second at a time, as
appends would wait behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import TextClause, delete, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.cli.archiving.checking import entries_of
from services.cli.archiving.form import Entry, Manifest
from services.cli.archiving.survey import counted, within
from services.cli.outcome import Failure
from services.game.connections import connections
from services.runtime.database import database_now, read, write
from services.runtime.migrate import LOCK_MS, again_while_busy
from services.runtime.store.months import Month, archived, month_at
from services.runtime.store.schema import archived_months, events, heads

TABLES = ("events", "event_secrets", "work")
"""What lies in partitions by month."""
GUARDED = ("events", "event_secrets")
KEEP_MONTHS = 3
"""So many whole months before the present one stay in the database unless it is said otherwise."""
PAGE = 500
OWNER = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'events'::regclass")
PARTITION = text(
    "SELECT p.relname::text FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid "
    "JOIN pg_class p ON p.oid = i.inhparent WHERE c.oid = to_regclass(:name)"
)
EXISTS = text("SELECT to_regclass(:name) IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Place:
    """A month in the database of an engine, whose role owns the tables."""

    engine: AsyncEngine
    month: Month

    def part(self, table: str) -> str:
        """The month's partition of a table."""
        return f"{table}_{self.month.suffix}"

    def bound(self, table: str) -> str:
        """The constraint that keeps the month out of the partition of the rest."""
        return f"{table}_other_not_{self.month.suffix}"

    @property
    def rule(self) -> str:
        """That a stream began in the month, in SQL."""
        return f"stream >= '{self.month.first}' AND stream < '{self.month.next.first}'"

    async def require_owner(self) -> None:
        """Raises Failure unless the role owns the tables of a PostgreSQL database."""
        if self.engine.dialect.name != "postgresql":
            raise Failure(
                "an embedded database (SQLite) has no partitions, and its rows are never removed; "
                "the files are a copy that needs no server, nothing is taken out"
            )
        async with read(self.engine) as connection:
            if not (await connection.execute(OWNER)).scalar_one():
                raise Failure("only the role that owns the tables may; name it in the URL")

    # --------------------------------------------------------------------------------- comparing

    async def compare(self, folder: Path, manifest: Manifest) -> None:
        """Raises Failure unless the month's every log is in the archive, at its last version and
        head, and nothing else is in its partition."""
        wanted = _entries(folder, manifest)
        query = (
            select(heads.c.stream, heads.c.version, heads.c.hash, events.c.hash)
            .outerjoin(
                events, (events.c.stream == heads.c.stream) & (events.c.version == heads.c.version)
            )
            .where(within(heads.c.stream, self.month))
            .order_by(heads.c.stream)
            .limit(PAGE)
        )
        page: Sequence[Any] = ()
        while True:
            after = query.where(heads.c.stream > page[-1][0]) if page else query
            async with read(self.engine) as connection:
                page = (await connection.execute(after)).all()
            for stream, version, head, last in page:
                entry = next(wanted, None)
                if entry is None or entry.stream > stream:
                    raise Failure(f"{stream}: is not in the archive")
                if entry.stream < stream:
                    raise Failure(f"{entry.stream}: is in the archive and not in the database")
                if (entry.version, entry.head) != (version, head) or last != head:
                    raise Failure(f"{stream}: has another end than in the archive")
            if len(page) < PAGE:
                break
        if (left := next(wanted, None)) is not None:
            raise Failure(f"{left.stream}: is in the archive and not in the database")
        async with read(self.engine) as connection:
            await self._compare_events(connection, manifest)

    async def _compare_events(self, connection: AsyncConnection, manifest: Manifest) -> None:
        """There is no event in the month's table, attached or not, that no head knows of."""
        name = self.part("events")
        if not (await connection.execute(EXISTS, {"name": name})).scalar_one():
            return
        found = (await connection.execute(_count(name))).scalar_one()
        if found != manifest.events:
            raise Failure(f"{name} has {found} events, the archive {manifest.events}")

    async def state(self) -> str:
        """`here`, `detached` with its tables kept, `dropped`; or raises Failure where the month has
        no partition of its own."""
        async with read(self.engine) as connection:
            left = (await archived(connection)).get(self.month)
            parents = {
                table: (
                    await connection.execute(PARTITION, {"name": self.part(table)})
                ).scalar_one_or_none()
                for table in TABLES
            }
            there = (await connection.execute(EXISTS, {"name": self.part("events")})).scalar_one()
        if left is not None:
            return "detached" if there else "dropped"
        if parents["events"] != "events" or parents["event_secrets"] != "event_secrets":
            raise Failure(
                f"{self.month} has no partition of its own: its logs lie with those of other "
                "months (what 0.1.0 has left, or a month that was not made in time) and stay"
            )
        return "here"

    # --------------------------------------------------------------------------------- detaching

    async def detach(self, manifest: Manifest, keep: int) -> None:
        """Take the month out; raises Failure where anything was written to it since it was
        compared, or where it is to be kept, StoreUnavailable."""
        async with read(self.engine) as connection:
            present = month_at(await database_now(connection) // 1_000)
        if self.month > present.later(-1 - keep):
            raise Failure(
                f"{self.month} is to be kept: {keep} whole months before {present} stay (--keep)"
            )

        async def attempt() -> None:
            async with write(self.engine) as connection:
                await self._locked(connection)
                await self._unchanged(connection, manifest)
                for table in TABLES:
                    await self._detach(connection, table)
                game = within(connections.c.game, self.month)
                await connection.execute(delete(connections).where(game))
                row = {
                    "month": str(self.month),
                    "archived_at": await database_now(connection),
                    "manifest": manifest.digest,
                    "signature": manifest.signature,
                }
                await connection.execute(insert(archived_months), row)

        await again_while_busy(attempt)

    async def _locked(self, connection: AsyncConnection) -> None:
        """Nobody appends from here on, to any month: the moment is short."""
        await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
        only = ", ".join(f"ONLY {table}" for table in TABLES)
        await connection.execute(text(f"LOCK TABLE {only} IN ACCESS EXCLUSIVE MODE"))

    async def _unchanged(self, connection: AsyncConnection, manifest: Manifest) -> None:
        """Heads only grow and events only come: equal sums are equal logs."""
        if self.month in await archived(connection):
            raise Failure(f"{self.month}: another has just detached it")
        found = await counted(connection, self.month)
        if found != (manifest.logs, manifest.events):
            raise Failure("something was written to the month meanwhile; write it again")
        for table in ("work", "due"):
            left = text(f"SELECT count(*) FROM {table} WHERE {self.rule}")  # noqa: S608
            if (await connection.execute(left)).scalar_one():
                raise Failure("work of the month is due again; `kozyr archive write` names it")

    async def _detach(self, connection: AsyncConnection, table: str) -> None:
        run, part = connection.exec_driver_sql, self.part(table)
        of = (await connection.execute(PARTITION, {"name": part})).scalar_one_or_none()
        if of == table:
            await run(f"ALTER TABLE {table} DETACH PARTITION {part}")
        if table in GUARDED:  # the parent's guard stays with the parent
            await run(
                f"CREATE TRIGGER archived_no_change BEFORE UPDATE OR DELETE ON {part} "
                "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
            )
            await run(f"ALTER TABLE {part} ENABLE ALWAYS TRIGGER archived_no_change")
        await run(
            f"ALTER TABLE {table}_other ADD CONSTRAINT {self.bound(table)} "
            f"CHECK (NOT ({self.rule})) NOT VALID"
        )

    # --------------------------------------------------------------------- dropping and attaching

    async def drop(self, manifest: Manifest) -> None:
        """Drop the detached tables; raises Failure where the month is back, has left with another
        archive meanwhile, or has an event that is not in this one."""

        async def attempt() -> None:
            async with write(self.engine) as connection:
                await connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
                if await self._left(connection) != manifest.digest:
                    raise Failure(f"{self.month}: another has just detached it again")
                for table in TABLES:
                    if (await connection.execute(PARTITION, {"name": self.part(table)})).scalar():
                        raise Failure(f"{self.part(table)} is not detached")
                await self._compare_events(connection, manifest)
                for table in TABLES:
                    await connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self.part(table)}")

        await again_while_busy(attempt)

    async def attach(self) -> None:
        """Put detached tables back; raises Failure where they are not what was detached."""
        await self._whole()
        async with write(self.engine) as connection:
            for table in TABLES:
                await connection.exec_driver_sql(
                    f"ALTER TABLE IF EXISTS {self.part(table)} "
                    "DROP CONSTRAINT IF EXISTS of_its_month, "
                    f"ADD CONSTRAINT of_its_month CHECK ({self.rule})"
                )
        async with write(self.engine) as connection:
            for table in TABLES:
                bound = f"ALTER TABLE {table}_other VALIDATE CONSTRAINT {self.bound(table)}"
                await connection.exec_driver_sql(bound)

        async def attempt() -> None:
            async with write(self.engine) as connection:
                await self._locked(connection)
                await self._left(connection)
                await self._require_kept(connection)
                for table in TABLES:
                    await self._attach(connection, table)
                gone = delete(archived_months).where(archived_months.c.month == str(self.month))
                await connection.execute(gone)

        await again_while_busy(attempt)

    async def _left(self, connection: AsyncConnection) -> bytes:
        """The manifest that the month has left with; until the transaction ends nobody attaches or
        drops it. Raises Failure where it is back."""
        rows = select(archived_months.c.manifest).where(archived_months.c.month == str(self.month))
        found: bytes | None = (await connection.execute(rows.with_for_update())).scalar()
        if found is None:
            raise Failure(f"{self.month}: another has just attached it")
        return found

    async def _require_kept(self, connection: AsyncConnection) -> None:
        """Raises Failure unless the detached log is all there."""
        for name in map(self.part, GUARDED):
            if not (await connection.execute(EXISTS, {"name": name})).scalar_one():
                raise Failure(f"{name} is not there; restore it from a dump first")

    async def _whole(self) -> None:
        """The detached events lead to the heads that stayed, and their secrets are there."""
        name, secrets = map(self.part, GUARDED)
        missing = text(
            f"SELECT h.stream FROM heads h WHERE h.{self.rule.replace('AND ', 'AND h.')} "  # noqa: S608
            f"AND NOT EXISTS (SELECT FROM {name} e WHERE e.stream = h.stream "
            "AND e.version = h.version AND e.hash = h.hash) LIMIT 1"
        )
        sealed = text(
            f"SELECT e.stream FROM {name} e WHERE e.secret_digest IS NOT NULL "  # noqa: S608
            f"AND NOT EXISTS (SELECT FROM {secrets} s WHERE s.stream = e.stream "
            "AND s.version = e.version) LIMIT 1"
        )
        async with read(self.engine) as connection:
            await self._require_kept(connection)
            lost = (await connection.execute(missing)).scalar_one_or_none()
            _, wanted = await counted(connection, self.month)
            found = (await connection.execute(_count(name))).scalar_one()
        if lost is not None or found != wanted:
            what = lost or f"{found} of {wanted} events"
            raise Failure(f"{name} is not what the heads say: {what}")
        async with read(self.engine) as connection:
            bare = (await connection.execute(sealed)).scalar()
        if bare is not None:
            raise Failure(f"{secrets} lacks a secret of {bare}")

    async def _attach(self, connection: AsyncConnection, table: str) -> None:
        run, part = connection.exec_driver_sql, self.part(table)
        if (await connection.execute(EXISTS, {"name": part})).scalar_one():
            if table in GUARDED:  # a table that was restored may lack them
                await run(f"DROP TRIGGER IF EXISTS archived_no_change ON {part}")
                await run(f"DROP TRIGGER IF EXISTS {table}_no_truncate ON {part}")
                await run(f"SELECT guard_partition('{table}', '{part}')")
            bounds = f"FROM ('{self.month.first}') TO ('{self.month.next.first}')"
            await run(f"ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES {bounds}")
            await run(f"ALTER TABLE {part} DROP CONSTRAINT of_its_month")
        await run(f"ALTER TABLE {table}_other DROP CONSTRAINT {self.bound(table)}")


def _entries(folder: Path, manifest: Manifest) -> Iterator[Entry]:
    for file in manifest.files:
        yield from entries_of(folder, manifest, file)


def _count(table: str) -> TextClause:
    return text(f"SELECT count(*) FROM {table}")  # noqa: S608 - made of a month
