"""A PostgreSQL that is stopped hard, cut off and filled up, on a file system of its own."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from services.cli.migrate import STORED, migrate_service
from services.runtime.settings import Settings
from tests.postgres import SETTINGS, STARTED, Embedded, make_embedded

DISK_MB = 640
SAFE = {"fsync": "on", "full_page_writes": "on"}
SMALL = {"max_wal_size": "128MB", "min_wal_size": "32MB", "shared_buffers": "64MB"}
BALLAST = "ballast"
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname IN ('lobby', 'game', 'wallet') AND pid <> pg_backend_pid()
"""
GORGE = "SELECT pg_logical_emit_message(false, 'drill', repeat('x', 1000000))"
"""Writes a megabyte to the server's own log and nowhere else."""


class Database:
    """One server with a database for each service that stores anything.

    `disk` is the root of its own small file system, None where none could be mounted.
    """

    def __init__(self, cluster: Embedded, disk: Path | None, *, safe: bool) -> None:
        self._cluster = cluster
        self._disk = disk
        self._settings = {**SETTINGS, **SMALL, **(SAFE if safe else {})}
        self._server = cluster.start(self._settings)
        self.crashes = 0

    @property
    def can_be_full(self) -> bool:
        """Whether its disk can be filled up without filling another's."""
        return self._disk is not None

    def url(self, service: str) -> str:
        """The service's database as its settings name it."""
        parts = urlsplit(self._cluster.url)
        return urlunsplit(parts._replace(scheme="postgresql+asyncpg", path=f"/{service}"))

    async def make(self) -> None:
        """Make the services' databases, empty but for their tables."""
        for name in STORED:
            await self.run("postgres", f"CREATE DATABASE {name} TEMPLATE template0")
            given = {"data_folder": self._cluster.log.parent}
            settings = Settings.model_validate({**given, f"{name}_database_url": self.url(name)})
            await migrate_service(settings, name)

    async def run(self, name: str, statement: str) -> list[Any]:
        """Run a statement in a database; its rows."""
        connection = await asyncpg.connect(
            urlunsplit(urlsplit(self._cluster.url)._replace(path=f"/{name}")), timeout=10
        )
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    async def stop_hard(self) -> None:
        """`pg_ctl stop -m immediate`: what is in memory is lost, the next start recovers."""
        with suppress(ProcessLookupError):
            self._server.send_signal(signal.SIGQUIT)
        await asyncio.to_thread(self._server.wait)

    async def start(self) -> None:
        """Start it again and wait until it answers."""
        STARTED.remove(self._server)
        self._server = await asyncio.to_thread(self._cluster.start, self._settings)

    async def cut(self) -> int:
        """End every connection of the services; how many there were."""
        return len(await self.run("postgres", CUT))

    @asynccontextmanager
    async def full(self, *, log: bool) -> AsyncIterator[None]:
        """Leave not one free block on its disk while the context lasts.

        With `log` not even in what the server keeps for its own log: then it ends itself, and
        whoever runs it starts it again. Without, it refuses what takes a new page.
        """
        if self._disk is None:
            raise ValueError("its disk is not its own")
        ballast = self._disk / BALLAST
        await asyncio.to_thread(fill, ballast)
        try:
            if log:
                with suppress(asyncpg.exceptions.PostgresError, OSError):
                    while True:
                        await self.run("postgres", GORGE)
                self.crashes += 1
            yield
        finally:
            await asyncio.to_thread(give_back, ballast)
            if log:
                await self.stop_hard()
                await self.start()

    def close(self) -> None:
        """End the server."""
        with suppress(ProcessLookupError):
            self._server.send_signal(signal.SIGQUIT)
        self._server.wait()


def fill(ballast: Path) -> None:
    """Write until the disk is full."""
    with ballast.open("wb", buffering=0) as written:
        step = 2**24
        while step >= 2**12:
            try:
                os.posix_fallocate(written.fileno(), written.seek(0, os.SEEK_END), step)
            except OSError:
                step //= 2


def give_back(ballast: Path) -> None:
    """Remove it; when this returns, its room is there for whoever starts next."""
    ballast.unlink()
    folder = os.open(ballast.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def open_database(folder: Path, *, safe: bool) -> Iterator[Database]:
    """A fresh server below `folder`; `safe` waits for the disk at every commit."""
    place = folder / "postgres"
    place.mkdir(mode=0o755)
    with small_disk(place, folder / "disk.img", DISK_MB) as disk:
        database = Database(make_embedded(place), disk, safe=safe)
        try:
            yield database
        finally:
            database.close()


@contextmanager
def small_disk(place: Path, image: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system of its own at `place`: ext4 in a file, else memory; None without the right."""
    mounted = os.geteuid() == 0 and (
        all(
            _ran(*command)
            for command in (
                ("truncate", f"--size={megabytes}M", str(image)),
                ("mkfs.ext4", "-q", "-m", "0", str(image)),
                ("mount", "-o", "loop", str(image), str(place)),
            )
        )
        or _ran("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "kozyr", str(place))
    )
    try:
        yield place if mounted else None
    finally:
        if mounted:
            end = time.monotonic() + 10
            while not _ran("umount", str(place)) and time.monotonic() < end:
                time.sleep(0.1)
        image.unlink(missing_ok=True)


def _ran(*command: str) -> bool:
    with suppress(OSError):
        return not subprocess.run(command, check=False, capture_output=True).returncode
    return False
