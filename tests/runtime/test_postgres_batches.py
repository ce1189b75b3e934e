"""Batches on PostgreSQL: what a connection, a lock or a clock may do to one."""

import asyncio
import random
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import text

from services.kernel.envelope import Appended, Due, Plan
from services.runtime.database import close_engine, open_engine, read, write
from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.api import Conflict, Late, StoreUnavailable, Unstorable
from services.runtime.store.committer import DUE_KNOWN
from services.runtime.store.postgres import PostgresWriter
from services.runtime.store.sql import SqlStore
from services.runtime.store.statements import ASKED, PARTS
from tests import postgres
from tests.runtime.appends import OTHER, STREAM, append, body, numbered, together
from tests.runtime.conftest import KEYS
from tests.runtime.line import line_to
from tests.runtime.stored import verify_stream


async def test_two_batches_are_under_way_at_once(postgres_url: str) -> None:
    """While the database holds up one batch, another one is stored on a connection of its own."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await together(store, *(append(0, stream=numbered(n)) for n in range(40)))
    async with write(store._engine) as connection:
        await connection.execute(
            text("SELECT * FROM heads WHERE stream = :stream FOR UPDATE"), {"stream": numbered(2)}
        )
        sending = [
            asyncio.create_task(store.append(append(1, stream=numbered(n)))) for n in range(40)
        ]
        async with asyncio.timeout(20):
            await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
        assert [one.done() for one in sending] == [False] * 20 + [True] * 20
    assert [outcome.version for outcome in await asyncio.gather(*sending)] == [2] * 40
    assert isinstance(store._writer, PostgresWriter)
    assert len(store._writer._idle) == 2
    await store.close()


async def test_a_deadline_that_passes_while_a_lock_is_waited_for(postgres_url: str) -> None:
    """Lateness is judged when the head is locked; whoever shares the batch is stored."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await together(store, *(append(0, stream=numbered(n)) for n in range(3)))
    async with write(store._engine) as connection:
        await connection.execute(
            text("SELECT * FROM heads WHERE stream = :stream FOR UPDATE"), {"stream": numbered(1)}
        )
        deadline = await store.now() + 300_000
        sending = asyncio.gather(
            *(append_by(store, n, deadline if n == 1 else None) for n in range(3)),
            return_exceptions=True,
        )
        while await store.now() <= deadline:
            await asyncio.sleep(0.01)
    outcomes = await sending
    assert [type(one) for one in outcomes] == [Appended, Late, Appended]
    for number in range(3):
        assert await verify_stream(store, numbered(number)) is None
    await store.close()


async def append_by(store: SqlStore, number: int, deadline: int | None) -> Appended:
    """The second append of a stream, to be stored by then."""
    return await store.append(append(1, stream=numbered(number), not_after=deadline))


