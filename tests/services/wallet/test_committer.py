"""Commands that arrive together: one transaction, and yet each on its own."""

import asyncio
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Kind, Refused
from services.runtime.store.api import StoreUnavailable
from services.wallet.batch import Asked, Found, Wanted
from services.wallet.books import ISSUER, Account, AccountKind, Books, GameState
from services.wallet.committer import Committer, CommitterDied, Database
from services.wallet.domain import (
    Claim,
    Command,
    Grant,
    Line,
    OpenAccount,
    Pin,
    Reserve,
    Settle,
    Void,
)
from services.wallet.ledger import Ledger, books_of
from services.wallet.postgres import Fold
from services.wallet.statements import read_game
from services.wallet.wake import Wake
from tests.services.wallet.book_keeping import (
    balance,
    check_books,
    do,
    open_ledger,
    open_players,
    request,
)

HEAD = b"h" * 32


class Counted:
    """A database that counts its batches, and may lose a connection around a commit."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches = 0
        self.lose: str = ""

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Commit, unless the connection is lost before it; it may be lost after it."""
        self.batches += 1
        if self.lose == "before":
            await self.database.commit(wanted, lambda found: fold(found) and None)
            raise StoreUnavailable("lost before the commit")
        await self.database.commit(wanted, fold)
        if self.lose == "after":
            raise StoreUnavailable("lost after the commit")

    async def find(self, wanted: Wanted) -> Found:
        """What there is."""
        return await self.database.find(wanted)


def counted(engine: AsyncEngine) -> tuple[Ledger, Counted]:
    """A ledger on a database that counts."""
    ledger = open_ledger(engine)
    database = Counted(books_of(engine))
    ledger.committer = Committer(database, Wake())
    return ledger, database


async def outcomes(ledger: Ledger, *commands: tuple[Command, str]) -> list[str]:
    """What becomes of commands sent at once: `done`, or the reason of their refusal."""
    sent = (do(ledger, command, name) for command, name in commands)
    told = await asyncio.gather(*sent, return_exceptions=True)
    return [
        t.reason
        if isinstance(t, Refused)
        else type(t).__name__
        if isinstance(t, Exception)
        else "done"
        for t in told
    ]


async def test_what_waits_is_committed_together(engine: AsyncEngine) -> None:
    """Sixty grants to three accounts: one batch, balances written once, every posting there."""
    ledger, database = counted(engine)
    players = await open_players(ledger, 3, 10)
    database.batches = 0
    await asyncio.gather(*(do(ledger, Grant(players[n % 3], 1, "x")) for n in range(60)))
    assert database.batches == 1
    assert [await balance(engine, p) for p in players] == [30, 30, 30]
    await check_books(engine)


async def test_duplicates_in_a_batch_and_against_the_table(engine: AsyncEngine) -> None:
    """The same id with the same body acts once, with another body it is refused, at any time."""
    ledger, database = counted(engine)
    (ann,) = await open_players(ledger, 1, 10)
    one, other = Grant(ann, 5, "x"), Grant(ann, 6, "x")
    database.batches = 0
    told = await outcomes(ledger, (one, "a"), (other, "a"), (one, "a"), (other, "b"))
    assert told == ["done", "REQUEST_ID_REUSED", "done", "done"]
    told = await outcomes(ledger, (other, "a"), (one, "a"), (one, "b"), (one, "c"))
    assert told == ["REQUEST_ID_REUSED", "done", "REQUEST_ID_REUSED", "done"]
    assert database.batches == 2
    assert await balance(engine, ann) == 10 + 5 + 6 + 5
    await check_books(engine)


