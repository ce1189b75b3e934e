"""The ledger: commands carried out on the database, each in one transaction, each once.

Rows are locked in one order: the game, then accounts by id. What a command was answered is stored
with it, so that the same request again, at any replica and at any time, gets the same octets.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Refused, invalid, unavailable
from services.kernel.ids import RANDOM_BYTES, uuid7
from services.runtime.database import database_now, now_us, read, write
from services.wallet.books import (
    Account,
    AccountKind,
    Books,
    Change,
    Game,
    GameState,
    Reservation,
    ReservationState,
    Transfer,
    evolve,
    post,
)
from services.wallet.domain import (
    Command,
    Expire,
    Reserve,
    accounts_of,
    decide,
    game_of,
    has_expired,
)
from services.wallet.tables import ACCOUNTS, GAMES, POSTINGS, REQUESTS, RESERVATIONS, TRANSFERS
from services.wallet.wake import Wake

T = TypeVar("T")

ATTEMPTS = 10
"""How often a command is tried when others make the same rows at the same time."""
SELF = "service:wallet"
"""Who gives expired reservations back."""
UNIQUE_VIOLATIONS = {"23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request: who (`role:subject`), the id the caller gave it, SHA-256 of its body."""

    subject: str
    id: str
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class Requested:
    """A transfer with who asked for it and by which request (None: the wallet itself)."""

    transfer: Transfer
    subject: str
    request_id: str | None = None


Respond = Callable[[AsyncConnection, Books], Awaitable[bytes]]
"""Makes the octets of a response from the books after a command, within its transaction."""


def body_hash(method: str, body: bytes) -> bytes:
    """SHA-256 of an RPC's name and request octets."""
    return hashlib.sha256(method.encode() + b"\0" + body).digest()


class Ledger:
    """Carries commands out on one database."""

    def __init__(self, engine: AsyncEngine, wake: Wake) -> None:
        self.engine = engine
        self._wake = wake
        self._under_way: set[asyncio.Task[Any]] = set()

    async def execute(self, command: Command, request: Request, respond: Respond) -> bytes:
        """Carry a command out and give the response's octets, or those of the first time.

        Raises Refused (of the command; `REQUEST_ID_REUSED`) and StoreUnavailable: then the outcome
        is unknown, and the same request again tells it. A refused command leaves nothing behind.
        Goes on to its end should the caller be cancelled.
        """
        return await self._finish(self._execute(command, request, respond))

    async def close(self) -> None:
        """Finish the commands under way; the engine is the caller's to close."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever was cancelled will not ask for it

    async def _execute(self, command: Command, request: Request, respond: Respond) -> bytes:
        try:
            return await self._until_done(command, request, respond)
        except Refused as refused:
            if refused.reason != "INSUFFICIENT_CHIPS" or not isinstance(command, Reserve):
                raise
            # chips of the account may be waiting in reservations that have expired
            if not await self.expire(account=command.account):
                raise
        return await self._until_done(command, request, respond)

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
        for game in games:
            await self.expire_game(game)
        return len(games)

    async def expire_game(self, game: UUID) -> None:
        """Give back what has expired of one game."""
        await self._finish(self._attempt(Expire(game), None, _nothing))

    async def _until_done(self, command: Command, request: Request, respond: Respond) -> bytes:
        for _ in range(ATTEMPTS):
            try:
                response = await self._attempt(command, request, respond)
            except IntegrityError as error:
                if not _is_race(error):
                    raise
            else:
                if response is not None:
                    return response
        raise unavailable("CONTENTION", "others change the same accounts; try again")

    async def _attempt(
        self, command: Command, request: Request | None, respond: Respond
    ) -> bytes | None:
        """One transaction; None if all it did was to give expired reservations back."""
        async with write(self.engine) as connection:
            books, late = await _load(connection, command)
            if request is not None:
                known = await _find_answer(connection, request)
                if known is not None:
                    return known
            todo = Expire(late) if late is not None else command
            change = decide(books, todo, new_transfer_id())
            after = evolve(books, change)
            asked = request if late is None else None
            await _apply(connection, books, change, asked)
            response = await respond(connection, after) if late is None else None
            if asked is not None and response is not None:
                await _store_answer(connection, asked, response, books.now)
        moved = {a for a in after.accounts if after.accounts[a] != books.accounts.get(a)}
        self._wake.changed(moved | {r.account for r in change.reservations})
        return response


async def commit(
    connection: AsyncConnection,
    accounts: Mapping[UUID, Account],
    transfers: Sequence[Requested],
    now: int,
) -> None:
    """Write transfers, in their order, with postings and the balances after them.

    The caller has locked `accounts` and they are as given. The order of the tables is the one that
    the database checks: a transfer closes its postings.
    """
    if not transfers:
        return
    postings, touched = post(accounts, [asked.transfer for asked in transfers])
    await connection.execute(
        sa.insert(POSTINGS),
        [
            {
                "account_id": p.account,
                "version": p.version,
                "transfer_id": p.transfer,
                "chips": p.chips,
                "balance_before": p.before,
                "balance_after": p.after,
            }
            for p in postings
        ],
    )
    await connection.execute(
        sa.update(ACCOUNTS)
        .where(ACCOUNTS.c.id == sa.bindparam("key"))
        .values(balance=sa.bindparam("to_balance"), version=sa.bindparam("to_version")),
        [
            {"key": a.id, "to_balance": a.balance, "to_version": a.version}
            for a in sorted(touched.values(), key=lambda a: a.id)
        ],
    )
    await connection.execute(
        sa.insert(TRANSFERS),
        [
            {
                "id": asked.transfer.id,
                "kind": asked.transfer.kind,
                "game_id": asked.transfer.game,
                "reason": asked.transfer.reason,
                "subject": asked.subject,
                "request_id": asked.request_id,
                "recorded_at": now,
            }
            for asked in transfers
        ],
    )


async def _nothing(connection: AsyncConnection, after: Books) -> bytes:
    return b""


def new_transfer_id() -> UUID:
    """A new id; it orders nothing, so the process's own clock will do."""
    return uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES))


