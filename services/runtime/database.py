"""Databases: SQLite in a file or PostgreSQL, reached through SQLAlchemy Core, async.

`open_engine` opens one, `write` and `read` give a connection in a transaction, and every way a
database can be gone or refuse becomes `StoreUnavailable` here and nowhere else. An engine recovers
by itself: connections that died are thrown away at the next use and new ones are made.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy import URL, BigInteger, Engine, event, exc, make_url, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from services.runtime.store.api import StoreUnavailable

SQLITE = "sqlite+aiosqlite"
POSTGRES = "postgresql+asyncpg"

BUSY_SECONDS = 5.0
"""How long SQLite waits for a lock that another connection holds."""
CONNECT_SECONDS = 3.0
STATEMENT_MS = 8_000
LOCK_MS = 4_000
IDLE_IN_TRANSACTION_MS = 5_000
"""A process that froze in a transaction loses its locks after this time."""
COMMAND_SECONDS = 10.0
"""How long a PostgreSQL command may stay unanswered, should its server not end it first."""

PRAGMAS = (
    *("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=4000"),
    "secure_delete=ON",
)
"""What every SQLite connection is set to. Many games write to the same pages again and again: what
stays in the log for 16 MB is copied into the file, and waited for, a quarter as often. What is
deleted is overwritten, as most builds do anyway; `shredding.py` says what that leaves."""
SQLITE_REFUSALS = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOTADB,
}
READ_ONLY = "25006"
POSTGRES_REFUSALS = (
    "08",  # connection exceptions
    READ_ONLY,
    "28",  # authorization
    "3D000",  # there is no such database
    "40",  # serialization failure, deadlock
    "53",  # disk full, out of memory, too many connections
    "55P03",  # lock timeout
    "57",  # cancelled by a timeout, shut down, starting up
    "58",  # system errors
    "XX001",  # damaged data
    "XX002",  # damaged index
)


DATABASE_ERRORS = (
    *(exc.SQLAlchemyError, sqlite3.Error, OSError),
    *(PostgresError, InterfaceError, InternalClientError, exc.EmulatedDBAPIException),
)
"""All that can come from a database; `judge` says which of it is an outage."""


class DatabaseInUse(RuntimeError):
    """Another process has opened this SQLite database."""


@dataclass(slots=True)
class DatabaseFile:
    """What this process knows of one engine's SQLite file."""

    path: Path
    held: bool = True
    """Whether this process holds the lock file, and may write."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    closed: bool = False

    @property
    def uri(self) -> str:
        """The file as SQLite is told of it."""
        return f"file:{quote(str(self.path))}"

    def connect(self) -> sqlite3.Connection:
        """A connection beside the engine's, for whoever has the turn; any thread may use it."""
        connection = sqlite3.connect(
            f"{self.uri}?mode=rw",
            *(BUSY_SECONDS, 0, None),
            uri=True,
            check_same_thread=False,
        )
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def identity(self) -> tuple[int, int]:
        """Device and inode of the file at the path now; raises StoreUnavailable if there is none.

        SQLite goes on writing to a file that was moved away; nobody would find it there. Once the
        engine was closed, the file may belong to another process.
        """
        if self.closed:
            raise StoreUnavailable("the database was closed")
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreUnavailable(f"the database file is gone ({error.strerror})") from error
        return found.st_dev, found.st_ino


FILES: WeakKeyDictionary[Engine, DatabaseFile] = WeakKeyDictionary()
LOCKS: dict[Path, tuple[int, int]] = {}
"""The lock files this process holds: descriptor, and how many engines share it."""


def open_engine(url: str, *, pool_size: int | None = None, patient: bool = False) -> AsyncEngine:
    """Opens `sqlite+aiosqlite:///file` or `postgresql+asyncpg://user:password@host/name`.

    A missing SQLite file is created here, empty, and never again later, so a file that disappears
    is noticed. One process at a time may have a SQLite file open. No connection is made yet.
    A `patient` engine lets PostgreSQL statements take as long as they need (migrations).
    Raises DatabaseInUse, and ValueError for any other kind of URL.
    """
    parsed = make_url(url)
    if parsed.drivername == SQLITE:
        return open_sqlite(parsed, pool_size or 4)
    if parsed.drivername == POSTGRES:
        return open_postgres(parsed, pool_size or 10, patient)
    raise ValueError(
        f"a database URL starts with {SQLITE}: or {POSTGRES}:, not {parsed.drivername}:"
    )


