"""Batches of appends on PostgreSQL: one statement, one round trip, one transaction each.

The statement locks the heads in the order of streams, judges every append under its head's lock,
and writes the heads, events, secrets, keys, due rows and tags of those that won; parts of which a
batch has no rows are left out of it. Everything is set-based: arrays go in, and a verdict an append
comes out.

An event's time is in its hash, and the hash is made here, before the statement runs. So the time is
proposed from an estimate of the database's clock that is never ahead of it, and the statement
refuses (STALE) a proposal further from its own clock than `BOUNDS_US`; it is made anew from the
clock it answers with. Deadlines (`not_after`) are judged by the database's clock itself.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from services.runtime.database import DATABASE_ERRORS, judge
from services.runtime.store.api import Unstorable
from services.runtime.store.committer import Locked, Pending, Verdict
from services.runtime.store.rows import chained, done_work, due_moments

BOUNDS_US = (100_000, 1_000_000, 60_000_000)
"""How far a proposed time may be from the database's: at first, and when it is made anew because
this process or the statement was held up for longer (the last is beyond every timeout)."""

CLOSE_SECONDS = 2.0

SESSION = """
    SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off
"""
"""One plan for every batch, whatever the tables looked like when it was made: each row of a batch
probes an index once. None of the statement's parts joins two sets of the batch."""

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

NUMBERS = ("bigint", "integer", "boolean")
"""Arrays of these go as text: asyncpg takes several times as long over each number."""
NEVER = 2**63 - 1
ASKED = (
    *("uuid", "bigint", "bytea", "text", "bigint"),
    *("bytea", "boolean", "bigint", "bigint"),
)
NUMBERED = "hashtextextended(request_id, 0)"
"""What the index of request ids holds of them."""
DECIDED = f"""
WITH given AS MATERIALIZED (
    SELECT $3::uuid[] AS streams, $10::text::bigint[] AS versions, $11::text::bigint[] AS moments
), asked AS MATERIALIZED (
    SELECT * FROM unnest({{arrays}}) WITH ORDINALITY
    AS a(stream, expected, previous, request_id, not_after, hash, ended, version, at, i)
), decided AS MATERIALIZED (
    SELECT i, now, CASE
        WHEN coalesce(head_version, 0) <> expected OR known THEN 1
        WHEN now > not_after THEN 2
        WHEN head_hash <> previous OR at < head_at OR at < now - $1::bigint
            OR (at > now + $1 AND at IS DISTINCT FROM head_at) THEN 3
        ELSE 0 END::smallint AS verdict
    FROM (
        SELECT a.i, a.expected, a.previous, a.not_after, a.at, head.version AS head_version,
            head.hash AS head_hash, head.recorded_at AS head_at, earlier.known,
            coalesce($2::bigint, {CLOCK}) AS now
        FROM asked a
        LEFT JOIN LATERAL (
            SELECT version, hash, recorded_at FROM heads WHERE stream = a.stream FOR UPDATE
        ) head ON true
        LEFT JOIN LATERAL (
            SELECT true AS known FROM events
            WHERE stream = a.stream AND {NUMBERED} = hashtextextended(a.request_id, 0)
                AND request_id = a.request_id AND a.expected > 0 AND {{within}} LIMIT 1
        ) earlier ON true
        OFFSET 0
    ) judged
), verdicts AS MATERIALIZED (
    SELECT array_agg(verdict ORDER BY i) AS list, max(now) AS now FROM decided
)"""  # noqa: S608 - made of constants
"""The clock is read for each append once its head is locked. Whoever asks for `verdicts` first has
every head locked and every append judged before anything is written. `within` are the bounds of
the batch's streams: the partitions beyond them are left alone from the start."""
WON = "(SELECT list FROM verdicts)[i] = 0"
STREAM = "(SELECT streams FROM given)[i]"
VERSION = "(SELECT versions FROM given)[i]"
AT = "(SELECT moments FROM given)[i]"
"""What a row takes from the append it belongs to."""

