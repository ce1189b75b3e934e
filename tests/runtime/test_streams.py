"""The write path: once in effect, never on an old state, refusals that say what happened."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import delete, update

from services.kernel.decider import fold
from services.kernel.envelope import Append, Appended, Recorded
from services.kernel.errors import Kind, Refused
from services.runtime.store.api import Conflict, StoreUnavailable
from services.runtime.store.chain import verify
from services.runtime.store.schema import events, heads
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Change, Outcome, Streams
from tests.runtime.appends import OTHER, STREAM, append, body, numbered
from tests.runtime.conftest import Clock
from tests.runtime.counters import COUNTER, LIMIT, Add, Added, Counter, decide
from tests.runtime.owner import as_owner
from tests.runtime.test_store_damage import disarm

CounterStreams = Streams[Counter, Add, Added]


class Flaky(SqlStore):
    """A store whose answers get lost on the way, or whose database goes away."""

    lose_answers = 0
    gone = False
    reads = 0

    async def append(self, append: Append) -> Appended:
        """Stores, and then the answer may be lost."""
        if self.gone:
            raise StoreUnavailable("gone")
        stored = await super().append(append)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnavailable("the answer was lost")
        return stored

    async def read(self, stream: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """Counts the reads."""
        self.reads += 1
        if self.gone:
            raise StoreUnavailable("gone")
        return await super().read(stream, after, limit)


@pytest.fixture
def flaky(store: SqlStore, clock: Clock) -> Flaky:
    """The store of the test, seen through a bad line."""
    return Flaky(store._engine, None, clock=clock)


@pytest.fixture
def streams(flaky: Flaky, clock: Clock) -> CounterStreams:
    """One process's counters."""
    return Streams(flaky, COUNTER, clock=clock)


@pytest.fixture
def elsewhere(store: SqlStore, clock: Clock) -> CounterStreams:
    """The counters of another process on the same database."""
    return Streams(store, COUNTER, clock=clock)


async def add(
    streams: CounterStreams, amount: int, request: str, stream: UUID = STREAM
) -> Outcome[Counter]:
    """Sends a command."""
    return await streams.transact(
        stream, Add(amount), request_id=request, body_hash=body(f"add {amount}")
    )


def refusal(raised: pytest.ExceptionInfo[Refused]) -> tuple[Kind, str]:
    """What a refusal is."""
    return raised.value.kind, raised.value.reason


async def test_a_command_becomes_events_and_a_state(streams: CounterStreams, clock: Clock) -> None:
    """The outcome carries the stored events and the state after them; a load gives the same."""
    first = await add(streams, 2, "a")
    assert first.state == Counter(2, clock.now)
    assert [row.version for row in first.appended.events] == [1, 2]
    clock.turn(7)
    second = await add(streams, 1, "b")
    loaded = await streams.load(STREAM)
    assert (loaded.state, loaded.version) == (second.state, 3) == (Counter(3, clock.now), 3)
    assert loaded.hash == second.appended.events[-1].hash


async def test_a_stream_that_does_not_exist_is_the_initial_state(streams: CounterStreams) -> None:
    """Loading creates nothing."""
    loaded = await streams.load(OTHER)
    assert (loaded.state, loaded.version) == (Counter(), 0)


async def test_a_repeated_request_is_not_decided_again(
    flaky: Flaky, clock: Clock, elsewhere: CounterStreams
) -> None:
    """The first outcome comes back, with the state as it was then, though much came after."""
    decided = []

    def counting(state: Counter, command: Add) -> Sequence[Added]:
        decided.append(command)
        return decide(state, command)

    streams = Streams(flaky, replace(COUNTER, decide=counting), clock=clock)
    first = await add(streams, 2, "a")
    await add(elsewhere, LIMIT - 2, "b")
    with pytest.raises(Refused) as refused:
        await add(streams, 1, "c")
    assert refusal(refused) == (Kind.PRECONDITION, "TOO_MUCH")
    again = await add(streams, 2, "a")
    assert again.state == first.state
    assert again.appended.events == first.appended.events
    assert again.appended.repeated
    assert (await streams.load(STREAM)).version == LIMIT


