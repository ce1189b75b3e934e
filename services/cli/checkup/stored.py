"""The three databases, read beside the services that write them: nothing is changed in any."""

import asyncio
import importlib
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from alembic.util import CommandError
from sqlalchemy import exists, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.cli.checkup.symptoms import Symptom, age, bad, ok, warn
from services.cli.migrate import STORED
from services.lobby.schema import erasures
from services.runtime.database import close_engine, database_now, open_reader, read
from services.runtime.eventstore import MIGRATIONS
from services.runtime.keys import master_keys
from services.runtime.migrate import missing
from services.runtime.settings import Settings
from services.runtime.store import masters
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.partitions import AHEAD, LEFT, SHORT_S
from services.runtime.store.schema import heads, work
from services.wallet.tables import ACCOUNTS, RESERVATIONS

LATE_US = 60_000_000
"""Work that is due for so long has been tried in vain, or by nobody."""
ERASING_MS = 600_000
EXPIRED_US = 300_000_000
ERASED = 7
"""The step at which an erasure has ended."""
PENDING, PINNED = 1, 2
GAMES_MAX = 1_000
"""So many games with chips in escrow are compared with the log."""
BALANCES = select(func.coalesce(func.sum(ACCOUNTS.c.balance), 0))
DRIFT = (
    "stop the wallets, keep a copy of the database as it is, and look with `kozyr wallet "
    "trial-balance` and `kozyr audit --all` (deploy/README.md, Drift alarm)"
)
FREE_BAD, FREE_WARN = 2**28, 2**30
NAMED = 3
"""So many of them are named."""
OPENING_MS = 600_000
"""The wallet holds chips before there is a game: no start takes so long."""
HELD = (
    select(RESERVATIONS.c.game_id)
    .where(RESERVATIONS.c.state == PINNED)
    .distinct()
    .order_by(RESERVATIONS.c.game_id)
    .limit(GAMES_MAX)
)
ENDING = exists().where(work.c.stream == heads.c.stream, work.c.kind == "end").label("ending")


@dataclass(slots=True)
class Held:
    """The games for which the wallet holds chips; None where that was not seen."""

    games: list[UUID] | None = None


def clock_us() -> int:
    """This machine's clock, Unix microseconds."""
    return time.time_ns() // 1_000


async def look(settings: Settings) -> list[Symptom]:
    """What each database is like, and whether wallet and game tell the same story."""
    symptoms, held = [], Held()
    for name in ("lobby", "wallet", "game"):
        symptoms += await _database(settings, name, held)
    return symptoms + _disk(settings)


async def _database(settings: Settings, name: str, held: Held) -> list[Symptom]:
    check, url = f"database {name}", settings.database_url(name)
    if not _is_here(settings, name):
        return [
            warn(
                check,
                "it is not here and was not looked at",
                f"name it by KOZYR_{name.upper()}_DATABASE_URL (the services' role is enough), "
                "or the data folder by --data",
            )
        ]
    engine = open_reader(url)
    try:
        return await _looked_at(settings, name, engine, held)
    except StoreUnavailable as refusal:
        return [
            bad(
                check,
                f"it cannot be read: {refusal}",
                "see that it runs, that this machine reaches it, and that role, password and "
                "database are those of the services",
            )
        ]
    except DBAPIError as error:
        problem = type(error.orig).__name__
        return [
            bad(
                check,
                f"a statement failed ({problem}): tables or rights are not this release's",
                "run `kozyr migrate all` with the owner's URLs and KOZYR_DATABASE_ROLE",
            )
        ]
    finally:
        await close_engine(engine)


def _is_here(settings: Settings, name: str) -> bool:
    """Whether there is a database to look at: one that was named, or any in the data folder."""
    given = getattr(settings, f"{name}_database_url") is not None
    return given or any((settings.data_folder / f"{each}.db").exists() for each in STORED)


