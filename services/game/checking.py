"""One game checked against everything its own database has of it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from uuid import UUID

from sqlalchemy import select, union
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import audit, tree
from services.game.accesses import ACCESSES
from services.game.audit import Fault
from services.game.dispute_audit import dispute_faults
from services.game.disputes import DISPUTE_VERSION
from services.game.endings import end_faults
from services.game.listing import listing_faults
from services.game.model import Stage, State
from services.game.tree import Leaf, leaves
from services.kernel.envelope import Head, Recorded
from services.runtime.database import read
from services.runtime.slices import finished
from services.runtime.store.api import Damaged, Log, Store, StoreUnavailable
from services.runtime.store.months import archived, month_of
from services.runtime.store.schema import events, heads
from services.runtime.store.sealing import KeyUnknown

LOGS_AT_ONCE = 4
"""How many logs are read in one statement."""


async def logs_after(engine: AsyncEngine, after: UUID | None, limit: int) -> list[UUID]:
    """Ids of everything there is a trace of, in order: of games and disputes that have a head, or
    events without one, or a place in the tree and nothing else."""
    page = []
    for column in (heads.c.stream, events.c.stream, leaves.c.stream):
        query = select(column).where(column != ACCESSES).distinct().order_by(column).limit(limit)
        if after is not None:
            query = query.where(column > after)
        page.append(select(query.subquery().c.stream))
    found = union(*page).subquery()
    async with read(engine) as connection:
        ids = await connection.execute(select(found.c.stream).order_by(found.c.stream).limit(limit))
        return list(ids.scalars())


@dataclass(frozen=True, slots=True)
class Held:
    """A head that somebody else kept: of this version, or of any where it is 0."""

    version: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class End:
    """Where a game's log has come to, for those who have to agree with it: the wallet."""

    state: State
    head: bytes


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found. `covered` is the version of the game's last leaf in the tree, 0 for none;
    `end` is None where the log has a fault or the wallet knows nothing of the game; `archived` is
    whether the log has left the database, so that only its head was looked at."""

    events: int
    version: int
    covered: int
    faults: tuple[Fault, ...]
    end: End | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """What the database has of a game beside its log: its leaves in the tree, why its end was
    refused, whether its month has left."""

    leaves: Sequence[Leaf]
    end_fault: Fault | None
    archived: bool


async def look_beside(engine: AsyncEngine, games: Sequence[UUID]) -> dict[UUID, Beside]:
    """What there is beside the logs of some games; to be read before the logs themselves."""
    async with read(engine) as connection:
        kept = await tree.leaves_of(connection, games)
        ends = await end_faults(connection, games)
        left = await archived(connection)
    return {game: Beside(kept[game], ends.get(game), month_of(game) in left) for game in games}


async def read_ahead(
    store: Store, games: Sequence[UUID]
) -> AsyncGenerator[tuple[UUID, Log | None], None]:
    """The games with their logs, some read at once, and the next ones while these are looked at.

    None stands for a log that is to be read by itself: it, or one read with it, is damaged, or the
    database did not answer.
    """
    pages = [games[at : at + LOGS_AT_ONCE] for at in range(0, len(games), LOGS_AT_ONCE)]
    reading: asyncio.Task[Mapping[UUID, Log]] | None = None
    try:
        for page, following in zip_longest(pages, pages[1:], fillvalue=()):
            now = reading or asyncio.create_task(_read_some(store, page))
            reading = asyncio.create_task(_read_some(store, following)) if following else None
            logs = await now
            for game in page:
                yield game, logs.get(game)
    finally:
        if reading is not None:
            reading.cancel()


async def _read_some(store: Store, games: Sequence[UUID]) -> Mapping[UUID, Log]:
    try:
        return await store.wholes(games)
    except (Damaged, KeyUnknown, StoreUnavailable):
        return {}


async def check_game(
    engine: AsyncEngine,
    store: Store,
    game_id: UUID,
    held: Sequence[Held] = (),
    beside: Beside | None = None,
    log: Log | None = None,
) -> Checked | None:
    """Everything but the wallet; None where there is nothing of this id.

    `beside` is looked up, and the log then read, unless they were, for several games at once.
    Raises StoreUnavailable, KeyUnknown.
    """
    if beside is None:
        beside = (await look_beside(engine, [game_id]))[game_id]
    kept = beside.leaves
    head, rows, faults = await _read(store, game_id) if log is None else (*log, [])
    if head is None and not rows and not kept and not faults:
        return None
    if head is not None and not rows and not faults and beside.archived:
        faults = archived_faults(head, kept, held)
        covered = kept[-1].version if kept else 0
        return Checked(0, head.version, covered, tuple(faults), archived=True)
    is_game = game_id.version != DISPUTE_VERSION
    faults = faults or _there(head, rows, kept)
    state = State()
    if not faults and is_game:
        faults, state = await finished(audit.examining(game_id, rows, head))
    elif not faults:
        faults = dispute_faults(game_id, rows, head)
    if rows:
        faults = [*faults, *covered_faults(kept, rows)]
    if not any(fault.kind == "DAMAGED" for fault in faults):
        faults = [*faults, *held_faults(held, rows)]
    end = None
    if is_game and not faults:
        faults = await listing_faults(engine, game_id, rows)
        end = None if faults else _end(state, rows)
    if beside.end_fault is not None:
        faults = [*faults, beside.end_fault]
    covered = kept[-1].version if kept else 0
    return Checked(len(rows), head.version if head else 0, covered, tuple(faults), end)


async def _read(store: Store, game_id: UUID) -> tuple[Head | None, list[Recorded], list[Fault]]:
    """The head and the stored rows of one moment, or where they are not what was stored."""
    try:
        head, rows = await store.whole(game_id)
    except Damaged as damage:
        head = await store.head(game_id)
        return head, [], [Fault(damage.version, "DAMAGED", damage.problem)]
    return head, rows, []


def _there(head: Head | None, rows: Sequence[Recorded], kept: Sequence[Leaf]) -> list[Fault]:
    """Whether there is a log at all."""
    if head is not None:
        return []
    if rows:
        return [Fault(0, "HEAD_MISSING", f"there are {len(rows)} events and no head")]
    return [Fault(0, "GAME_MISSING", f"a checkpoint covers {kept[-1].version} events of it")]


def covered_faults(kept: Sequence[Leaf], rows: Sequence[Recorded]) -> list[Fault]:
    """The first leaf of a game that its log does not lead to."""
    hashes = {row.version: row.hash for row in rows}
    for leaf in kept:
        if leaf.version not in hashes:
            detail = "the tree has an event that the log has not"
        elif hashes[leaf.version] != leaf.head:
            detail = "the log up to here is not the one that took its place in the tree"
        else:
            continue
        return [Fault(leaf.version, "NOT_AS_CHECKPOINTED", detail)]
    return []


def archived_faults(head: Head, kept: Sequence[Leaf], held: Sequence[Held] = ()) -> list[Fault]:
    """Whether the head of a log that has left is that of its last leaf, as it was when it left; and
    the heads that somebody kept of it those of its leaves, where it has one of their versions."""
    if not kept or (kept[-1].version, kept[-1].head) != (head.version, head.hash):
        detail = "the head of the archived log is not that of its last place in the tree"
        return [Fault(head.version, "NOT_AS_CHECKPOINTED", detail)]
    known = {leaf.version: leaf.head for leaf in kept}
    return [
        Fault(one.version, "NOT_AS_HELD", "the log never had the head that somebody kept of it")
        for one in held
        if known.get(one.version, one.hash) != one.hash
    ]


def held_faults(held: Sequence[Held], rows: Sequence[Recorded]) -> list[Fault]:
    """The heads that somebody kept and the log never had."""
    hashes = {row.hash: row.version for row in rows}
    return [
        Fault(one.version, "NOT_AS_HELD", "the log never had the head that somebody kept of it")
        for one in held
        if hashes.get(one.hash) is None or one.version not in (0, hashes[one.hash])
    ]


def _end(state: State, rows: Sequence[Recorded]) -> End | None:
    has_chips = state.stage is Stage.CANCELLED or any(seat.reservation_id for seat in state.seats)
    return End(state, rows[-1].hash) if rows and has_chips else None
