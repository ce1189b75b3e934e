"""A database may be gone, full, locked or read-only: it says so, and recovers by itself."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asyncpg.exceptions import InternalClientError
from sqlalchemy import event, exc, text

from services.kernel.envelope import Append
from services.runtime import database
from services.runtime.database import (
    DatabaseInUse,
    close_engine,
    database_now,
    open_engine,
    read,
    write,
)
from services.runtime.migrate import migrate, migrate_engine
from services.runtime.store import migrations
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.sql import SqlStore
from services.runtime.store.sqlite import SqliteWriter
from services.runtime.streams import Streams
from tests import postgres
from tests.postgres import drop_database
from tests.runtime.appends import STREAM, append, body
from tests.runtime.conftest import KEYS, Clock
from tests.runtime.counters import COUNTER, Add
from tests.runtime.line import line_to
from tests.runtime.stored import verify_stream


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the SQLite file of the test is."""
    return tmp_path / "folder" / "kozyr.db"


@pytest.fixture
async def embedded(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqlStore]:
    """A store in that file which waits for locks only a moment."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    engine = open_engine(f"sqlite+aiosqlite:///{file}")
    await migrate_engine(engine, [migrations.FOLDER])
    store = SqlStore(engine, KEYS)
    yield store
    await store.close()


async def refused_then_whole(store: SqlStore, version: int, sent: Append | None = None) -> None:
    """Asserts that the store refuses now; the caller heals it and goes on at `version`."""
    with pytest.raises(StoreUnavailable):
        await store.append(sent or append(version))
    with pytest.raises(StoreUnavailable):
        await store.check()


async def goes_on(store: SqlStore, version: int) -> None:
    """Asserts that the store works again and has kept exactly what it acknowledged."""
    assert len(await store.read(STREAM)) == version
    await store.check()
    assert (await store.append(append(version))).version == version + 1
    assert await verify_stream(store, STREAM) is None


def writing(store: SqlStore) -> sqlite3.Connection:
    """The connection over which a store on SQLite appends."""
    assert isinstance(store._writer, SqliteWriter)
    assert store._writer._connection is not None
    return store._writer._connection


# ------------------------------------------------------------------------------------------- SQLite


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_file_that_is_moved_away_and_back(
    embedded: SqlStore, file: Path, what: str
) -> None:
    """Nothing is acknowledged into a file nobody will find, and none is made in its place."""
    await embedded.append(append(0))
    here = file if what == "file" else file.parent
    here.rename(here.with_name("elsewhere"))
    await refused_then_whole(embedded, 1)
    with pytest.raises(StoreUnavailable):
        await embedded.read(STREAM)
    assert await asyncio.to_thread(file.exists) is False
    here.with_name("elsewhere").rename(here)
    await goes_on(embedded, 1)


async def test_a_file_that_is_replaced_is_seen_at_once(embedded: SqlStore, file: Path) -> None:
    """A copy put in its place is what is read and written from then on."""
    await embedded.append(append(0))
    await embedded._engine.dispose()
    copy = file.with_name("copy.db")
    shutil.copy(file, copy)
    await embedded.append(append(1))
    await embedded._engine.dispose()
    copy.rename(file)
    await goes_on(embedded, 1)


async def test_a_full_disk(embedded: SqlStore) -> None:
    """What does not fit is refused whole; with room again, the same append is stored."""
    await embedded.append(append(0))
    room = writing(embedded).execute("PRAGMA max_page_count").fetchone()[0]
    writing(embedded).execute("PRAGMA max_page_count = 1")
    large = append(1, secret=b"x" * 100_000)
    with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
        await embedded.append(large)
    writing(embedded).execute(f"PRAGMA max_page_count = {room}")
    assert len(await embedded.read(STREAM)) == 1
    assert (await embedded.append(large)).version == 2
    await goes_on(embedded, 2)


async def test_a_database_that_became_read_only(embedded: SqlStore) -> None:
    """Reads go on, writes are refused until it may be written again."""
    read_only = True

    def refuse(connection: object) -> None:
        switch = "ON" if read_only else "OFF"
        connection.exec_driver_sql(f"PRAGMA query_only = {switch}")  # type: ignore[attr-defined]

    await embedded.append(append(0))
    event.listen(embedded._engine.sync_engine, "begin", refuse)
    writing(embedded).execute("PRAGMA query_only = ON")
    await refused_then_whole(embedded, 1)
    assert len(await embedded.read(STREAM)) == 1
    read_only = False
    await goes_on(embedded, 1)


async def test_a_database_somebody_else_has_locked(embedded: SqlStore, file: Path) -> None:
    """Waiting for a lock has an end."""
    await embedded.append(append(0))
    intruder = sqlite3.connect(file, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    await refused_then_whole(embedded, 1)
    assert len(await embedded.read(STREAM)) == 1
    intruder.execute("ROLLBACK")
    intruder.close()
    await goes_on(embedded, 1)


async def test_a_write_that_is_cut_off_lets_go_of_the_lock(file: Path) -> None:
    """Wherever its caller was cancelled, it has no effect, and the next write does not wait."""
    engine = open_engine(f"sqlite+aiosqlite:///{file}")
    async with write(engine) as connection:
        await connection.execute(text("CREATE TABLE written (cut boolean)"))

    async def insert(cut: bool) -> None:
        async with write(engine) as connection:
            await connection.execute(text("SELECT count(*) FROM written"))
            await connection.execute(text("INSERT INTO written VALUES (:cut)"), {"cut": cut})
            if cut:
                await asyncio.Event().wait()

    for microseconds in range(0, 4_000, 50):
        writing = asyncio.create_task(insert(True))
        await asyncio.sleep(microseconds / 1e6)
        writing.cancel()
        cut = await asyncio.gather(writing, return_exceptions=True)
        assert isinstance(cut[0], asyncio.CancelledError)
        await insert(False)
    async with read(engine) as connection:
        found = await connection.execute(text("SELECT cut, count(*) FROM written GROUP BY cut"))
        assert found.all() == [(0, 80)]
    await close_engine(engine)


async def test_a_file_that_is_no_database(embedded: SqlStore, file: Path) -> None:
    """Overwritten with something else, and restored."""
    await embedded.append(append(0))
    await embedded._engine.dispose()
    kept = await asyncio.to_thread(file.read_bytes)
    await asyncio.to_thread(file.write_bytes, b"not a database at all" * 500)
    await refused_then_whole(embedded, 1)
    await asyncio.to_thread(file.write_bytes, kept)
    await goes_on(embedded, 1)


async def test_a_path_may_be_called_anything(tmp_path: Path) -> None:
    """Characters that mean something in a URL mean nothing in the name of a file."""
    path = tmp_path / "what? #1 100%41" / "kozyr & co.db"
    engine = open_engine(f"sqlite+aiosqlite:///{str(path).replace('?', '%3F')}")
    await close_engine(engine)
    names = {found.name for found in await asyncio.to_thread(lambda: [*tmp_path.rglob("*.db")])}
    assert names == {"kozyr & co.db"}


async def test_every_sqlite_connection_is_durable_and_strict(embedded: SqlStore) -> None:
    """WAL, synchronous FULL and foreign keys hold on each of them."""
    for use in (read, write):
        async with use(embedded._engine) as connection:
            found = [
                (await connection.exec_driver_sql(f"PRAGMA {pragma}")).scalar_one()
                for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            ]
            assert found == ["wal", 2, 1, 50]


async def test_a_second_process_is_kept_off(embedded: SqlStore, file: Path) -> None:
    """It is told who has the file; once that one has closed, it may have it."""
    opening = (
        "import sys; from services.runtime.database import DatabaseInUse, open_engine\n"
        "try: open_engine(sys.argv[1])\n"
        "except DatabaseInUse as error: sys.exit(f'refused: {error}')"
    )

    async def second() -> tuple[int, str]:
        ended = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", opening, f"sqlite+aiosqlite:///{file}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stderr

    again = open_engine(f"sqlite+aiosqlite:///{file}")
    code, said = await second()
    assert code == 1
    assert f"refused: {file} is open in another process (" in said
    await embedded.close()
    assert (await second())[0] == 1
    await close_engine(again)
    assert await second() == (0, "")
    assert issubclass(DatabaseInUse, RuntimeError)


async def test_a_closed_database_is_not_opened_again(embedded: SqlStore) -> None:
    """Its file may have another owner by then."""
    await embedded.append(append(0))
    await embedded.close()
    await refused_then_whole(embedded, 1)
    with pytest.raises(StoreUnavailable, match="closed"):
        await embedded.read(STREAM)


async def test_damaged_text_does_not_stop_a_reader(embedded: SqlStore, file: Path) -> None:
    """Octets that are no text, written into the file by hand, are found like any other change."""
    await embedded.append(append(0))
    await embedded._engine.dispose()
    intruder = sqlite3.connect(file)
    intruder.execute("DROP TRIGGER events_no_update")
    intruder.execute("UPDATE events SET name = CAST(x'ff' AS TEXT)")
    intruder.commit()
    intruder.close()
    fault = await verify_stream(embedded, STREAM)
    assert fault is not None
    assert fault.version == 1


# --------------------------------------------------------------------------------------- PostgreSQL


async def test_a_server_that_goes_and_comes_back(postgres_url: str) -> None:
    """Cut off, everything is refused soon; back again, everything works without a restart."""
    await migrate(postgres_url, [migrations.FOLDER])
    async with line_to(postgres_url) as line:
        store = SqlStore(open_engine(line.url), KEYS)
        await asyncio.gather(*(store.append(append(0)) for _ in range(5)))
        await line.cut()
        began = time.monotonic()
        await refused_then_whole(store, 1)
        with pytest.raises(StoreUnavailable):
            await store.read(STREAM)
        assert time.monotonic() - began < database.CONNECT_SECONDS * 3
        await line.open()
        await goes_on(store, 1)
        await store.close()


async def test_connections_that_died_in_the_pool_are_not_felt(postgres_url: str) -> None:
    """A server that restarted between two requests costs neither of them."""
    await migrate(postgres_url, [migrations.FOLDER])
    async with line_to(postgres_url) as line:
        store = SqlStore(open_engine(line.url), KEYS)
        await asyncio.gather(*(store.append(append(0)) for _ in range(5)))
        await line.cut()
        await line.open()
        await asyncio.sleep(0.05)
        await goes_on(store, 1)
        await store.close()


async def test_a_server_that_falls_silent(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is an outage after a while, and connections that fell silent are given up."""
    monkeypatch.setattr(database, "COMMAND_SECONDS", 0.3)
    await migrate(postgres_url, [migrations.FOLDER])
    async with line_to(postgres_url) as line:
        store = SqlStore(open_engine(line.url), KEYS)
        await asyncio.gather(*(store.append(append(0)) for _ in range(5)))
        line.stall()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.append(append(1))
        assert time.monotonic() - began < 5
        await goes_on(store, 1)
        await store.close()


