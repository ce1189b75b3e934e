"""The machine under the services: SQLite, clocks and chance, bent to the simulation's own.

The services' code runs as it is. SQLite is told the time by the loop, its statements run in the
loop's thread and not in threads of the driver, and every random octet comes from the seed.
"""

import asyncio
import random
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import aiosqlite
import pytest
from aiosqlite.core import Connection

from services.runtime import database, migrate
from tests.sim.clockwork import NODE, Clockwork

CONNECT = sqlite3.connect


class LoopConnection(Connection):
    """A connection of the driver without its thread: every call is made where it is awaited."""

    def __init__(self, connector: Any, clockwork: Clockwork) -> None:
        super().__init__(connector, 64)
        self._thread: Any = SimpleNamespace(daemon=True, start=lambda: None)
        self._clockwork = clockwork

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(fn, "__name__", "")
        node = NODE.get()
        if node is not None and not node.alive:
            if name in ("rollback", "close"):
                return None
            raise asyncio.CancelledError
        if name in ("execute", "executemany", "commit"):
            await self._clockwork.disk()
        if self._connection is None:
            raise ValueError("Connection closed")
        return fn(*args, **kwargs)

    async def _connect(self) -> "LoopConnection":
        self._connection = self._connector()
        return self

    def stop(self) -> None:
        """Let the database go at once."""
        self._running = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Let the database go."""
        self.stop()


def connect(
    clockwork: Clockwork, opened: list[sqlite3.Connection], *args: Any, **kwargs: Any
) -> sqlite3.Connection:
    """A connection of SQLite that is told the time; it is gone with its node."""
    connection: sqlite3.Connection = CONNECT(*args, **kwargs)
    opened.append(connection)
    connection.create_function("julianday", 1, clockwork.julian)
    node = NODE.get()
    if node is not None:
        node.connections.append(connection)
    return connection


@contextmanager
def bent(clockwork: Clockwork, seed: int) -> Iterator[None]:
    """Has the services live in the simulation while it lasts.

    Replicas that share a file share its writers' turn: they stand for processes at one server,
    where writers queue. Databases are migrated before.
    """
    made: list[LoopConnection] = []
    opened: list[sqlite3.Connection] = []
    turns: dict[Path, asyncio.Lock] = {}
    DatabaseFile = database.DatabaseFile  # noqa: N806 - a class

    def shared(path: Path) -> database.DatabaseFile:
        return DatabaseFile(path, turn=turns.setdefault(path, asyncio.Lock()))

    def driver(name: Any, *, iter_chunk_size: int = 64, **given: Any) -> Connection:
        made.append(LoopConnection(lambda: sqlite3.connect(name, **given), clockwork))
        return made[-1]

    before = random.getstate()
    random.seed(seed)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", partial(connect, clockwork, opened))
            patch.setattr(aiosqlite, "connect", driver)
            patch.setattr(database, "DatabaseFile", shared)
            patch.setattr(secrets, "_sysrand", Random(f"octets {seed}"))
            patch.setattr(migrate, "_apply", lambda connection, folder, *, online: None)
            patch.setattr(time, "time_ns", clockwork.time_ns)
            patch.setattr(time, "time", lambda: clockwork.time_ns() / 1e9)
            patch.setattr(time, "monotonic", clockwork.time)
            yield
    finally:
        for driven in made:
            driven.stop()
        for connection in opened:
            connection.close()
        random.setstate(before)
