"""What the database itself refuses, whoever writes to it, on both engines."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.runtime.database import close_engine, open_engine, read, write
from services.wallet.books import ISSUER, AccountKind, GameState, ReservationState, TransferKind
from services.wallet.domain import Claim, Line, Pin, Reserve, Settle
from services.wallet.tables import (
    ACCOUNTS,
    GAMES,
    METADATA,
    POSTINGS,
    REQUESTS,
    RESERVATIONS,
    TRANSFERS,
)
from tests import postgres
from tests.services.wallet.book_keeping import check_books, do, open_ledger, open_players

KEPT = (ACCOUNTS, TRANSFERS, POSTINGS, GAMES, RESERVATIONS, REQUESTS)


@pytest.fixture
async def engine(shared_url: str) -> AsyncIterator[AsyncEngine]:
    """One database for all refusals: none of them leaves anything."""
    owned = shared_url if shared_url.startswith("sqlite") else postgres.as_owner(shared_url)
    made = open_engine(owned)
    yield made
    await close_engine(made)


@dataclass(frozen=True)
class Row:
    """A posting to write: version and balances follow the account unless said otherwise."""

    account: UUID
    chips: int
    skip: int = 0
    before_by: int = 0
    carry: bool = True


async def move(
    connection: AsyncConnection, *rows: Row, close: bool = True, transfer: UUID | None = None
) -> UUID:
    """Write a transfer the way the ledger does: postings, accounts, transfer."""
    transfer = transfer or uuid4()
    moved = []
    for row in rows:
        found = sa.select(ACCOUNTS).where(ACCOUNTS.c.id == row.account)
        account = (await connection.execute(found)).one()
        before = account.balance + row.before_by
        posting = {
            "transfer_id": transfer,
            "account_id": row.account,
            "version": account.version + 1 + row.skip,
            "chips": row.chips,
            "balance_before": before,
            "balance_after": before + row.chips,
        }
        await connection.execute(sa.insert(POSTINGS), posting)
        moved.append((row, posting))
    for row, posting in moved:
        if row.carry:
            to = {"balance": posting["balance_after"], "version": posting["version"]}
            await connection.execute(
                sa.update(ACCOUNTS).where(ACCOUNTS.c.id == row.account).values(**to)
            )
    if close:
        await connection.execute(
            sa.insert(TRANSFERS),
            {"id": transfer, "kind": TransferKind.GRANT, "subject": "x", "recorded_at": 1},
        )
    return transfer


async def test_a_sound_transfer_is_taken(engine: AsyncEngine) -> None:
    """The way these tests write is one that the database takes, so that refusals tell."""
    (ann,) = await open_players(open_ledger(engine), 1, 10)
    async with write(engine) as connection:
        await move(connection, Row(ann, 5), Row(ISSUER, -5))
    assert (await check_books(engine)).total == 0


@pytest.mark.parametrize(
    ("mine", "issuers"),
    [
        pytest.param(Row(ISSUER, 6), Row(ISSUER, -5), id="sum is not zero"),
        pytest.param(Row(ISSUER, 5), None, id="one leg"),
        pytest.param(Row(ISSUER, -11), Row(ISSUER, 11), id="below zero"),
        pytest.param(Row(ISSUER, 5, skip=1), Row(ISSUER, -5), id="version gap"),
        pytest.param(Row(ISSUER, 5, skip=-1), Row(ISSUER, -5), id="version again"),
        pytest.param(Row(ISSUER, 5, before_by=1), Row(ISSUER, -5), id="before is not the balance"),
        pytest.param(Row(ISSUER, 5, carry=False), Row(ISSUER, -5), id="balance stays"),
        pytest.param(Row(ISSUER, 0), Row(ISSUER, -5), id="zero leg"),
    ],
)
async def test_an_unsound_transfer_is_refused(
    engine: AsyncEngine, mine: Row, issuers: Row | None
) -> None:
    """Double entry holds at the latest when the transaction commits."""
    (ann,) = await open_players(open_ledger(engine), 1, 10)
    rows = [replace(mine, account=ann)] + ([issuers] if issuers else [])
    with pytest.raises(IntegrityError):
        async with write(engine) as connection:
            await move(connection, *rows)
    await check_books(engine)


async def test_postings_need_their_transfer(engine: AsyncEngine) -> None:
    """They cannot be committed without it, balanced or not."""
    (ann,) = await open_players(open_ledger(engine), 1, 10)
    with pytest.raises(IntegrityError):
        async with write(engine) as connection:
            await move(connection, Row(ann, 5), Row(ISSUER, -5), close=False)
    await check_books(engine)


async def test_a_closed_transfer_takes_no_postings(engine: AsyncEngine) -> None:
    """Not even ones that balance among themselves."""
    ann, ben = await open_players(open_ledger(engine), 2, 10)
    async with write(engine) as connection:
        closed = await move(connection, Row(ann, 5), Row(ISSUER, -5))
    with pytest.raises(IntegrityError):
        async with write(engine) as connection:
            await connection.execute(
                sa.insert(POSTINGS),
                {
                    "transfer_id": closed,
                    "account_id": ben,
                    "version": 2,
                    "chips": 1,
                    "balance_before": 10,
                    "balance_after": 11,
                },
            )
    await check_books(engine)


async def test_a_balance_moves_by_postings_only(engine: AsyncEngine) -> None:
    """Setting it is refused, with or without another version."""
    (ann,) = await open_players(open_ledger(engine), 1, 10)
    for values in ({"balance": 11}, {"balance": 11, "version": 2}, {"version": 2}, {"kind": 3}):
        with pytest.raises(IntegrityError):
            async with write(engine) as connection:
                await connection.execute(
                    sa.update(ACCOUNTS).where(ACCOUNTS.c.id == ann).values(**values)
                )
    await check_books(engine)


@pytest.mark.parametrize(
    ("kind", "balance", "account"),
    [
        (AccountKind.ISSUER, 0, uuid4()),
        (AccountKind.PLAYER, 5, uuid4()),
        (AccountKind.PLAYER, -5, uuid4()),
        (9, 0, uuid4()),
    ],
)
async def test_a_new_account_is_empty_and_no_second_issuer(
    engine: AsyncEngine, kind: int, balance: int, account: UUID
) -> None:
    """Chips come by transfers, from one issuer."""
    row = {"id": account, "kind": kind, "balance": balance, "version": 0, "opened_at": 1}
    with pytest.raises(IntegrityError):
        async with write(engine) as connection:
            await connection.execute(sa.insert(ACCOUNTS), row)


async def play_a_game(engine: AsyncEngine) -> tuple[UUID, UUID]:
    """A settled game and its one reservation: every table has rows."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 10)
    game, held = uuid4(), uuid4()
    await do(ledger, Reserve(held, ann, game, 10, 60_000))
    await do(ledger, Pin(game, (Claim(held, ann, 10),)))
    await do(ledger, Settle(game, (Line(held, 0, 0),), b"h" * 32))
    return game, held


