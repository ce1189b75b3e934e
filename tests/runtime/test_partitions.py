"""The log lies in partitions by month, and nobody changes what is in them (PostgreSQL)."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from services.kernel.envelope import Due, Plan
from services.kernel.ids import uuid7
from services.runtime.database import close_engine, open_engine, read
from services.runtime.migrate import NoSuchRole, migrate
from services.runtime.store import migrations
from services.runtime.store.migrations.r0002_months import PARTITIONS_TURN
from services.runtime.store.partitions import AHEAD, Partitions, PartitionsRunOut
from services.runtime.store.postgres import PostgresWriter
from services.runtime.store.sql import SqlStore
from tests import postgres
from tests.runtime.appends import append
from tests.runtime.conftest import KEYS
from tests.runtime.stored import verify_stream

MONTHS = AHEAD + 1
TABLES = ("event_secrets", "events")


def stream_of(year: int, month: int, number: int = 0) -> UUID:
    """A stream that began in a month."""
    at = datetime(year, month, 10, tzinfo=UTC)
    return uuid7(int(at.timestamp() * 1_000), number.to_bytes(10, "big"))


def months() -> list[tuple[int, int]]:
    """The present month and those made ahead."""
    now = datetime.now(UTC)
    first = now.year * 12 + now.month - 1
    return [divmod(first + n, 12) for n in range(MONTHS)]


async def rows(url: str, what: str, table: str, then: str = "") -> list[Any]:
    """What stands in a table."""
    return await run(url, f"SELECT {what} FROM {table} {then}")  # noqa: S608 - a test's own words


async def run(url: str, *statements: str) -> list[Any]:
    """What the last of some statements finds, by the role of the URL."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        found: list[Any] = []
        for statement in statements:
            found = [tuple(row) for row in await connection.fetch(statement)]
        return found
    finally:
        await connection.close()


@pytest.fixture
async def service_url(postgres_url: str) -> str:
    """A migrated database, by the role of a service; its owner's URL is `postgres_url`."""
    return await postgres.migrated(postgres_url, [migrations.FOLDER])


@pytest.fixture
async def service(service_url: str) -> AsyncIterator[SqlStore]:
    """A store by the role of a service, with a stream of each month that has a partition."""
    store = SqlStore(open_engine(service_url), KEYS)
    plan = Plan(due=(Due("turn", "1", 60_000),))
    for year, month in months():
        for at in (0, 1):
            wanted = append(at, "A", stream=stream_of(year, month + 1), secret=b"hidden", plan=plan)
            await store.append(wanted)
    yield store
    await store.close()


async def test_each_month_has_a_partition_of_its_own(service: SqlStore, postgres_url: str) -> None:
    """Made by the migration for the present month and three more; a stream is whole in its own."""
    for table in TABLES:
        found = await rows(
            postgres_url, "DISTINCT stream::text, tableoid::regclass::text", table, "ORDER BY 1"
        )
        assert found == [
            (str(stream_of(year, month + 1)), f"{table}_{year}_{month + 1:02}")
            for year, month in months()
        ]


CHANGES = ("UPDATE {} SET version = version + 10", "DELETE FROM {}", "TRUNCATE {}")
REFUSED = asyncpg.exceptions.RaiseError
DENIED = asyncpg.exceptions.InsufficientPrivilegeError


@pytest.mark.parametrize("table", ["events", "event_secrets"])
@pytest.mark.parametrize("change", CHANGES)
async def test_nobody_changes_the_log(
    service: SqlStore, service_url: str, postgres_url: str, table: str, change: str
) -> None:
    """Not the service and not the owner, not by the table and not by one of its partitions, not as
    a replica: a service lacks the right, everybody is refused by a trigger."""
    year, month = months()[0]
    whole = await rows(postgres_url, "*", table, "ORDER BY stream, version")
    for name in (table, f"{table}_{year}_{month + 1:02}", f"{table}_other"):
        with pytest.raises(DENIED):
            await run(service_url, change.format(name))
        if name.endswith("other") and not change.startswith("TRUNCATE"):
            continue  # there is nothing in it that could be changed
        with pytest.raises(REFUSED, match="never changed or removed"):
            await run(postgres_url, change.format(name))
        with pytest.raises(REFUSED, match="never changed or removed"):
            await run(postgres_url, "SET session_replication_role = replica", change.format(name))
    assert await rows(postgres_url, "*", table, "ORDER BY stream, version") == whole


