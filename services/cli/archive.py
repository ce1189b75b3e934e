"""`kozyr archive`: finished months as files that check by themselves, and out of the database.

It works on the game service's database directly, as `kozyr migrate` does: only the tables' owner
can detach a month, and reading one through the service would keep its event loop from moves.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.cli import witness
from services.cli.addresses import add_data, settings
from services.cli.archiving import checking, form
from services.cli.archiving.form import Manifest
from services.cli.archiving.opened import note_reader, trusted_keys
from services.cli.archiving.removing import KEEP_MONTHS, Place
from services.cli.archiving.survey import counted, covering, obstacles
from services.cli.archiving.writing import Archivist, held, require_month
from services.cli.outcome import FINE, UNREACHABLE, USAGE, WRONG, Failure
from services.cli.terminal import command, progress, show
from services.game.published import published
from services.runtime.database import close_engine, open_engine, open_reader, read
from services.runtime.keys import load_private, master_keys
from services.runtime.settings import Settings
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.months import Month, archived, parse_month
from services.runtime.store.sql import SqlStore
from verifier.wrong import Wrong

NAMED = 20
"""So many of what stands in the way are named."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "archive",
        "Write the finished games of a month to files that check by themselves, check such files, "
        "take the month out of the database (PostgreSQL, by the owner of its tables), put it back. "
        "Beside the key folder it needs KOZYR_GAME_DATABASE_URL alone. Exits 1 when something is "
        "wrong or in the way, and names it.",
        "kozyr archive write --month 2026-09 archive/2026-09",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="write|verify|detach|drop|attach"
    )
    writing = doing.add_parser("write", help="write a month's logs and a signed manifest")
    verifying = doing.add_parser("verify", help="check every octet and every game of an archive")
    detaching = doing.add_parser("detach", help="check it, compare it, detach the month's tables")
    dropping = doing.add_parser("drop", help="check it again, drop the detached tables")
    attaching = doing.add_parser("attach", help="put detached tables back")
    for each in (writing, detaching, dropping, attaching):
        each.add_argument("--month", required=True, help="as 2026-09; a game's is that of its id")
    for each in (writing, verifying, detaching, dropping):
        each.add_argument("folder", type=Path, metavar="DIR", help="the folder of this month")
    for each in (writing, verifying, detaching):
        each.add_argument(
            "--checkpoints",
            type=Path,
            metavar="FILE",
            help="exported checkpoints, of which one covers the month",
        )
    writing.add_argument(
        "--leave-claims", action="store_true", help="also with claims that are not collected"
    )
    detaching.add_argument(
        "--keep",
        type=int,
        default=KEEP_MONTHS,
        metavar="N",
        help=f"whole months before the present one that stay ({KEEP_MONTHS}; at least 1)",
    )
    for each in (writing, verifying, detaching, dropping, attaching):
        add_data(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    where = settings(arguments)
    try:
        match arguments.doing:
            case "write":
                return asyncio.run(_write(where, arguments))
            case "verify":
                _report(arguments.folder, _verified(where, arguments))
                return FINE
            case "detach":
                return asyncio.run(_detach(where, arguments))
            case "drop":
                return asyncio.run(_drop(where, arguments))
            case _:
                return asyncio.run(_attach(where, arguments))
    except StoreUnavailable as refusal:
        raise Failure(f"the game database does not answer: {refusal}", UNREACHABLE) from None
    except DBAPIError as error:
        problem = type(error.orig).__name__
        raise Failure(
            f"a statement failed ({problem}): tables or rights are not this release's; run "
            "`kozyr migrate game` with the owner's URL"
        ) from None
    except OSError as error:
        named = error.filename or getattr(arguments, "folder", where.keys())
        raise Failure(f"{named}: {error.strerror}") from None


def _month(arguments: argparse.Namespace) -> Month:
    month = parse_month(arguments.month)
    if month is None:
        raise Failure(f"--month: {arguments.month!r} is none; write it as 2026-09", USAGE)
    return month


@asynccontextmanager
async def _opened(where: Settings) -> AsyncIterator[AsyncEngine]:
    """The game database, beside the services that work on it."""
    url = where.database_url("game")
    embedded, file = url.startswith("sqlite"), Path(make_url(url).database or "")
    if embedded and not await asyncio.to_thread(file.is_file):
        raise Failure("there is no game database; name it by KOZYR_GAME_DATABASE_URL or --data")
    engine = open_reader(url) if embedded else open_engine(url, patient=True)
    try:
        yield engine
    finally:
        await close_engine(engine)


# ---------------------------------------------------------------------------------------- writing


async def _write(where: Settings, arguments: argparse.Namespace) -> int:
    month, folder = _month(arguments), arguments.folder
    try:
        key, masters = load_private(where.keys() / "game.key"), master_keys(where)
    except (OSError, ValueError) as error:
        raise Failure(f"the key folder lacks a key of the game service: {error}") from None
    sizes = [size for size, _ in _exported(where, arguments.checkpoints)]
    async with _opened(where) as engine:
        store = SqlStore(engine, masters, published=published)
        async with read(engine) as connection:
            logs, _ = await counted(connection, month)
        found = await obstacles(engine, store, month, leave_claims=arguments.leave_claims)
        if found:
            named = [f"{each.reason} {each.stream or ''}: {each.detail}" for each in found[:NAMED]]
            show([f"WRONG {month}: {len(found)} in the way", *(" ".join(n.split()) for n in named)])
            return WRONG
        if not logs:
            raise Failure(f"there is no game of {month}")
        covers = await covering(engine, month, sizes)
        if covers is None:
            raise Failure(
                f"{arguments.checkpoints}: no checkpoint in it covers {month}; export a newer one"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(folder), progress("archive") as tell:
            require_month(folder, month)
            archivist = Archivist(engine, store, key, month, folder, *covers)
            manifest = await archivist.write(logs, tell)
    show([f"{folder}: {_described(manifest)}"])
    return FINE


def _exported(where: Settings, path: Path | None) -> list[tuple[int, bytes]]:
    """Sizes and roots of the checkpoints of a file."""
    if path is None:
        return []
    lines = witness.read_lines(path, witness.keys_of(where))
    if not lines:
        raise Failure(f"{path}: there are no checkpoints in it")
    return [(line.checkpoint.size, line.checkpoint.root) for line in lines]


# --------------------------------------------------------------------------------------- checking


def _verified(where: Settings, arguments: argparse.Namespace) -> Manifest:
    """The manifest of an archive that is whole and sound; raises Failure for one that is not."""
    folder = arguments.folder
    exported = _exported(where, getattr(arguments, "checkpoints", None))
    try:
        with progress("archive") as tell:
            manifest, checkpoint = checking.check(
                folder, trusted_keys(where), note_reader(where), tell
            )
        if exported and checkpoint and (checkpoint.size, checkpoint.root) not in exported:
            raise Wrong(
                "checkpoint", f"of {checkpoint.size} leaves is none of {arguments.checkpoints}"
            )
    except Wrong as wrong:
        raise Failure(f"WRONG {folder}: {wrong}") from None
    except OSError as error:
        raise Failure(f"WRONG {error.filename or folder}: {error.strerror}") from None
    return manifest


def _report(folder: Path, manifest: Manifest) -> None:
    show([f"ok {folder}: {_described(manifest)}"])


def _described(manifest: Manifest) -> str:
    octets = sum(file.bytes for file in manifest.files)
    return (
        f"{manifest.month}, {manifest.games} games, {manifest.disputes} disputes, "
        f"{manifest.events} events in {octets} octets; manifest {manifest.digest.hex()}, "
        f"key {manifest.key}"
    )


# -------------------------------------------------------------------- out of the database and back


async def _detach(where: Settings, arguments: argparse.Namespace) -> int:
    if arguments.keep < 1:
        raise Failure("--keep: at least 1, for nothing of the month before is at rest", USAGE)
    month = _month(arguments)
    async with _opened(where) as engine:
        place = Place(engine, month)
        await place.require_owner()
        state = await place.state()
        with held(arguments.folder):
            manifest = await _verified_of(where, arguments, month)
            if state != "here":
                await _require_recorded(engine, manifest)
                show([f"{month}: is detached already"])
                return FINE
            _report(arguments.folder, manifest)
            await place.compare(arguments.folder, manifest)
            await place.detach(manifest, arguments.keep)
    tables = f"{place.part('events')} and {place.part('event_secrets')}"
    show([f"{month}: detached; its tables are kept as {tables} until `kozyr archive drop`"])
    return FINE


async def _verified_of(where: Settings, arguments: argparse.Namespace, month: Month) -> Manifest:
    manifest = await asyncio.to_thread(_verified, where, arguments)
    if manifest.month != month:
        raise Failure(f"{arguments.folder}: is the archive of {manifest.month}")
    return manifest


async def _require_recorded(engine: AsyncEngine, manifest: Manifest) -> None:
    """Raises Failure unless this is the archive that the month was detached with."""
    async with read(engine) as connection:
        left = (await archived(connection)).get(manifest.month)
    if left is None:
        raise Failure(f"{manifest.month}: is not detached; `kozyr archive detach` comes first")
    if left.manifest != manifest.digest:
        raise Failure(
            f"{form.MANIFEST}: {manifest.digest.hex()} is not the one that {manifest.month} was "
            f"detached with, {left.manifest.hex()}"
        )


async def _drop(where: Settings, arguments: argparse.Namespace) -> int:
    month = _month(arguments)
    async with _opened(where) as engine:
        place = Place(engine, month)
        await place.require_owner()
        with held(arguments.folder):
            manifest = await _verified_of(where, arguments, month)
            await _require_recorded(engine, manifest)
            _report(arguments.folder, manifest)
            await place.drop(manifest)
    show([f"{month}: its tables are dropped; the archive is all there is"])
    return FINE


async def _attach(where: Settings, arguments: argparse.Namespace) -> int:
    month = _month(arguments)
    async with _opened(where) as engine:
        place = Place(engine, month)
        await place.require_owner()
        match await place.state():
            case "here":
                show([f"{month}: is here"])
                return FINE
            case "dropped":
                raise Failure(
                    f"{month}: its tables were dropped; restore {place.part('events')} and "
                    f"{place.part('event_secrets')} from a dump first"
                )
        await place.attach()
    show([f"{month}: attached again"])
    return FINE
