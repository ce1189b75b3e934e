"""Batches of appends on PostgreSQL: one statement, one round trip, one transaction each.

The statement (`statements.py`) compares and sets the heads in the order of streams, which locks
them, and writes the events, secrets, keys, due rows and tags of those whose head was as expected.
Whoever did not win is judged afterwards by a query that only reads; so is a whole batch that was
undone, because another process opened a stream or a lock was waited for too long, and what can
still be stored is written again without the others.

An event's time is in its hash, and the hash is made here, before the statement runs. So the time is
proposed from an estimate of the database's clock that is never ahead of it, and the statement
refuses (STALE) a proposal further from its own clock than `BOUNDS_US`; it is made anew from the
clock it answers with. Deadlines (`not_after`) are judged by the database's clock itself.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncpg.exceptions import (
    InterfaceError,
    InternalClientError,
    PostgresError,
    UniqueViolationError,
)
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import DATABASE_ERRORS, judge
from services.runtime.store.api import Unstorable
from services.runtime.store.committer import Locked, Pending, Verdict
from services.runtime.store.statements import CLOCK, JUDGING, PARTS, SHAPES, Rows, set_down, writing

BOUNDS_US = (100_000, 1_000_000, 60_000_000)
"""How far a proposed time may be from the database's: at first, and when it is made anew because
this process or the statement was held up for longer (the last is beyond every timeout)."""

CLOSE_SECONDS = 2.0
LATE = "KZ001"
"""What `refuse_late` of the database says."""

SESSION = """
    SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off
"""
"""One plan for every batch, whatever the tables looked like when it was made: each row of a batch
probes an index once. None of the statement's parts joins two sets of the batch."""


class DatabaseClock:
    """An estimate of a database's clock, in Unix microseconds, that is not ahead of it.

    Every reply tells what the clock showed at some moment between sending and receiving, so how
    far it is ahead of our monotonic clock lies between two bounds; replies narrow them, and one
    that contradicts them (a clock was set) replaces them.
    """

    def __init__(self) -> None:
        self._low = 0
        self._high = 0

    def read(self) -> int:
        """The time, by the lower bound."""
        return self._low + time.monotonic_ns() // 1_000

    def learn(self, sent: int, shown: int) -> None:
        """Takes in a reply to what was sent at `sent` by our monotonic clock, microseconds."""
        low, high = shown - time.monotonic_ns() // 1_000, shown - sent
        if low > self._high or high < self._low:
            self._low, self._high = low, high
        else:
            self._low, self._high = max(self._low, low), min(self._high, high)


@dataclass(slots=True, eq=False)
class Session:
    """A connection out of the engine's pool, and what is prepared on it by its text."""

    connection: Any
    prepared: dict[str, Any] = field(default_factory=dict)

    async def fetch(self, statement: str, *arguments: Any) -> Any:
        """The rows of a statement, prepared once."""
        prepared = self.prepared.get(statement)
        if prepared is None:
            prepared = self.prepared[statement] = await self.connection.prepare(statement)
        return await prepared.fetch(*arguments)


