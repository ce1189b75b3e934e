"""What a store promises about appending and reading, on both engines."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from services.kernel.envelope import Appended, Due, Head, Plan
from services.runtime.store.api import Conflict, Late, RequestReused, Store, Unstorable
from services.runtime.store.chain import GENESIS, secret_digest, verify
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import OTHER, STREAM, append, body, numbered, together
from tests.runtime.conftest import KEYS, Clock
from tests.runtime.owner import as_owner

UNKNOWN = UUID("01890a5d-ac96-7aaa-8aaa-aaaaaaaaaaaa")
"""A stream that does not exist."""


async def everything(store: Store) -> tuple[object, ...]:
    """All that a reader can see of a store."""
    heads = [head async for head in store.streams()]
    rows = [await store.read(head.stream) for head in heads]
    tagged = [await store.tagged(tag) for tag in ("azi", "seat:1")]
    return heads, rows, tagged, await store.next_due_ms()


async def test_what_was_appended_is_read_in_order(store: SqlStore, clock: Clock) -> None:
    """Versions run from 1 without a gap, and a reader gets octet for octet what was stored."""
    first = await store.append(append(0, "Opened", "Dealt", secret=b"the deck"))
    clock.turn(5)
    second = await store.append(append(2, "BidMade"))
    rows = await store.read(STREAM)
    assert rows == [*first.events, *second.events]
    assert [row.version for row in rows] == [1, 2, 3]
    assert [row.name for row in rows] == ["Opened", "Dealt", "BidMade"]
    assert [row.payload for row in rows][2] == b"payload of BidMade"
    assert [row.secret for row in rows] == [b"the deck", None, None]
    assert [row.request_id for row in rows] == ["request-0", None, "request-2"]
    assert [row.body_hash for row in rows] == [body("body"), None, body("body")]
    assert {row.metadata for row in rows} == {b"by seat 1"}
    assert rows[2].recorded_at - rows[0].recorded_at == 5_000
    assert not first.repeated
    assert second.version == 3


async def test_reading_starts_after_a_version_and_stops_at_a_limit(store: SqlStore) -> None:
    """`after` and `limit` cut a window out of the stream; beyond its end there is nothing."""
    await store.append(append(0, *"ABCDE"))
    assert [row.name for row in await store.read(STREAM, after=2)] == ["C", "D", "E"]
    assert [row.name for row in await store.read(STREAM, after=1, limit=2)] == ["B", "C"]
    assert await store.read(STREAM, after=5) == []
    assert await store.read(OTHER) == []


async def test_several_streams_are_read_at_once_as_each_by_itself(store: SqlStore) -> None:
    """Each above a version of its own, secrets opened; one with no such events has none."""
    await store.append(append(0, "A", "B", "C", secret=b"hidden"))
    await store.append(append(0, "D", "E", stream=OTHER))
    for after in (
        {STREAM: 0, OTHER: 1},
        {OTHER: 2, STREAM: 1},
        {STREAM: 2},
        {UNKNOWN: 0, OTHER: 0},
    ):
        alone = {stream: await store.read(stream, after=above) for stream, above in after.items()}
        assert await store.read_each(after) == alone


async def test_the_chain_holds_and_the_head_is_its_end(store: SqlStore) -> None:
    """Every hash follows from the row and the hash before it; the head carries the last."""
    await store.append(append(0, "Opened", secret=b"seed"))
    await store.append(append(1, "Dealt", "BidMade"))
    rows = await store.read(STREAM)
    head = await store.head(STREAM)
    assert head == Head(STREAM, 3, rows[-1].hash, ended=False)
    assert verify(rows, head) is None
    assert verify(rows[1:], head, previous=rows[0].hash, after=1) is None
    assert len({GENESIS, *(row.hash for row in rows)}) == 4
    salt = rows[0].salt
    assert salt is not None
    assert rows[0].secret_digest == secret_digest(salt, b"seed")


@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_an_append_at_another_version_conflicts(store: SqlStore, expected: int) -> None:
    """Only the version the stream has may be appended to, and a conflict stores nothing."""
    await store.append(append(0, "A", "B"))
    before = await everything(store)
    with pytest.raises(Conflict):
        await store.append(append(expected, "C", request="other", plan=Plan(tags=("azi",))))
    assert await everything(store) == before


async def test_a_stream_begins_at_version_0_only(store: SqlStore) -> None:
    """A stream that does not exist has no version to follow."""
    with pytest.raises(Conflict):
        await store.append(append(1))
    assert await store.head(STREAM) is None


async def test_streams_know_nothing_of_each_other(store: SqlStore) -> None:
    """The same version and the same request id may stand in every stream."""
    await store.append(append(0, request="r"))
    other = await store.append(append(0, "Other", request="r", stream=OTHER, said="else"))
    assert not other.repeated
    assert [row.name for row in await store.read(OTHER)] == ["Other"]


async def test_a_repeated_request_returns_the_first_outcome(store: SqlStore, clock: Clock) -> None:
    """Whatever version is expected and however late, the first events come back, nothing more."""
    first = await store.append(append(0, "A", "B", request="r", secret=b"hidden"))
    await store.append(append(2, "C", "D"))
    before = await everything(store)
    clock.turn(60_000)
    for expected in (0, 2, 4, 9):
        again = await store.append(append(expected, "Z", request="r", not_after=clock.now - 1))
        assert again == replace(first, repeated=True)
    assert await store.find_request(STREAM, "r") == replace(first, repeated=True)
    assert await store.find_request(STREAM, "never sent") is None
    assert await everything(store) == before


async def test_a_request_id_with_another_body_is_refused(store: SqlStore) -> None:
    """The id stands for the body it first came with, at any version."""
    await store.append(append(0, request="r"))
    before = await everything(store)
    for expected in (0, 1):
        with pytest.raises(RequestReused):
            await store.append(append(expected, request="r", said="something else"))
    assert await everything(store) == before


async def test_an_append_after_its_deadline_is_late(store: SqlStore, clock: Clock) -> None:
    """The database's clock judges; the very moment of the deadline is still in time."""
    await store.append(append(0, "A", not_after=clock.now))
    before = await everything(store)
    with pytest.raises(Late):
        await store.append(append(1, "B", not_after=clock.now - 1))
    assert await everything(store) == before


