"""Batches on PostgreSQL: folded here, written in one call of one transaction.

A batch is decided on what is remembered of those before it, else on what one call reads. Nothing is
locked meanwhile: the writing call locks games, then accounts, each in the order of their ids, and
refuses (SQLSTATE 40001) if one of them is not as it was seen. Then another replica was faster, and
the batch is decided again on what is read, and then under locks; the next batches begin with as
much care. The calls go to the driver's own connection.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias
from uuid import UUID

from asyncpg.exceptions import PostgresError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.drivers import Driver, Drivers
from services.runtime.store.postgres import DatabaseClock
from services.wallet.batch import Answer, Found, Wanted, Writing, tables_of
from services.wallet.books import (
    Account,
    AccountKind,
    Game,
    GameState,
    Reservation,
    ReservationState,
)
from services.wallet.memory import Memory

Fold: TypeAlias = Callable[[Found], Writing | None]

COLLISIONS = frozenset(("23505",))
"""A row that is there already: a request asked again, a game that was forgotten."""
CONFLICTS = COLLISIONS | {"40001", "40P01"}
"""Or something changed meanwhile, or a deadlock."""
ATTEMPTS = 10
"""How often a batch is decided when others change the same rows at the same time."""
WARY_BATCHES = 20
"""How many batches are decided with more care after one has met a conflict."""

READ = "SELECT * FROM read_books($1, $2, $3, $4, $5, $6)"
LOCK = "SELECT lock_books($1, $2)"
COLUMNS = (
    *("bigint", "uuid[]", "int[]", "uuid[]", "bigint[]", "uuid[]", "int[]", "text[]", "uuid[]"),
    *("int[]", "uuid[]", "bigint[]", "uuid[]", "bigint[]", "bigint[]", "bigint[]", "uuid[]"),
    *("bigint[]", "bigint[]", "uuid[]", "int[]", "uuid[]", "text[]", "text[]", "text[]", "uuid[]"),
    *("uuid[]", "int[]", "uuid[]", "bigint[]", "bigint[]", "uuid[]", "uuid[]", "uuid[]", "int[]"),
    *("bigint[]", "bigint[]", "text[]", "uuid[]", "int[]", "uuid[]", "bytea[]", "text[]"),
    *("text[]", "text[]", "bytea[]", "bytea[]"),
)
"""What `write_batch` takes."""
SPELLED = ("uuid[]", "int[]", "bigint[]")
"""Arrays of these go as text: asyncpg takes twice as long over each of their items."""


class Contended(Exception):
    """Others changed the same rows every time a batch was about to be written."""


class Doubtful(Exception):
    """A batch asks for something that what is remembered of the books speaks against."""


class Care(IntEnum):
    """How a batch is decided: on what is remembered, on what is read, on what is locked first."""

    REMEMBER = 0
    READ = 1
    LOCK = 2


class PostgresBooks:
    """The books in a PostgreSQL database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._drivers = Drivers(engine)
        self._memory = Memory()
        self._clock = DatabaseClock()
        self._care = Care.READ
        self._wary = 1

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Fold a batch from what there is and write what it leaves, whole or not at all.

        `fold` may be called several times; its last outcome counts. Raises Contended, and
        StoreUnavailable: then the outcome is unknown.
        """
        care = self._care if self._wary else Care.REMEMBER
        async with self._drivers.lend() as driver:
            for _ in range(ATTEMPTS):
                try:
                    await self._attempt(driver, wanted, fold, care)
                except Doubtful:
                    care = Care.READ
                except PostgresError as error:
                    state = getattr(error, "sqlstate", None)
                    if state not in CONFLICTS:
                        raise
                    care = Care(min(care + 1, Care.LOCK))
                    if state not in COLLISIONS:
                        self._care, self._wary = care, WARY_BATCHES
                else:
                    self._wary = max(0, self._wary - 1)
                    return
        raise Contended

    async def find(self, wanted: Wanted) -> Found:
        """What there is of what is wanted."""
        async with self._drivers.lend() as driver:
            return await self._read(driver, wanted)

    async def _attempt(self, driver: Driver, wanted: Wanted, fold: Fold, care: Care) -> None:
        """Decide a batch with some care, and write it."""
        if care is Care.LOCK:
            async with driver.transaction():
                await driver.fetchval(LOCK, list(wanted.accounts), list(wanted.games))
                writing = await self._decide(driver, wanted, fold, None)
        else:
            remembers = care is Care.REMEMBER
            remembered = self._memory.recall(wanted, self._clock.read()) if remembers else None
            writing = await self._decide(driver, wanted, fold, remembered)
        if writing is not None:
            self._memory.learn(*writing.standing)

    async def _decide(
        self, driver: Driver, wanted: Wanted, fold: Fold, found: Found | None
    ) -> Writing | None:
        """Fold what was found, or is now read, and write what comes of it."""
        if found is None:
            found = await self._read(driver, wanted)
        writing = fold(found)
        if writing is not None:
            sent = time.monotonic_ns() // 1_000
            self._memory.forget(wanted, found)
            self._clock.learn(sent, await driver.fetchval(WRITE, *arguments(writing)))
        return writing

    async def _read(self, driver: Driver, wanted: Wanted) -> Found:
        sent = time.monotonic_ns() // 1_000
        found = await read(driver, wanted)
        self._clock.learn(sent, found.now)
        return found


async def read(driver: Driver, wanted: Wanted) -> Found:
    """What there is of what is wanted, of one moment."""
    rows = await driver.fetch(
        READ,
        list(wanted.accounts),
        list(wanted.games),
        list(wanted.reservations),
        list(wanted.holders),
        [subject for subject, _ in wanted.requests],
        [request_id for _, request_id in wanted.requests],
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
    named = {r.id: r for r in reservations}
    tables = tables_of(games, named.values())
    return Found(now, accounts, tables, named, held, answers)


def parameter(number: int, kind: str) -> str:
    """A parameter of `write_batch` as the call says it."""
    return f"${number}::text::{kind}" if kind in SPELLED else f"${number}"


WRITE = f"SELECT write_batch({', '.join(parameter(*each) for each in enumerate(COLUMNS, start=1))})"


def spelled(values: Collection[int]) -> str:
    """Whole numbers as the text of an array."""
    return "{" + ",".join(map(str, values)) + "}"


def named(ids: Collection[UUID | None]) -> str:
    """Ids as the text of an array."""
    return "{" + ",".join(["NULL" if each is None else each.hex for each in ids]) + "}"


def arguments(writing: Writing) -> list[Any]:
    """The arguments of `write_batch`, in its order: mostly a column each."""
    made, postings, transfers = writing.games_made, writing.postings, writing.transfers
    accounts, held, ended = writing.accounts, writing.made, writing.ended
    games, answers = writing.games_ended, writing.answers
    return [
        writing.now,
        named(writing.games_seen),
        spelled(writing.games_seen.values()),
        named(writing.accounts_seen),
        spelled(writing.accounts_seen.values()),
        named([g.id for g in made]),
        spelled([g.state for g in made]),
        [g.reason for g in made],
        named([a.id for a in writing.opened]),
        spelled([a.kind for a in writing.opened]),
        named([p.account for p in postings]),
        spelled([p.version for p in postings]),
        named([p.transfer for p in postings]),
        spelled([p.chips for p in postings]),
        spelled([p.before for p in postings]),
        spelled([p.after for p in postings]),
        named([a.id for a in accounts]),
        spelled([a.balance for a in accounts]),
        spelled([a.version for a in accounts]),
        named([r.transfer.id for r in transfers]),
        spelled([r.transfer.kind for r in transfers]),
        named([r.transfer.game for r in transfers]),
        [r.transfer.reason for r in transfers],
        [r.subject for r in transfers],
        [r.request_id for r in transfers],
        named([r.id for r in held]),
        named([r.game for r in held]),
        spelled([r.number for r in held]),
        named([r.account for r in held]),
        spelled([r.chips for r in held]),
        spelled([r.expires_at for r in held]),
        named(writing.pinned),
        named(writing.games_pinned),
        named([r.id for r in ended]),
        spelled([r.state for r in ended]),
        spelled([r.paid_in for r in ended]),
        spelled([r.paid_out for r in ended]),
        [r.reason for r in ended],
        named([g.id for g in games]),
        spelled([g.state for g in games]),
        named([g.transfer for g in games]),
        [g.head for g in games],
        [g.reason for g in games],
        [subject for subject, _ in answers],
        [request_id for _, request_id in answers],
        [a.body_hash for a in answers.values()],
        [a.response for a in answers.values()],
    ]
