"""Batches of appends on SQLite: one transaction each, by one thread with one connection.

The thread has the write lock from the start of a batch, so it judges every append and writes what
won, all as of one moment of SQLite's clock. Mostly all win: so a batch is first written as if every
head were as it is remembered, which the statement that sets the heads sees to. Where one is not, or
anything else is in doubt, the transaction is undone, and the heads are read.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from sqlalchemy import event, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.records import maker
from services.runtime.database import DATABASE_ERRORS, FILES, judge, now_us
from services.runtime.store.api import StoreUnavailable, Unstorable
from services.runtime.store.committer import (
    NOTHING,
    Mark,
    Pending,
    Verdict,
    comes_after,
    marks,
    request_mark,
)
from services.runtime.store.rows import chained, due_rows

NOW = str(select(now_us()).compile(dialect=sqlite.dialect()))
HEADS = (
    "SELECT asked.key, version, hash, recorded_at FROM json_each(?) asked "
    "CROSS JOIN heads ON stream = asked.value"
)
"""What is there already of a batch, by the places of its appends; the join keeps its order, so each
place is one look into an index."""
REQUESTS = "SELECT request_id FROM events WHERE stream = ? AND request_id IS NOT NULL"
REQUEST = "SELECT 1 FROM events WHERE stream = ? AND request_id = ?"
WRITES = {
    "opened": (
        "INSERT INTO heads (version, hash, ended, recorded_at, stream) VALUES (?, ?, ?, ?, ?)"
    ),
    "moved": (
        "UPDATE heads SET version = ?, hash = ?, ended = ended OR ?, recorded_at = ? "
        "WHERE stream = ? AND version = ? AND hash = ?"
    ),
    "events": (
        "INSERT INTO events (stream, version, name, schema, payload, secret_digest, metadata, "
        "request_id, body_hash, recorded_at, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    "keys": "INSERT INTO stream_keys (stream, key_id, wrapped) VALUES (?, ?, ?)",
    "secrets": "INSERT INTO event_secrets (stream, version, sealed) VALUES (?, ?, ?)",
    "gone": "DELETE FROM work WHERE stream = ? AND kind = ? AND key = ?",
    "next": (
        "UPDATE work SET kind = ?1, key = ?2, version = ?3, due_at = ?4, ready_at = ?4, "
        "wake_at = ?4, attempts = 0, worker = NULL WHERE stream = ?5 AND kind = ?6 AND key = ?7"
    ),
    "due": (
        "INSERT INTO work (kind, key, version, due_at, ready_at, wake_at, stream, attempts) "
        "VALUES (?1, ?2, ?3, ?4, ?4, ?4, ?5, 0)"
    ),
    "tags": "INSERT INTO tags (tag, stream) VALUES (?, ?) ON CONFLICT DO NOTHING",
}
"""What a batch may write, in this order."""
MISSING = (
    "INSERT INTO work (kind, key, version, due_at, ready_at, wake_at, stream, attempts) "
    "SELECT ?1, ?2, ?3, ?4, ?4, ?4, ?5, 0 WHERE NOT EXISTS "
    "(SELECT 1 FROM work WHERE stream = ?5 AND kind = ?1 AND key = ?2)"
)
"""For `next` rows whose place was not there."""

_mark = maker(Mark)

Rows = dict[str, list[tuple[Any, ...]]]


class Overtaken(Exception):
    """A head is not as it is remembered, or that is not known."""


class SqliteWriter:
    """Writes batches in a thread of its own. `clock` stands in for SQLite's in tests."""

    LANES = 1
    """SQLite takes one transaction after another."""

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None) -> None:
        self._engine = engine
        self._file = FILES[engine.sync_engine]
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite-writer")
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._writing = False
        self._stale = False
        event.listen(engine.sync_engine, "engine_disposed", self._disposed)

    async def write(self, batch: Sequence[Pending]) -> list[Verdict]:
        """Stores what wins of a batch, at most one append of a stream; a verdict for each.

        Raises StoreUnavailable, Unstorable.
        """
        try:
            async with self._file.turn:
                self._writing = True
                try:
                    return await asyncio.get_running_loop().run_in_executor(
                        self._thread, self._write, batch
                    )
                finally:
                    self._writing = False
                    if self._stale:
                        self._drop()
        except DATABASE_ERRORS as error:
            if refusal := await judge(self._engine, error):
                raise refusal from None
            rule = getattr(error, "sqlite_errorname", type(error).__name__)
            raise Unstorable(f"SQLite refuses the rows ({rule})") from None
        except OverflowError:
            raise Unstorable("SQLite has no room for a number") from None

    async def close(self) -> None:
        """Ends the connection; the next batch would make a new one."""
        self._drop()

    def _write(self, batch: Sequence[Pending]) -> list[Verdict]:
        """In the thread: one transaction."""
        identity = self._file.identity()
        if identity != self._identity:
            self._drop()
        if self._connection is None:
            self._connection = self._file.connect()
            self._identity = identity
        connection = self._connection
        try:
            verdicts = self._transact(connection, batch, believed)
        except (Overtaken, sqlite3.IntegrityError):
            verdicts = self._transact(connection, batch, judged)
        if self._file.identity() != identity:
            raise StoreUnavailable("the database file was replaced during a write")
        return verdicts

    def _transact(
        self, connection: sqlite3.Connection, batch: Sequence[Pending], judging: "Judging"
    ) -> list[Verdict]:
        try:
            connection.execute("BEGIN IMMEDIATE")
            verdicts = self._fill(connection, batch, judging)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a COMMIT that failed leaves it open
                connection.execute("ROLLBACK")
            raise
        return verdicts

    def _fill(
        self, connection: sqlite3.Connection, batch: Sequence[Pending], judging: "Judging"
    ) -> list[Verdict]:
        now = connection.execute(NOW).fetchone()[0] if self._clock is None else self._clock()
        into: Rows = {part: [] for part in WRITES}
        verdicts = []
        for pending, verdict, head in judging(connection, batch, now):
            if verdict is Verdict.WON:
                at = max(now, head.recorded_at)
                pending.rows = chained(pending.append, pending.salts, head.hash, at)
                set_down(pending, head.hash, into)
            verdicts.append(verdict)
        for part, sql in WRITES.items():
            if rows := into[part]:
                written = connection.executemany(sql, rows)
                if part == "moved" and written.rowcount < len(rows):
                    raise Overtaken
                if part == "next" and written.rowcount < len(rows):
                    connection.executemany(MISSING, [row[:5] for row in rows])
        return verdicts

    def _disposed(self, engine: object) -> None:
        """The engine lets all its connections go: so do we, once no batch is under way."""
        if self._writing:
            self._stale = True
        else:
            self._drop()

    def _drop(self) -> None:
        self._stale = False
        if self._connection is not None:
            self._connection.close()
        self._connection = None