async def test_time_never_runs_backwards_within_a_stream(store: SqlStore, clock: Clock) -> None:
    """A clock that was set back does not put an event before the one it follows."""
    first = await store.append(append(0))
    clock.turn(-10_000)
    second = await store.append(append(1))
    assert second.events[0].recorded_at == first.events[0].recorded_at


async def test_concurrent_duplicates_store_once(store: SqlStore) -> None:
    """A request sent twenty times at once acts once, and every sender gets that outcome."""
    sent = append(0, "A", "B", request="r", secret=b"hidden")
    outcomes = await asyncio.gather(*(store.append(sent) for _ in range(20)))
    assert {outcome.events for outcome in outcomes} == {tuple(await store.read(STREAM))}
    assert sum(not outcome.repeated for outcome in outcomes) == 1


async def test_a_hundred_appenders_leave_no_gap_and_lose_nothing(store: SqlStore) -> None:
    """Each gets its event in, once, at a version of its own, and the chain is whole."""
    at_once = asyncio.Semaphore(8)  # more would only measure how long losers queue

    async def add(number: int) -> None:
        async with at_once:
            while True:
                head = await store.head(STREAM)
                wanted = append(head.version if head else 0, f"E{number}", request=f"r{number}")
                try:
                    await store.append(wanted)
                except Conflict:
                    continue
                return

    await asyncio.gather(*(add(number) for number in range(100)))
    rows = await store.read(STREAM)
    assert [row.version for row in rows] == list(range(1, 101))
    assert {row.name for row in rows} == {f"E{number}" for number in range(100)}
    assert verify(rows, await store.head(STREAM)) is None


async def break_off(store: SqlStore, table: str) -> list[str]:
    """Has the database refuse every write to a table, or every commit; the statements undo it."""
    if store._engine.dialect.name == "sqlite":
        if table == "COMMIT":
            await run(
                store,
                "CREATE TABLE nowhere (x INTEGER PRIMARY KEY)",
                "CREATE TABLE gate (x INTEGER REFERENCES nowhere DEFERRABLE INITIALLY DEFERRED)",
                (
                    "CREATE TRIGGER broken AFTER INSERT ON events "
                    "BEGIN INSERT INTO gate VALUES (1); END"
                ),
            )
            return ["DROP TRIGGER broken", "DROP TABLE gate", "DROP TABLE nowhere"]
        moments = ("INSERT", "UPDATE", "DELETE")
        await run(
            store,
            *(
                f"CREATE TRIGGER broken_{moment} BEFORE {moment} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'broken off'); END"
                for moment in moments
            ),
        )
        return [f"DROP TRIGGER broken_{moment}" for moment in moments]
    await run(
        store,
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'broken off'; END $$",
        "CREATE CONSTRAINT TRIGGER broken AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION broken()"
        if table == "COMMIT"
        else f"CREATE TRIGGER broken BEFORE INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION broken()",
    )
    return ["DROP FUNCTION broken CASCADE"]