class PostgresWriter:
    """Writes batches, each over a connection of its own: as many as are under way at once.

    `clock` stands in for the database's in tests.
    """

    LANES = 2
    """So many batches may be under way: the database works on one while we make the next."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None) -> None:
        self._engine = engine
        self._clock = clock
        self._estimate = DatabaseClock()
        self._idle: list[Session] = []
        self._disposals = 0
        self._statements: dict[tuple[str, ...], str] = {}
        event.listen(engine.sync_engine, "engine_disposed", self._disposed)

    async def write(self, batch: Sequence[Pending]) -> list[Verdict]:
        """Stores what wins of a batch, at most one append of a stream; a verdict for each.

        When the connection is lost, nobody knows whether the batch was committed: it is written
        again, once, on a new one. What had been stored is found by its request id. Raises
        StoreUnavailable, Locked, Unstorable.
        """
        try:
            try:
                return await self._on(self._idle.pop() if self._idle else None, batch)
            except DATABASE_ERRORS as error:
                if not lost(error):
                    raise
                return await self._on(None, batch)
        except DATABASE_ERRORS as error:
            raise await self._meaning(error) from None

    async def close(self) -> None:
        """Ends the connections; the next batch would make a new one."""
        idle, self._idle = self._idle, []
        for connection in (session.connection for session in idle):
            if not connection.is_closed():
                try:
                    await connection.close(timeout=CLOSE_SECONDS)
                except DATABASE_ERRORS:
                    connection.terminate()

    async def _on(self, session: Session | None, batch: Sequence[Pending]) -> list[Verdict]:
        """Writes a batch over this session, or a new one, which is kept unless it is of no use."""
        disposals = self._disposals
        if session is None or session.connection.is_closed():
            session = await self._connect()
        keep = False
        try:
            verdicts = await self._write(session, batch)
            keep = True
        except PostgresError as error:
            keep = not lost(error)  # the server has refused the statement and goes on
            raise
        finally:
            if keep and disposals == self._disposals:
                self._idle.append(session)
            else:
                session.connection.terminate()
        return verdicts

    async def _write(self, session: Session, batch: Sequence[Pending]) -> list[Verdict]:
        ordered = sorted(batch, key=stream_number)
        verdicts = await self._propose(session, ordered, BOUNDS_US[0])
        if verdicts.count(Verdict.WON) == len(verdicts):
            return verdicts
        found = dict(zip(ordered, verdicts, strict=True))
        for bound in BOUNDS_US[1:]:
            left = [one for one in ordered if found[one] is Verdict.STALE]
            if left:
                found.update(zip(left, await self._propose(session, left, bound), strict=True))
        return [found[pending] for pending in batch]

    async def _propose(
        self, session: Session, batch: Sequence[Pending], bound: int
    ) -> list[Verdict]:
        now = None if self._clock is None else self._clock()
        at = self._estimate.read() if now is None else now
        into: Rows = defaultdict(list)
        for place, pending in enumerate(batch, start=1):
            set_down(place, pending, max(at, pending.follows.recorded_at), into)
        if len(batch) == 1:
            into["alone"] = []
        statement, given = self._statement(into)
        sent = time.monotonic_ns() // 1_000
        try:
            [(won, shown)] = await session.fetch(statement, bound, now, *given)
        except PostgresError as error:
            if getattr(error, "sqlstate", None) == LATE:
                return await judged(session, now, into["asked"])
            if not isinstance(error, UniqueViolationError):
                raise
            verdicts = await judged(session, now, into["asked"])
            if all(verdict is Verdict.STALE for verdict in verdicts):
                raise  # nobody came first: the tables are not as they should be
            return verdicts
        if now is None:
            self._estimate.learn(sent, shown)
        verdicts = [Verdict.WON] * len(batch)
        if won is not None and won.count("1") == len(batch):
            return verdicts
        losers = [n for n in range(len(batch)) if won is None or won[n + 1] == "0"]
        why = await judged(session, now, [into["asked"][n] for n in losers])
        for place, verdict in zip(losers, why, strict=True):
            verdicts[place] = verdict
        return verdicts

    def _statement(self, into: Rows) -> tuple[str, list[Any]]:
        """The statement for these rows, and what it takes of them."""
        parts = tuple(part for part in (*SHAPES, *PARTS) if part in into)
        statement = self._statements.get(parts)
        if statement is None:
            statement = self._statements[parts] = writing(parts)
        given: list[Any] = [into[part] for part in parts if part not in SHAPES]
        given += into["asked"][0] if "alone" in parts else [into["asked"]]
        return statement, given

    async def _connect(self) -> Session:
        raw = await (await self._engine.connect()).get_raw_connection()
        connection: Any = raw.driver_connection
        raw.detach()
        try:
            await connection.execute(SESSION)
            sent = time.monotonic_ns() // 1_000
            self._estimate.learn(sent, await connection.fetchval(f"SELECT {CLOCK}"))
        except BaseException:
            connection.terminate()  # the pool knows nothing of it any more
            raise
        return Session(connection)

    async def _meaning(self, error: Exception) -> Exception:
        """What a failure means to those who wait; texts of databases quote values."""
        if isinstance(error, ValueError):
            return Unstorable("PostgreSQL has no room for a number")
        refusal = await judge(self._engine, error)
        state = getattr(error, "sqlstate", None)
        if refusal is None:
            rule = getattr(error, "constraint_name", None) or type(error).__name__
            return Unstorable(f"PostgreSQL refuses the rows (SQLSTATE {state}, {rule})")
        if state is not None and state.startswith(("40", "55P03")):
            return Locked(str(refusal))
        return refusal

    def _disposed(self, engine: object) -> None:
        """The engine lets all its connections go: so do we, those in use when they are back."""
        self._disposals += 1
        idle, self._idle = self._idle, []
        for session in idle:
            session.connection.terminate()


def stream_number(pending: Pending) -> int:
    """By what a batch is ordered: PostgreSQL orders ids alike."""
    return pending.append.stream.int


async def judged(
    session: Session, now: int | None, asked: Sequence[tuple[Any, ...]]
) -> list[Verdict]:
    """Why these have not won; STALE is also who may be written again."""
    rows = await session.fetch(JUDGING, asked, now)
    return [Verdict(verdict) for _, verdict in sorted(map(tuple, rows))]


def lost(error: Exception) -> bool:
    """Whether the connection was lost, so that nobody knows what became of a statement."""
    if isinstance(error, PostgresError):
        state: str = getattr(error, "sqlstate", None) or ""
        return state.startswith(("08", "57P"))
    gone = isinstance(error, InterfaceError | InternalClientError | ConnectionError)
    return gone and not isinstance(error, ValueError)