async def run_sql(engine: AsyncEngine, *statements: str) -> None:
    """Statements in one transaction."""
    async with write(engine) as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def test_stored_rows_are_kept(engine: AsyncEngine) -> None:
    """No row is removed, one by one or all at once; final ones do not change."""
    await play_a_game(engine)
    for table in KEPT:
        with pytest.raises(IntegrityError):
            await run_sql(engine, f"DELETE FROM {table.name}")  # noqa: S608
    for change in (
        "UPDATE transfers SET reason = 'x'",
        "UPDATE postings SET chips = chips",
        "UPDATE requests SET response = body_hash",
        "UPDATE games SET state = 1",
        "UPDATE games SET state = 4, head = NULL, transfer_id = NULL",
        "UPDATE reservations SET chips = 1",
        "UPDATE reservations SET state = 2, paid_in = 0, paid_out = 0",
    ):
        with pytest.raises(IntegrityError):
            await run_sql(engine, change)
    await check_books(engine)


async def test_no_way_around_the_keeping_of_rows(engine: AsyncEngine) -> None:
    """Not by emptying or replacing, nor by calling oneself a replica."""
    await play_a_game(engine)
    replica = "SET LOCAL session_replication_role = replica"
    for table in KEPT:
        ways = {
            "postgresql": (
                (f"TRUNCATE {table.name} CASCADE",),
                (replica, f"DELETE FROM {table.name}"),  # noqa: S608
            ),
            "sqlite": ((f"INSERT OR REPLACE INTO {table.name} SELECT * FROM {table.name}",),),  # noqa: S608
        }
        for way in ways[engine.dialect.name]:
            with pytest.raises(IntegrityError):
                await run_sql(engine, *way)
    await check_books(engine)


async def test_reservations_and_games_take_their_course(engine: AsyncEngine) -> None:
    """A voided game stays voided, and no reservation begins anywhere but pending in an open one."""
    game, _ = await play_a_game(engine)
    (ann,) = await open_players(open_ledger(engine), 1, 10)
    fresh = uuid4()
    row = {
        "id": uuid4(),
        "game_id": fresh,
        "number": 1,
        "account_id": ann,
        "chips": 1,
        "state": ReservationState.PENDING,
        "expires_at": 1,
        "paid_in": 0,
        "paid_out": 0,
    }
    async with write(engine) as connection:
        await connection.execute(sa.insert(GAMES), {"id": fresh, "state": GameState.OPEN})
    wrong: tuple[dict[str, object], ...] = (
        {"state": ReservationState.PINNED},
        {"number": 2},
        {"game_id": game},
        {"game_id": uuid4()},
        {"account_id": uuid4()},
        {"chips": 0},
    )
    for values in wrong:
        with pytest.raises(IntegrityError):
            async with write(engine) as connection:
                await connection.execute(sa.insert(RESERVATIONS), row | values)
    async with write(engine) as connection:
        await connection.execute(sa.insert(RESERVATIONS), row)
    for state in (GameState.VOIDED, GameState.SETTLED):
        with pytest.raises(IntegrityError):
            async with write(engine) as connection:
                await connection.execute(
                    sa.update(GAMES).where(GAMES.c.id == fresh).values(state=state)
                )