def _is_race(error: IntegrityError) -> bool:
    """Whether another transaction made the same row first: trying again will find it."""
    codes = {getattr(error.orig, name, None) for name in ("sqlstate", "sqlite_errorname")}
    return bool(codes & UNIQUE_VIOLATIONS)


# ----------------------------------------------------------------------------------------- reading


async def _load(connection: AsyncConnection, command: Command) -> tuple[Books, UUID | None]:
    """The books of a command, locked; and its game if reservations must expire first."""
    game_id = game_of(command)
    game: Game | None = None
    reservations: tuple[Reservation, ...] = ()
    if game_id is not None:
        game = await load_game(connection, game_id, lock=True)
        named = command.id if isinstance(command, Reserve) else None
        reservations = await load_reservations(connection, game_id, named)
    now = await database_now(connection)
    late = game_id if game_id and has_expired(Books(now, {}, game, reservations), game_id) else None
    wanted = accounts_of(Expire(late) if late is not None else command, reservations)
    accounts = await load_accounts(connection, wanted, lock=True)
    return Books(now, accounts, game, reservations), late


async def load_game(connection: AsyncConnection, game: UUID, *, lock: bool = False) -> Game | None:
    """What is known of a game."""
    query = sa.select(GAMES).where(GAMES.c.id == game)
    row = (
        await connection.execute(query.with_for_update(key_share=True) if lock else query)
    ).one_or_none()
    if row is None:
        return None
    return Game(row.id, GameState(row.state), row.transfer_id, row.head, row.reason)


async def load_reservations(
    connection: AsyncConnection, game: UUID, named: UUID | None = None
) -> tuple[Reservation, ...]:
    """A game's reservations in the order of their making, and the one named."""
    which = RESERVATIONS.c.game_id == game
    if named is not None:
        which |= RESERVATIONS.c.id == named
    query = sa.select(RESERVATIONS).where(which).order_by(RESERVATIONS.c.number)
    return tuple(_reservation(row) for row in await connection.execute(query))


async def load_accounts(
    connection: AsyncConnection, ids: Iterable[UUID], *, lock: bool = False
) -> dict[UUID, Account]:
    """Those of the accounts that exist; locked in the order of their ids."""
    wanted = sorted(ids)
    if not wanted:
        return {}
    query = sa.select(ACCOUNTS).where(ACCOUNTS.c.id.in_(wanted)).order_by(ACCOUNTS.c.id)
    rows = await connection.execute(query.with_for_update(key_share=True) if lock else query)
    return {row.id: account_of(row) for row in rows}