async def test_a_repeated_request_that_could_be_decided_still_acts_once(
    streams: CounterStreams,
) -> None:
    """The store knows the request even where the command would be legal again."""
    first = await add(streams, 1, "a")
    again = await add(streams, 1, "a")
    assert (again.state, again.appended.events) == (first.state, first.appended.events)
    assert (await streams.load(STREAM)).version == 1


async def test_the_same_id_with_another_body_is_refused(streams: CounterStreams) -> None:
    """Whether or not the command would be refused by itself."""
    await add(streams, 1, "a")
    for amount in (2, LIMIT):
        with pytest.raises(Refused) as refused:
            await add(streams, amount, "a")
        assert refusal(refused) == (Kind.INVALID, "REQUEST_ID_REUSED")
        assert [problem.field for problem in refused.value.fields] == ["request_id"]


async def test_a_refused_command_leaves_no_record(streams: CounterStreams) -> None:
    """Its request id is free, and succeeds once the command is possible."""
    with pytest.raises(Refused):
        await add(streams, LIMIT + 1, "a")
    assert (await streams.load(STREAM)).version == 0
    outcome = await add(streams, 1, "a")
    assert not outcome.appended.repeated


async def test_decisions_are_made_on_what_others_did_meanwhile(
    streams: CounterStreams, elsewhere: CounterStreams
) -> None:
    """A stale cached state neither accepts what is impossible nor refuses what is possible."""
    await add(streams, 1, "a")
    await add(elsewhere, LIMIT - 2, "b")
    outcome = await add(streams, 1, "c")
    assert outcome.state.value == LIMIT
    with pytest.raises(Refused) as refused:
        await add(elsewhere, 1, "d")
    assert refusal(refused) == (Kind.PRECONDITION, "TOO_MUCH")


async def test_a_stale_refusal_is_decided_again(
    store: SqlStore, streams: CounterStreams, clock: Clock
) -> None:
    """What the cached state forbids may be allowed by now: the command is judged on the newest."""

    def after_three(state: Counter, command: Add) -> Sequence[Added]:
        if state.value < 3:
            raise Refused(Kind.PRECONDITION, "TOO_EARLY", "Not yet.")
        return [Added(1)]

    patient = Streams(store, replace(COUNTER, decide=after_three), clock=clock)
    await add(streams, 1, "a")
    await patient.load(STREAM)
    await add(streams, 2, "b")
    assert (await add(patient, 1, "c")).state.value == 4


async def test_a_hundred_commands_at_once_all_count(flaky: Flaky, store: SqlStore) -> None:
    """In two processes together, every command acts exactly once."""
    both = [Streams(flaky, COUNTER, attempts=100), Streams(store, COUNTER, attempts=100)]
    await asyncio.gather(*(add(both[n % 2], 1, f"r{n}") for n in range(100)))
    loaded = await both[0].load(STREAM)
    assert (loaded.version, loaded.state.value) == (100, 100)


async def test_a_command_after_its_deadline_is_refused(
    streams: CounterStreams, clock: Clock
) -> None:
    """The deadline may follow from the state; the database's clock judges."""

    async def late(request: str) -> Outcome[Counter]:
        return await streams.transact(
            STREAM,
            Add(1),
            request_id=request,
            body_hash=body("add 1"),
            deadline=lambda state: state.at + 5_000 if state.at else None,
        )

    first = await late("a")
    clock.turn(5)
    await late("b")
    clock.turn(6)
    with pytest.raises(Refused) as refused:
        await late("c")
    assert refusal(refused) == (Kind.PRECONDITION, "DEADLINE_PASSED")
    assert (await late("a")).appended.events == first.appended.events


async def test_a_lost_answer_is_found_out(
    flaky: Flaky, streams: CounterStreams, store: SqlStore
) -> None:
    """What was stored although its answer was lost is told to the caller, and acts once."""
    flaky.lose_answers = 1
    outcome = await add(streams, 2, "a")
    assert outcome.state.value == 2
    assert len(await store.read(STREAM)) == 2


