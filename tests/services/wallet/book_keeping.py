"""Driving a ledger from tests: commands in a few words, and what must hold of its tables."""

import hashlib
from collections.abc import Iterable
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import read
from services.wallet.batch import Request
from services.wallet.books import AccountKind, Books
from services.wallet.domain import Command, OpenAccount
from services.wallet.ledger import Ledger
from services.wallet.statements import Trial, read_holding, read_trial
from services.wallet.tables import ACCOUNTS, POSTINGS, TRANSFERS
from services.wallet.wake import Wake

NUMBERS = count(1)


def open_ledger(engine: AsyncEngine) -> Ledger:
    """A ledger with nobody watching."""
    return Ledger(engine, Wake())


def request(
    name: str | None = None, body: object = None, subject: str = "service:lobby"
) -> Request:
    """A request, of its own id unless named."""
    digest = hashlib.sha256(repr(body).encode()).digest()
    return Request(subject, name or f"r-{next(NUMBERS)}", digest)


async def do(
    ledger: Ledger, command: Command, name: str | None = None, subject: str = "service:lobby"
) -> bytes:
    """Carry a command out; the answer is what it left of its accounts, as text."""

    def respond(after: Books) -> bytes:
        balances = sorted((str(i), a.balance) for i, a in after.accounts.items())
        return repr((balances, after.game, after.reservations)).encode()

    return await ledger.execute(command, request(name, command, subject), respond)


async def open_players(ledger: Ledger, count: int, chips: int) -> list[UUID]:
    """Players' accounts with chips."""
    players = [uuid4() for _ in range(count)]
    for player in players:
        await do(ledger, OpenAccount(player, AccountKind.PLAYER, chips))
    return players


async def balance(engine: AsyncEngine, account: UUID) -> int:
    """What an account can spend."""
    return (await read_holding(engine, account)).account.balance


async def check_books(engine: AsyncEngine) -> Trial:
    """Recompute everything from the postings, row by row; fails where a law is broken."""
    async with read(engine) as connection:
        accounts = {r.id: r for r in await connection.execute(sa.select(ACCOUNTS))}
        order = sa.select(POSTINGS).order_by(POSTINGS.c.account_id, POSTINGS.c.version)
        postings = (await connection.execute(order)).all()
        transfers = set((await connection.execute(sa.select(TRANSFERS.c.id))).scalars())
    sums = _sums((p.transfer_id, p.chips) for p in postings)
    assert set(sums) == transfers
    assert set(sums.values()) <= {0}
    at: dict[UUID, tuple[int, int]] = dict.fromkeys(accounts, (0, 0))
    for p in postings:
        version, before = at[p.account_id]
        assert (p.version, p.balance_before) == (version + 1, before)
        assert p.balance_after == before + p.chips
        at[p.account_id] = (p.version, p.balance_after)
    assert at == {i: (a.version, a.balance) for i, a in accounts.items()}
    assert all(a.balance >= 0 for a in accounts.values() if a.kind != AccountKind.ISSUER)
    assert sum(a.balance for a in accounts.values()) == 0
    trial = await read_trial(engine)
    assert trial.sound
    return trial


def _sums(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for key, chips in pairs:
        sums[key] = sums.get(key, 0) + chips
    return sums