def open_reader(url: str) -> AsyncEngine:
    """Opens a database that another process of the same service has open, for reading alone."""
    parsed = make_url(url)
    if parsed.drivername == SQLITE:
        return sqlite_engine(DatabaseFile(Path(parsed.database or "").resolve(), held=False), 1)
    return open_postgres(parsed, 1, patient=False)


def open_sqlite(url: URL, pool_size: int) -> AsyncEngine:
    """The engine of a SQLite file: WAL, every commit on disk, writers one after another."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise ValueError(f"a SQLite URL names a file: {SQLITE}:///folder/name.db")
    path = Path(url.database).resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hold(path)
    path.touch(mode=0o600)
    if not path.stat().st_size:  # a new file becomes WAL here: two connections at it would collide
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    return sqlite_engine(DatabaseFile(path), pool_size)


def sqlite_engine(file: DatabaseFile, pool_size: int) -> AsyncEngine:
    """The engine of a SQLite file that exists."""
    mode = "rw" if file.held else "ro"
    engine = create_async_engine(
        URL.create(SQLITE, database=file.uri, query={"mode": mode, "uri": "true"}),
        connect_args={"isolation_level": None, "timeout": BUSY_SECONDS},
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=BUSY_SECONDS,
        pool_use_lifo=True,
        pool_reset_on_return=None,
    )
    FILES[engine.sync_engine] = file

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        record.info["identity"] = file.identity()
        connection.driver_connection.text_factory = read_text
        cursor = connection.cursor()
        for pragma in PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "checkout")
    def compare(connection: Any, record: Any, proxy: Any) -> None:
        if record.info["identity"] != file.identity():
            raise exc.InvalidatePoolError

    @event.listens_for(engine.sync_engine, "reset")
    def undo(connection: Any, record: Any, state: Any) -> None:
        if connection.driver_connection.in_transaction:  # a COMMIT that failed leaves it open
            connection.rollback()

    @event.listens_for(engine.sync_engine, "close")
    def give_up(connection: Any, record: Any) -> None:
        driver = connection.driver_connection
        driver._tx.put_nowait((None, partial(undo_closing, driver)))  # noqa: SLF001 - before its end

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def undo_closing(driver: Any) -> None:
    """Undoes what a SQLite connection that is about to be closed has open; in its own thread.

    Who is cancelled in the middle of a transaction gives its connection up. SQLite keeps a closed
    connection, the write lock included, for as long as a cursor of it lives, such as one that a
    traceback refers to.
    """
    connection = driver._connection  # noqa: SLF001 - there is no other way to it from here
    if connection is not None and connection.in_transaction:
        connection.rollback()


def read_text(octets: bytes) -> str:
    """Text as stored; octets that are no UTF-8 (somebody wrote into the file) survive."""
    return octets.decode("utf-8", "surrogateescape")


def open_postgres(url: URL, pool_size: int, patient: bool) -> AsyncEngine:
    """The engine of a PostgreSQL database, with a bound on every wait unless it is patient."""
    engine = create_async_engine(
        url,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "command_timeout": None if patient else COMMAND_SECONDS,
            "server_settings": {
                "application_name": "kozyr",
                "statement_timeout": "0" if patient else str(STATEMENT_MS),
                "lock_timeout": "0" if patient else str(LOCK_MS),
                "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
            },
        },
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=COMMAND_SECONDS,
        pool_use_lifo=True,
    )

    @event.listens_for(engine.sync_engine, "checkout")
    def compare(connection: Any, record: Any, proxy: Any) -> None:
        if connection.driver_connection.is_closed():
            raise exc.InvalidatePoolError

    return engine


async def close_engine(engine: AsyncEngine) -> None:
    """Closes the connections and lets other processes have a SQLite file. May be repeated.

    A closed SQLite engine raises StoreUnavailable when it is used.
    """
    await engine.dispose()
    file = FILES.get(engine.sync_engine)
    if file is not None and not file.closed:
        file.closed = True
        if file.held:
            release(file.path)


def hold(path: Path) -> None:
    """Takes the lock file beside a SQLite file for this process; raises DatabaseInUse."""
    descriptor, engines = LOCKS.get(path, (-1, 0))
    if not engines:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DatabaseInUse(
                f"{path} is open in another process ({owner or 'unknown'}); "
                "only one may use a SQLite database at a time"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode("ascii"))
    LOCKS[path] = (descriptor, engines + 1)


def release(path: Path) -> None:
    """Gives the lock file back once the last engine of this process on it has closed."""
    descriptor, engines = LOCKS.pop(path)
    if engines > 1:
        LOCKS[path] = (descriptor, engines - 1)
    else:
        os.close(descriptor)


@asynccontextmanager
async def write(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection in a transaction that may write; committed at the end, undone by an exception.

    In SQLite it has the write lock from the start. Raises StoreUnavailable when the database is
    gone or refuses, also while committing: then the outcome is unknown. Errors of the statements
    themselves (a broken constraint) pass as SQLAlchemy raises them.
    """
    file = FILES.get(engine.sync_engine)
    try:
        if file is None:
            async with engine.begin() as connection:
                yield connection
            return
        async with file.turn:
            identity = file.identity()
            async with engine.begin() as connection:
                yield connection
            if file.identity() != identity:
                raise StoreUnavailable("the database file was replaced during a write")
    except DATABASE_ERRORS as error:
        if refusal := await judge(engine, error):
            raise refusal from error
        raise