async def test_an_outcome_that_stays_unknown_is_found_by_the_retry(
    flaky: Flaky, streams: CounterStreams, store: SqlStore
) -> None:
    """The caller hears UNAVAILABLE, sends the same request again, and it has acted once. Watchers
    are told of it then, once, and nothing is read again for that."""
    told: list[Change[Counter]] = []
    streams._published = told.append
    await add(streams, 1, "first")
    flaky.lose_answers = 2
    with pytest.raises(Refused) as refused:
        await add(streams, 2, "a")
    assert refusal(refused) == (Kind.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert refused.value.retry_after_ms
    reads = flaky.reads
    outcome = await add(streams, 2, "a")
    assert (outcome.state.value, outcome.appended.repeated) == (3, True)
    assert (await add(streams, 2, "a")).appended.repeated
    assert flaky.reads == reads
    assert (await add(streams, 1, "b")).state.value == 4
    assert [(one.before.version, one.after.version) for one in told] == [(0, 1), (1, 3), (3, 4)]
    assert told[1].after.state == outcome.state
    assert len(await store.read(STREAM)) == 4


async def test_a_database_that_is_gone_is_unavailable_until_it_is_back(
    flaky: Flaky, streams: CounterStreams
) -> None:
    """Commands and loads are refused as UNAVAILABLE and then work again."""
    flaky.gone = True
    with pytest.raises(Refused) as refused:
        await add(streams, 1, "a")
    assert refused.value.kind is Kind.UNAVAILABLE
    with pytest.raises(Refused) as refused:
        await streams.load(STREAM)
    assert refused.value.kind is Kind.UNAVAILABLE
    flaky.gone = False
    assert (await add(streams, 1, "a")).state.value == 1


async def test_a_known_version_is_served_from_memory_and_never_an_older_one(
    flaky: Flaky, streams: CounterStreams, elsewhere: CounterStreams
) -> None:
    """`known` trades freshness for speed, but never goes back behind what a caller has seen."""
    await add(streams, 1, "a")
    reads = flaky.reads
    assert (await streams.load(STREAM, known=1)).version == 1
    assert flaky.reads == reads
    await add(elsewhere, 2, "b")
    assert (await streams.load(STREAM, known=1)).version == 1
    assert (await streams.load(STREAM, known=3)).version == 3
    assert (await streams.load(STREAM)).version == 3
    with pytest.raises(Refused) as refused:
        await streams.load(STREAM, known=4)
    assert refusal(refused) == (Kind.UNAVAILABLE, "STATE_BEHIND")


async def test_a_move_on_a_known_stream_reads_nothing(
    flaky: Flaky, streams: CounterStreams
) -> None:
    """With its state in memory a command costs one append and no read."""
    await add(streams, 1, "a")
    reads = flaky.reads
    for number in range(5):
        await add(streams, 1, f"b{number}")
    assert flaky.reads == reads


async def test_memory_is_bounded(store: SqlStore, clock: Clock) -> None:
    """The least recently used states go first; what went is loaded again."""
    streams = Streams(store, COUNTER, cached=3, clock=clock)
    for number in range(5):
        await add(streams, 1, "a", numbered(number))
    assert list(streams._states) == [numbered(2), numbered(3), numbered(4)]
    await streams.load(numbered(2), known=1)
    assert (await add(streams, 1, "b", numbered(0))).state.value == 2
    assert list(streams._states) == [numbered(4), numbered(2), numbered(0)]


async def test_appends_are_published_and_repeats_are_not(store: SqlStore, clock: Clock) -> None:
    """Whoever wants to know hears of every append made here, once."""
    heard: list[tuple[UUID, int]] = []
    streams = Streams(
        store,
        COUNTER,
        published=lambda change: heard.append((change.stream, change.after.version)),
    )
    await add(streams, 2, "a")
    await add(streams, 2, "a")
    await add(streams, 1, "b", OTHER)
    assert heard == [(STREAM, 2), (OTHER, 1)]


async def test_an_append_is_published_though_its_sender_went_away(
    store: SqlStore, clock: Clock
) -> None:
    """A client that vanishes in the middle keeps neither watchers nor workers from the news."""
    published = asyncio.Event()
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    class Slow(SqlStore):
        async def append(self, append: Append) -> Appended:
            begun.set()
            await may_go_on.wait()
            return await super().append(append)

    slow = Slow(store._engine, None, clock=clock)
    streams = Streams(slow, COUNTER, published=lambda *_: published.set(), clock=clock)
    sending = asyncio.create_task(add(streams, 1, "a"))
    await begun.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    may_go_on.set()
    async with asyncio.timeout(30):
        await published.wait()
    assert (await streams.load(STREAM, known=1)).state.value == 1


async def test_a_head_that_is_not_the_end_of_the_log_is_damage(
    store: SqlStore, streams: CounterStreams
) -> None:
    """A stream whose head was tampered with is refused; other streams stay playable."""
    await add(streams, 2, "a")
    await add(streams, 1, "a", OTHER)
    async with store._engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE heads SET version = 9 WHERE version = 2")
    for looking in (add(streams, 1, "b"), streams.load(STREAM, known=9)):
        with pytest.raises(Refused) as refused:
            await looking
        assert refusal(refused) == (Kind.PRECONDITION, "LOG_DAMAGED")
    assert (await add(streams, 1, "b", OTHER)).state.value == 2


async def test_too_many_conflicts_are_given_up(store: SqlStore, clock: Clock) -> None:
    """A command that is overtaken every time ends as CONTENDED, with nothing stored of it."""
    others = 0

    class Overtaken(SqlStore):
        async def append(self, append_: Append) -> Appended:
            nonlocal others
            others += 1
            await super().append(replace(append(append_.expected), request_id=f"other{others}"))
            return await super().append(append_)

    streams = Streams(Overtaken(store._engine, None, clock=clock), NAMELESS, attempts=3)
    with pytest.raises(Refused) as refused:
        await add(streams, 1, "mine")
    assert refusal(refused) == (Kind.CONFLICT, "CONTENDED")
    assert {row.request_id for row in await store.read(STREAM)} == {"other1", "other2", "other3"}


NAMELESS = replace(COUNTER, decode=lambda row: Added(1))
"""A counter to which every event counts one."""


async def test_what_a_database_lost_is_believed_no_more(
    store: SqlStore, flaky: Flaky, clock: Clock
) -> None:
    """A database that failed over to a copy of a moment before has lost the last append. The
    process that remembers it decides on what is stored now, be it as long, shorter or longer, and
    does not take a sound log for a damaged one."""
    decided_on: list[Counter] = []

    def decide_seen(state: Counter, command: Add) -> Sequence[Added]:
        decided_on.append(state)
        return decide(state, command)

    here = Streams(flaky, replace(COUNTER, decide=decide_seen), clock=clock)
    elsewhere = Streams(store, COUNTER, clock=clock)
    kept = await add(here, 2, "kept")
    clock.turn(1)
    for others, lost in enumerate(("lost 0", "lost 1", "lost 2")):
        await add(here, 1, lost)
        await lose_last(store, kept.appended.events[-1])
        elsewhere = Streams(SqlStore(store._engine, None, clock=clock), COUNTER, clock=clock)
        clock.turn(1)
        for number in range(others):
            kept = await add(elsewhere, 1, f"elsewhere {others} {number}")
        if others == 2:
            assert (await here.load(STREAM)).hash == kept.appended.events[-1].hash
        clock.turn(1)
        kept = await add(here, 1, f"here {others}")
        rows = await store.read(STREAM)
        assert decided_on[-1] == fold(COUNTER, Counter(), rows[:-1])
        assert verify(rows) is None


async def lose_last(store: SqlStore, end: Recorded) -> None:
    """Takes the stream back to an event."""
    await disarm(store)
    async with as_owner(store) as connection:
        await connection.execute(delete(events).where(events.c.version > end.version))
        await connection.execute(
            update(heads).values(
                version=end.version, hash=end.hash, recorded_at=end.recorded_at, ended=False
            )
        )


async def test_an_append_decided_on_another_history_is_a_conflict(store: SqlStore) -> None:
    """Though that is as long as the stream's own; on the stream's own it is stored."""
    first = await store.append(append(0))
    with pytest.raises(Conflict):
        await store.append(replace(append(1), follows=bytes(32)))
    last = first.events[-1].hash
    assert (await store.append(replace(append(1), follows=last))).version == 2
