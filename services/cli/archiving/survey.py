"""What a month of a game database holds, and what stands in the way of archiving it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.game.checkpoints import checkpoints
from services.game.disputes import CLAIM_TAG, DECIDER, DISPUTE_VERSION
from services.game.endings import refused_ends
from services.game.tree import leaves
from services.kernel.decider import fold
from services.runtime.database import database_now, read
from services.runtime.notes import Checkpoint
from services.runtime.store.months import Month, archived, month_at
from services.runtime.store.schema import heads, tags, work
from services.runtime.store.sql import SqlStore

PAGE = 500
NAMED = 1_000
"""So many of a kind are named at most."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a month cannot be archived: the log it is about, None for the month itself, a word that
    stays, and a sentence."""

    stream: UUID | None
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Covered:
    """A head of the month, and the number of its leaf in the tree, None where it has none."""

    stream: UUID
    version: int
    hash: bytes
    leaf: int | None


def within(column: Any, month: Month) -> Any:
    """Whether a stream began in a month."""
    return and_(column >= month.first, column < month.next.first)


async def obstacles(
    engine: AsyncEngine, store: SqlStore, month: Month, *, leave_claims: bool
) -> list[Obstacle]:
    """All that must be brought to its end first; the month itself before it has passed."""
    async with read(engine) as connection:
        present = month_at(await database_now(connection) // 1_000)
        if month >= present:
            return [Obstacle(None, "MONTH_NOT_OVER", f"{month} is not over")]
        if month in await archived(connection):
            detail = "has left the database; the archive it left with is what there is"
            return [Obstacle(None, "MONTH_ARCHIVED", f"{month} {detail}")]
        found = await _running(connection, month)
        runs = {each.stream for each in found}  # which says all else of them
        others = [*await _undone(connection, month), *await _uncovered(connection, month)]
        found += [each for each in others if each.stream not in runs]
    if not leave_claims:
        found += await _claims(engine, store, month)
    return sorted(found, key=lambda each: (each.stream or UUID(int=0), each.reason))


async def _running(connection: AsyncConnection, month: Month) -> list[Obstacle]:
    rows = await connection.execute(
        select(heads.c.stream)
        .where(within(heads.c.stream, month), ~heads.c.ended)
        .order_by(heads.c.stream)
        .limit(NAMED)
    )
    return [
        Obstacle(stream, "DISPUTE_OPEN", "the dispute is not closed")
        if stream.version == DISPUTE_VERSION
        else Obstacle(stream, "GAME_RUNNING", "the game has not ended")
        for stream in rows.scalars()
    ]


async def _undone(connection: AsyncConnection, month: Month) -> list[Obstacle]:
    """Settlements and whatever else is due, in the table of 0.1.0 as well, and refused ends."""
    due = select(work.c.stream, work.c.kind).where(within(work.c.stream, month))
    rows = list(await connection.execute(due.order_by(work.c.stream).limit(NAMED)))
    if connection.dialect.name == "postgresql":
        old = text("SELECT stream, kind FROM due WHERE stream >= :first AND stream < :end LIMIT :n")
        given = {"first": month.first, "end": month.next.first, "n": NAMED}
        rows += list(await connection.execute(old, given))
    found = [Obstacle(stream, "WORK_LEFT", f"`{kind}` is still due") for stream, kind in rows]
    ends = select(refused_ends.c.stream, refused_ends.c.step, refused_ends.c.reason)
    for stream, step, reason in await connection.execute(
        ends.where(within(refused_ends.c.stream, month)).limit(NAMED)
    ):
        found.append(Obstacle(stream, "END_REFUSED", f"{step} is refused: {reason}"))
    return found


async def _uncovered(connection: AsyncConnection, month: Month) -> list[Obstacle]:
    rows = await connection.execute(
        _with_leaf(month).where(leaves.c.number.is_(None)).order_by(heads.c.stream).limit(NAMED)
    )
    detail = (
        "no checkpoint covers its last event; one will within seconds where a game service runs"
    )
    return [Obstacle(row.stream, "NOT_COVERED", detail) for row in rows]


def _with_leaf(month: Month) -> Select[Any]:
    same = and_(leaves.c.stream == heads.c.stream, leaves.c.version == heads.c.version)
    return (
        select(heads.c.stream, heads.c.version, heads.c.hash, leaves.c.number)
        .outerjoin(leaves, and_(same, leaves.c.head == heads.c.hash))
        .where(within(heads.c.stream, month))
    )


async def _claims(engine: AsyncEngine, store: SqlStore, month: Month) -> list[Obstacle]:
    query = select(tags.c.stream).where(tags.c.tag == CLAIM_TAG, within(tags.c.stream, month))
    async with read(engine) as connection:
        streams = list((await connection.execute(query)).scalars())
    found = []
    for stream in streams:
        state = fold(DECIDER, DECIDER.initial, await store.read(stream))
        left = sum(map(state.outstanding, state.claims))
        if left:
            detail = f"{left} chips of its claims are not collected"
            found.append(Obstacle(stream, "CLAIM_OPEN", detail))
    return found


async def covered(engine: AsyncEngine, month: Month) -> AsyncGenerator[list[Covered], None]:
    """Every head of the month in the order of ids, page by page."""
    query = _with_leaf(month).order_by(heads.c.stream).limit(PAGE)
    after: UUID | None = None
    while True:
        page = query if after is None else query.where(heads.c.stream > after)
        async with read(engine) as connection:
            found = [Covered(*row) for row in await connection.execute(page)]
        if found:
            yield found
        if len(found) < PAGE:
            return
        after = found[-1].stream


async def counted(connection: AsyncConnection, month: Month) -> tuple[int, int]:
    """How many logs of the month there are, and events by what their heads say."""
    sums = select(func.count(), func.coalesce(func.sum(heads.c.version), 0))
    row = (await connection.execute(sums.where(within(heads.c.stream, month)))).one()
    return int(row[0]), int(row[1])


async def covering(
    engine: AsyncEngine, month: Month, sizes: Sequence[int] = ()
) -> tuple[Checkpoint, str] | None:
    """The first checkpoint that covers the month, and its note; None where nothing does.

    With `sizes`, those of exported checkpoints, the first of these.
    """
    end = select(func.max(leaves.c.number)).where(within(leaves.c.stream, month))
    query = select(checkpoints).order_by(checkpoints.c.size).limit(1)
    async with read(engine) as connection:
        last = (await connection.execute(end)).scalar_one()
        if last is None:
            return None
        large = [size for size in sizes if size > last]
        query = query.where(
            checkpoints.c.size == min(large) if large else checkpoints.c.size > last
        )
        row = (await connection.execute(query)).one_or_none() if large or not sizes else None
    return None if row is None else (Checkpoint(row.size, row.root, row.at), row.note)