async def test_a_refused_command_leaves_its_batch_alone(engine: AsyncEngine) -> None:
    """Those before and after it are done, and its id may be used again."""
    ledger, database = counted(engine)
    (ann,) = await open_players(ledger, 1, 100)
    game, held = uuid4(), uuid4()
    database.batches = 0
    told = await outcomes(
        ledger,
        (Reserve(uuid4(), ann, uuid4(), 60, 60_000), "a"),
        (Void(game, "X", pinned_too=False), "b"),
        (Reserve(held, ann, game, 10, 60_000), "c"),
        (Grant(ann, 0, "x"), "d"),
        (Reserve(held, ann, uuid4(), 40, 60_000), "e"),
        (Grant(uuid4(), 1, "x"), "f"),
        (Grant(ann, 7, "x"), "g"),
    )
    refused = ("GAME_VOIDED", "INVALID_FIELD", "ACCOUNT_NOT_FOUND")
    assert told == ["done", "done", refused[0], refused[1], "done", refused[2], "done"]
    assert database.batches == 1
    assert await balance(engine, ann) == 7
    assert await outcomes(ledger, (Grant(ann, 1, "x"), "d")) == ["done"]
    assert (await check_books(engine)).held == 2


async def test_a_fault_in_one_command_is_its_own(engine: AsyncEngine) -> None:
    """Making its answer fails, or the database cannot store what it says: the others are done."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 0)

    def stumble(_: Books) -> bytes:
        raise ZeroDivisionError

    broken = ledger.execute(Grant(ann, 1, "x"), request(), stumble)
    unstorable = do(ledger, Grant(ann, 1, "\ud800"))
    sent = (do(ledger, Grant(ann, 1, "x")), broken, unstorable, do(ledger, Grant(ann, 1, "x")))
    told = await asyncio.gather(*sent, return_exceptions=True)
    assert [isinstance(t, bytes) for t in told] == [True, False, False, True]
    assert isinstance(told[1], ZeroDivisionError)
    assert await balance(engine, ann) == 2
    await check_books(engine)


async def test_a_whole_game_in_one_batch(engine: AsyncEngine) -> None:
    """Reserved, pinned, settled and voided together: each step is there, in its order."""
    ledger, database = counted(engine)
    ann, ben = await open_players(ledger, 2, 100)
    game, gone, r1, r2, r3 = (uuid4() for _ in range(5))
    database.batches = 0
    told = await outcomes(
        ledger,
        (Reserve(r1, ann, game, 60, 60_000), "1"),
        (Reserve(r3, ben, gone, 50, 60_000), "2"),
        (Reserve(r2, ben, game, 50, 60_000), "3"),
        (Pin(game, (Claim(r1, ann, 60), Claim(r2, ben, 50))), "4"),
        (Pin(gone, (Claim(r3, ben, 50),)), "5"),
        (Settle(game, (Line(r1, 60, 0), Line(r2, 0, 60)), HEAD), "6"),
        (Void(gone, "X", pinned_too=True), "7"),
        (Reserve(uuid4(), ben, gone, 1, 60_000), "8"),
    )
    assert told == ["done"] * 7 + ["GAME_VOIDED"]
    assert database.batches == 1
    assert (await balance(engine, ann), await balance(engine, ben)) == (40, 160)
    states = [(await read_game(engine, g))[0] for g in (game, gone)]
    assert [s.state for s in states if s] == [GameState.SETTLED, GameState.VOIDED]
    assert (await check_books(engine)).held == 0


async def test_a_hot_account_never_goes_below_zero(engine: AsyncEngine) -> None:
    """Two hundred at once take from an account that can pay for ninety, while chips come in."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 905)
    wanted = [(Reserve(uuid4(), ann, uuid4(), 10, 60_000), f"take-{n}") for n in range(200)]
    grants = [(Grant(ann, 1, "x"), f"g-{n}") for n in range(40)]
    told = await outcomes(ledger, *wanted[:100], *grants, *wanted[100:])
    assert set(told) == {"done", "INSUFFICIENT_CHIPS"}
    assert told.count("done") == 40 + 94
    assert told.count("INSUFFICIENT_CHIPS") == 106
    assert await balance(engine, ann) == 905 + 40 - 940
    assert (await check_books(engine)).held == 94


async def test_a_full_queue_sheds(engine: AsyncEngine) -> None:
    """What does not fit is refused at once; what waits is done."""
    ledger = Ledger(engine, Wake(), queue_max=5)
    (ann,) = await open_players(ledger, 1, 0)
    told = await outcomes(ledger, *((Grant(ann, 1, "x"), f"g-{n}") for n in range(8)))
    assert told == ["done"] * 5 + ["TOO_MANY_WAITING"] * 3
    asked = Asked(Grant(ann, 1, "x"), None, lambda _: b"")
    for _ in range(5):
        ledger.committer.submit(asked)
    with pytest.raises(Refused) as caught:
        ledger.committer.submit(asked)
    assert caught.value.kind is Kind.EXHAUSTED
    await ledger.close()
    assert await balance(engine, ann) == 10


