"""Players' limits as they are kept: read, changed, and held to.

Whatever changes what a player may play, or counts what he has played, is done by one transaction
at a time for each player (`take_turns`), on whichever replica.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, not_found
from services.lobby.erasures import require_staying
from services.lobby.limits import (
    FOR_GOOD,
    Ask,
    Exclusion,
    Limit,
    LimitKind,
    Restraint,
    Usage,
    excluded,
    with_own,
    withdrawn,
)
from services.lobby.periods import Period, begun, renewed
from services.lobby.schema import exclusions, limit_changes, limits, players
from services.lobby.usage import refused, restraints, take_turns, usage
from services.runtime.database import database_now, read, write
from services.runtime.store.api import RequestReused

CHANGES_A_DAY = 100
"""How often a player may change his limits in a day, exclusion for good aside: each is kept."""


class Action(IntEnum):
    """What was changed; the numbers are those of the wire."""

    SET = 1
    WITHDRAWN = 2
    EXCLUDED = 3
    SET_BY_HOUSE = 4
    EXCLUDED_BY_HOUSE = 5


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is asked for. `kind` is None for exclusions, `operator` empty for the player's
    own; `request` and `body` are hashes of 32 octets that name it."""

    player: UUID
    action: Action
    request: bytes
    body: bytes
    kind: LimitKind | None = None
    amount: int | None = None
    until: int | None = None
    operator: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """A change that was made: its number among the player's, when, and when it takes effect."""

    number: int
    changed_at: int
    effect_at: int
    change: Change


@dataclass(frozen=True, slots=True)
class Held:
    """What limits a player, what he has used of it, and the moment this was so."""

    player: UUID
    restraint: Restraint
    usage: Usage
    now: int


class LimitBook:
    """The limits in one database; every method raises StoreUnavailable when it is gone.

    `clock` (Unix microseconds) stands in for the database's in tests.
    """

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None = None) -> None:
        self._engine = engine
        self._clock = clock

    async def limited(self, player: UUID) -> bool:
        """Whether a player is limited in any way."""
        async with read(self._engine) as connection:
            return bool(await restraints(connection, [player]))

    async def require(self, player: UUID, ask: Ask) -> None:
        """Raise Refused LIMIT_REACHED or EXCLUDED where a player may not begin such a game now.

        What is asked for is not put aside: only the start of the game does that.
        """
        async with read(self._engine) as connection:
            restraint = (await restraints(connection, [player])).get(player)
            if restraint is None:
                return
            now = await self._now(connection)
            why = await refused(connection, player, restraint, ask, now)
        if why is not None:
            raise why

    async def stopped(self, ids: Iterable[UUID]) -> list[UUID]:
        """Those of these players who may begin no game at all any more today."""
        async with read(self._engine) as connection:
            found = await restraints(connection, ids)
            if not found:
                return []
            now = await self._now(connection)
            return [
                player
                for player, restraint in found.items()
                if await refused(connection, player, restraint, Ask(), now) is not None
            ]

    async def look(self, player: UUID) -> Held:
        """A player's limits."""
        async with read(self._engine) as connection:
            return await self._held(connection, player)

    async def change(self, change: Change) -> Held:
        """Make a change once, however often it is asked for; the limits after it.

        Raises RequestReused, and Refused: PLAYER_NOT_FOUND, BEING_ERASED, NO_CHANGE_PENDING,
        EXCLUSION_STANDS, TOO_MANY_CHANGES.
        """
        async with write(self._engine) as connection:
            await take_turns(connection, [change.player])
            await _require_person(connection, change.player)
            if not await self._repeated(connection, change):
                await self._make(connection, change)
            return await self._held(connection, change.player)

    async def made(self, change: Change) -> bool:
        """Whether a change was made, when it was asked for before; raises RequestReused."""
        async with read(self._engine) as connection:
            return await self._repeated(connection, change)

    async def changes(self, player: UUID, before: int | None, limit: int) -> list[Noted]:
        """Changes of a player's limits with a lower number, newest first."""
        query = select(limit_changes).where(limit_changes.c.player_id == player)
        if before is not None:
            query = query.where(limit_changes.c.number < before)
        query = query.order_by(limit_changes.c.number.desc()).limit(limit)
        async with read(self._engine) as connection:
            return [_noted(row) for row in await connection.execute(query)]

    async def _held(self, connection: AsyncConnection, player: UUID) -> Held:
        found = await restraints(connection, [player])
        now = await self._now(connection)
        used = await usage(connection, player, now)
        return Held(player, found.get(player, Restraint()), used, now)

    async def _repeated(self, connection: AsyncConnection, change: Change) -> bool:
        earlier = await connection.scalar(
            select(limit_changes.c.body).where(
                limit_changes.c.player_id == change.player,
                limit_changes.c.request == change.request,
            )
        )
        if earlier is not None and earlier != change.body:
            raise RequestReused
        return earlier is not None

    async def _make(self, connection: AsyncConnection, change: Change) -> None:
        player, now = change.player, await self._now(connection)
        await _require_patience(connection, change, now)
        restraint = (await restraints(connection, [player])).get(player, Restraint())
        if change.kind is None:
            await _write_exclusion(connection, player, _excluded(restraint.exclusion, change))
            effect_at = now
        else:
            limit = _changed(restraint.limit(change.kind), change, now)
            await _write_limit(connection, player, change.kind, limit)
            effect_at = limit.loosening.at if limit.loosening is not None else now
        if change.action is Action.SET_BY_HOUSE:
            effect_at = now
        last = select(func.max(limit_changes.c.number)).where(limit_changes.c.player_id == player)
        number = (await connection.scalar(last) or 0) + 1
        await connection.execute(
            insert(limit_changes).values(
                player_id=player,
                number=number,
                changed_at=now,
                action=change.action,
                kind=change.kind or 0,
                amount=change.amount,
                until=change.until,
                effect_at=effect_at,
                operator=change.operator,
                reason=change.reason,
                request=change.request,
                body=change.body,
            )
        )

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()