def account_of(row: sa.Row[Any]) -> Account:
    """The account in a row of its table."""
    return Account(row.id, AccountKind(row.kind), row.balance, row.version)


def _reservation(row: sa.Row[Any]) -> Reservation:
    return Reservation(
        id=row.id,
        game=row.game_id,
        number=row.number,
        account=row.account_id,
        chips=row.chips,
        expires_at=row.expires_at,
        state=ReservationState(row.state),
        paid_in=row.paid_in,
        paid_out=row.paid_out,
        reason=row.reason,
    )


async def _find_answer(connection: AsyncConnection, request: Request) -> bytes | None:
    """What this request was answered before.

    Looked for after the locks: two of the same body lock the same rows, so the second one sees
    what the first one did.
    """
    query = sa.select(REQUESTS.c.body_hash, REQUESTS.c.response).where(
        REQUESTS.c.subject == request.subject, REQUESTS.c.request_id == request.id
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    if bytes(row.body_hash) != request.body_hash:
        raise invalid("request_id", "was used before for another request", "REQUEST_ID_REUSED")
    return bytes(row.response)


# ----------------------------------------------------------------------------------------- writing


async def _apply(
    connection: AsyncConnection, books: Books, change: Change, request: Request | None
) -> None:
    """Write a change: new rows first (a game before its escrow), a game's new state last."""
    game = change.game
    if game is not None and books.game is None:
        await connection.execute(sa.insert(GAMES), _game_row(game))
    if change.opened:
        rows = [
            {"id": a.id, "kind": a.kind, "balance": 0, "version": 0, "opened_at": books.now}
            for a in change.opened
        ]
        await connection.execute(sa.insert(ACCOUNTS), rows)
    if change.transfer is not None:
        subject, request_id = (SELF, None) if request is None else (request.subject, request.id)
        opened = {account.id: account for account in change.opened}
        asked = Requested(change.transfer, subject, request_id)
        await commit(connection, {**books.accounts, **opened}, [asked], books.now)
    await _write_reservations(connection, books, change)
    if game is not None and books.game is not None and game != books.game:
        row = _game_row(game)
        await connection.execute(sa.update(GAMES).where(GAMES.c.id == row.pop("id")).values(**row))


def _game_row(game: Game) -> dict[str, Any]:
    return {
        "id": game.id,
        "state": game.state,
        "transfer_id": game.transfer,
        "head": game.head,
        "reason": game.reason,
    }


async def _write_reservations(connection: AsyncConnection, books: Books, change: Change) -> None:
    known = {r.id for r in books.reservations}
    made = [r for r in change.reservations if r.id not in known]
    moved = [r for r in change.reservations if r.id in known]
    if made:
        rows = [
            {
                "id": r.id,
                "game_id": r.game,
                "number": r.number,
                "account_id": r.account,
                "chips": r.chips,
                "state": r.state,
                "expires_at": r.expires_at,
                "paid_in": r.paid_in,
                "paid_out": r.paid_out,
                "reason": r.reason,
            }
            for r in made
        ]
        await connection.execute(sa.insert(RESERVATIONS), rows)
    if moved:
        update = (
            sa.update(RESERVATIONS)
            .where(RESERVATIONS.c.id == sa.bindparam("key"))
            .values(
                {n: sa.bindparam(f"to_{n}") for n in ("state", "paid_in", "paid_out", "reason")}
            )
        )
        values = [
            {
                "key": r.id,
                "to_state": r.state,
                "to_paid_in": r.paid_in,
                "to_paid_out": r.paid_out,
                "to_reason": r.reason,
            }
            for r in moved
        ]
        await connection.execute(update, values)


async def _store_answer(
    connection: AsyncConnection, request: Request, response: bytes, now: int
) -> None:
    await connection.execute(
        sa.insert(REQUESTS),
        {
            "subject": request.subject,
            "request_id": request.id,
            "body_hash": request.body_hash,
            "response": response,
            "recorded_at": now,
        },
    )
