"""What is said at tables: kept for a short time, in tables of its own, and in no log.

Lines of a table are numbered by the database's clock, one after the other under the lock of the
table's row in `talk_rooms`, so that no number appears after a greater one has been read. The same
lock makes the flood limits exact, whichever replica a line comes in at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    Uuid,
    delete,
    exc,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, precondition
from services.runtime.database import database_now, read, write
from services.runtime.store.api import RequestReused
from services.runtime.store.schema import heads

BACKLOG = 50
"""How many lines a listener is sent at once at most."""

metadata = MetaData()

talk = Table(
    "talk",
    metadata,
    Column("table_id", Uuid, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("player_id", Uuid, nullable=False),
    Column("said_at", BigInteger, nullable=False),
    Column("emote", Integer, nullable=False),
    Column("words", Text),
    Column("request", LargeBinary, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
)
"""A line: an emote (0: none) or words. `request` is the hash of the request that said it."""

talk_rooms = Table(
    "talk_rooms",
    metadata,
    Column("table_id", Uuid, primary_key=True),
    Column("last", BigInteger, nullable=False),
)
"""Tables at which something was said, and the number of the last line there."""

CLOSED = select(talk_rooms.c.table_id).join(heads, heads.c.stream == talk_rooms.c.table_id)
CLOSED = CLOSED.where(heads.c.ended)
"""Tables that have closed since something was said there."""


@dataclass(frozen=True, slots=True)
class Flood:
    """At most `most` lines in any `span_ms`; `name` is what the limit is called in refusals."""

    name: str
    most: int
    span_ms: int


@dataclass(frozen=True, slots=True)
class Said:
    """Something to say; `request` and `body` are hashes that name the request and its content."""

    table: UUID
    player: UUID
    emote: int
    words: str | None
    request: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said; the moment is database time, Unix microseconds."""

    table: UUID
    number: int
    player: UUID
    said_at: int
    emote: int
    words: str | None


@dataclass(frozen=True, slots=True)
class Last:
    """Where a table's talk stands; `version` is the number of its last line."""

    version: int