def _changed(limit: Limit, change: Change, now: int) -> Limit:
    match change.action:
        case Action.SET:
            return with_own(limit, change.amount, now)
        case Action.WITHDRAWN:
            return withdrawn(limit, now)
        case Action.SET_BY_HOUSE:
            return replace(limit, house=change.amount)
        case _:
            raise ValueError(f"no change of a limit: {change.action.name}")


def _excluded(exclusion: Exclusion, change: Change) -> Exclusion:
    until = change.until or 0
    if change.action is Action.EXCLUDED:
        return excluded(exclusion, until)
    return replace(exclusion, house=until)


async def _require_person(connection: AsyncConnection, player: UUID) -> None:
    await require_staying(connection, player)
    known = select(players.c.player_id).where(players.c.player_id == player, ~players.c.bot)
    if await connection.scalar(known) is None:
        raise not_found("PLAYER_NOT_FOUND", "there is no such player")


async def _require_patience(connection: AsyncConnection, change: Change, now: int) -> None:
    """Raise Refused TOO_MANY_CHANGES for a player who changes his limits again and again."""
    if change.operator or change.until == FOR_GOOD:
        return
    row = limit_changes.c
    today = select(func.count()).where(
        row.player_id == change.player,
        row.operator == "",
        row.changed_at >= begun(Period.DAY, now),
    )
    if (await connection.scalar(today) or 0) >= CHANGES_A_DAY:
        raise Refused(
            Kind.EXHAUSTED,
            "TOO_MANY_CHANGES",
            f"limits may be changed {CHANGES_A_DAY} times a day",
            facts={"limit": "limit_changes"},
            retry_after_ms=-((now - renewed(Period.DAY, now)) // 1_000),
        )


async def _write_limit(
    connection: AsyncConnection, player: UUID, kind: LimitKind, limit: Limit
) -> None:
    row = (limits.c.player_id == player, limits.c.kind == kind)
    values = {
        "own": limit.own,
        "loosens_at": limit.loosening.at if limit.loosening else None,
        "loosened": limit.loosening.amount if limit.loosening else None,
        "house": limit.house,
    }
    found = await connection.execute(update(limits).where(*row).values(values))
    if not found.rowcount:
        named = {"player_id": player, "kind": kind}
        await connection.execute(insert(limits).values(named | values))


async def _write_exclusion(connection: AsyncConnection, player: UUID, exclusion: Exclusion) -> None:
    values = {"own_until": exclusion.own, "house_until": exclusion.house}
    row = exclusions.c.player_id == player
    found = await connection.execute(update(exclusions).where(row).values(values))
    if not found.rowcount:
        await connection.execute(insert(exclusions).values({"player_id": player, **values}))


def _noted(row: Any) -> Noted:
    change = Change(
        player=row.player_id,
        action=Action(row.action),
        request=row.request,
        body=row.body,
        kind=LimitKind(row.kind) if row.kind else None,
        amount=row.amount,
        until=row.until,
        operator=row.operator,
        reason=row.reason,
    )
    return Noted(row.number, row.changed_at, row.effect_at, change)
