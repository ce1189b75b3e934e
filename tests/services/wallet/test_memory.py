"""What a wallet remembers of the books: it saves reading, and nothing is ever believed of it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from asyncpg.exceptions import PostgresError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.runtime.database import close_engine, database_now, open_engine, read, write
from services.runtime.migrate import migrate_engine
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.postgres import DatabaseClock
from services.wallet import postgres
from services.wallet.batch import Found, Wanted
from services.wallet.books import Account, AccountKind, Game, Reservation, Table
from services.wallet.domain import Claim, Command, Grant, Pin, Reserve, Void
from services.wallet.ledger import Ledger
from services.wallet.memory import Memory, Recent
from services.wallet.server import FOLDERS
from services.wallet.tables import RESERVATIONS
from tests.services.wallet.book_keeping import (
    balance,
    check_books,
    do,
    open_ledger,
    open_players,
)
from tests.services.wallet.conftest import database

NOW = 1_700_000_000_000_000


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A PostgreSQL database, migrated."""
    with database("postgresql", tmp_path) as url:
        made = open_engine(url)
        try:
            await migrate_engine(made, FOLDERS)
            yield made
        finally:
            await close_engine(made)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many batches have been read since this was last asked."""
    count = 0
    really = postgres.read

    async def counted(driver: Any, wanted: Wanted) -> Found:
        nonlocal count
        count += 1
        return await really(driver, wanted)

    def since() -> int:
        nonlocal count
        told, count = count, 0
        return told

    monkeypatch.setattr(postgres, "read", counted)
    return since


def reserve(account: UUID, game: UUID, chips: int = 10) -> Reserve:
    """A reservation of its own id."""
    return Reserve(uuid4(), account, game, chips, 60_000)


async def refused(ledger: Ledger, command: Command, name: str | None = None) -> str:
    """The reason for which a command is refused."""
    with pytest.raises(Refused) as caught:
        await do(ledger, command, name)
    return caught.value.reason


async def test_what_was_written_is_not_read_again(
    engine: AsyncEngine, reads: Callable[[], int]
) -> None:
    """A game from its first seat to its pinning, by players who were seen before."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 100)
    game, first, second = uuid4(), reserve(ann, game_1 := uuid4()), reserve(ben, game_1)
    reads()
    await do(ledger, first)
    await do(ledger, second)
    await do(ledger, Pin(game_1, (Claim(first.id, ann, 10), Claim(second.id, ben, 10))))
    await do(ledger, reserve(ann, game))
    assert reads() == 0
    assert await balance(engine, ann) == 80
    await check_books(engine)


async def test_a_refusal_is_read_first(engine: AsyncEngine, reads: Callable[[], int]) -> None:
    """Chips that came through another wallet can be spent, and what is gone there is gone."""
    here, there = open_ledger(engine), open_ledger(engine)
    (ann,) = await open_players(here, 1, 100)
    await do(here, reserve(ann, uuid4(), 100))
    await do(there, Grant(ann, 50, "x"))
    reads()
    await do(here, reserve(ann, uuid4(), 50))
    assert reads() == 1
    assert await refused(here, reserve(ann, uuid4(), 1)) == "INSUFFICIENT_CHIPS"
    assert await balance(engine, ann) == 0


async def test_what_another_wallet_did_is_never_overlooked(engine: AsyncEngine) -> None:
    """It spent the chips, pinned the game, voided it, reserved its next seat."""
    here, there = open_ledger(engine), open_ledger(engine)
    ann, ben = await open_players(here, 2, 100)
    games = [uuid4() for _ in range(4)]
    seats = [reserve(ben, game) for game in games]
    for seat in seats:
        await do(here, seat)
    await do(here, reserve(ann, games[0]))
    await do(there, reserve(ann, uuid4(), 85))
    assert await refused(here, reserve(ann, games[0])) == "INSUFFICIENT_CHIPS"
    await do(there, Pin(games[1], (Claim(seats[1].id, ben, 10),)))
    assert await refused(here, reserve(ben, games[1])) == "RESERVATION_PINNED"
    await do(there, Void(games[2], "X", pinned_too=False))
    assert await refused(here, reserve(ben, games[2])) == "GAME_VOIDED"
    await do(there, reserve(ben, games[3]))
    await do(here, reserve(ben, games[3]))
    assert await balance(engine, ann) == 5
    assert await balance(engine, ben) == 100 - 10 * 5
    await check_books(engine)


async def test_a_game_that_is_not_remembered_need_not_be_new(engine: AsyncEngine) -> None:
    """Made by another wallet, or before this one began: the seat is its next, not its first."""
    here, there = open_ledger(engine), open_ledger(engine)
    ann, ben = await open_players(here, 2, 100)
    await do(here, reserve(ann, uuid4()))
    game, gone = uuid4(), uuid4()
    await do(there, reserve(ben, game))
    await do(there, Void(gone, "X", pinned_too=False))
    await do(here, reserve(ann, game))
    assert await refused(here, reserve(ann, gone)) == "GAME_VOIDED"
    assert await balance(engine, game) == 20
    await check_books(engine)


async def test_a_request_answered_elsewhere_acts_once(engine: AsyncEngine) -> None:
    """The stored answer comes back; with another body it is refused."""
    here, there = open_ledger(engine), open_ledger(engine)
    (ann,) = await open_players(here, 1, 100)
    await do(here, reserve(ann, uuid4()))
    again = reserve(ann, uuid4())
    answer = await do(there, again, "once")
    assert await do(here, again, "once") == answer
    assert await refused(here, reserve(ann, uuid4()), "once") == "REQUEST_ID_REUSED"
    assert await balance(engine, ann) == 80


