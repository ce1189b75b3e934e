"""`kozyr migrate`: databases brought up to date, or waited for until they are."""

import argparse
import asyncio
import importlib
import time
from typing import Any

from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, UNREACHABLE, Failure
from services.cli.terminal import command, show
from services.runtime.database import DatabaseInUse
from services.runtime.settings import Settings
from services.runtime.store.api import StoreUnavailable

STORED = ("lobby", "game", "wallet")
"""Services that have a database."""
WAIT_POLL_S = 1.0


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "migrate",
        "Bring the database of a service, or of all, up to date. Safe to run at any time and by "
        "several at once; embedded databases are migrated at start by themselves.",
        "KOZYR_WALLET_DATABASE_URL=postgresql+asyncpg://… kozyr migrate wallet",
    )
    made.add_argument("name", nargs="?", choices=(*STORED, "all"), default="all")
    made.add_argument(
        "--wait",
        type=int,
        metavar="SECONDS",
        help="change nothing, but wait until another has brought them up to date (what a service "
        "of a new release does before it starts); exit code 3 when it takes longer",
    )
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Migrate them, or wait for them, one after the other."""
    where = settings(arguments)
    names = STORED if arguments.name == "all" else (arguments.name,)
    for name in names:
        if arguments.wait is None:
            asyncio.run(migrate_service(where, name))
        else:
            asyncio.run(await_migrated(where, name, arguments.wait))
        show([f"{name}: up to date"])
    return FINE


async def migrate_service(where: Settings, name: str) -> None:
    """Bring one service's database up to date; raises Failure."""
    from services.runtime.eventstore import MIGRATIONS
    from services.runtime.migrate import NoSuchRole, migrate

    server: Any = importlib.import_module(f"services.{name}.server")
    await asyncio.to_thread(where.data_folder.mkdir, parents=True, exist_ok=True)
    try:
        await migrate(where.database_url(name), server.FOLDERS, where.database_role)
        if MIGRATIONS in server.FOLDERS:
            await make_partitions(where.database_url(name))
    except DatabaseInUse:
        raise Failure(f"{name}: its database is in use by a running service") from None
    except NoSuchRole:
        raise Failure(f"{name}: its server has no role {where.database_role}") from None
    except StoreUnavailable:
        raise Failure(f"{name}: its database does not answer", UNREACHABLE) from None


async def await_migrated(where: Settings, name: str, seconds: float) -> None:
    """Wait until a service's database has been brought up to date; raises Failure. An embedded one
    is so when its service starts."""
    from services.runtime.migrate import is_migrated

    server: Any = importlib.import_module(f"services.{name}.server")
    url, until = where.database_url(name), time.monotonic() + seconds
    if url.startswith("sqlite"):
        return
    while True:
        try:
            if await is_migrated(url, server.FOLDERS):
                return
            lacking = "has not been brought up to date"
        except StoreUnavailable:
            lacking = "does not answer"
        if time.monotonic() >= until:
            raise Failure(f"{name}: its database {lacking}", UNREACHABLE)
        await asyncio.sleep(WAIT_POLL_S)


async def make_partitions(url: str) -> None:
    """Make the months to come of an event store, which its service does as well; raises Failure."""
    from services.runtime.database import close_engine, open_engine
    from services.runtime.store.partitions import Partitions

    engine = open_engine(url)
    try:
        if engine.dialect.name == "postgresql" and not await Partitions(engine).make():
            raise Failure("the partitions of the months to come could not be made; run it again")
    finally:
        await close_engine(engine)