@pytest.mark.parametrize("moment", [b"INSERT INTO events", body("add 2")])
async def test_an_outcome_that_was_lost_is_found(
    postgres_url: str, moment: bytes, clock: Clock
) -> None:
    """The line is cut as the statement is prepared, or once it was sent with its values: the
    command acts once and its sender learns it."""
    await migrate(postgres_url, [migrations.FOLDER])
    async with line_to(postgres_url) as line:
        store = SqlStore(open_engine(line.url), KEYS)
        with_line = Streams(store, COUNTER)
        await store.check()
        line.cut_after = moment
        outcome = await with_line.transact(STREAM, Add(2), request_id="a", body_hash=body("add 2"))
        assert line.was_cut
        assert outcome.state.value == 2
        assert [row.version for row in await store.read(STREAM)] == [1, 2]
        await store.close()


async def test_a_lock_that_is_not_given_up_is_unavailable(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for a row somebody holds has an end."""
    monkeypatch.setattr(database, "LOCK_MS", 50)
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await store.append(append(0))
    async with write(store._engine) as connection:
        await connection.execute(text("SELECT * FROM heads FOR UPDATE"))
        with pytest.raises(StoreUnavailable, match="55P03"):
            await store.append(append(1))
    await goes_on(store, 1)
    await store.close()


async def test_a_server_that_only_reads_does_not_pass_the_check(postgres_url: str) -> None:
    """A standby or a database set to read-only refuses writes as UNAVAILABLE."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await store.append(append(0))

    name = postgres_url.rpartition("/")[2]
    ending = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
    only = f"ALTER DATABASE {name} SET default_transaction_read_only"
    postgres.execute(postgres.server_url(), f"{only} = on; {ending}")
    await refused_then_whole(store, 1)
    postgres.execute(postgres.server_url(), f"{only} = off")
    await goes_on(store, 1)
    await store.close()


async def test_a_database_that_does_not_exist_is_unavailable() -> None:
    """Nobody listens there."""
    store = SqlStore(open_engine("postgresql+asyncpg://nobody:nothing@127.0.0.1:1/none"), None)
    await refused_then_whole(store, 0)
    await store.close()


# --------------------------------------------------------------------------------------------- both


async def test_a_fault_of_a_statement_is_no_outage(store: SqlStore) -> None:
    """A broken constraint or a misspelt statement passes as it is, and undoes the transaction."""
    async with write(store._engine) as connection:
        await connection.exec_driver_sql("INSERT INTO pulse (at) VALUES (1)")

    async def change_and(then: str) -> None:
        async with write(store._engine) as connection:
            await connection.exec_driver_sql("UPDATE pulse SET at = 2")
            if not then:
                raise KeyError
            await connection.exec_driver_sql(then)

    for broken in ("INSERT INTO pulse (at) VALUES (NULL)", "SELECT nothing FROM nowhere"):
        with pytest.raises(exc.DBAPIError):
            await change_and(broken)
    with pytest.raises(KeyError):
        await change_and("")
    async with read(store._engine) as connection:
        assert (await connection.exec_driver_sql("SELECT at FROM pulse")).scalar_one() == 1


async def test_a_raw_connection_that_cannot_be_made_is_an_outage(postgres_url: str) -> None:
    """What the driver says comes as it is there, past SQLAlchemy's own errors."""
    engine = open_engine(postgres_url)
    drop_database(postgres_url)
    with pytest.raises(database.DATABASE_ERRORS) as caught:
        await engine.raw_connection()
    assert await database.judge(engine, caught.value) is not None
    await close_engine(engine)


async def test_a_connection_cut_off_in_the_middle_is_an_outage(store: SqlStore) -> None:
    """A driver that finds its connection in no state it knows (the server ended it while this
    process was frozen) is not at fault, and the next write goes through."""
    with pytest.raises(StoreUnavailable):
        async with write(store._engine):
            raise InternalClientError("cannot switch to state 11")
    async with write(store._engine) as connection:
        assert await database_now(connection) > 0


async def test_errors_show_no_values(store: SqlStore) -> None:
    """What is bound to a statement may be a card; no error text repeats it."""
    with pytest.raises(exc.DBAPIError) as raised:
        async with write(store._engine) as connection:
            await connection.execute(
                text("INSERT INTO tags (tag, missing) VALUES (:tag, 1)"), {"tag": "ace of spades"}
            )
    assert "ace of spades" not in str(raised.value)


async def test_the_databases_clock_is_the_worlds(store: SqlStore) -> None:
    """In Unix microseconds, on both engines; it moves on within a transaction."""
    async with write(store._engine) as connection:
        first = await database_now(connection)
        await asyncio.sleep(0.003)
        second = await database_now(connection)
    assert 2_000 <= second - first < 1_000_000
    assert abs(second - time.time_ns() // 1_000) < 2_000_000


@pytest.mark.parametrize(
    "url", ["sqlite:///x.db", "sqlite+aiosqlite:///:memory:", "sqlite+aiosqlite://", "mysql://h/d"]
)
def test_other_urls_are_refused(url: str) -> None:
    """Only the two engines, and SQLite only in a file."""
    with pytest.raises(ValueError, match="URL"):
        open_engine(url)