async def test_one_wrong_row_among_sound_ones(engine: AsyncEngine) -> None:
    """A statement of many rows is refused for any one of them: postings, accounts, transfers."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 10)
    async with read(engine) as connection:
        issuer = (
            await connection.execute(sa.select(ACCOUNTS).where(ACCOUNTS.c.id == ISSUER))
        ).one()
    t1, t2 = uuid4(), uuid4()

    def posting(transfer: UUID, account: UUID, chips: int, version: int, before: int) -> Any:
        return {
            "transfer_id": transfer,
            "account_id": account,
            "version": version,
            "chips": chips,
            "balance_before": before,
            "balance_after": before + chips,
        }

    at, holds = issuer.version, issuer.balance
    rows = [
        posting(t1, ann, 5, 2, 10),
        posting(t1, ISSUER, -5, at + 1, holds),
        posting(t2, ben, 7, 2, 10),
        posting(t2, ISSUER, -7, at + 2, holds - 5),
    ]
    accounts = {ann: (15, 2), ben: (17, 2), ISSUER: (holds - 12, at + 2)}
    transfers = [
        {"id": t, "kind": TransferKind.GRANT, "subject": "x", "recorded_at": 1} for t in (t1, t2)
    ]

    async def attempt(postings: Any, moved: dict[UUID, tuple[int, int]], closed: Any) -> None:
        cases = {
            column: sa.case(*((ACCOUNTS.c.id == key, values[n]) for key, values in moved.items()))
            for n, column in enumerate(("balance", "version"))
        }
        async with write(engine) as connection:
            await connection.execute(sa.insert(POSTINGS).values(postings))
            update = sa.update(ACCOUNTS).where(ACCOUNTS.c.id.in_(list(moved))).values(**cases)
            await connection.execute(update)
            await connection.execute(sa.insert(TRANSFERS).values(closed))

    gap = posting(t2, ISSUER, -7, at + 3, holds - 5)
    jump = posting(t2, ISSUER, -7, at + 2, holds - 6)
    unequal = posting(t2, ben, 6, 2, 10)
    for postings, moved, closed in (
        ([*rows[:3], gap], accounts | {ISSUER: (holds - 12, at + 3)}, transfers),
        ([*rows[:3], jump], accounts | {ISSUER: (holds - 13, at + 2)}, transfers),
        ([*rows[:2], unequal, rows[3]], accounts | {ben: (16, 2)}, transfers),
        (rows, accounts | {ISSUER: (holds - 5, at + 1)}, transfers),
        (rows, accounts | {ben: (18, 2)}, transfers),
        (rows, {ann: (15, 2), ISSUER: accounts[ISSUER]}, transfers),
        (rows, accounts, transfers[:1]),
        (rows[:2], {ann: (15, 2), ISSUER: (holds - 5, at + 1)}, transfers),
    ):
        with pytest.raises(IntegrityError):
            await attempt(postings, moved, closed)
    await attempt(rows, accounts, transfers)
    await check_books(engine)


async def test_accounts_do_not_change_places(engine: AsyncEngine) -> None:
    """Nor kinds, nor ids, all at once or one by one."""
    ann, ben = await open_players(open_ledger(engine), 2, 10)
    swapped = sa.case((ACCOUNTS.c.id == ann, ben), else_=ann)
    fresh = uuid4()
    for values in ({"id": swapped}, {"id": fresh}, {"opened_at": 1}, {"kind": AccountKind.BOT}):
        update = sa.update(ACCOUNTS).where(ACCOUNTS.c.id.in_([ann, ben])).values(**values)
        if values == {"id": fresh}:
            update = update.where(ACCOUNTS.c.id == ann)
        with pytest.raises(IntegrityError):
            async with write(engine) as connection:
                await connection.execute(update)
    await check_books(engine)


async def test_the_tables_are_what_the_code_says(engine: AsyncEngine) -> None:
    """The migrated columns are those the queries are built on."""

    def columns(connection: sa.Connection) -> dict[str, list[tuple[str, bool]]]:
        seen = sa.inspect(connection)
        return {
            name: [(c["name"], c["nullable"]) for c in seen.get_columns(name)]
            for name in METADATA.tables
        }

    async with engine.connect() as connection:
        found = await connection.run_sync(columns)
    assert found == {
        name: [(c.name, bool(c.nullable)) for c in table.columns]
        for name, table in METADATA.tables.items()
    }


async def test_chips_are_whole_numbers(engine: AsyncEngine) -> None:
    """SQLite would take 0.5 into an integer column, and a word; its trigger does not."""
    await open_players(open_ledger(engine), 1, 10)
    for chips in ("0.5", "'x'"):
        with pytest.raises(DBAPIError):
            await run_sql(
                engine,
                "INSERT INTO postings "  # noqa: S608
                "(account_id, version, transfer_id, chips, balance_before, balance_after) "
                f"SELECT id, 2, id, {chips}, 10, {chips} FROM accounts WHERE kind = 2",
            )
    await check_books(engine)