async def test_a_service_can_neither_detach_nor_drop_nor_disarm(service_url: str) -> None:
    """What takes a month away, or its guards, is the owner's alone."""
    year, month = months()[0]
    part = f"events_{year}_{month + 1:02}"
    for statement in (
        f"ALTER TABLE events DETACH PARTITION {part}",
        f"DROP TABLE {part}",
        "DROP TABLE events",
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "CREATE TABLE mine (n integer)",
        f"TABLE {part}",
    ):
        with pytest.raises(DENIED):
            await run(service_url, statement)


async def test_a_month_leaves_as_a_whole(service: SqlStore, postgres_url: str) -> None:
    """Detached by the owner it is gone from the log with its secrets, still there as a table, and
    what stays verifies."""
    year, month = months()[0]
    name = f"{year}_{month + 1:02}"
    for table in ("events", "event_secrets"):
        await run(postgres_url, f"ALTER TABLE {table} DETACH PARTITION {table}_{name}")
    gone, *left = (stream_of(year, month + 1) for year, month in months())
    assert await service.read(gone) == []
    for stream in left:
        assert len(await service.read(stream)) == 2
        assert await verify_stream(service, stream) is None
    assert await rows(postgres_url, "count(*)", f"events_{name}") == [(2,)]
    assert (await service.append(append(2, "B", stream=left[0]))).version == 3


async def test_replicas_make_what_is_missing_at_the_same_time(
    service: SqlStore, service_url: str, postgres_url: str
) -> None:
    """By the role of a service: each month is made once, guarded like the others, and again there
    is nothing to do."""
    year, month = months()[-1]
    name = f"{year}_{month + 1:02}"
    await run(
        postgres_url,
        *(f"ALTER TABLE {table} DETACH PARTITION {table}_{name}" for table in TABLES),
        *(f"DROP TABLE {table}_{name}" for table in TABLES),
    )
    missing = "SELECT count(*) FROM missing_partitions(3)"
    assert await run(service_url, missing) == [(2,)]
    engines = [open_engine(service_url) for _ in range(4)]
    with capture_logs() as lines:
        await asyncio.gather(*(Partitions(engine).make() for engine in engines))
    assert [line["event"] for line in lines] == ["partitions_made"] * 2
    assert await run(service_url, missing) == [(0,)]
    assert await Partitions(engines[0]).make()
    assert await run(service_url, "SELECT make_partitions('events', 3)") == [(0,)]
    for engine in engines:
        await close_engine(engine)
    for table in ("events", "event_secrets"):
        with pytest.raises(REFUSED, match="never changed or removed"):
            await run(postgres_url, f"TRUNCATE {table}_{name}")
    fresh = stream_of(year, month + 1, 7)
    await service.append(append(0, "A", stream=fresh))
    place = f"WHERE stream = '{fresh}'"
    (found,) = await rows(postgres_url, "tableoid::regclass::text", "events", place)
    assert found == (f"events_{name}",)


async def test_who_finds_the_turn_taken_comes_again(
    service: SqlStore, service_url: str, postgres_url: str
) -> None:
    """Whoever has it may be at another table, and leave this one to us."""
    (_, (year, month), *_) = months()
    name = f"{year}_{month + 1:02}"
    await run(postgres_url, *(f"DROP TABLE {table}_{name}" for table in TABLES))
    looked = asyncio.Event()

    def note(*given: Any) -> None:
        if "missing_partitions" in given[2]:
            looked.set()

    event.listen(service._engine.sync_engine, "after_cursor_execute", note)
    other = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    await other.execute(f"SELECT pg_advisory_lock({PARTITIONS_TURN})")
    making = asyncio.create_task(Partitions(service._engine).make())
    await looked.wait()
    await other.close()
    assert await making
    assert await run(service_url, "SELECT count(*) FROM missing_partitions(3)") == [(0,)]