@asynccontextmanager
async def read(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection that only reads: one snapshot in SQLite, one a statement in PostgreSQL.

    Raises StoreUnavailable when the database is gone.
    """
    try:
        if engine.sync_engine in FILES:
            async with engine.connect() as connection:
                yield await connection.execution_options(reads=True)
        else:
            async with engine.connect() as connection:
                yield await connection.execution_options(isolation_level="AUTOCOMMIT")
    except DATABASE_ERRORS as error:
        if refusal := await judge(engine, error):
            raise refusal from error
        raise


async def judge(engine: AsyncEngine, error: Exception) -> StoreUnavailable | None:
    """Whether this error means that the database is gone or refuses; None if it is our fault.

    The text names the kind of error only: messages of databases quote values.
    """
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        if code & 0xFF not in SQLITE_REFUSALS:
            return None
        if code & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
            await engine.dispose()
        return StoreUnavailable(f"SQLite refuses ({getattr(cause, 'sqlite_errorname', code)})")
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        if state == READ_ONLY:
            await engine.dispose()  # after a failover the writable server is found by connecting
        if state.startswith(POSTGRES_REFUSALS):
            return StoreUnavailable(f"PostgreSQL refuses (SQLSTATE {state})")
        return None
    if isinstance(error, TimeoutError):
        await engine.dispose()  # what did not answer once may never do so again
    lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    driver_lost = InterfaceError | InternalClientError  # the latter: a word of farewell was unread
    if isinstance(error, exc.EmulatedDBAPIException):
        lost = True  # statements' errors come wrapped: no raw connection could be made
    if lost or isinstance(cause, OSError | exc.TimeoutError | driver_lost):
        return StoreUnavailable(f"the database does not answer ({type(cause).__name__})")
    if isinstance(error, exc.InterfaceError | exc.OperationalError):
        return StoreUnavailable(f"the database connection failed ({type(cause).__name__})")
    return None


class now_us(FunctionElement[int]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock, Unix microseconds, at the moment of evaluation (SQLite: whole ms)."""

    name = "now_us"
    type = BigInteger()
    inherit_cache = True


@compiles(now_us, "postgresql")
def now_us_postgres(element: now_us, compiler: Any, **kwargs: Any) -> str:
    """PostgreSQL: the wall clock, not the transaction's start."""
    return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


@compiles(now_us, "sqlite")
def now_us_sqlite(element: now_us, compiler: Any, **kwargs: Any) -> str:
    """SQLite: the Julian day holds whole milliseconds; rounding recovers them exactly."""
    return "(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"


async def database_now(connection: AsyncConnection) -> int:
    """The database's clock, Unix microseconds."""
    return (await connection.execute(select(now_us()))).scalar_one()
