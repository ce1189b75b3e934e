"""Rulings, claims and forfeits as the wallet decides them, and as its databases hold to them."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.runtime.database import write
from services.wallet.books import DISPUTE_RESERVE, ISSUER, AccountKind, Books, Leg, TransferKind
from services.wallet.compensation import Collect, Compensate, Forfeit, FundReserve, shortfalls
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
from services.wallet.ledger import Ledger
from services.wallet.tables import ACCOUNTS, TRANSFERS
from tests.services.wallet.book_keeping import balance, check_books, do, open_ledger
from tests.services.wallet.given import (
    ANN,
    BEN,
    BOT,
    GAME,
    OPENED,
    SETTLE,
    balances,
    given,
    refused,
)

DISPUTE = UUID(int=0xD1)
SETTLED = (*OPENED, SETTLE)
"""Ann ends with 750, Ben with 1250."""


def holding(chips: int) -> Books:
    """The settled books when Ben has spent all but so many chips."""
    books = given(*SETTLED)
    poor = replace(books.accounts[BEN], balance=chips)
    return replace(books, accounts={**books.accounts, BEN: poor})


def ruling(*moves: tuple[UUID, int]) -> Compensate:
    """A ruling on the game."""
    return Compensate(DISPUTE, GAME, tuple(Leg(account, chips) for account, chips in moves))


def test_a_ruling_moves_what_players_have() -> None:
    """The transfer names the game and the dispute."""
    books = given(*SETTLED, ruling((ANN, 100), (BEN, -100)))
    assert balances(books)[ANN] == 850
    assert balances(books)[BEN] == 1_150
    made = books.made()
    assert (made.kind, made.game, made.reason) == (TransferKind.DISPUTE, GAME, str(DISPUTE))
    assert shortfalls(ruling((ANN, 100), (BEN, -100)).moves, made) == ()


def test_the_reserve_pays_what_a_player_lacks() -> None:
    """And it is told for whom; a player who has nothing is no part of the transfer."""
    spent = holding(50)
    command = ruling((ANN, 100), (BEN, -100))
    assert refused(spent, command) == "DISPUTE_RESERVE_SHORT"
    assert refused(given(FundReserve(49, ""), books=spent), command) == "DISPUTE_RESERVE_SHORT"
    books = given(FundReserve(60, ""), command, books=spent)
    assert [balances(books)[who] for who in (ANN, BEN, DISPUTE_RESERVE)] == [850, 0, 10]
    assert shortfalls(command.moves, books.made()) == (Leg(BEN, 50),)
    books = given(FundReserve(1_000, ""), command, books=books)
    assert {leg.account for leg in books.made().legs} == {ANN, DISPUTE_RESERVE}
    assert shortfalls(command.moves, books.made()) == (Leg(BEN, 100),)


def test_a_claim_is_collected_as_far_as_there_are_chips() -> None:
    """What is left is left to the next time."""
    moving = ruling((ANN, 100), (BEN, -100))
    books = given(FundReserve(100, ""), moving, books=holding(0))
    assert refused(books, Collect(DISPUTE, GAME, BEN, 100)) == "INSUFFICIENT_CHIPS"
    books = given(Grant(BEN, 30, ""), Collect(DISPUTE, GAME, BEN, 100), books=books)
    assert [balances(books)[who] for who in (BEN, DISPUTE_RESERVE)] == [0, 30]
    books = given(Grant(BEN, 100, ""), Collect(DISPUTE, GAME, BEN, 70), books=books)
    assert [balances(books)[who] for who in (BEN, DISPUTE_RESERVE)] == [30, 100]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (ruling((ANN, 1), (BEN, -2)), "UNBALANCED"),
        (ruling((ANN, 1), (ANN, -1)), "INVALID_FIELD"),
        (ruling((ANN, 0), (BEN, 0)), "INVALID_FIELD"),
        (ruling((ANN, 1)), "INVALID_FIELD"),
        (ruling(), "INVALID_FIELD"),
        (ruling((ANN, 2**63), (BEN, -(2**63))), "INVALID_FIELD"),
        (ruling((ANN, 1), (BOT, -1)), "NOT_OF_THE_GAME"),
        (ruling((ANN, 1), (ISSUER, -1)), "NOT_OF_THE_GAME"),
        (Collect(DISPUTE, GAME, BOT, 1), "NOT_OF_THE_GAME"),
        (Collect(DISPUTE, GAME, ANN, 0), "INVALID_FIELD"),
        (FundReserve(0, ""), "INVALID_FIELD"),
    ],
)
def test_what_cannot_be_is_refused(command: Command, reason: str) -> None:
    """By name, and nothing changes."""
    assert refused(given(*SETTLED), command) == reason


def test_only_a_settled_game_is_put_right() -> None:
    """Neither one that holds its chips nor one that gave them back."""
    for books in (given(*OPENED), given(*OPENED, Void(GAME, "X", pinned_too=True))):
        assert refused(books, ruling((ANN, 1), (BEN, -1))) == "GAME_NOT_SETTLED"


def test_chips_are_forfeited_on_purpose_only() -> None:
    """They go back to the issuer; an empty account, or none, needs nothing."""
    books = given(*SETTLED)
    assert refused(books, Forfeit(ANN, agreed=False)) == "CHIPS_LEFT"
    after = given(Forfeit(ANN, agreed=True), books=books)
    assert balances(after)[ANN] == 0
    assert balances(after)[ISSUER] == balances(books)[ISSUER] + 750
    assert balances(given(Forfeit(ANN, agreed=False), books=after)) == balances(after)
    assert given(Forfeit(uuid4(), agreed=False), books=books).transfer is None
    assert refused(books, Forfeit(BOT, agreed=True)) == "ACCOUNT_NOT_FOUND"
    held = Books(books.now, books.accounts, held=5)
    assert refused(held, Forfeit(ANN, agreed=True)) == "CHIPS_HELD"


async def test_a_database_carries_rulings_out_once(engine: AsyncEngine) -> None:
    """The same request again is the same transfer; of another dispute under its id it is not."""
    ledger = open_ledger(engine)
    ann, ben, game = uuid4(), uuid4(), uuid4()
    held = [uuid4(), uuid4()]
    for player, reservation in zip((ann, ben), held, strict=True):
        await do(ledger, OpenAccount(player, AccountKind.PLAYER, 100))
        await do(ledger, Reserve(reservation, player, game, 100, 60_000))
    await _finish(ledger, game, dict(zip(held, (ann, ben), strict=True)))
    await do(ledger, FundReserve(500, "reserve"))
    command = Compensate(uuid4(), game, (Leg(ann, 150), Leg(ben, -150)))
    first = await do(ledger, command, "ruling")
    assert await do(ledger, command, "ruling") == first
    with pytest.raises(Refused) as caught:
        await do(ledger, Compensate(uuid4(), game, command.moves), "ruling")
    assert caught.value.reason == "REQUEST_ID_REUSED"
    assert [await balance(engine, who) for who in (ann, ben, DISPUTE_RESERVE)] == [250, 0, 450]
    await do(ledger, Grant(ben, 20, "more"))
    await do(ledger, Collect(command.dispute, game, ben, 50))
    await do(ledger, Forfeit(ann, agreed=True))
    assert [await balance(engine, who) for who in (ann, ben, DISPUTE_RESERVE)] == [0, 0, 470]
    assert (await check_books(engine)).sound
    await ledger.close()


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (ACCOUNTS, {"id": UUID(int=9), "kind": 5, "balance": 0, "version": 0, "opened_at": 1}),
        (ACCOUNTS, {"id": UUID(int=2), "kind": 2, "balance": 0, "version": 0, "opened_at": 1}),
        (ACCOUNTS, {"id": UUID(int=9), "kind": 6, "balance": 0, "version": 0, "opened_at": 1}),
        (TRANSFERS, {"id": UUID(int=9), "kind": 10, "subject": "x", "recorded_at": 1}),
        (TRANSFERS, {"id": UUID(int=9), "kind": 7, "subject": "x", "recorded_at": 1}),
    ],
)
async def test_a_database_knows_one_reserve_and_named_disputes(
    engine: AsyncEngine, table: sa.Table, row: dict[str, Any]
) -> None:
    """No other account is the reserve, no ruling goes without its dispute and its game."""
    with pytest.raises(IntegrityError):
        async with write(engine) as connection:
            await connection.execute(sa.insert(table), row)


async def _finish(ledger: Ledger, game: UUID, held: dict[UUID, UUID]) -> None:
    await do(ledger, Pin(game, tuple(Claim(r, p, 100) for r, p in held.items())))
    lines = tuple(Line(reservation, 0, 0) for reservation in held)
    await do(ledger, Settle(game, lines, b"h" * 32))