async def _looked_at(
    settings: Settings, name: str, engine: AsyncEngine, held: Held
) -> list[Symptom]:
    server: Any = importlib.import_module(f"services.{name}.server")
    async with read(engine) as connection:
        symptoms = [await _migrated(connection, name, server.FOLDERS)]
        if symptoms[0].level == "bad":
            return symptoms
        symptoms.append(await _clock(settings, name, connection))
        if MIGRATIONS in server.FOLDERS:
            if engine.dialect.name == "postgresql":
                symptoms.append(await _partitions(connection, name))
            symptoms += await _due(settings, name, connection)
        match name:
            case "lobby":
                symptoms.append(await _erasures(settings, connection))
            case "game":
                symptoms += await _masters(settings, connection)
                if held.games is not None:
                    symptoms.append(await _agreement(connection, held.games))
            case _:
                symptoms += [await _balances(connection), await _reservations(connection)]
                held.games = list((await connection.execute(HELD)).scalars())
    return symptoms


async def _migrated(connection: AsyncConnection, name: str, folders: Iterable[Path]) -> Symptom:
    check, left = f"schema {name}", 0
    for folder in folders:
        try:
            left += len(await connection.run_sync(missing, folder))
        except CommandError:
            return warn(
                check,
                "a later release has migrated it",
                "finish the upgrade, or use the `kozyr` of the release that runs",
            )
    if left:
        return bad(
            check,
            f"{left} migrations have not been applied",
            f"`kozyr migrate {name}`, with the owner's URL; an embedded one is migrated by its "
            "service at its start",
        )
    return ok(check, "at this release")


async def _clock(settings: Settings, name: str, connection: AsyncConnection) -> Symptom:
    """The database's clock, which judges deadlines, beside this machine's."""
    check, before = f"clock of database {name}", clock_us()
    at = await database_now(connection)
    off = max(before - at, at - clock_us(), 0) / 1_000
    if off > settings.clock_skew_ms:
        return bad(
            check,
            f"{round(off)} ms from this machine's",
            "set the clocks of all machines by one source (NTP), the database's slowly: turns end "
            "by it",
        )
    return ok(check, "that of this machine, to within a round trip" if off < 1 else f"{off:.0f} ms")


async def _partitions(connection: AsyncConnection, name: str) -> Symptom:
    check, advice = f"months {name}", f"`kozyr migrate {name}` makes them, with the owner's URL"
    left: float | None = (await connection.execute(LEFT, {"ahead": AHEAD})).scalar_one()
    if left is None:
        return ok(check, f"partitions are made for this month and {AHEAD} more")
    if left < SHORT_S:
        return bad(check, f"partitions last for {age(max(0.0, left) * 1_000)} only", advice)
    return warn(check, f"partitions are made for {age(left * 1_000)} only", advice)


