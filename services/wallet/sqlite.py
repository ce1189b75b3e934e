"""Batches on SQLite: read, folded and written in one transaction of the only writer.

Statements go to the driver's own connection. Ids are stored as 32 hexadecimal digits.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime.database import database_now, read, write
from services.wallet.batch import Answer, Found, Recorded, Wanted, Writing, tables_of
from services.wallet.books import (
    Account,
    AccountKind,
    Game,
    GameState,
    Posting,
    Reservation,
    ReservationState,
)

Fold: TypeAlias = Callable[[Found], Writing | None]
Driver: TypeAlias = Any
"""A connection of aiosqlite."""
Rows: TypeAlias = Sequence[tuple[Any, ...]]

IDS = "(SELECT value FROM json_each(?))"
HELD = (
    "SELECT account_id, sum(chips) FROM reservations WHERE state IN (1, 2) "
    "AND account_id IN (SELECT value FROM json_each(?)) GROUP BY account_id"
)
SEATS = (
    "SELECT id, game_id, number, account_id, chips, expires_at, state, paid_in, paid_out, reason "
    "FROM reservations WHERE "
)
MAKE_GAME = "INSERT INTO games (id, state, reason) VALUES (?, ?, ?)"
OPEN_ACCOUNT = "INSERT INTO accounts (id, kind, balance, version, opened_at) VALUES (?, ?, 0, 0, ?)"
POST = (
    "INSERT INTO postings (account_id, version, transfer_id, chips, balance_before, balance_after) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
MOVE = "UPDATE accounts SET balance = ?, version = ? WHERE id = ?"
CLOSE = (
    "INSERT INTO transfers (id, kind, game_id, reason, subject, request_id, recorded_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
HOLD = (
    "INSERT INTO reservations (id, game_id, number, account_id, chips, expires_at, state, "
    "paid_in, paid_out) VALUES (?, ?, ?, ?, ?, ?, 1, 0, 0)"
)
PIN = "UPDATE reservations SET state = 2 WHERE id = ?"
PIN_GAME = "UPDATE games SET state = 2 WHERE id = ?"
END = "UPDATE reservations SET state = ?, paid_in = ?, paid_out = ?, reason = ? WHERE id = ?"
END_GAME = "UPDATE games SET state = ?, transfer_id = ?, head = ?, reason = ? WHERE id = ?"
ANSWER = (
    "INSERT INTO requests (subject, request_id, body_hash, response, recorded_at) "
    "VALUES (?, ?, ?, ?, ?)"
)


class SqliteBooks:
    """The books in a SQLite file."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Fold a batch from what there is and write what it leaves, whole or not at all.

        Raises StoreUnavailable: then the outcome is unknown.
        """
        async with write(self._engine) as connection:
            writing = fold(await find(connection, wanted))
            if writing is not None:
                await apply(await driver_of(connection), writing)

    async def find(self, wanted: Wanted) -> Found:
        """What there is of what is wanted."""
        async with read(self._engine) as connection:
            return await find(connection, wanted)


async def driver_of(connection: AsyncConnection) -> Driver:
    """The driver's connection, within the transaction of SQLAlchemy's."""
    return (await connection.get_raw_connection()).driver_connection


async def find(connection: AsyncConnection, wanted: Wanted) -> Found:
    """What there is of what is wanted, of one moment."""
    now, driver = await database_now(connection), await driver_of(connection)
    seats = await find_seats(driver, "game_id", wanted.games)
    named = await find_seats(driver, "id", wanted.reservations)
    seated = {r.account for r in seats if r.is_held}
    return Found(
        now,
        await find_accounts(driver, wanted.accounts | seated),
        tables_of(await find_games(driver, wanted.games), seats),
        {r.id: r for r in named},
        await find_held(driver, wanted.holders),
        await find_answers(driver, wanted.requests),
    )


async def find_accounts(driver: Driver, ids: Iterable[UUID]) -> dict[UUID, Account]:
    """Those of the accounts that exist."""
    rows = await some(
        driver,
        f"SELECT id, kind, balance, version FROM accounts WHERE id IN {IDS}",  # noqa: S608
        hexes(ids),
    )
    accounts = (Account(UUID(i), AccountKind(kind), b, v) for i, kind, b, v in rows)
    return {account.id: account for account in accounts}


async def find_games(driver: Driver, ids: Iterable[UUID]) -> dict[UUID, Game]:
    """Those of the games that exist."""
    rows = await some(
        driver,
        f"SELECT id, state, transfer_id, head, reason FROM games WHERE id IN {IDS}",  # noqa: S608
        hexes(ids),
    )
    games = (
        Game(UUID(i), GameState(state), None if t is None else UUID(t), head, reason)
        for i, state, t, head, reason in rows
    )
    return {game.id: game for game in games}


async def find_seats(driver: Driver, column: str, ids: Iterable[UUID]) -> list[Reservation]:
    """Reservations by their games or by their own ids."""
    rows = await some(driver, f"{SEATS} {column} IN {IDS}", hexes(ids))
    return [
        Reservation(
            UUID(i), UUID(game), number, UUID(account), chips, until, ReservationState(state), *paid
        )
        for i, game, number, account, chips, until, state, *paid in rows
    ]


async def find_held(driver: Driver, ids: Iterable[UUID]) -> dict[UUID, int]:
    """The chips that games' escrows hold for accounts, of those that have any there."""
    rows = await some(driver, HELD, hexes(ids))
    return {UUID(account): chips for account, chips in rows}


