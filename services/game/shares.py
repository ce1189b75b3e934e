"""Links to ended games: who made one, for which game, until when.

What opens a link is told to who made it, and is kept as a hash. It follows from the request by a
keyed hash, so the same request gives the same link. A link ends by itself, when it is revoked, or
with the erasure of who made it.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    Uuid,
    delete,
    exc,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Refused, not_found, precondition
from services.runtime.database import database_now, read, write
from services.runtime.store.api import RequestReused, StoreUnavailable
from services.runtime.streams import refusals
from services.runtime.turns import take_turns

SHARES_MAX = 100
"""The most links of a player that open at once."""
REVOKED_TIMES = 10
"""So many times as many are kept of a player, with those that he revoked."""
SWEEP_S = 600.0

shares = Table(
    "shares",
    MetaData(),
    Column("share_id", Uuid, primary_key=True),
    Column("request", LargeBinary, nullable=False, unique=True),
    Column("opens", LargeBinary, nullable=False, unique=True),
    Column("game", Uuid, nullable=False),
    Column("player", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("revoked", Boolean, nullable=False),
)
"""`request` is the hash of the request that made the link, `opens` that of what opens it."""


@dataclass(frozen=True, slots=True)
class Share:
    """A link; moments are database time, Unix microseconds."""

    share: UUID
    game: UUID
    player: str
    made_at: int
    ends_at: int


@dataclass(frozen=True, slots=True)
class Shares:
    """The links of one database, each for `keep_ms`. Methods raise Refused STORE_UNAVAILABLE.

    `key` is the service's, `most` how many of a player's open at once; `clock` (Unix microseconds)
    stands in for the database's in tests.
    """

    engine: AsyncEngine
    key: bytes = field(repr=False)
    keep_ms: int
    most: int = SHARES_MAX
    clock: Callable[[], int] | None = None

    async def make(self, game: UUID, player: str, request_id: str) -> tuple[Share, str]:
        """A new link to a game, or the one that this request made, with its token.

        Raises Refused REQUEST_ID_REUSED for another game, TOO_MANY_SHARES, and SHARE_NOT_FOUND for
        a link that has been revoked or has ended.
        """
        request = hashlib.sha256(f"{player} {request_id}".encode()).digest()
        token = self._token(request)
        with refusals():
            try:
                return await self._make(game, player, request, _digest(token)), token
            except exc.IntegrityError:  # the same request won in between
                return await self._make(game, player, request, _digest(token)), token

    async def opened(self, token: str) -> Share:
        """The link that a token opens; raises Refused SHARE_NOT_FOUND, whatever is the matter."""
        query = select(shares).where(shares.c.opens == _digest(token), ~shares.c.revoked)
        with refusals():
            async with read(self.engine) as connection:
                now = await self._now(connection)
                row = (await connection.execute(query)).one_or_none()
        if row is None or row.ends_at <= now:
            raise missing()
        return _share(row)

    async def of(self, player: str) -> list[Share]:
        """A player's links that open, newest first."""
        with refusals():
            async with read(self.engine) as connection:
                now = await self._now(connection)
                order = (shares.c.made_at.desc(), shares.c.share_id)
                query = select(shares).where(*_opening(player, now)).order_by(*order)
                return [_share(row) for row in await connection.execute(query)]

    async def revoke(self, share: UUID, player: str) -> None:
        """End a link of a player's; may be repeated. Raises Refused SHARE_NOT_FOUND."""
        mine = (shares.c.share_id == share) & (shares.c.player == player)
        with refusals():
            async with write(self.engine) as connection:
                done = await connection.execute(update(shares).where(mine).values(revoked=True))
        if not done.rowcount:
            raise missing()

    async def erase(self, player: str) -> None:
        """Remove all links of a player."""
        with refusals():
            async with write(self.engine) as connection:
                await connection.execute(delete(shares).where(shares.c.player == player))

    async def run(self) -> None:
        """Remove for ever what has ended."""
        while True:
            with suppress(StoreUnavailable):
                await self.sweep()
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Remove what has ended; raises StoreUnavailable."""
        async with write(self.engine) as connection:
            now = await self._now(connection)
            await connection.execute(delete(shares).where(shares.c.ends_at <= now))

    async def _make(self, game: UUID, player: str, request: bytes, opens: bytes) -> Share:
        async with write(self.engine) as connection:
            query = select(shares).where(shares.c.request == request)
            row = (await connection.execute(query)).one_or_none()
            if row is not None:
                if (row.game, row.opens) != (game, opens):
                    raise RequestReused
                if row.revoked or row.ends_at <= await self._now(connection):
                    raise missing()
                return _share(row)
            await take_turns(connection, [b"shares" + player.encode()])
            now = await self._now(connection)
            await self._require_room(connection, player, now)
            made = Share(uuid4(), game, player, now, now + self.keep_ms * 1_000)
            await connection.execute(
                insert(shares).values(
                    share_id=made.share,
                    request=request,
                    opens=opens,
                    game=game,
                    player=player,
                    made_at=made.made_at,
                    ends_at=made.ends_at,
                    revoked=False,
                )
            )
        return made

    async def _require_room(self, connection: AsyncConnection, player: str, now: int) -> None:
        """Raise Refused TOO_MANY_SHARES unless one link more of a player whose turn it is may
        open."""
        kept = (shares.c.player == player, shares.c.ends_at > now)
        for which, most in ((_opening(player, now), self.most), (kept, self.most * REVOKED_TIMES)):
            many = select(func.count()).select_from(shares).where(*which)
            if (await connection.execute(many)).scalar_one() >= most:
                raise precondition(
                    "TOO_MANY_SHARES",
                    f"at most {self.most} links of a player open at once, and "
                    f"{self.most * REVOKED_TIMES} are kept with those he revoked",
                    limit="shares",
                    most=str(most),
                )

    def _token(self, request: bytes) -> str:
        mac = hmac.digest(self.key, b"share\0" + request, "sha256")
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self.clock is None else self.clock()


def missing() -> Refused:
    """No such link, or none that opens any more."""
    return not_found("SHARE_NOT_FOUND", "there is no such link, or it has ended")


def _opening(player: str, now: int) -> tuple[Any, ...]:
    return (shares.c.player == player, ~shares.c.revoked, shares.c.ends_at > now)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _share(row: Row[Any]) -> Share:
    return Share(row.share_id, row.game, row.player, row.made_at, row.ends_at)
