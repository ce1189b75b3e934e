"""Batches on PostgreSQL: read in one call, folded here, written in one call of one transaction.

Nothing is locked while a batch is decided: the writing call locks games, then accounts, each in the
order of their ids, and refuses (SQLSTATE 40001) if one of them has changed since it was read. Then
another replica was faster, and the batch is decided again under locks; for some batches after that
locks are taken from the start. The calls go to the driver's own connection.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from uuid import UUID

from asyncpg.exceptions import PostgresError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import DATABASE_ERRORS, judge
from services.wallet.batch import Answer, Found, Wanted, Writing
from services.wallet.books import (
    Account,
    AccountKind,
    Game,
    GameState,
    Reservation,
    ReservationState,
)

Fold: TypeAlias = Callable[[Found], Writing | None]
Driver: TypeAlias = Any
"""A connection of asyncpg, which has no types of its own."""

CONFLICTS = frozenset(("40001", "40P01", "23505"))
"""Something changed meanwhile, a deadlock, a row that another transaction made first."""
ATTEMPTS = 10
"""How often a batch is decided when others change the same rows at the same time."""
WARY_BATCHES = 20
"""How many batches take locks from the start after one has met a conflict."""

READ = "SELECT * FROM read_books($1, $2, $3, $4, $5, $6)"
LOCK = "SELECT lock_books($1, $2)"
WRITE = f"SELECT write_books({', '.join(f'${n}' for n in range(1, 48))})"


class Contended(Exception):
    """Others changed the same rows every time a batch was about to be written."""


class PostgresBooks:
    """The books in a PostgreSQL database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._wary = 0

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Fold a batch from what there is and write what it leaves, whole or not at all.

        `fold` may be called several times; its last outcome counts. Raises Contended, and
        StoreUnavailable: then the outcome is unknown.
        """
        async with self._driver() as driver:
            for attempt in range(ATTEMPTS):
                try:
                    if attempt or self._wary:
                        await commit_locked(driver, wanted, fold)
                    else:
                        await commit_boldly(driver, wanted, fold)
                except PostgresError as error:
                    if getattr(error, "sqlstate", None) not in CONFLICTS:
                        raise
                    self._wary = WARY_BATCHES
                else:
                    self._wary = max(0, self._wary - 1)
                    return
        raise Contended

    async def find(self, wanted: Wanted) -> Found:
        """What there is of what is wanted."""
        async with self._driver() as driver:
            return await read(driver, wanted)

    @asynccontextmanager
    async def _driver(self) -> AsyncIterator[Driver]:
        """The driver's connection, each of its statements a transaction of its own."""
        try:
            connection = await self._engine.raw_connection()
            try:
                yield connection.driver_connection
            finally:
                connection.close()
        except DATABASE_ERRORS as error:
            if refusal := await judge(self._engine, error):
                raise refusal from error
            raise


async def commit_boldly(driver: Driver, wanted: Wanted, fold: Fold) -> None:
    """Two calls: nothing is locked in between."""
    writing = fold(await read(driver, wanted))
    if writing is not None:
        await driver.fetchval(WRITE, *arguments(writing))


async def commit_locked(driver: Driver, wanted: Wanted, fold: Fold) -> None:
    """One transaction that keeps what it has read as it is."""
    async with driver.transaction():
        await driver.fetchval(LOCK, list(wanted.accounts), list(wanted.games))
        writing = fold(await read(driver, wanted))
        if writing is not None:
            await driver.fetchval(WRITE, *arguments(writing))


async def read(driver: Driver, wanted: Wanted) -> Found:
    """What there is of what is wanted, of one moment."""
    requests = list(wanted.requests)
    rows = await driver.fetch(
        READ,
        list(wanted.accounts),
        list(wanted.games),
        list(wanted.reservations),
        list(wanted.holders),
        [subject for subject, _ in requests],
        [request_id for _, request_id in requests],
    )
    return found(rows)


def found(rows: Iterable[Sequence[Any]]) -> Found:
    """Rows of `read_books`: of the clock, requests, games, reservations, accounts, held chips."""
    now = 0
    accounts: dict[UUID, Account] = {}
    games: dict[UUID, Game] = {}
    reservations: list[Reservation] = []
    held: dict[UUID, int] = {}
    answers: dict[tuple[str, str], Answer] = {}
    for what, key, a, b, m, n, i, j, k, l, s, t, x, y in rows:  # noqa: E741
        if what == 4:
            accounts[key] = Account(key, AccountKind(m), i, j)
        elif what == 3:
            state = ReservationState(n)
            reservations.append(Reservation(key, a, m, b, i, j, state, k, l, s))
        elif what == 2:
            games[key] = Game(key, GameState(m), a, x, s)
        elif what == 1:
            answers[s, t] = Answer(x, y)
        elif what == 5:
            held[key] = i
        else:
            now = i
    return Found(now, accounts, games, reservations, held, answers)


def arguments(writing: Writing) -> list[Any]:
    """The arguments of `write_books`, in its order: mostly a column each."""
    made, postings, transfers = writing.games_made, writing.postings, writing.transfers
    accounts, held, ended = writing.accounts, writing.made, writing.ended
    games, answers = writing.games_ended, writing.answers
    return [
        writing.now,
        list(writing.games_seen),
        list(writing.games_seen.values()),
        list(writing.accounts_seen),
        list(writing.accounts_seen.values()),
        [g.id for g in made],
        [g.state for g in made],
        [g.reason for g in made],
        [a.id for a in writing.opened],
        [a.kind for a in writing.opened],
        [p.account for p in postings],
        [p.version for p in postings],
        [p.transfer for p in postings],
        [p.chips for p in postings],
        [p.before for p in postings],
        [p.after for p in postings],
        [a.id for a in accounts],
        [a.balance for a in accounts],
        [a.version for a in accounts],
        [r.transfer.id for r in transfers],
        [r.transfer.kind for r in transfers],
        [r.transfer.game for r in transfers],
        [r.transfer.reason for r in transfers],
        [r.subject for r in transfers],
        [r.request_id for r in transfers],
        [r.id for r in held],
        [r.game for r in held],
        [r.number for r in held],
        [r.account for r in held],
        [r.chips for r in held],
        [r.expires_at for r in held],
        list(writing.pinned),
        list(writing.games_pinned),
        [r.id for r in ended],
        [r.state for r in ended],
        [r.paid_in for r in ended],
        [r.paid_out for r in ended],
        [r.reason for r in ended],
        [g.id for g in games],
        [g.state for g in games],
        [g.transfer for g in games],
        [g.head for g in games],
        [g.reason for g in games],
        [subject for subject, _ in answers],
        [request_id for _, request_id in answers],
        [a.body_hash for a in answers.values()],
        [a.response for a in answers.values()],
    ]