async def find_answers(
    driver: Driver, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Answer]:
    """What requests were answered before."""
    rows = await some(
        driver,
        "SELECT r.subject, r.request_id, r.body_hash, r.response FROM json_each(?) w "
        "CROSS JOIN requests r ON r.subject = json_extract(w.value, '$[0]') "
        "AND r.request_id = json_extract(w.value, '$[1]')",
        [list(key) for key in keys],
    )
    return {(subject, name): Answer(digest, octets) for subject, name, digest, octets in rows}


async def some(driver: Driver, query: str, wanted: Sequence[object]) -> Rows:
    """Rows of a query on a list; nothing is asked for an empty one."""
    if not wanted:
        return ()
    return tuple(await driver.execute_fetchall(query, (json.dumps(wanted),)))


def hexes(ids: Iterable[UUID]) -> list[str]:
    """Ids as they are stored."""
    return [each.hex for each in ids]


async def apply(driver: Driver, writing: Writing) -> None:
    """Write a batch in the order the guards ask for: a transfer closes its postings, a game ends
    after its reservations."""
    for statement, rows in statements(writing):
        if rows:
            await driver.executemany(statement, rows)


def statements(writing: Writing) -> list[tuple[str, Rows]]:
    """What is to be written, a statement with its rows each."""
    now, ended, games = writing.now, writing.ended, writing.games_ended
    return [
        (MAKE_GAME, [(g.id.hex, int(g.state), g.reason) for g in writing.games_made]),
        (OPEN_ACCOUNT, [(a.id.hex, int(a.kind), now) for a in writing.opened]),
        (POST, [posting_row(p) for p in writing.postings]),
        (MOVE, [(a.balance, a.version, a.id.hex) for a in writing.accounts]),
        (CLOSE, [transfer_row(r, now) for r in writing.transfers]),
        (HOLD, [seat_row(r) for r in writing.made]),
        (PIN, [(each.hex,) for each in writing.pinned]),
        (PIN_GAME, [(each.hex,) for each in writing.games_pinned]),
        (END, [(int(r.state), r.paid_in, r.paid_out, r.reason, r.id.hex) for r in ended]),
        (
            END_GAME,
            [(int(g.state), hex_of(g.transfer), g.head, g.reason, g.id.hex) for g in games],
        ),
        (ANSWER, [(*k, a.body_hash, a.response, now) for k, a in writing.answers.items()]),
    ]


def posting_row(p: Posting) -> tuple[Any, ...]:
    """A posting as POST takes it."""
    return p.account.hex, p.version, p.transfer.hex, p.chips, p.before, p.after


def transfer_row(recorded: Recorded, now: int) -> tuple[Any, ...]:
    """A transfer as CLOSE takes it."""
    transfer = recorded.transfer
    what = (transfer.id.hex, int(transfer.kind), hex_of(transfer.game), transfer.reason)
    return *what, recorded.subject, recorded.request_id, now


def seat_row(r: Reservation) -> tuple[Any, ...]:
    """A new reservation as HOLD takes it."""
    return r.id.hex, r.game.hex, r.number, r.account.hex, r.chips, r.expires_at


def hex_of(wanted: UUID | None) -> str | None:
    """An id as it is stored, if there is one."""
    return None if wanted is None else wanted.hex
