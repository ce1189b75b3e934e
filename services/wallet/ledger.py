"""The ledger: commands carried out on the database, each whole and each once.

What a command was answered is stored with it, so that the same request again, at any replica and at
any time, gets the same octets.
"""

import asyncio
import hashlib
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.records import maker
from services.kernel.errors import Refused
from services.runtime.database import now_us, read
from services.wallet.batch import Asked, Request, Respond
from services.wallet.books import Books
from services.wallet.committer import QUEUE_MAX, Committer, Database
from services.wallet.domain import Command, Expire, Reserve
from services.wallet.postgres import PostgresBooks
from services.wallet.sqlite import SqliteBooks
from services.wallet.tables import RESERVATIONS
from services.wallet.wake import Wake

_asked = maker(Asked)


def body_hash(method: str, body: bytes) -> bytes:
    """SHA-256 of an RPC's name and request octets."""
    return hashlib.sha256(method.encode() + b"\0" + body).digest()


def books_of(engine: AsyncEngine) -> Database:
    """The books in an engine's database."""
    return SqliteBooks(engine) if engine.dialect.name == "sqlite" else PostgresBooks(engine)


class Ledger:
    """Carries commands out on one database."""

    def __init__(self, engine: AsyncEngine, wake: Wake, queue_max: int = QUEUE_MAX) -> None:
        self.engine = engine
        self.committer = Committer(books_of(engine), wake, queue_max)

    async def execute(self, command: Command, request: Request, respond: Respond) -> bytes:
        """Carry a command out and give the response's octets, or those of the first time.

        Raises Refused (of the command; `REQUEST_ID_REUSED`; `TOO_MANY_WAITING`; `CONTENTION`) and
        StoreUnavailable: then the outcome is unknown, and the same request again tells it. A
        refused command leaves nothing behind. Goes on to its end should the caller be cancelled.
        """
        asked = _asked(command, request, respond)
        try:
            return await self.committer.submit(asked)
        except Refused as refused:
            if refused.reason != "INSUFFICIENT_CHIPS" or not isinstance(command, Reserve):
                raise
            # chips of the account may be waiting in reservations that have expired
            if not await self.expire(account=command.account):
                raise
        return await self.committer.submit(asked)

    async def close(self) -> None:
        """Finish the commands under way; the engine is the caller's to close."""
        await self.committer.finish()

    async def expire(self, account: UUID | None = None, limit: int = 100) -> int:
        """Give back expired reservations, of one account or of any; how many games had some."""
        late = (
            sa.select(RESERVATIONS.c.game_id)
            .where(RESERVATIONS.c.state == 1, RESERVATIONS.c.expires_at <= now_us())
            .distinct()
            .limit(limit)
        )
        if account is not None:
            late = late.where(RESERVATIONS.c.account_id == account)
        async with read(self.engine) as connection:
            games = (await connection.execute(late)).scalars().all()
        await asyncio.gather(*(self.expire_game(game) for game in games))
        return len(games)

    async def expire_game(self, game: UUID) -> None:
        """Give back what has expired of one game."""
        await self.committer.submit(Asked(Expire(game), None, _nothing))


def _nothing(after: Books) -> bytes:
    return b""