async def test_a_month_that_was_not_made_in_time_is_not_lost(
    service: SqlStore, service_url: str, postgres_url: str
) -> None:
    """Its streams lie in the table of the rest and stay there; the months after it are made."""
    (_, (year, month), *_) = months()
    name = f"{year}_{month + 1:02}"
    await run(postgres_url, *(f"DROP TABLE {table}_{name}" for table in TABLES))
    late = stream_of(year, month + 1, 1)
    await service.append(append(0, "A", stream=late))
    partitions = Partitions(service._engine)
    assert await partitions.make()
    await partitions.check()
    assert await verify_stream(service, late) is None
    held = await run(postgres_url, "SELECT DISTINCT tableoid::regclass::text FROM events_other")
    assert held == [("events_other",)]


async def test_health_fails_a_week_before_the_partitions_run_out(
    service_url: str, postgres_url: str
) -> None:
    """While they cannot be made the log says so each time; health only when time gets short."""
    clock = 0.0
    engine = open_engine(service_url)
    partitions = Partitions(engine, lambda: clock)
    assert await partitions.make()
    await partitions.check()
    refusing = "AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
    year, month = months()[1]
    await run(
        postgres_url,
        "CREATE OR REPLACE FUNCTION make_partitions(wanted text, ahead integer) RETURNS integer "
        f"LANGUAGE plpgsql {refusing}",
        *(f"DROP TABLE {table}_{year}_{month + 1:02}" for table in TABLES),
    )
    with capture_logs() as lines:
        assert not await partitions.make()
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("error", "partitions_not_made")
    ]
    async with read(engine) as connection:
        (left,) = (
            await connection.exec_driver_sql(
                "SELECT extract(epoch FROM min(month) - clock_timestamp() AT TIME ZONE 'UTC')"
                "::float8 FROM missing_partitions(3)"
            )
        ).one()
    clock = left - 7 * 86_400 + 60
    with pytest.raises(PartitionsRunOut):
        await partitions.check()
    clock = left - 7 * 86_400 - 60
    if clock >= 0:
        await partitions.check()
    await close_engine(engine)


async def test_an_append_reaches_for_no_other_month(service: SqlStore, service_url: str) -> None:
    """However many partitions the log has, the statement of a batch looks into none of them: events
    are only inserted."""
    year, month = months()[0]
    stream = stream_of(year, month + 1)
    other = SqlStore(open_engine(service_url), KEYS)
    for version, store in ((2, service), (3, other)):
        plan = Plan(due=(Due("turn", str(version), 60_000),), done=(("turn", str(version - 1)),))
        await store.append(append(version, "A", stream=stream, plan=plan))
    assert isinstance(other._writer, PostgresWriter)
    [session] = other._writer._idle
    asked: set[str] = set()
    for number, prepared in enumerate(session.prepared.values()):
        types = [each.name for each in prepared.get_parameters()]
        arguments = [f"'{stream}'" if each == "uuid" else "NULL" for each in types]
        await session.connection.execute(f"PREPARE batch_{number} AS {prepared.get_query()}")
        lines = await session.connection.fetch(
            f"EXPLAIN EXECUTE batch_{number} ({', '.join(arguments)})"
        )
        told = "\n".join(line[0] for line in lines)
        asked |= set(re.findall(r"Scan.* on (events_\w+)", told))
    await other.close()
    assert not asked


async def test_a_role_that_does_not_exist_is_named(postgres_url: str) -> None:
    """Rights are given to the role the setting names, and it must be there."""
    with pytest.raises(NoSuchRole, match="nobody_here"):
        await migrate(postgres_url, [migrations.FOLDER], "nobody_here")


async def test_one_role_may_do_both(postgres_url: str) -> None:
    """Where services connect as the owner, naming it takes nothing from it."""
    (found,) = await run(postgres_url, "SELECT current_user::text")
    await migrate(postgres_url, [migrations.FOLDER], found[0])
    store = SqlStore(open_engine(postgres_url), KEYS)
    year, month = months()[0]
    stream = stream_of(year, month + 1)
    await store.append(append(0, "A", stream=stream, secret=b"hidden"))
    assert await verify_stream(store, stream) is None
    assert await Partitions(store._engine).make()
    await store.close()