async def run(store: SqlStore, *statements: str) -> None:
    """Runs statements as the owner of the tables might."""
    async with as_owner(store) as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    "table", ["heads", "events", "stream_keys", "event_secrets", "work", "tags", "COMMIT"]
)
async def test_a_failure_in_the_middle_leaves_nothing(store: SqlStore, table: str) -> None:
    """Wherever an append breaks off, no part of it is there: it is stored whole or not at all."""
    await store.append(append(0, "A", plan=Plan(due=(Due("turn", "", 5),), tags=("azi",))))
    before = await everything(store)
    undo = await break_off(store, table)
    plan = Plan(
        due=(Due("turn", "", 9), Due("bot", "1", 0)),
        done=(("turn", ""),),
        tags=("seat:1",),
        ended=True,
    )
    wanted = append(1, "B", "C", secret=b"hidden", plan=plan)
    with pytest.raises(Unstorable):
        await store.append(wanted)
    await run(store, *undo)
    assert await everything(store) == before
    assert (await store.append(wanted)).version == 3


async def test_an_append_cannot_be_interrupted_by_its_caller(store: SqlStore) -> None:
    """A caller that gives up leaves a begun append to finish, and `close` waits for it."""
    sending = asyncio.create_task(store.append(append(0, "A")))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    again = await store.append(append(0, "A"))
    assert [row.version for row in await store.read(STREAM)] == [1]
    assert again.version == 1


async def test_an_append_that_makes_no_sense_is_a_fault(store: SqlStore) -> None:
    """What no caller should ever build is refused before the database sees it."""
    for broken in (
        replace(append(0), events=()),
        replace(append(0), request_id=""),
        replace(append(0), request_id="r" * 201),
        replace(append(0), request_id="nul\0"),
        replace(append(0), body_hash=b"short"),
        replace(append(0), expected=-1),
        replace(append(0), plan=Plan(tags=("schön",))),
        replace(append(0), plan=Plan(due=(Due("turn\n", "", 0),))),
        replace(append(0), plan=Plan(done=(("x" * 201, ""),))),
    ):
        with pytest.raises(ValueError, match=r"characters|bytes|event|ASCII"):
            await store.append(broken)
    assert await store.head(STREAM) is None


async def test_a_stream_is_read_whole_with_its_head(store: SqlStore) -> None:
    """Head and events are those of one moment, whoever appends meanwhile; of nothing there is
    nothing."""
    assert await store.whole(STREAM) == (None, [])
    await store.append(append(0, "Opened", secret=b"seed"))

    async def appends() -> None:
        for version in range(1, 40):
            ends = Plan(ended=version == 39)
            await store.append(append(version, "Dealt", secret=b"deck", plan=ends))

    async with asyncio.TaskGroup() as group:
        group.create_task(appends())
        for _ in range(40):
            head, rows = await store.whole(STREAM)
            assert head is not None
            assert (head.version, head.hash) == (len(rows), rows[-1].hash)
    head, rows = await store.whole(STREAM)
    assert head == Head(STREAM, 40, rows[-1].hash, ended=True) == await store.head(STREAM)
    assert rows == await store.read(STREAM)


async def test_several_streams_are_read_whole_as_each_would_be(store: SqlStore) -> None:
    """With their secrets, also where this process has yet to learn the keys; streams without events
    are left out."""
    asked = [numbered(number) for number in (2, 0, 3, 1)]
    for number, stream in enumerate(asked[:3]):
        await store.append(append(0, "Opened", stream=stream, secret=b"seed"))
        for version in range(1, 1 + number):
            await store.append(append(version, stream=stream, plan=Plan(ended=number == 2)))
    forgetful = SqlStore(store._engine, KEYS)
    for reader in (store, forgetful):
        found = await reader.wholes(asked)
        assert list(found) == asked[:3]
        assert found == {stream: await reader.whole(stream) for stream in asked[:3]}
        assert await reader.wholes(asked[3:]) == {}


async def test_heads_are_found_for_those_that_exist(store: SqlStore) -> None:
    """Unknown streams are simply not in the answer, which may be long."""
    for number in range(3):
        await store.append(append(0, stream=numbered(number), plan=Plan(ended=number == 1)))
    found = await store.heads([numbered(number) for number in range(1_200)])
    assert sorted(found) == [numbered(0), numbered(1), numbered(2)]
    assert [found[numbered(number)].ended for number in range(3)] == [False, True, False]
    assert await store.heads([]) == {}


async def test_a_stream_that_has_ended_takes_no_memory(store: SqlStore) -> None:
    """What is kept in mind for the next append of a stream goes with its end; the same request, or
    another append after all, is judged as before."""
    last = append(1, plan=Plan(ended=True))
    await store.append(append(0))
    outcome = await store.append(last)
    assert not store._marks
    assert await store.append(last) == Appended(outcome.events, repeated=True)
    assert (await store.append(append(2))).version == 3
    with pytest.raises(Conflict):
        await store.append(append(2, request="another"))


