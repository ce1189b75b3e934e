"""A release is migrated while the one before it works on the same PostgreSQL, and loses nothing.

`release_0_1_0` holds the statements with which 0.1.0 stores batches, word for word. They are run on
connections that prepared them before, as that release does.
"""

import asyncio
import gzip
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from services.game.server import FOLDERS
from services.kernel.envelope import Append, Appended, Due, Plan, Recorded
from services.kernel.ids import RANDOM_BYTES, uuid7
from services.runtime.database import close_engine, open_engine, read
from services.runtime.migrate import migrate, missing
from services.runtime.store import migrations
from services.runtime.store.committer import NOTHING, Mark, made_ready
from services.runtime.store.keys import StreamKeys
from services.runtime.store.rows import chained
from services.runtime.store.sql import SqlStore
from tests.fixtures import dumps
from tests.runtime.appends import STREAM, append, numbered
from tests.runtime.conftest import KEYS
from tests.runtime.stored import verify_stream

FROZEN = Path(__file__).parents[1] / "fixtures" / "0.1.0" / "postgresql" / "game.sql.gz"
RELEASE = Path(__file__).parent / "release_0_1_0"
BACK = Path(__file__).parents[2] / "deploy" / "back-to-0.1.0.sql"
CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
SESSION = (
    "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; "
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off"
)
STREAM_ROWS = (
    "SELECT events.stream, events.version, events.name, events.schema, events.payload, "
    "events.secret_digest, events.metadata, events.request_id, events.body_hash, "
    "events.recorded_at, events.hash, event_secrets.sealed FROM events LEFT OUTER JOIN "
    "event_secrets ON event_secrets.stream = events.stream AND event_secrets.version = "
    "events.version WHERE events.stream = $1 AND events.version > 0 ORDER BY events.version"
)
CLAIM = (
    "SELECT due.stream, due.kind, due.key, due.version, due.due_at, due.ready_at, due.attempts, "
    "due.worker FROM due WHERE due.ready_at <= $1 ORDER BY due.ready_at LIMIT 8 "
    "FOR UPDATE SKIP LOCKED"
)
ALL_DUE = CLAIM.replace("LIMIT 8 ", "")
MINUTE_US = 60_000_000
MOVES = 12


