"""The record of erasures: who is being erased or was, and how far that has come.

A player with a row here sits down nowhere and is given no token. One replica at a time takes an
erasure further: it puts the row's `due_at` off while it does, and another goes on should it die.
"""

import secrets
import unicodedata
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from sqlalchemy import and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, denied, invalid, not_found
from services.lobby.schema import PERSONAL, erasures, players, refresh_tokens
from services.runtime.database import database_now, read, write

UNDER_WAY_MS = 500
"""When to ask again about an erasure that another call takes further."""


class Step(IntEnum):
    """How far an erasure has come; the numbers are those of `ErasureStep`."""

    ASKED = 1
    AGREED = 2
    EMPTIED = 3
    FORGOTTEN = 4
    ERASED = 5
    SHREDDED = 6
    ENDED = 7


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure; moments are database time, Unix microseconds. The order of fields is the row's.

    `erasure` names it to other services; one that is asked for anew has another.
    """

    player: UUID
    erasure: UUID
    asked_at: int
    asked_by: str
    give_up_chips: bool
    leave_claims: bool
    step: Step
    due_at: int
    chips: int
    erased_at: int | None
    ends_at: int | None


@dataclass(frozen=True, slots=True)
class Wish:
    """That a player be erased; `name` is what whoever wishes it takes for the player's name."""

    player: UUID
    name: str
    by: str
    give_up_chips: bool
    leave_claims: bool