async def test_a_batch_that_failed_is_forgotten(
    engine: AsyncEngine, reads: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it was written: the next one of its accounts reads, others need not."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 100)
    await do(ledger, reserve(ann, uuid4()))
    await do(ledger, reserve(ben, uuid4()))
    arguments = postgres.arguments

    def cut(_: object) -> list[Any]:
        raise ConnectionResetError

    monkeypatch.setattr(postgres, "arguments", cut)
    with pytest.raises(StoreUnavailable):
        await do(ledger, reserve(ann, uuid4()))
    monkeypatch.setattr(postgres, "arguments", arguments)
    reads()
    await do(ledger, reserve(ben, uuid4()))
    assert reads() == 0
    await do(ledger, reserve(ann, uuid4()))
    assert reads() == 1
    assert await balance(engine, ann) == 80


async def test_what_failed_to_commit_was_never_so(
    engine: AsyncEngine, reads: Callable[[], int]
) -> None:
    """Also where a batch was written under locks and undone when it was to be committed: nothing
    of it is remembered, however many versions another wallet has written since."""
    here, there = open_ledger(engine), open_ledger(engine)
    (ann,) = await open_players(here, 1, 100)
    books = here.committer._database
    assert isinstance(books, postgres.PostgresBooks)
    books._care, books._wary = postgres.Care.LOCK, 1
    async with write(engine) as connection:
        await connection.exec_driver_sql(REFUSE)
        await connection.exec_driver_sql(REFUSE_AT_COMMIT)
    with pytest.raises(PostgresError):
        await do(here, Grant(ann, 50, "x"))
    async with write(engine) as connection:
        await connection.exec_driver_sql("DROP TRIGGER refuse ON transfers")
    books._wary = 0
    await do(there, Grant(ann, 7, "x"))
    reads()
    await do(here, reserve(ann, uuid4(), 10))
    assert reads() == 1
    assert await balance(engine, ann) == 97
    await check_books(engine)


REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$
"""
REFUSE_AT_COMMIT = """
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON transfers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize("ahead_us", [60_000_000, -60_000_000])
async def test_a_wrong_estimate_of_the_clock_writes_nothing(
    engine: AsyncEngine,
    reads: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    ahead_us: int,
) -> None:
    """Ahead of the database's or far behind it: the batch is decided again on the true time."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    await do(ledger, reserve(ann, uuid4()))
    right = DatabaseClock.read
    monkeypatch.setattr(DatabaseClock, "read", lambda clock: right(clock) + ahead_us)
    seat = reserve(ann, uuid4())
    reads()
    await do(ledger, seat)
    assert reads() == 1
    async with read(engine) as connection:
        now = await database_now(connection)
        made = sa.select(RESERVATIONS.c.expires_at).where(RESERVATIONS.c.id == seat.id)
        until = (await connection.execute(made)).scalar_one()
    assert 0 <= now - (until - seat.ttl_ms * 1_000) < 50_000_000
    await check_books(engine)


def test_the_oldest_is_forgotten() -> None:
    """There is room for so many at least and twice as many at most; what is used stays."""
    recent: Recent[int] = Recent(10)
    ids = [UUID(int=n) for n in range(100)]
    for n, key in enumerate(ids):
        recent.put(key, n)
        assert recent.get(ids[0]) == 0
    kept = [key for key in ids if recent.get(key) is not None]
    assert 10 <= len(kept) <= 20
    assert set(ids[-9:]) <= set(kept)
    recent.drop(ids[0])
    assert recent.get(ids[0]) is None


def test_what_must_be_read() -> None:
    """An account that is not remembered, a game to be ended, what is held for an account."""
    memory = Memory()
    ann, game = uuid4(), uuid4()
    wanted = Wanted(accounts=frozenset((ann, game)), games=frozenset((game,)))
    assert memory.recall(wanted, NOW) is None
    memory.learn({ann: Account(ann, AccountKind.PLAYER, 5, 1)}, {})
    found = memory.recall(wanted, NOW)
    assert found is not None
    assert found.is_remembered
    assert (set(found.accounts), found.tables) == ({ann}, {})
    assert memory.recall(Wanted(holders=frozenset((ann,))), NOW) is None
    assert memory.recall(Wanted(games=frozenset((game,)), begun=frozenset((game,))), NOW) is None
    memory.learn({game: Account(game, AccountKind.ESCROW)}, {game: Table(Game(game))})
    found = memory.recall(wanted, NOW)
    assert found is not None
    assert found.tables == {game: Table(Game(game))}


def test_what_has_expired_brings_its_account() -> None:
    """It is given back first, so whoever it belongs to must be known."""
    memory = Memory()
    ann, ben, game = uuid4(), uuid4(), uuid4()
    late = Reservation(uuid4(), game, 1, ben, 5, expires_at=NOW)
    memory.learn(
        {i: Account(i, AccountKind.PLAYER, 5, 1) for i in (ann, game)},
        {game: Table(Game(game), (late,))},
    )
    wanted = Wanted(accounts=frozenset((ann, game)), games=frozenset((game,)))
    before = memory.recall(wanted, NOW - 1)
    assert before is not None
    assert set(before.accounts) == {ann, game}
    assert memory.recall(wanted, NOW) is None
    memory.learn({ben: Account(ben, AccountKind.PLAYER, 5, 1)}, {})
    after = memory.recall(wanted, NOW)
    assert after is not None
    assert set(after.accounts) == {ann, ben, game}