PARTS = {
    "opened": (
        (),
        f"""INSERT INTO heads (stream, version, hash, ended, recorded_at)
        SELECT stream, version, hash, ended, at FROM asked WHERE expected = 0 AND {WON}""",  # noqa: S608
    ),
    "moved": (
        (),
        f"""UPDATE heads SET version = a.version, hash = a.hash, ended = heads.ended OR a.ended,
            recorded_at = a.at
        FROM asked a WHERE heads.stream = a.stream AND heads.version = a.expected
            AND a.expected > 0 AND {WON}""",  # noqa: S608
    ),
    "events": (
        (
            *("bigint", "text", "integer", "bytea", "bytea", "bytea", "text", "bytea"),
            "bytea",
        ),
        f"""INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata,
            request_id, body_hash, recorded_at, hash)
        SELECT {STREAM}, version, name, schema, payload, secret_digest, metadata, request_id,
            body_hash, {AT}, hash
        FROM unnest({{arrays}}) AS e(i, version, name, schema, payload, secret_digest,
            metadata, request_id, body_hash, hash) WHERE {WON}""",  # noqa: S608
    ),
    "secrets": (
        ("bigint", "bytea"),
        f"""INSERT INTO event_secrets (stream, version, sealed)
        SELECT {STREAM}, version, sealed
        FROM unnest({{arrays}}) AS s(i, version, sealed) WHERE {WON}""",  # noqa: S608
    ),
    "keys": (
        ("text", "bytea"),
        f"""INSERT INTO stream_keys (stream, key_id, wrapped)
        SELECT {STREAM}, key_id, wrapped
        FROM unnest({{arrays}}) AS k(i, key_id, wrapped) WHERE {WON}""",  # noqa: S608
    ),
    "done": (
        ("text", "text"),
        f"""DELETE FROM due
        USING (SELECT {STREAM} AS stream, kind, key
            FROM unnest({{arrays}}) AS d(i, kind, key) WHERE {WON} OFFSET 0) d
        WHERE due.stream = d.stream AND due.kind = d.kind AND due.key = d.key AND {{within}}""",  # noqa: S608
    ),
    "due": (
        ("text", "text", "bigint"),
        f"""INSERT INTO due (stream, kind, key, version, due_at, ready_at, attempts)
        SELECT {STREAM}, kind, key, {VERSION}, at, at, 0
        FROM unnest({{arrays}}) AS d(i, kind, key, at) WHERE {WON}
        ON CONFLICT (stream, kind, key) DO UPDATE SET version = excluded.version,
            due_at = excluded.due_at, ready_at = excluded.ready_at, attempts = 0, worker = NULL""",  # noqa: S608
    ),
    "tags": (
        ("text",),
        f"""INSERT INTO tags (tag, stream)
        SELECT tag, {STREAM} FROM unnest({{arrays}}) AS t(i, tag) WHERE {WON}
        ON CONFLICT DO NOTHING""",  # noqa: S608
    ),
}
"""What a statement may write: the types of its arrays (before them one that says which append a row
belongs to), and how."""

Rows = defaultdict[str, list[tuple[Any, ...]]]


def statement(parts: Sequence[str]) -> str:
    """The statement that writes these parts. Its parameters: the bound, the clock or NULL, the
    arrays of what is asked, the first and the last stream, the arrays of each part."""
    number = 2
    within = f"stream BETWEEN ${3 + len(ASKED)} AND ${4 + len(ASKED)}"

    def arrays(types: Sequence[str]) -> str:
        nonlocal number
        first, number = number + 1, number + len(types)
        return ", ".join(
            f"${first + place}{'::text' if kind in NUMBERS else ''}::{kind}[]"
            for place, kind in enumerate(types)
        )

    text = DECIDED.format(arrays=arrays(ASKED), within=within)
    number += 2
    for part in parts:
        types, writing = PARTS[part]
        given = arrays(("integer", *types)) if types else ""
        text += f", {part} AS ({writing.format(arrays=given, within=f'due.{within}')})"
    return f"{text} SELECT list, now FROM verdicts"  # noqa: S608 - made of constants


def rows_of(place: int, pending: Pending, at: int, into: Rows) -> None:
    """Chains an append at `at` and sets its rows down by part; `place` counts from 1."""
    append, follows, plan = pending.append, pending.follows, pending.append.plan
    rows = pending.rows = chained(append, pending.salts, follows.hash, at)
    last = rows[-1]
    until = NEVER if append.not_after is None else append.not_after
    into["opened" if append.expected == 0 else "moved"] = []
    into["asked"].append(
        (
            append.stream,
            append.expected,
            follows.hash,
            append.request_id,
            until,
            last.hash,
            plan.ended,
            last.version,
            at,
        )
    )
    into["events"] += [
        (
            place,
            row.version,
            row.name,
            row.schema,
            row.payload,
            row.secret_digest,
            row.metadata,
            row.request_id,
            row.body_hash,
            row.hash,
        )
        for row in rows
    ]
    if sealing := pending.sealing:
        into["secrets"] += [(place, *one) for one in sealing.sealed]
        if sealing.wrapped:
            into["keys"].append((place, *sealing.wrapped))
    if plan.done:
        into["done"] += [(place, *work) for work in done_work(append)]
    if plan.due:
        into["due"] += [(place, *work, due) for work, due in due_moments(append, at).items()]
    if plan.tags:
        into["tags"] += [(place, tag) for tag in plan.tags]


