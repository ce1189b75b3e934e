"""Given books for tests of the wallet's decisions, and what comes of commands on them."""

from dataclasses import replace
from itertools import count
from uuid import UUID

import pytest

from services.kernel.errors import Refused
from services.wallet.books import (
    ISSUER,
    Account,
    AccountKind,
    Books,
    evolve,
)
from services.wallet.domain import (
    Claim,
    Command,
    Line,
    OpenAccount,
    Pin,
    Reserve,
    Settle,
    decide,
)

NOW = 1_700_000_000_000_000
GAME, OTHER_GAME = UUID(int=0xAA), UUID(int=0xAB)
ANN, BEN, BOT = UUID(int=0x11), UUID(int=0x12), UUID(int=0x13)
R1, R2, R3 = UUID(int=0x21), UUID(int=0x22), UUID(int=0x23)
HEAD = b"h" * 32
IDS = count(0x1000)

EMPTY = Books(NOW, {ISSUER: Account(ISSUER, AccountKind.ISSUER)})


def transfer_id() -> UUID:
    """A new id."""
    return UUID(int=next(IDS))


def given(*commands: Command, books: Books = EMPTY) -> Books:
    """The books after commands."""
    for command in commands:
        books = evolve(books, decide(books, command, transfer_id()))
    return books


def refused(books: Books, command: Command) -> str:
    """The reason for which a command is refused; the books stay as they are."""
    before = repr(books)
    with pytest.raises(Refused) as caught:
        decide(books, command, transfer_id())
    assert repr(books) == before
    return caught.value.reason


def balances(books: Books) -> dict[UUID, int]:
    """What every account holds."""
    return {account.id: account.balance for account in books.accounts.values()}


PEOPLE = (
    OpenAccount(ANN, AccountKind.PLAYER, 1_000),
    OpenAccount(BEN, AccountKind.PLAYER, 1_000),
    OpenAccount(BOT, AccountKind.BOT, 0),
)
SEATED = (*PEOPLE, Reserve(R1, ANN, GAME, 300, 5_000), Reserve(R2, BEN, GAME, 400, 5_000))
CLAIMS = (Claim(R1, ANN, 300), Claim(R2, BEN, 400))
OPENED = (*SEATED, Pin(GAME, CLAIMS))
SETTLE = Settle(GAME, (Line(R1, 250, 0), Line(R2, 250, 500)), HEAD)


def later(*commands: Command) -> Books:
    """The books after commands, when every reservation's time is up."""
    return replace(given(*commands), now=NOW + 10**12)