async def test_a_connection_lost_after_the_commit(engine: AsyncEngine) -> None:
    """What was stored is found by its request id, and everyone is told what became of it."""
    ledger, database = counted(engine)
    (ann,) = await open_players(ledger, 1, 0)
    database.lose = "after"
    told = await outcomes(ledger, (Grant(ann, 1, "x"), "a"), (Grant(uuid4(), 1, "x"), "b"))
    assert told == ["done", "ACCOUNT_NOT_FOUND"]
    database.lose = ""
    assert await outcomes(ledger, (Grant(ann, 1, "x"), "a")) == ["done"]
    assert await balance(engine, ann) == 1


async def test_a_connection_lost_before_the_commit(engine: AsyncEngine) -> None:
    """The outcome is unknown, nobody is told otherwise; the same request again acts once."""
    ledger, database = counted(engine)
    (ann,) = await open_players(ledger, 1, 0)
    database.lose = "before"
    told = await outcomes(ledger, (Grant(ann, 1, "x"), "a"), (Grant(uuid4(), 1, "x"), "b"))
    assert told == ["StoreUnavailable", "StoreUnavailable"]
    database.lose = ""
    assert await outcomes(ledger, (Grant(ann, 1, "x"), "a")) == ["done"]
    assert await balance(engine, ann) == 1


class Faulty:
    """A database module with a fault of its own."""

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Fails as no database does."""
        raise ZeroDivisionError

    async def find(self, wanted: Wanted) -> Found:
        """Nothing."""
        raise ZeroDivisionError


async def test_a_dead_committer_is_loud() -> None:
    """Whoever waits is told, whoever comes is refused, health fails and the process's task ends."""
    committer = Committer(Faulty(), Wake())
    watching = asyncio.create_task(committer.watch())
    committer.check()
    asked = Asked(Grant(uuid4(), 1, "x"), None, lambda _: b"")
    waiting = [committer.submit(asked) for _ in range(300)]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(t) for t in told} == {CommitterDied}
    with pytest.raises(CommitterDied):
        committer.check()
    with pytest.raises(CommitterDied):
        committer.submit(asked)
    with pytest.raises(CommitterDied):
        async with asyncio.timeout(5):
            await watching


async def test_more_than_a_batch_holds(engine: AsyncEngine) -> None:
    """A thousand at once go through in batches, none lost, none twice."""
    ledger, database = counted(engine)
    (ann,) = await open_players(ledger, 1, 0)
    database.batches = 0
    told = await outcomes(ledger, *((Grant(ann, 1, "x"), f"g-{n}") for n in range(1_000)))
    assert told == ["done"] * 1_000
    assert 4 <= database.batches <= 6
    assert await balance(engine, ann) == 1_000
    await check_books(engine)


def test_books_hold_whoever_is_named() -> None:
    """An account found by one command of a batch is not shown to another that does not name it."""
    seen: list[set[UUID]] = []
    ann, ben = uuid4(), uuid4()

    class Two:
        async def commit(self, wanted: Wanted, fold: Fold) -> None:
            accounts = {i: Account(i, AccountKind.PLAYER) for i in (ann, ben)}
            accounts[ISSUER] = Account(ISSUER, AccountKind.ISSUER)
            fold(Found(1, accounts, {}, {}, {}, {}))

        async def find(self, wanted: Wanted) -> Found:
            raise AssertionError

    async def run() -> None:
        committer = Committer(Two(), Wake())

        def respond(after: Books) -> bytes:
            seen.append(set(after.accounts))
            return b""

        commands = (Grant(ann, 1, "x"), OpenAccount(ben, AccountKind.PLAYER, 5))
        await asyncio.gather(*(committer.submit(Asked(c, request(), respond)) for c in commands))

    asyncio.run(run())
    assert seen == [{ann, ISSUER}, {ben, ISSUER}]