class Erasures:
    """The erasures of one database; every method raises StoreUnavailable when it is gone.

    Who takes one further has it for `lease_ms`. `clock` (Unix microseconds) stands in for the
    database's in tests.
    """

    def __init__(
        self, engine: AsyncEngine, lease_ms: int, clock: Callable[[], int] | None = None
    ) -> None:
        self._engine = engine
        self._lease_ms = lease_ms
        self._clock = clock

    async def begin(self, wish: Wish) -> Erasure:
        """The player's erasure, ours to take further unless he is erased already.

        Raises Refused PLAYER_NOT_FOUND, INVALID_FIELD (`confirm_name`), and ERASURE_UNDER_WAY
        while somebody else takes it further.
        """
        async with write(self._engine) as connection:
            who = select(players).where(players.c.player_id == wish.player, ~players.c.bot)
            player = (await connection.execute(who.with_for_update())).one_or_none()
            found = await _find(connection, wish.player)
            if found is None:
                if player is None:
                    raise not_found("PLAYER_NOT_FOUND", "there is no such player")
                if unicodedata.normalize("NFC", wish.name) != player.display_name:
                    raise invalid("confirm_name", "is not the player's name")
                return await self._insert(connection, wish)
            if found.step >= Step.ERASED:
                return found
            held = await self._hold(connection, found)
        if held is None:
            raise _under_way()
        return held

    async def hold(self, player: UUID) -> Erasure | None:
        """An erasure that is due, now ours to take further; None if it is not, or somebody's."""
        async with write(self._engine) as connection:
            found = await _find(connection, player)
            return None if found is None else await self._hold(connection, found)

    async def due(self, limit: int = 50) -> list[UUID]:
        """Whose erasures are to be taken further now, the longest waiting first."""
        async with read(self._engine) as connection:
            now = await self._now(connection)
            rows = await connection.execute(
                select(erasures.c.player_id)
                .where(erasures.c.step < Step.ENDED, erasures.c.due_at <= now)
                .order_by(erasures.c.due_at)
                .limit(limit)
            )
            return list(rows.scalars())

    async def put_off(self, erasure: Erasure, after_ms: int) -> None:
        """Let go of an erasure, to be taken further after so long."""
        async with write(self._engine) as connection:
            await self._update(connection, erasure, after_ms)

    async def advance(self, erasure: Erasure, step: Step, chips: int | None = None) -> Erasure:
        """Note that an erasure has come to a step, and go on having it."""
        kept = erasure.chips if chips is None else chips
        async with write(self._engine) as connection:
            return await self._update(connection, erasure, step=step, chips=kept)

    async def rest(self, erasure: Erasure) -> Erasure:
        """All is done that can be before the last of the player's tokens has ended."""
        async with write(self._engine) as connection:
            left_ms = ((erasure.ends_at or 0) - await self._now(connection)) // 1_000
            return await self._update(connection, erasure, max(left_ms, 0), step=Step.SHREDDED)

    async def drop(self, erasure: Erasure) -> None:
        """The player stays: the erasure was refused before anything was done."""
        async with write(self._engine) as connection:
            await connection.execute(
                delete(erasures).where(_held(erasure), erasures.c.step <= Step.AGREED)
            )

    async def remove(self, erasure: Erasure, tokens_ms: int) -> Erasure:
        """Remove the player's row, his tokens and all else that is held of him; tokens still out
        end within `tokens_ms`."""
        mine = refresh_tokens.c.player_id == erasure.player
        row = players.c.player_id == erasure.player
        async with write(self._engine) as connection:
            await lock_player(connection, erasure.player)
            await connection.execute(delete(refresh_tokens).where(mine))
            for table in PERSONAL:
                gone = delete(table).where(table.c.player_id == erasure.player)
                await connection.execute(gone)
            await connection.execute(delete(players).where(row))
            now = await self._now(connection)
            ends_at = now + tokens_ms * 1_000
            return await self._update(
                connection, erasure, step=Step.ERASED, erased_at=now, ends_at=ends_at
            )

    async def erased_within(self, span_us: int) -> list[UUID]:
        """Who was erased within this time."""
        async with read(self._engine) as connection:
            since = await self._now(connection) - span_us
            rows = await connection.execute(
                select(erasures.c.player_id).where(erasures.c.erased_at > since)
            )
            return list(rows.scalars())

    async def find(self, player: UUID) -> Erasure | None:
        """A player's erasure."""
        async with read(self._engine) as connection:
            return await _find(connection, player)

    async def page(
        self, before: tuple[int, UUID] | None, limit: int, *, unfinished: bool
    ) -> list[Erasure]:
        """Erasures asked for before one, named by its moment and player, the newest first."""
        at, player = erasures.c.asked_at, erasures.c.player_id
        query = select(erasures).order_by(at.desc(), player.desc()).limit(limit)
        if before is not None:
            query = query.where(or_(at < before[0], and_(at == before[0], player < before[1])))
        if unfinished:
            query = query.where(erasures.c.step < Step.ENDED)
        async with read(self._engine) as connection:
            return [_erasure(row) for row in await connection.execute(query)]

    async def _insert(self, connection: AsyncConnection, wish: Wish) -> Erasure:
        now = await self._now(connection)
        made = Erasure(
            player=wish.player,
            erasure=UUID(bytes=secrets.token_bytes(16)),
            asked_at=now,
            asked_by=wish.by,
            give_up_chips=wish.give_up_chips,
            leave_claims=wish.leave_claims,
            step=Step.ASKED,
            due_at=now + self._lease_ms * 1_000,
            chips=0,
            erased_at=None,
            ends_at=None,
        )
        columns = (column.name for column in erasures.columns)
        await connection.execute(
            insert(erasures).values(dict(zip(columns, astuple(made), strict=True)))
        )
        return made

    async def _hold(self, connection: AsyncConnection, found: Erasure) -> Erasure | None:
        if found.step is Step.ENDED or found.due_at > await self._now(connection):
            return None
        return await self._update(connection, found)

    async def _update(
        self,
        connection: AsyncConnection,
        erasure: Erasure,
        due_ms: int | None = None,
        **values: Any,
    ) -> Erasure:
        """Change an erasure that is ours, next due after `due_ms`, by default the lease.

        Raises Refused ERASURE_UNDER_WAY when it has become somebody else's.
        """
        wait_ms = self._lease_ms if due_ms is None else due_ms
        due_at = await self._now(connection) + wait_ms * 1_000
        changed = await connection.execute(
            update(erasures).where(_held(erasure)).values(due_at=due_at, **values)
        )
        if not changed.rowcount:
            raise _under_way()
        return replace(erasure, due_at=due_at, **values)

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()


async def lock_player(connection: AsyncConnection, player: UUID) -> None:
    """Hold a player's row before anything else of his is written or removed.

    Who gives him a token does so too: so what is ended is ended, though a token of it is just being
    traded, and nobody waits for another in a circle.
    """
    row = select(players.c.player_id).where(players.c.player_id == player)
    await connection.execute(row.with_for_update())


async def require_staying(connection: AsyncConnection, player: UUID) -> None:
    """Raise Refused BEING_ERASED for a player who is being erased, or was."""
    if await _find(connection, player) is not None:
        raise denied("BEING_ERASED", "this player is being erased")


async def _find(connection: AsyncConnection, player: UUID) -> Erasure | None:
    query = select(erasures).where(erasures.c.player_id == player)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _erasure(row)


def _held(erasure: Erasure) -> Any:
    """The row as whoever has the erasure knows it."""
    return and_(erasures.c.erasure_id == erasure.erasure, erasures.c.due_at == erasure.due_at)


def _erasure(row: Any) -> Erasure:
    made = Erasure(*row)
    return replace(made, step=Step(made.step))


def _under_way() -> Refused:
    return Refused(
        Kind.CONFLICT,
        "ERASURE_UNDER_WAY",
        "the erasure is being carried out",
        retry_after_ms=UNDER_WAY_MS,
    )