async def test_a_proposed_time_that_is_off_is_made_anew(postgres_url: str) -> None:
    """However wrong the estimate of the database's clock, an event's time is the database's."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await store.append(append(0))
    assert isinstance(store._writer, PostgresWriter)
    estimate = store._writer._estimate
    for version, off in enumerate((-10_000_000, 10_000_000, -3_600_000_000, 3_600_000_000), 1):
        estimate._low += off
        estimate._high += off
        before = await store.now()
        stored = await store.append(append(version))
        assert before - 100_000 <= stored.events[0].recorded_at <= await store.now()
    assert await verify_stream(store, STREAM) is None
    await store.close()


async def test_an_event_is_never_before_the_one_it_follows(postgres_url: str) -> None:
    """Also where the stream's last time lies ahead of the database's clock."""
    await migrate(postgres_url, [migrations.FOLDER])
    ahead = 4_000_000_000_000_000
    engine = open_engine(postgres_url)
    early = SqlStore(engine, KEYS, clock=lambda: ahead)
    first = await early.append(append(0))
    store = SqlStore(engine, KEYS)
    second = await store.append(append(1))
    assert second.events[0].recorded_at == first.events[0].recorded_at == ahead
    with pytest.raises(Conflict):
        await store.append(append(1, request="other"))
    await early.close()
    await store.close()


async def test_a_batch_whose_answer_was_lost_is_found(postgres_url: str) -> None:
    """The line is cut once a batch was sent: each append acts once, and its sender learns it."""
    await migrate(postgres_url, [migrations.FOLDER])
    async with line_to(postgres_url) as line:
        store = SqlStore(open_engine(line.url), KEYS)
        await together(store, *(append(0, stream=numbered(n)) for n in range(20)))
        line.cut_after = body("the last")
        plan = Plan(due=(Due("turn", "", 5),))
        outcomes = await together(
            store,
            *(
                append(1, stream=numbered(n), said="the last", secret=b"hidden", plan=plan)
                for n in range(20)
            ),
        )
        assert line.was_cut
        assert [type(one) for one in outcomes] == [Appended] * 20
        for number, outcome in enumerate(outcomes):
            assert isinstance(outcome, Appended)
            assert not outcome.repeated or outcome.version == 2
            assert await store.read(numbered(number), after=1) == list(outcome.events)
        await store.close()


async def test_terminated_backends_lose_nothing(postgres_url: str) -> None:
    """The server ends our connections again and again under load: what was acknowledged is
    stored, once, at its version."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    name = postgres_url.rpartition("/")[2]
    chance = random.Random(1)
    acknowledged: dict[UUID, int] = {}
    working = True

    async def play(stream: UUID) -> None:
        version = 0
        while working:
            try:
                outcome = await store.append(append(version, f"E{version}", stream=stream))
            except StoreUnavailable:
                continue  # unknown: the same again
            version = acknowledged[stream] = outcome.version

    players = [asyncio.create_task(play(numbered(number))) for number in range(60)]
    ending = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
    url = postgres.server_url()
    for _ in range(12):
        await asyncio.sleep(chance.random() / 5)
        await asyncio.to_thread(postgres.execute, url, ending)
    working = False
    async with asyncio.timeout(30):
        await asyncio.gather(*players)
    assert len(acknowledged) == 60
    for stream, version in acknowledged.items():
        rows = await store.read(stream)
        assert len(rows) == version
        assert [row.name for row in rows] == [f"E{number}" for number in range(version)]
        assert await verify_stream(store, stream) is None
    await store.close()


