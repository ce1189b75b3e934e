"""Databases that can be put back to a moment: SQLite by copies, PostgreSQL by its archived log."""

import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from services.cli.migrate import STORED
from tests.postgres import SETTINGS, Embedded, execute, make_embedded

Urls = Mapping[str, str]
"""Where each service's database is, by the service's name."""


class Site(Protocol):
    """Where the databases of one installation are, and their backups."""

    def live(self) -> Urls:
        """The databases that are played on; empty where they are new."""

    def mark(self, moment: str) -> None:
        """From here on all can be put back to this moment."""

    def lose(self) -> None:
        """What was live is gone; only backups are left."""

    def restored(self, moments: Mapping[str, str]) -> Urls:
        """New databases, each as it was at its moment."""

    def close(self) -> None:
        """End what runs."""


class Files:
    """SQLite: the online backup of each file, made while the services write to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies = 0

    def live(self) -> Urls:
        """Files that the services make."""
        return self._urls(self._folder / "live")

    def mark(self, moment: str) -> None:
        """A copy of each file, whole in itself."""
        (self._folder / moment).mkdir()
        for name in STORED:
            with (
                closing(sqlite3.connect(self._folder / "live" / f"{name}.db")) as source,
                closing(sqlite3.connect(self._folder / moment / f"{name}.db")) as target,
            ):
                source.backup(target)

    def lose(self) -> None:
        """The folder is gone."""
        shutil.rmtree(self._folder / "live")

    def restored(self, moments: Mapping[str, str]) -> Urls:
        """The copies of these moments, copied once more: they stay as they are."""
        self._copies += 1
        folder = self._folder / f"restored-{self._copies}"
        folder.mkdir()
        for name, moment in moments.items():
            shutil.copy(self._folder / moment / f"{name}.db", folder)
        return self._urls(folder)

    def close(self) -> None:
        """Nothing runs."""

    def _urls(self, folder: Path) -> Urls:
        folder.mkdir(exist_ok=True)
        return {name: f"sqlite+aiosqlite:///{folder / name}.db" for name in STORED}


class Servers:
    """PostgreSQL: a base backup, and every piece of its log since, archived as it is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = make_embedded(folder)
        self._home = folder / "home"
        self._archive, self._base = self._home / "archive", self._home / "base"
        self._run("mkdir", str(self._archive))
        archiving = {
            "archive_mode": "on",
            "archive_command": f"cp %p {self._archive}/%f",
            "wal_level": "replica",
        }
        self._running = [self._cluster.start({**SETTINGS, **archiving})]
        for name in STORED:
            execute(self._cluster.url, f"CREATE DATABASE {name} TEMPLATE template0")
        self._run(
            *(self._cluster.programs / "pg_basebackup", "--pgdata", self._base),
            *("--wal-method", "fetch", "--checkpoint", "fast", "--dbname", self._cluster.url),
        )

    def live(self) -> Urls:
        """One server's databases."""
        return self._urls(self._cluster, STORED)

    def mark(self, moment: str) -> None:
        """A named place in the log, and the log up to it archived."""
        execute(self._cluster.url, f"SELECT pg_create_restore_point('{moment}')")
        execute(self._cluster.url, "SELECT pg_switch_wal()")

    def lose(self) -> None:
        """The server is stopped at once and its folder removed; what was archived is left."""
        self.close()
        shutil.rmtree(self._cluster.data)

    def restored(self, moments: Mapping[str, str]) -> Urls:
        """A new server for each moment, which plays the log up to it on the base backup."""
        urls: dict[str, str] = {}
        for moment in dict.fromkeys(moments.values()):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            place = self._home / f"restored-{port}"
            self._run("cp", "-a", str(self._base), str(place))
            self._run("touch", str(place / "recovery.signal"))
            parts = urlsplit(self._cluster.url)
            netloc = f"{parts.netloc.rpartition(':')[0]}:{port}"
            cluster = replace(
                self._cluster,
                data=place,
                port=port,
                url=urlunsplit(parts._replace(netloc=netloc)),
            )
            recovery = {
                "restore_command": f"cp {self._archive}/%f %p",
                "recovery_target_name": moment,
                "recovery_target_action": "promote",
                "archive_mode": "off",
            }
            self._running.append(cluster.start({**SETTINGS, **recovery}))
            for name in STORED:
                execute(cluster.url, "SELECT pg_promote(true) WHERE pg_is_in_recovery()")
                if moments[name] == moment:
                    urls |= self._urls(cluster, (name,))
        return urls

    def close(self) -> None:
        """Every server that runs is stopped at once."""
        for server in self._running:
            with suppress(ProcessLookupError):
                server.send_signal(signal.SIGQUIT)
            server.wait()
        self._running.clear()

    def _urls(self, cluster: Embedded, names: tuple[str, ...]) -> Urls:
        parts = urlsplit(cluster.url)._replace(scheme="postgresql+asyncpg")
        return {name: urlunsplit(parts._replace(path=f"/{name}")) for name in names}

    def _run(self, *command: str | Path) -> None:
        """Runs a program as the account the server runs as."""
        place = {**self._cluster.place, "stderr": subprocess.PIPE}
        done = subprocess.run(list(map(str, command)), **place, check=False)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.decode(errors='replace')}")