class Talk:
    """The talk of one database; every method raises StoreUnavailable when it is gone.

    A line is kept for `keep_ms`, and no longer than its table is open. `of_player` limits a
    player's lines at a table, `of_table` those of all its players. `clock` (Unix microseconds)
    stands in for the database's in tests.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        keep_ms: int,
        of_player: Flood,
        of_table: Flood,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._engine = engine
        self._keep_us = keep_ms * 1_000
        self._of_player = of_player
        self._of_table = of_table
        self._clock = clock

    async def say(self, said: Said) -> Line:
        """Say it, once however often the same request comes while the line is kept.

        Raises RequestReused for another content, and Refused: RATE_LIMITED with the limit's name
        and when to come back, TABLE_CLOSED.
        """
        try:
            return await self._say(said)
        except exc.IntegrityError:  # the same request won, at another table
            raise RequestReused from None

    async def known(self, said: Said) -> Line | None:
        """The line, if this request has said it and it is still kept; raises RequestReused."""
        async with read(self._engine) as connection:
            return await self._known(connection, said)

    async def recent(self, table: UUID) -> list[Line]:
        """The last lines of a table, oldest first, `BACKLOG` at most."""
        return (await self._newest(talk.c.table_id == table, BACKLOG))[::-1]

    async def after(self, table: UUID, number: int) -> list[Line]:
        """The lines of a table that follow a number, in order, `BACKLOG` at most."""
        query = select(talk).where(talk.c.table_id == table, talk.c.number > number)
        return await self._lines(query.order_by(talk.c.number).limit(BACKLOG))

    async def of(self, player: UUID, before: tuple[int, UUID] | None, limit: int) -> list[Line]:
        """What a player said, newest first, before a line named by its number and table."""
        mine = talk.c.player_id == player
        if before is not None:
            number, table = before
            earlier = talk.c.number < number
            mine &= earlier | ((talk.c.number == number) & (talk.c.table_id < table))
        return await self._newest(mine, limit)

    async def heads(self, streams: Sequence[UUID]) -> Mapping[UUID, Last]:
        """Where the talk of these tables stands, of those at which something was said."""
        query = select(talk_rooms).where(talk_rooms.c.table_id.in_(streams))
        async with read(self._engine) as connection:
            rows = await connection.execute(query)
            return {row.table_id: Last(row.last) for row in rows}

    async def erase(self, player: UUID) -> int:
        """Remove whatever a player said; how many lines there were."""
        async with write(self._engine) as connection:
            gone = await connection.execute(delete(talk).where(talk.c.player_id == player))
            return gone.rowcount

    async def sweep(self) -> None:
        """Remove what has been kept for long enough, and all of tables that have closed."""
        async with write(self._engine) as connection:
            since = await self._now(connection) - self._keep_us
            await connection.execute(delete(talk).where(talk.c.said_at <= since))
            for part in (talk, talk_rooms):
                await connection.execute(delete(part).where(part.c.table_id.in_(CLOSED)))

    async def _say(self, said: Said) -> Line:
        await self._open_room(said.table)
        async with write(self._engine) as connection:
            room = talk_rooms.c.table_id == said.table
            turn = select(talk_rooms.c.last).where(room).with_for_update()
            last = (await connection.execute(turn)).scalar_one_or_none()
            if last is None:
                raise precondition("TABLE_CLOSED", "the table is closed")
            known = await self._known(connection, said)
            if known is not None:
                return known
            now = await self._now(connection)
            await _require_calm(connection, self._of_player, said.table, said.player, now)
            await _require_calm(connection, self._of_table, said.table, None, now)
            line = Line(said.table, max(now, last + 1), said.player, now, said.emote, said.words)
            await connection.execute(
                insert(talk).values(
                    table_id=line.table,
                    number=line.number,
                    player_id=line.player,
                    said_at=line.said_at,
                    emote=line.emote,
                    words=line.words,
                    request=said.request,
                    body=said.body,
                )
            )
            await connection.execute(update(talk_rooms).where(room).values(last=line.number))
        return line

    async def _open_room(self, table: UUID) -> None:
        """Make the row whose lock orders a table's lines, where it is not there yet."""
        query = select(talk_rooms.c.last).where(talk_rooms.c.table_id == table)
        async with read(self._engine) as connection:
            if (await connection.execute(query)).one_or_none() is not None:
                return
        try:
            async with write(self._engine) as connection:
                await connection.execute(insert(talk_rooms).values(table_id=table, last=0))
        except exc.IntegrityError:
            pass  # another line was first

    async def _known(self, connection: AsyncConnection, said: Said) -> Line | None:
        query = select(talk).where(talk.c.request == said.request)
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            return None
        if (row.body, row.table_id) != (said.body, said.table):
            raise RequestReused
        return _line(row)

    async def _newest(self, which: ColumnElement[bool], limit: int) -> list[Line]:
        query = select(talk).where(which)
        order = (talk.c.number.desc(), talk.c.table_id.desc())
        return await self._lines(query.order_by(*order).limit(limit))

    async def _lines(self, query: Select[Any]) -> list[Line]:
        async with read(self._engine) as connection:
            since = await self._now(connection) - self._keep_us
            rows = await connection.execute(query.where(talk.c.said_at > since))
            return [_line(row) for row in rows]

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()


async def _require_calm(
    connection: AsyncConnection, flood: Flood, table: UUID, player: UUID | None, now: int
) -> None:
    """Raise Refused RATE_LIMITED where one line more would be too many in the span.

    That is so while the line that is `most` lines back lies within it.
    """
    query = select(talk.c.said_at).where(talk.c.table_id == table)
    if player is not None:
        query = query.where(talk.c.player_id == player)
    back = query.order_by(talk.c.number.desc()).offset(flood.most - 1).limit(1)
    said_at = (await connection.execute(back)).scalar_one_or_none()
    if said_at is None:
        return
    wait_us = said_at + flood.span_ms * 1_000 - now
    if wait_us > 0:
        raise Refused(
            Kind.EXHAUSTED,
            "RATE_LIMITED",
            f"too much talk; the limit {flood.name} is {flood.most} in {flood.span_ms} ms",
            facts={
                "limit": flood.name,
                "most": str(flood.most),
                "span_ms": str(flood.span_ms),
            },
            retry_after_ms=-(-wait_us // 1_000),
        )


def players_in(lines: Iterable[Line]) -> set[UUID]:
    """Whose names it takes to show these lines."""
    return {line.player for line in lines}


def _line(row: Row[Any]) -> Line:
    return Line(row.table_id, row.number, row.player_id, row.said_at, row.emote, row.words)