Judging = Callable[
    [sqlite3.Connection, Sequence[Pending], int], Iterator[tuple[Pending, Verdict, Mark]]
]
"""Says what is to become of each append of a batch, and the head it follows."""


def believed(
    _connection: sqlite3.Connection, batch: Sequence[Pending], now: int
) -> Iterator[tuple[Pending, Verdict, Mark]]:
    """As `judged`, if all win and heads are as they are remembered; raises Overtaken where what is
    remembered says otherwise, or does not say."""
    for pending in batch:
        append, head = pending.append, pending.follows
        late = append.not_after is not None and now > append.not_after
        if late or head.requests is None or not comes_after(append, head):
            raise Overtaken
        if request_mark(append.request_id) in head.requests:
            raise Overtaken
        yield pending, Verdict.WON, head


def judged(
    connection: sqlite3.Connection, batch: Sequence[Pending], now: int
) -> Iterator[tuple[Pending, Verdict, Mark]]:
    """What is to become of each append, and the head it follows."""
    streams = json.dumps([pending.append.stream.hex for pending in batch])
    heads = {
        place: _mark(version, octets, recorded_at, None, None)
        for place, version, octets, recorded_at in connection.execute(HEADS, (streams,))
    }
    for place, pending in enumerate(batch):
        append, head = pending.append, heads.get(place, NOTHING)
        if not comes_after(append, head) or was_stored(connection, pending, head):
            yield pending, Verdict.LOST, head
        elif append.not_after is not None and now > append.not_after:
            yield pending, Verdict.LATE, head
        else:
            yield pending, Verdict.WON, head


def was_stored(connection: sqlite3.Connection, pending: Pending, head: Mark) -> bool:
    """Whether an append's request id is a stored one; what is known of its stream counts as long as
    its head is the one that is known, else it is read."""
    stream = pending.append.stream.hex
    if head.hash != pending.follows.hash or pending.follows.requests is None:
        found = connection.execute(REQUESTS, (stream,))
        pending.follows = replace(head, requests=marks(request_id for (request_id,) in found))
    if request_mark(pending.append.request_id) not in (pending.follows.requests or b""):
        return False
    asked = (stream, pending.append.request_id)
    return connection.execute(REQUEST, asked).fetchone() is not None


def set_down(pending: Pending, previous: bytes, into: Rows) -> None:
    """Adds the rows of an append that has won, after the hash `previous`."""
    append, last = pending.append, pending.rows[-1]
    stream = append.stream.hex
    head = (last.version, last.hash, append.plan.ended, last.recorded_at, stream)
    if append.expected:
        into["moved"].append((*head, append.expected, previous))
    else:
        into["opened"].append(head)
    for row in pending.rows:
        into["events"].append(
            (
                stream,
                row.version,
                row.name,
                row.schema,
                row.payload,
                row.secret_digest,
                row.metadata,
                row.request_id,
                row.body_hash,
                row.recorded_at,
                row.hash,
            )
        )
    if sealing := pending.sealing:
        into["secrets"] += [(stream, *one) for one in sealing.sealed]
        if sealing.wrapped:
            into["keys"].append((stream, *sealing.wrapped))
    if append.plan.done or append.plan.due:
        taken, gone, due = due_rows(append, pending.follows.due, last.recorded_at)
        into["gone"] += [(stream, *name) for name in gone]
        new = [(*name, last.version, moment, stream) for name, moment in due]
        if taken:
            into["next"].append((*new.pop(0), *taken))
        into["due"] += new
    into["tags"] += [(tag, stream) for tag in append.plan.tags]
