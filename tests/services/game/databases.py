"""The databases of game and wallet on either engine, for tests that need both: empty and migrated,
reached on PostgreSQL by the role that services connect as."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from services.game import server as game_server
from services.runtime.migrate import migrate
from services.wallet import server as wallet_server
from tests import postgres

ENGINES = ("sqlite", "postgresql")
FOLDERS = {"game": game_server.FOLDERS, "wallet": wallet_server.FOLDERS}
Urls = Mapping[str, str]
"""Where each service's database is."""


@dataclass(frozen=True, slots=True)
class Templates:
    """Databases that are copied, which is sooner done than migrated anew."""

    engine: str
    folder: Path
    urls: Urls

    @contextmanager
    def copies(self) -> Iterator[Urls]:
        """A copy of each, for as long as it is used."""
        if self.engine == "sqlite":
            folder = self.folder / uuid4().hex
            folder.mkdir()
            for name in FOLDERS:
                shutil.copy(self.folder / f"{name}.db", folder)
            yield {name: _file(folder, name) for name in FOLDERS}
            shutil.rmtree(folder)
            return
        made = {name: _copied(url) for name, url in self.urls.items()}
        try:
            yield made
        finally:
            for url in made.values():
                postgres.drop_database(url)


@contextmanager
def templates(engine: str, folder: Path) -> Iterator[Templates]:
    """Empty databases of both services, brought up to date."""
    if engine == "sqlite":
        urls = {name: _file(folder, name) for name in FOLDERS}
        for name, url in urls.items():
            postgres.in_own_loop(migrate(url, FOLDERS[name]))
        yield Templates(engine, folder, urls)
        return
    owned = {name: postgres.create_database() for name in FOLDERS}
    try:
        yield Templates(
            engine,
            folder,
            {
                name: postgres.in_own_loop(postgres.migrated(url, FOLDERS[name]))
                for name, url in owned.items()
            },
        )
    finally:
        for url in owned.values():
            postgres.drop_database(url)


def _file(folder: Path, name: str) -> str:
    return f"sqlite+aiosqlite:///{folder}/{name}.db"


def _copied(url: str) -> str:
    """A database made from the one of this URL, which nobody is connected to."""
    parts = urlsplit(url)
    source, name = parts.path.removeprefix("/"), f"kozyr_{uuid4().hex}"
    postgres.execute(postgres.server_url(), f"CREATE DATABASE {name} TEMPLATE {source}")
    return urlunsplit(parts._replace(path=f"/{name}"))