async def test_a_stream_that_has_ended_stays_ended(store: SqlStore) -> None:
    """What is still written after the end (a payout settled) does not begin the stream anew."""
    await store.append(append(0, plan=Plan(ended=True)))
    await store.append(append(1, "Settled"))
    head = await store.head(STREAM)
    assert head is not None
    assert head.ended


async def test_streams_are_listed_in_the_order_of_ids(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stream comes once, page after page."""
    monkeypatch.setattr("services.runtime.store.sql.PAGE", 2)
    for number in (3, 1, 4, 0, 2):
        await store.append(append(0, stream=numbered(number)))
    listed = [head.stream async for head in store.streams()]
    assert listed == [numbered(number) for number in range(5)]


async def test_tags_find_streams_newest_first(store: SqlStore) -> None:
    """A tag is walked by id downwards, page by page, all of it or what has (not) ended."""
    for number in range(6):
        plan = Plan(tags=("azi", f"seat:{number % 2}"), ended=number < 2)
        await store.append(append(0, stream=numbered(number), plan=plan))
    await store.append(append(1, stream=numbered(3), plan=Plan(tags=("azi", "late"))))

    async def numbers(
        tag: str, before: int | None = None, limit: int = 50, ended: bool | None = None
    ) -> list[int]:
        found = await store.tagged(tag, None if before is None else numbered(before), limit, ended)
        return [head.stream.int - STREAM.int for head in found]

    assert await numbers("azi") == [5, 4, 3, 2, 1, 0]
    assert await numbers("azi", limit=2) == [5, 4]
    assert await numbers("azi", before=4, limit=2) == [3, 2]
    assert await numbers("azi", ended=True) == [1, 0]
    assert await numbers("azi", ended=False) == [5, 4, 3, 2]
    assert await numbers("seat:1") == [5, 3, 1]
    assert await numbers("late") == [3]
    assert await numbers("unknown") == []


async def test_the_check_reaches_the_disk(store: SqlStore) -> None:
    """A healthy database passes, as often as it is asked, and keeps one row of it."""
    await store.check()
    await store.check()
    async with store._engine.connect() as connection:
        rows = await connection.exec_driver_sql("SELECT count(*) FROM pulse")
        assert rows.scalar_one() == 1
        await connection.rollback()


async def test_closing_twice_is_closing(store: SqlStore) -> None:
    """`close` may be repeated."""
    await store.close()
    await store.close()


async def test_what_another_writer_stored_is_known(store: SqlStore) -> None:
    """A process remembers a stream's request ids as long as its head is the one it left: whoever
    has appended meanwhile, no request is stored twice, and a new one is not taken for a stored."""
    other = SqlStore(store._engine, KEYS)
    for version in range(6):
        writer = (store, other)[version // 2 % 2]
        await writer.append(append(version, request=f"r{version}"))
    for writer in (store, other):
        for version in range(6):
            again = await writer.append(append(6, request=f"r{version}"))
            assert (again.version, again.repeated) == (version + 1, True)
    assert (await store.append(append(6, request="new"))).version == 7
    assert (await other.append(append(7, request="r5"))).repeated
    requests = [row.request_id for row in await store.read(STREAM)]
    assert requests == [*(f"r{version}" for version in range(6)), "new"]


async def test_a_page_of_a_log_is_not_taken_for_its_end(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at the beginning of a stream makes no append to it look at its end again."""
    for version in range(3):
        await store.append(append(version))
    assert len(await store.read(STREAM, limit=1)) == 1
    monkeypatch.setattr(store, "_looked_up", None)
    assert (await store.append(append(3))).version == 4


async def test_whom_another_writer_overtook_loses_alone(store: SqlStore) -> None:
    """What a process remembers of heads may be wrong for some of a batch: moved on, opened, or with
    a request that is stored; the others of the batch are stored as if they were by themselves."""
    other = SqlStore(store._engine, KEYS)
    await together(store, *(append(0, stream=numbered(n)) for n in range(4)))
    await other.append(append(1, stream=numbered(1)))
    await other.append(append(0, stream=numbered(4)))
    batch = [append(1, request="mine", stream=numbered(n)) for n in range(3)]
    batch.append(append(1, request="request-0", stream=numbered(3)))
    batch += [append(0, request="mine", stream=numbered(n)) for n in (4, 5)]
    for _ in range(2):
        outcomes = await together(store, *batch)
        lost = [isinstance(outcome, Conflict) for outcome in outcomes]
        assert lost == [False, True, False, False, True, False]
        assert [n for n, one in enumerate(outcomes) if isinstance(one, Appended)] == [0, 2, 3, 5]
        assert isinstance(outcomes[3], Appended)
        assert (outcomes[3].version, outcomes[3].repeated) == (1, True)
    versions = {n: (await store.read(numbered(n)))[-1].version for n in range(6)}
    assert versions == {0: 2, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