async def test_a_row_that_is_locked_holds_up_nobody_else(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the append whose head somebody holds fails; the rest of its batch is stored."""
    monkeypatch.setattr("services.runtime.database.LOCK_MS", 100)
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await together(store, *(append(0, stream=numbered(n)) for n in range(5)))
    async with write(store._engine) as connection:
        await connection.execute(
            text("SELECT * FROM heads WHERE stream = :stream FOR UPDATE"), {"stream": numbered(2)}
        )
        outcomes = await together(store, *(append(1, stream=numbered(n)) for n in range(5)))
    assert [isinstance(one, StoreUnavailable) for one in outcomes] == [
        *(False, False, True, False, False),
    ]
    assert (await store.append(append(1, stream=numbered(2)))).version == 2
    await store.close()


async def test_a_connection_that_cannot_be_set_up_is_closed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often that is tried: nothing is left of it, and the next one is used."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    made: list[Any] = []
    connect: Any = asyncpg.connect

    async def noted(*given: Any, **named: Any) -> Any:
        made.append(await connect(*given, **named))
        return made[-1]

    monkeypatch.setattr("asyncpg.connect", noted)
    with monkeypatch.context() as patch:
        patch.setattr("services.runtime.store.postgres.SESSION", "SET no_such_setting = on")
        for _ in range(8):
            with pytest.raises(Unstorable):
                await store.append(append(0))
    assert len(made) > 8
    left = sum(not connection.is_closed() for connection in made)
    assert left <= 2, "more than those of the pool and the reader"
    assert (await store.append(append(0))).version == 1
    await store.close()


async def test_a_large_batch_probes_indexes(postgres_url: str) -> None:
    """The plan of the statement reads no table as a whole and joins no two sets of the batch."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    plan = Plan(due=(Due("turn", "", 5),), done=(("turn", "x"),), tags=("azi",))
    await together(
        store, *(append(0, stream=numbered(n), secret=b"hidden", plan=plan) for n in range(5))
    )
    await together(
        store, *(append(1, stream=numbered(n), secret=b"hidden", plan=plan) for n in range(5))
    )
    await together(
        store, append(0, stream=OTHER), append(1, stream=numbered(1)), append(2, stream=numbered(2))
    )
    await store.append(append(3, stream=numbered(2), secret=b"hidden", plan=plan))
    assert isinstance(store._writer, PostgresWriter)
    [session] = store._writer._idle
    seen = 0
    for prepared in session.prepared.values():
        arguments = [None] * len(prepared.get_parameters())
        lines = await session.connection.fetch(f"EXPLAIN {prepared.get_query()}", *arguments)
        told = "\n".join(line[0] for line in lines)
        alone = "NOT MATERIALIZED" in prepared.get_query()  # nothing is left of it without values
        assert "Index Scan" in told or "INSERT INTO heads" in prepared.get_query() or alone
        for wrong in ("Seq Scan", "Hash", "Merge", "Materialize"):
            assert wrong not in told
        seen += 1
    assert seen >= 3
    await store.close()


async def test_the_types_of_rows_are_those_of_the_statement(postgres_url: str) -> None:
    """A row's values are told apart by their order alone."""
    await migrate(postgres_url, [migrations.FOLDER])
    engine = open_engine(postgres_url)
    async with read(engine) as connection:
        found = await connection.execute(
            text(
                "SELECT c.relname, array_agg(a.attname::text ORDER BY attnum), "
                "array_agg(format_type(a.atttypid, NULL) ORDER BY attnum) "
                "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                "WHERE c.relkind = 'c' GROUP BY c.relname"
            )
        )
        types = {name: tuple(zip(*columns, strict=True)) for name, *columns in found}
    parts = {"asked": ASKED} | {name: part.columns for name, part in PARTS.items()}
    assert types == {f"batch_{name}": columns for name, columns in parts.items()}
    await close_engine(engine)


@pytest.mark.parametrize("claimed", [False, True])
async def test_due_work_is_set_anew(postgres_url: str, *, claimed: bool) -> None:
    """Whether it is also done in the same append, and whether a worker holds it: what was asked
    for last is all there is of a name, and nobody has a claim to it."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    await store.append(append(0, plan=Plan(due=(Due("idle", "", 0), Due("turn", "1", 0)))))
    held = await store.claim("worker", 5, 60_000) if claimed else []
    plan = Plan(due=(Due("idle", "", 0), Due("turn", "2", 0)), done=(("turn", "1"), ("idle", "")))
    await store.append(append(1, plan=plan))
    for one in held:
        await store.drop(one)
    found = await store.claim("other", 5, 60_000)
    assert sorted((one.kind, one.key, one.version, one.attempts) for one in found) == [
        *(("idle", "", 2, 1), ("turn", "2", 2, 1)),
    ]
    await store.close()


async def test_due_work_that_another_process_has_set_is_set_anew(postgres_url: str) -> None:
    """What this process remembers of a stream's due rows ends with another's append; of a stream
    with many names it remembers none."""
    await migrate(postgres_url, [migrations.FOLDER])
    ours, other = (SqlStore(open_engine(postgres_url), KEYS) for _ in range(2))
    await ours.append(append(0, plan=Plan(due=(Due("turn", "1", 0),))))
    await other.read(STREAM)
    await other.append(append(1, plan=Plan(due=(Due("turn", "2", 0),))))
    await ours.read(STREAM)
    await ours.append(append(2, plan=Plan(due=(Due("turn", "2", 0), Due("turn", "1", 0)))))
    many = tuple(Due("many", str(n), 0) for n in range(DUE_KNOWN + 1))
    for version in (3, 4):
        await other.append(append(version, plan=Plan(due=(*many, Due("turn", "2", 0)))))
    found = await ours.claim("worker", 99, 60_000)
    assert {(one.kind, one.key): one.version for one in found} == {
        ("turn", "1"): 3,
        ("turn", "2"): 5,
        **{("many", str(n)): 5 for n in range(DUE_KNOWN + 1)},
    }
    assert len(found) == DUE_KNOWN + 3
    await ours.close()
    await other.close()


async def test_a_request_sent_to_two_processes_at_once_is_stored_once(postgres_url: str) -> None:
    """Whatever version each of them expects, and whoever is first: no index has to say so."""
    await migrate(postgres_url, [migrations.FOLDER])
    stores = [SqlStore(open_engine(postgres_url), KEYS) for _ in range(2)]
    chance = random.Random(2)
    for number in range(40):
        head = await stores[0].head(STREAM)
        version = head.version if head else 0
        await asyncio.gather(
            *(
                store.append(append(version + chance.randrange(2), request=f"r{number}"))
                for store in stores
            ),
            stores[number % 2].append(append(version, request=f"between {number}")),
            return_exceptions=True,
        )
    rows = await stores[0].read(STREAM)
    requests = [row.request_id for row in rows]
    assert len(requests) == len(set(requests)) >= 40
    assert await verify_stream(stores[1], STREAM) is None
    for store in stores:
        await store.close()


async def test_moves_leave_nothing_behind_in_due_work(postgres_url: str) -> None:
    """A deadline takes the place of the last one: however many there were, no page is added and no
    index grows; a claim looks at it once before its time, and then knows."""
    await migrate(postgres_url, [migrations.FOLDER])
    store = SqlStore(open_engine(postgres_url), KEYS)
    sizes = text(
        "SELECT pg_relation_size('work'), pg_relation_size('work_stream'), "
        "pg_relation_size('work_wake')"
    )
    found = []
    for version in range(600):
        done = (("turn", str(version - 1)),)
        plan = Plan(due=(Due("turn", str(version), 500 + 100 * version),), done=done)
        await store.append(append(version, plan=plan))
        if version in (0, 599):
            async with read(store._engine) as connection:
                found.append((await connection.execute(sizes)).one())
    assert found[0] == found[1]
    early = await store.next_due_ms()
    assert early is not None
    assert early <= 500
    assert await store.claim("worker", 5, 60_000) == []
    exact = await store.next_due_ms()
    assert exact is not None
    assert exact > 10_000
    await store.close()


@pytest.mark.parametrize("again", [False, True])
async def test_work_that_is_claimed_while_an_append_sets_it_anew(
    postgres_url: str, again: bool
) -> None:
    """The append waits for the claim, and sets the row anew, or has it gone, all the same; so where
    it does not know what work there is."""
    await migrate(postgres_url, [migrations.FOLDER])
    store, other = (SqlStore(open_engine(postgres_url), KEYS) for _ in range(2))
    await store.append(append(0, plan=Plan(due=(Due("turn", "", 0),))))
    for version, writer in ((1, store), (3, other)):
        plan = Plan(due=(Due("turn", "", 60_000),) if again else (), done=(("turn", ""),))
        async with write(store._engine) as connection:
            await connection.execute(
                text("UPDATE work SET ready_at = ready_at + 1, attempts = attempts + 1")
            )
            sending = asyncio.create_task(writer.append(append(version, plan=plan)))
            await until_somebody_waits(store)
        assert (await sending).version == version + 1
        assert await store.claim("worker", 5, 60_000) == []
        left = await store.next_due_ms()
        assert (left is not None and left > 1_000) if again else left is None
        await store.append(append(version + 1, plan=Plan(due=(Due("turn", "", 0),))))
    for each in (store, other):
        await each.close()


async def until_somebody_waits(store: SqlStore) -> None:
    """Until a statement on the store's database waits for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(20):
        while True:
            async with read(store._engine) as connection:
                if (await connection.execute(waiting)).scalar_one():
                    return