async def _due(settings: Settings, name: str, connection: AsyncConnection) -> list[Symptom]:
    """Work that waits for longer than anything should: nobody takes it, or it is refused."""
    check, now = f"due work {name}", await database_now(connection)
    nobody = now - max(LATE_US // 2, 3_000 * settings.due_lease_ms)
    columns = (work.c.kind, func.count(), func.min(work.c.due_at), func.max(work.c.attempts))
    of_kind = select(*columns).group_by(work.c.kind).order_by(work.c.kind)
    left = await connection.execute(of_kind.where(work.c.ready_at <= nobody))
    symptoms = [
        bad(
            check,
            f"{count} of kind `{kind}` wait for somebody to do them, the oldest for "
            f"{age((now - due) / 1_000)}",
            f"no replica of {name} does due work: see that one of this release runs, and what its "
            "log says",
        )
        for kind, count, due, _ in left
    ]
    late = of_kind.where(work.c.due_at <= now - LATE_US, work.c.ready_at > nobody)
    symptoms += [
        warn(
            check,
            f"{count} of kind `{kind}` are tried in vain, the oldest for "
            f"{age((now - due) / 1_000)}, up to {tries} times",
            f"the log of {name} says why; for `end`: `kozyr audit --all` names the games "
            "(deploy/README.md, A game's end that is refused)",
        )
        for kind, count, due, tries in await connection.execute(late)
    ]
    if symptoms:
        return symptoms
    waiting = select(func.count()).select_from(work)
    return [ok(check, f"{(await connection.execute(waiting)).scalar_one()} rows, none late")]


async def _erasures(settings: Settings, connection: AsyncConnection) -> Symptom:
    long = ERASING_MS + settings.player_token_ms + settings.clock_skew_ms
    now = await database_now(connection)
    late = erasures.c.step < ERASED, erasures.c.asked_at < now - long * 1_000
    count, since = (
        await connection.execute(select(func.count(), func.min(erasures.c.asked_at)).where(*late))
    ).one()
    if not count:
        return ok("erasures", "none is late")
    return warn(
        "erasures",
        f"{count} have not ended, the oldest asked for {age((now - since) / 1_000)} ago",
        "`kozyr players erasures --open` names the step; a line `erasure_left_for_later` in the "
        "log of lobby says what it waits for",
    )


async def _balances(connection: AsyncConnection) -> Symptom:
    """What all accounts hold in all, which a wallet that is unsound does not tell any more."""
    check, total = "balances", (await connection.execute(BALANCES)).scalar_one()
    if not total:
        return ok(check, "all accounts sum to zero")
    return bad(check, f"all accounts sum to {total}, not to zero", DRIFT)


async def _reservations(connection: AsyncConnection) -> Symptom:
    now = await database_now(connection)
    late = RESERVATIONS.c.state == PENDING, RESERVATIONS.c.expires_at < now - EXPIRED_US
    query = select(func.count(), func.min(RESERVATIONS.c.expires_at)).where(*late)
    count, since = (await connection.execute(query)).one()
    if not count:
        return ok("reservations", "none is held beyond its time")
    return bad(
        "reservations",
        f"{count} are held beyond their time, the oldest for {age((now - since) / 1_000)}",
        "the wallet gives them back by itself within seconds: see that one runs, and its log",
    )


async def _masters(settings: Settings, connection: AsyncConnection) -> list[Symptom]:
    """Whether the master keys under which games run are here, and open them."""
    check, used = "master keys", await masters.uses(connection)
    try:
        keys = await asyncio.to_thread(master_keys, settings)
    except FileNotFoundError:
        return [
            warn(check, "there are none here to compare", "look on the machine of a game service")
        ]
    except (OSError, ValueError):
        return [bad(check, "the current one cannot be read", "put it back from its backup")]
    lost = set(filter(None, (each.strip() for each in settings.master_keys_lost.split(","))))
    symptoms = []
    for use in used:
        if use.key_id in keys.keys and await masters.opens(connection, keys, use.key_id):
            continue
        told = f"key {use.key_id}, which {use.running} running and {use.streams} games in all need"
        advice = (
            f"put it back as master.{use.key_id}.key from its backup; where it is lost for good, "
            "deploy/README.md, A lost key"
        )
        make = bad if use.running and use.key_id not in lost else warn
        symptoms.append(make(check, f"{told}, is not here", advice))
    return symptoms or [ok(check, f"the {len(used)} in use are here and open what they wrap")]


def _disk(settings: Settings) -> list[Symptom]:
    """What is free beside embedded databases."""
    check, folder = "disk", settings.data_folder
    if not any((folder / f"{each}.db").exists() for each in STORED):
        return []
    free = shutil.disk_usage(folder).free
    said = f"{free // 2**20} MiB are free at {folder}"
    advice = "make room: a database that is full takes no move, and nothing is lost meanwhile"
    if free < FREE_BAD:
        return [bad(check, said, advice)]
    return [warn(check, said, advice) if free < FREE_WARN else ok(check, said)]


async def _agreement(connection: AsyncConnection, held: Sequence[UUID]) -> Symptom:
    """Whether each game that the wallet holds chips for is there and will still ask for its end."""
    check, now = "chips in play", await database_now(connection)
    old = [game for game in held if made_at_ms(game) < now / 1_000 - OPENING_MS]
    asked = select(heads.c.stream, heads.c.ended, ENDING).where(heads.c.stream.in_(old))
    there = {row.stream: row for row in await connection.execute(asked)}
    lost = [game for game in old if game not in there]
    lost += [game for game, row in there.items() if row.ended and not row.ending]
    if not lost:
        return ok(check, f"{len(held)} games have chips in escrow, all of them are there")
    return bad(
        check,
        f"the wallet holds chips for {len(lost)} games that will never ask for them, "
        f"{', '.join(map(str, sorted(lost)[:NAMED]))}{' …' if len(lost) > NAMED else ''}: they "
        "are not in the game database, or have ended there without paying",
        "one of the two was restored to another moment: `kozyr audit --all`, then `kozyr wallet "
        "void GAME REASON` for each (deploy/README.md, Restoring)",
    )


def made_at_ms(game: UUID) -> int:
    """When a game's id was made, Unix milliseconds."""
    return game.int >> 80