def columns(rows: Sequence[tuple[Any, ...]], types: Sequence[str]) -> list[Any]:
    """The rows of a part as the arrays its statement takes."""
    return [
        "{" + ",".join(map(str, column)) + "}" if kind in NUMBERS else column
        for kind, column in zip(types, zip(*rows, strict=True), strict=True)
    ]


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


class PostgresWriter:
    """Writes batches over a connection of its own, taken out of the engine's pool.

    `clock` stands in for the database's in tests.
    """

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None) -> None:
        self._engine = engine
        self._clock = clock
        self._estimate = DatabaseClock()
        self._connection: Any = None
        self._prepared: dict[tuple[str, ...], Any] = {}
        self._writing = False
        self._stale = False
        event.listen(engine.sync_engine, "engine_disposed", self._disposed)

    async def write(self, batch: Sequence[Pending]) -> list[Verdict]:
        """Stores what wins of a batch, at most one append of a stream; a verdict for each.

        When the connection is lost, nobody knows whether the batch was committed: it is written
        again, once, on a new one. What had been stored is found by its request id. Raises
        StoreUnavailable, Locked, Unstorable.
        """
        self._writing = True
        try:
            try:
                return await self._write(batch)
            except DATABASE_ERRORS as error:
                if not lost(error):
                    raise
                self._drop()
                return await self._write(batch)
        except DATABASE_ERRORS as error:
            self._drop_after(error)
            raise await self._meaning(error) from None
        finally:
            self._writing = False
            if self._stale:
                self._drop()

    async def close(self) -> None:
        """Ends the connection; the next batch would make a new one."""
        connection, self._connection = self._connection, None
        self._drop()
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except DATABASE_ERRORS:
                connection.terminate()

    async def _write(self, batch: Sequence[Pending]) -> list[Verdict]:
        verdicts: dict[Pending, Verdict] = {}
        left = sorted(batch, key=lambda pending: pending.append.stream.int)
        for bound in BOUNDS_US:
            found = await self._propose(left, bound)
            verdicts.update(zip(left, found, strict=True))
            left = [one for one in left if verdicts[one] is Verdict.STALE]
            if not left:
                break
        return [verdicts[pending] for pending in batch]

    async def _propose(self, batch: Sequence[Pending], bound: int) -> list[Verdict]:
        connection = await self._connected()
        now = None if self._clock is None else self._clock()
        at = self._estimate.read() if now is None else now
        into: Rows = defaultdict(list)
        for place, pending in enumerate(batch, start=1):
            rows_of(place, pending, max(at, pending.follows.recorded_at), into)
        parts = tuple(part for part in PARTS if part in into and (into[part] or not PARTS[part][0]))
        prepared = self._prepared.get(parts)
        if prepared is None:
            prepared = self._prepared[parts] = await connection.prepare(statement(parts))
        arrays = columns(into["asked"], ASKED)
        arrays += (batch[0].append.stream, batch[-1].append.stream)
        for part in parts:
            if types := PARTS[part][0]:
                arrays += columns(into[part], ("integer", *types))
        sent = time.monotonic_ns() // 1_000
        verdicts, shown = await prepared.fetchrow(bound, now, *arrays)
        if now is None:
            self._estimate.learn(sent, shown)
        return [Verdict(verdict) for verdict in verdicts]

    async def _connected(self) -> Any:
        """The connection, made if there is none."""
        if self._connection is not None and self._connection.is_closed():
            self._drop()
        if self._connection is None:
            raw = await (await self._engine.connect()).get_raw_connection()
            self._connection = raw.driver_connection
            raw.detach()
            await self._connection.execute(SESSION)
            sent = time.monotonic_ns() // 1_000
            self._estimate.learn(sent, await self._connection.fetchval(f"SELECT {CLOCK}"))
        return self._connection

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

    def _drop_after(self, error: Exception) -> None:
        """Lets the connection go unless the server has refused the statement and goes on."""
        if not isinstance(error, PostgresError) or lost(error):
            self._drop()

    def _disposed(self, engine: object) -> None:
        """The engine lets all its connections go: so do we, once no batch is under way."""
        if self._writing:
            self._stale = True
        else:
            self._drop()

    def _drop(self) -> None:
        self._stale = False
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None
        self._prepared = {}


def lost(error: Exception) -> bool:
    """Whether the connection was lost, so that nobody knows what became of a statement."""
    if isinstance(error, PostgresError):
        state: str = getattr(error, "sqlstate", None) or ""
        return state.startswith(("08", "57P"))
    gone = isinstance(error, InterfaceError | InternalClientError | ConnectionError)
    return gone and not isinstance(error, ValueError)