@dataclass(slots=True)
class OldReplica:
    """A replica of the old release on a connection of its own, with what it was told is stored."""

    connection: Any
    ready: asyncio.Event
    stopped: asyncio.Event
    stored: dict[UUID, Recorded] = field(default_factory=dict)
    rounds: int = 0

    async def work(self) -> None:
        """Plays games one after another until it is stopped; raises whatever fails."""
        await self.connection.execute(SESSION)
        open_, move, look, claim = [
            await self.connection.prepare(text)
            for text in (
                (RELEASE / "open.sql").read_text("utf-8"),
                (RELEASE / "move.sql").read_text("utf-8"),
                STREAM_ROWS,
                CLAIM,
            )
        ]
        while not self.stopped.is_set():
            now = await self.connection.fetchval(f"SELECT {CLOCK}")
            stream, mark = uuid7(now // 1_000, secrets.token_bytes(RANDOM_BYTES)), NOTHING
            for version in range(MOVES):
                wanted = append(version, stream=stream, secret=None if version else b"hidden")
                now = await self.connection.fetchval(f"SELECT {CLOCK}")
                if version:
                    row, parts = moving(wanted, mark, now)
                    verdicts, _ = await move.fetchrow(MINUTE_US, None, *parts)
                else:
                    row, parts = opening(wanted, now)
                    verdicts, _ = await open_.fetchrow(MINUTE_US, None, *parts)
                assert verdicts == [0]
                self.stored[stream] = row
                mark = Mark(row.version, row.hash, row.recorded_at)
            assert len(await look.fetch(stream)) == MOVES
            async with self.connection.transaction():
                await claim.fetch(now)
            self.rounds += 1
            self.ready.set()


def arrays(types: Sequence[str], *values: object) -> list[Any]:
    """One row as the arrays of its columns; numbers go as text."""
    return [
        f"{{{value}}}" if kind == "n" else [value]
        for kind, value in zip(types, values, strict=True)
    ]


def asked(wanted: Append, mark: Mark, row: Recorded) -> list[Any]:
    """What is asked for an append, and its event."""
    until = 2**63 - 1
    return [
        *arrays(
            ("uuid", "n", "b", "t", "n", "b", "n", "n", "n"),
            *(wanted.stream, wanted.expected, mark.hash, wanted.request_id, until),
            *(row.hash, "false", row.version, row.recorded_at),
        ),
        *arrays(
            ("n", "n", "t", "n", "b", "b", "b", "t", "b", "b"),
            *(1, row.version, row.name, row.schema, row.payload, row.secret_digest),
            *(row.metadata, row.request_id, row.body_hash, row.hash),
        ),
    ]


def opening(wanted: Append, at: int) -> tuple[Recorded, list[Any]]:
    """The event of a stream's first append with a secret, a key and a due row."""
    key = StreamKeys(KEYS, secrets.token_bytes).make(wanted.stream)
    pending = made_ready(wanted, NOTHING, key, secrets.token_bytes)
    (row,) = chained(wanted, pending.salts, NOTHING.hash, at)
    assert pending.sealing is not None
    assert pending.sealing.wrapped is not None
    return row, [
        *asked(wanted, NOTHING, row),
        *arrays(["n", "n", "b"], 1, *pending.sealing.sealed[0]),
        *arrays(["n", "t", "b"], 1, *pending.sealing.wrapped),
        *arrays(["n", "t", "t", "n"], 1, "turn", "0", at),
    ]


def moving(wanted: Append, mark: Mark, at: int) -> tuple[Recorded, list[Any]]:
    """A further event that deletes a due row and sets another."""
    at = max(at, mark.recorded_at)
    (row,) = chained(wanted, (None,), mark.hash, at)
    done = arrays(["n", "t", "t"], 1, "turn", str(mark.version - 1))
    due = arrays(["n", "t", "t", "n"], 1, "turn", str(mark.version), at)
    return row, [*asked(wanted, mark, row), *done, *due]


async def test_the_release_before_works_on_while_it_is_migrated(postgres_url: str) -> None:
    """Nothing of it fails before, during or after, whatever it was told is stored is there, and so
    is what was stored when the migration began."""
    await dumps.load_postgres(postgres_url, gzip.decompress(FROZEN.read_bytes()).decode())
    plain = postgres_url.replace("+asyncpg", "")
    stopped = asyncio.Event()
    replicas = [
        OldReplica(await asyncpg.connect(plain), asyncio.Event(), stopped) for _ in range(3)
    ]
    before = set(await streams(plain))
    async with asyncio.TaskGroup() as group:
        for replica in replicas:
            group.create_task(replica.work())
        for replica in replicas:
            await replica.ready.wait()
        await migrate(postgres_url, FOLDERS)
        for replica in replicas:
            replica.ready.clear()
        for replica in replicas:
            await replica.ready.wait()
        stopped.set()
    store = SqlStore(open_engine(postgres_url), KEYS)
    for replica in replicas:
        await replica.connection.close()
        assert replica.rounds >= 2
        for stream, last in replica.stored.items():
            head = await store.head(stream)
            assert head is not None
            assert (head.version, head.hash) == (MOVES, last.hash)
            assert await verify_stream(store, stream) is None
    played = {stream for replica in replicas for stream in replica.stored}
    assert set(await streams(plain)) == before | played
    await store.close()


async def test_a_migration_that_was_broken_off_is_run_again(postgres_url: str) -> None:
    """What it had prepared leaves the release before its games of this month; the next run makes
    it anew, and every old stream is whole."""
    await dumps.load_postgres(postgres_url, gzip.decompress(FROZEN.read_bytes()).decode())
    plain = postgres_url.replace("+asyncpg", "")
    engine = open_engine(postgres_url, patient=True)
    async with read(engine) as connection:
        months, *_ = await connection.run_sync(missing, FOLDERS[0])
        await connection.run_sync(months.revision.module.prepare)
        await connection.run_sync(months.revision.module.prepare)
    await close_engine(engine)
    stopped = asyncio.Event()
    replica = OldReplica(await asyncpg.connect(plain), asyncio.Event(), stopped)
    async with asyncio.TaskGroup() as group:
        group.create_task(replica.work())
        await replica.ready.wait()
        stopped.set()
    await replica.connection.close()
    await migrate(postgres_url, FOLDERS)
    store = SqlStore(open_engine(postgres_url), KEYS)
    for stream in replica.stored:
        assert await verify_stream(store, stream) is None
    await store.close()


async def test_old_rows_stay_where_they_are(postgres_url: str) -> None:
    """The old tables become the partitions of all months until now, guarded like the others; an
    append to a stream in them is taken and found again."""
    await dumps.load_postgres(postgres_url, gzip.decompress(FROZEN.read_bytes()).decode())
    await migrate(postgres_url, FOLDERS)
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    for table in ("events", "event_secrets"):
        asked = f"SELECT DISTINCT tableoid::regclass::text FROM {table}"  # noqa: S608
        (old,) = [row[0] for row in await connection.fetch(asked)]
        assert old.startswith(f"{table}_before_")
        for change in ("UPDATE {} SET version = 1", "DELETE FROM {}", "TRUNCATE {}"):
            for name in (table, old):
                with pytest.raises(asyncpg.exceptions.RaiseError, match="never changed"):
                    await connection.execute(change.format(name))
    await connection.close()
    store = SqlStore(open_engine(postgres_url), None)
    (head, *_) = [head async for head in store.streams()]
    wanted = append(head.version, stream=head.stream, request="a later request")
    appended = await store.append(wanted)
    assert await store.append(wanted) == Appended(appended.events, repeated=True)
    await store.close()


async def test_work_that_the_release_before_left_is_done(postgres_url: str) -> None:
    """Each row is claimed once, whether it was stored before the migration or since; what has been
    asked for anew meanwhile is not asked for twice."""
    await dumps.load_postgres(postgres_url, gzip.decompress(FROZEN.read_bytes()).decode())
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    names = "SELECT stream, kind, key FROM due WHERE ready_at <= $1 ORDER BY stream, kind, key"
    await migrate(postgres_url, FOLDERS)
    stream, later = uuid7(1, bytes(RANDOM_BYTES)), 4_000_000_000_000_000
    store = SqlStore(open_engine(postgres_url), KEYS, clock=lambda: later)
    asked = Plan(due=(Due("turn", "anew", 0), Due("turn", "replaced", 0)))
    await store.append(append(0, stream=stream, plan=asked))
    left = "INSERT INTO due VALUES ($1, 'turn', $2, $3, $4, $4, 0)"
    await connection.execute(left, stream, "since", 1, later)
    await connection.execute(left, stream, "anew", 0, later)
    await connection.execute(left, stream, "replaced", 2, later)
    there = {tuple(row) for row in await connection.fetch(names, later)}
    found = await store.claim("worker", 1_000, 60_000)
    assert len(found) == len(there) > 2
    assert {(one.stream, one.kind, one.key) for one in found} == there
    versions = {one.key: one.version for one in found if one.stream == stream}
    assert versions == {"since": 1, "anew": 1, "replaced": 2}
    assert await connection.fetchval("SELECT count(*) FROM due") == 0
    await connection.close()
    await store.close()


async def test_the_release_before_may_take_over_again(postgres_url: str) -> None:
    """`deploy/back-to-0.1.0.sql` gives it what is due; forth again, each row is claimed once."""
    await dumps.load_postgres(postgres_url, gzip.decompress(FROZEN.read_bytes()).decode())
    await migrate(postgres_url, FOLDERS)
    later = 4_000_000_000_000_000
    store = SqlStore(open_engine(postgres_url), KEYS, clock=lambda: later)
    asked = Plan(due=(Due("turn", "0", 0), Due("bot", "0", 5)))
    wanted = [append(0, stream=numbered(n), plan=asked) for n in range(3)]
    for each in wanted:
        await store.append(each)
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    await connection.execute(BACK.read_text("utf-8"))
    async with connection.transaction():
        names = [tuple(row)[:3] for row in await connection.fetch(ALL_DUE, later + MINUTE_US)]
    assert {(each.stream, kind, "0") for each in wanted for kind in ("turn", "bot")} < set(names)
    assert await connection.fetchval("SELECT count(*) FROM work") == 0
    await connection.close()
    late = SqlStore(open_engine(postgres_url), KEYS, clock=lambda: later + MINUTE_US)
    found = await late.claim("worker", 1_000, 60_000)
    assert sorted((one.stream, one.kind, one.key) for one in found) == sorted(names)
    await late.close()
    await store.close()


async def test_two_rows_of_a_name_harm_nobody(postgres_url: str) -> None:
    """What 0.1.0 left was taken over while an append set it anew: each is claimed at its own
    moment, and the stream goes on."""
    await migrate(postgres_url, [migrations.FOLDER])
    now = 1_000_000_000_000_000
    store = SqlStore(open_engine(postgres_url), KEYS, clock=lambda: now)
    await store.append(append(0))
    await store.append(append(1, plan=Plan(due=(Due("idle", "", 60_000),))))
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    await connection.execute(
        "INSERT INTO work (stream, version, due_at, ready_at, wake_at, attempts, kind, key) "
        "VALUES ($1, 1, $2, $2, $2, 0, 'idle', '')",
        *(STREAM, now),
    )
    found = await store.claim("worker", 8, 10_000)
    assert [one.version for one in found] == [1]
    assert await store.claim("worker", 8, 10_000) == []
    anew = Plan(due=(Due("idle", "", 0),))
    assert (await store.append(append(2, plan=anew))).version == 3
    assert {one.version for one in await store.claim("worker", 8, 10_000)} == {3}
    await store.append(append(3, plan=Plan(done=(("idle", ""),))))
    assert await connection.fetchval("SELECT count(*) FROM work") == 0
    await connection.close()
    await store.close()


async def streams(plain: str) -> list[UUID]:
    """All streams of a database."""
    connection = await asyncpg.connect(plain)
    try:
        return [row["stream"] for row in await connection.fetch("SELECT stream FROM heads")]
    finally:
        await connection.close()
