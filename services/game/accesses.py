"""What operators looked at: a record that is only added to, each row chained to the one before.

The end of the chain takes its place among the games' heads in the tree (as the log of the stream
`ACCESSES`), so a row that is changed or removed later is found like a move that is.

    hash(n) = SHA-256( f("kozyr access 1") f(hash(n - 1)) f(n) f(at) f(operator) f(action)
                       f(game) f(detail) )

with `f` as in the log's chain (`runtime/store/chain.py`); hash(0) is 32 zero octets, n and `at` 8
octets big-endian, `game` the id's 16 octets or absent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from sqlalchemy import BigInteger, Column, LargeBinary, Table, Text, Uuid, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.game import tree
from services.game.tree import Leaf
from services.runtime.auth import Role
from services.runtime.call import current
from services.runtime.database import database_now, read, write
from services.runtime.store.chain import GENESIS, octets
from services.runtime.streams import refusals

accesses = Table(
    "accesses",
    tree.metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("operator", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("game", Uuid),
    Column("detail", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

ACCESSES = UUID("00000000-0000-8000-8000-000000000000")
"""What the record is called among the streams of the tree; no game or dispute has this id."""
LABEL = b"kozyr access 1"
TURN = 0x6B6F7A7B
"""The advisory lock under which PostgreSQL gives numbers to one transaction at a time."""


@dataclass(frozen=True, slots=True)
class Access:
    """A look an operator took: at which game (None: at several, `detail` says which), by which RPC,
    when (database time, Unix microseconds)."""

    number: int
    at: int
    operator: str
    action: str
    game: UUID | None
    detail: str
    hash: bytes

    def link(self, previous: bytes) -> bytes:
        """The hash it must have after the one before; its own is not looked at."""
        fields = (
            *(LABEL, previous, self.number.to_bytes(8), self.at.to_bytes(8)),
            *(self.operator.encode(), self.action.encode()),
            *(None if self.game is None else self.game.bytes, self.detail.encode()),
        )
        return sha256(b"".join(map(octets, fields))).digest()


LAST = select(accesses.c.number, accesses.c.hash).order_by(accesses.c.number.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class Accesses:
    """The record in the game's database."""

    engine: AsyncEngine

    async def note(self, game: UUID | None, detail: str = "") -> None:
        """Write down what the running RPC looks at if an operator makes it; nothing otherwise.

        To be awaited before anything is shown. Raises Refused STORE_UNAVAILABLE.
        """
        call = current()
        if call is None or call.caller.role is not Role.OPERATOR:
            return
        action = call.method.rpartition("/")[2]
        with refusals():
            async with write(self.engine) as connection:
                if connection.dialect.name == "postgresql":
                    await connection.execute(
                        text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN}
                    )
                last = (await connection.execute(LAST)).one_or_none()
                number, previous = (1, GENESIS) if last is None else (last.number + 1, last.hash)
                at = await database_now(connection)
                made = Access(number, at, call.caller.subject, action, game, detail, b"")
                await connection.execute(
                    insert(accesses),
                    {
                        "number": number,
                        "at": at,
                        "operator": made.operator,
                        "action": action,
                        "game": game,
                        "detail": detail,
                        "hash": made.link(previous),
                    },
                )

    async def page(self, before: int | None, limit: int, game: UUID | None) -> list[Access]:
        """Accesses below number `before`, newest first, to one game if it is named."""
        query = select(accesses).order_by(accesses.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(accesses.c.number < before)
        if game is not None:
            query = query.where(accesses.c.game == game)
        with refusals():
            async with read(self.engine) as connection:
                return [Access(*row) for row in await connection.execute(query)]


async def head(connection: AsyncConnection) -> list[Leaf]:
    """The end of the record as a leaf for the tree, none before the first access."""
    row = (await connection.execute(LAST)).one_or_none()
    return [] if row is None else [Leaf(ACCESSES, row.number, row.hash)]


async def read_after(connection: AsyncConnection, number: int, limit: int) -> list[Access]:
    """Accesses above a number, oldest first."""
    query = select(accesses).where(accesses.c.number > number).order_by(accesses.c.number)
    return [Access(*row) for row in await connection.execute(query.limit(limit))]


def first_wrong(rows: Iterable[Access], previous: bytes, after: int) -> int | None:
    """The number of the first of the rows after `after` that is not what was written."""
    for number, row in enumerate(rows, start=after + 1):
        if row.number != number or row.link(previous) != row.hash:
            return number
        previous = row.hash
    return None
