"""Group commit: what shares a transaction is won or lost by itself, and nobody waits for ever."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from services.kernel.envelope import Appended, Due, Plan
from services.kernel.errors import Kind, Refused
from services.runtime.database import read
from services.runtime.store import committer
from services.runtime.store.api import (
    Conflict,
    Late,
    Overloaded,
    RequestReused,
    StoreUnavailable,
    Unstorable,
)
from services.runtime.store.committer import (
    NOTHING,
    Committer,
    Mark,
    Pending,
    Verdict,
    made_ready,
    marks,
    requests_seen,
)
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests.runtime.appends import OTHER, STREAM, append, body, numbered, together
from tests.runtime.conftest import KEYS, Clock
from tests.runtime.counters import COUNTER, Add
from tests.runtime.owner import as_owner
from tests.runtime.stored import verify_stream


def sizes(store: SqlStore) -> list[int]:
    """How many appends the batches have from now on."""
    seen: list[int] = []
    plain = store._committer._write

    async def counted(batch: object) -> object:
        seen.append(len(batch))  # type: ignore[arg-type]
        return await plain(batch)  # type: ignore[arg-type]

    store._committer._write = counted  # type: ignore[assignment]
    return seen


async def test_a_loser_of_a_batch_fails_alone(store: SqlStore, clock: Clock) -> None:
    """A conflict, a late one, a repeated and a reused request do not touch those beside them."""
    for number in range(6):
        await store.append(append(0, stream=numbered(number), request="first"))
    batches = sizes(store)
    outcomes = await together(
        store,
        append(1, "Won", stream=numbered(0), secret=b"hidden", plan=Plan(tags=("won",))),
        append(7, "Behind", stream=numbered(1), plan=Plan(tags=("lost",))),
        append(1, "Late", stream=numbered(2), not_after=clock.now - 1, plan=Plan(tags=("lost",))),
        append(1, "Again", stream=numbered(3), request="first"),
        append(1, "Reused", stream=numbered(4), request="first", said="else"),
        append(1, "Won", stream=numbered(5), plan=Plan(due=(Due("turn", "", 5),))),
        append(0, "Won", stream=numbered(6), plan=Plan(tags=("won",))),
        append(0, "Exists", stream=numbered(0), request="other", plan=Plan(due=(Due("x", "", 0),))),
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, Appended)]
    assert [one.repeated for one in won] == [False, True, False, False]
    assert [type(one) for one in outcomes if not isinstance(one, Appended)] == [
        *(Conflict, Late, RequestReused, Conflict),
    ]
    assert batches[0] >= 3
    heads = await store.heads([numbered(number) for number in range(7)])
    assert [heads[numbered(number)].version for number in range(7)] == [2, 1, 1, 1, 1, 2, 1]
    assert [head.stream for head in await store.tagged("won")] == [numbered(6), numbered(0)]
    assert await store.tagged("lost") == []
    assert await store.next_due_ms() == 5
    for number in range(7):
        assert await verify_stream(store, numbered(number)) is None


async def test_the_due_rows_of_a_batch_are_those_of_its_winners(
    store: SqlStore, clock: Clock
) -> None:
    """Rows are set, replaced and deleted for each stream by itself; a loser deletes nothing."""
    for number in range(4):
        plan = Plan(due=(Due("turn", "1", 0), Due("bot", "1", 0)))
        await store.append(append(0, stream=numbered(number), plan=plan))
    plan = Plan(
        due=(Due("turn", "2", 7), Due("bot", "1", 9), Due("turn", "2", 8)), done=(("turn", "1"),)
    )
    expected = (9, 1, 1, 1)
    await together(store, *(append(expected[n], stream=numbered(n), plan=plan) for n in range(4)))
    clock.turn(100)
    found = {
        (row.stream, row.kind, row.key, row.version, clock.now - row.due_at)
        for row in await store.claim("w", 20, 1_000)
    }
    assert found == {
        (numbered(0), "turn", "1", 1, 100_000),
        (numbered(0), "bot", "1", 1, 100_000),
        *((numbered(number), "turn", "2", 2, 92_000) for number in range(1, 4)),
        *((numbered(number), "bot", "1", 2, 91_000) for number in range(1, 4)),
    }


async def refuse_events_named_bad(store: SqlStore) -> str:
    """Has the database refuse such rows; the statement undoes it."""
    makes = "CREATE TRIGGER pick BEFORE INSERT ON events"
    if store._engine.dialect.name == "sqlite":
        refusing = [f"{makes} WHEN NEW.name = 'Bad' BEGIN SELECT RAISE(ABORT, 'bad'); END"]
        undo = "DROP TRIGGER pick"
    else:
        function = (
            "CREATE FUNCTION pick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF NEW.name = 'Bad' THEN RAISE EXCEPTION 'bad'; END IF; RETURN NEW; END $$"
        )
        refusing = [function, f"{makes} FOR EACH ROW EXECUTE FUNCTION pick()"]
        undo = "DROP FUNCTION pick CASCADE"
    async with as_owner(store) as connection:
        for statement in refusing:
            await connection.exec_driver_sql(statement)
    return undo


async def test_one_that_cannot_be_stored_fails_alone(store: SqlStore) -> None:
    """Where the database refuses a row of a batch, only the append it belongs to fails."""
    undo = await refuse_events_named_bad(store)
    names = ["Good", "Bad", "Good", "Good"]
    outcomes = await together(
        store, *(append(0, name, stream=numbered(place)) for place, name in enumerate(names))
    )
    assert [isinstance(outcome, Unstorable) for outcome in outcomes] == [
        *(False, True, False, False),
    ]
    assert [head.stream async for head in store.streams()] == [
        *(numbered(0), numbered(2), numbered(3)),
    ]
    async with as_owner(store) as connection:
        await connection.exec_driver_sql(undo)


async def test_a_thousand_appends_over_two_hundred_streams(store: SqlStore) -> None:
    """All at once, from two stores: no gap, no loss, nothing twice, every chain whole."""
    other = SqlStore(store._engine, KEYS)
    batches = sizes(store)

    async def add(number: int) -> None:
        stream = numbered(number % 200)
        while True:
            mine = other if number % 3 == 0 else store
            head = await mine.head(stream)
            wanted = append(
                head.version if head else 0,
                f"E{number}",
                request=f"r{number}",
                stream=stream,
                secret=b"hidden" if number % 7 == 0 else None,
            )
            try:
                await mine.append(wanted)
            except Conflict:
                continue
            return

    at_once = asyncio.Semaphore(300)

    async def bounded(number: int) -> None:
        async with at_once:
            await add(number)

    await asyncio.gather(*map(bounded, range(1_000)))
    for number in range(200):
        rows = await store.read(numbered(number))
        assert {row.name for row in rows} == {f"E{number + 200 * turn}" for turn in range(5)}
        assert len(rows) == 5
        assert await verify_stream(store, numbered(number)) is None
    assert max(batches) > 1  # they share batches; how large is a matter of speed
    await other._committer.finish()
    await other._writer.close()


async def test_those_of_one_stream_follow_each_other(store: SqlStore) -> None:
    """One append a stream is in a batch; the next meets what the first has left."""
    outcomes = await together(
        store, append(0, request="a"), append(0, request="b"), append(1, request="c"), append(0)
    )
    kinds = [type(one) for one in outcomes]
    if store._engine.dialect.name == "sqlite":
        assert kinds == [Appended, Conflict, Appended, Conflict]
    else:
        assert kinds.count(Appended) >= 1
    assert await verify_stream(store, STREAM) is None


async def test_too_many_waiting_are_refused(
    store: SqlStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into the queue is refused at once, and a caller hears why."""
    monkeypatch.setattr(committer, "QUEUE_APPENDS", 3)
    outcomes = await together(store, *(append(0, stream=numbered(n)) for n in range(5)))
    assert [type(one) for one in outcomes] == [*(Appended,) * 3, *(Overloaded,) * 2]
    monkeypatch.setattr(committer, "QUEUE_APPENDS", 0)
    streams = Streams(store, COUNTER, clock=clock)
    with pytest.raises(Refused) as refused:
        await streams.transact(OTHER, Add(1), request_id="a", body_hash=body("add"))
    assert (refused.value.kind, refused.value.reason) == (Kind.EXHAUSTED, "OVERLOADED")


async def test_a_committer_that_fails_says_so_to_everybody(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left waiting, later appends are refused, and the store is no longer healthy."""
    monkeypatch.setattr(committer, "BATCH_APPENDS", 1)

    def broken(pending: object) -> None:
        raise ZeroDivisionError

    sending = asyncio.gather(
        *(store.append(append(0, stream=numbered(n))) for n in range(3)), return_exceptions=True
    )
    await asyncio.sleep(0)
    monkeypatch.setattr(store._committer, "_take", broken)
    outcomes = await sending
    assert {type(one) for one in outcomes} <= {Appended, StoreUnavailable}
    assert isinstance(outcomes[-1], StoreUnavailable)
    for refused in (store.append(append(0, stream=OTHER)), store.check()):
        with pytest.raises(StoreUnavailable, match="committer"):
            await refused


@pytest.mark.parametrize("seed", range(20))
async def test_lanes_keep_streams_apart(seed: int) -> None:
    """Whenever appends come and however long batches take: no more batches under way than lanes,
    no stream in two of them, those of a stream in their order, and a verdict for each, once."""
    chance = random.Random(seed)
    lanes = 1 + seed % 3
    under_way: list[set[UUID]] = []
    most = 0
    written: dict[UUID, list[int]] = {}

    async def write(batch: Sequence[Pending]) -> list[Verdict]:
        nonlocal most
        mine = {pending.append.stream for pending in batch}
        assert len(mine) == len(batch)
        assert all(mine.isdisjoint(others) for others in under_way)
        under_way.append(mine)
        most = max(most, len(under_way))
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        under_way.remove(mine)
        if len(batch) > 1 and chance.random() < 0.1:
            raise Unstorable("not together")
        for pending in batch:
            written.setdefault(pending.append.stream, []).append(pending.append.expected)
        return [Verdict(pending.append.expected % 3) for pending in batch]

    lanes_at_work = Committer(write, lanes)

    async def send(place: int) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        wanted = append(place, stream=numbered(chance.randrange(60)))
        pending = made_ready(wanted, NOTHING, None, bytes)
        sent.setdefault(wanted.stream, []).append(place)
        assert await lanes_at_work.commit(pending) is Verdict(place % 3)

    sent: dict[UUID, list[int]] = {}
    await asyncio.gather(*(send(place) for place in range(300)))
    await lanes_at_work.finish()
    assert written == sent
    assert most == lanes
    assert not lanes_at_work._behind
    assert (lanes_at_work._appends, lanes_at_work._octets) == (0, 0)


async def test_readers_see_no_part_of_a_batch_before_it_is_committed(store: SqlStore) -> None:
    """Head and events of an append appear together."""
    stop = False
    odd = []

    async def watch() -> None:
        while not stop:
            head = await store.head(STREAM)
            rows = await store.read(STREAM)
            if head is not None and len(rows) < head.version:
                odd.append((head, len(rows)))

    watching = asyncio.create_task(watch())
    for version in range(0, 60, 2):
        await store.append(replace(append(version, "A", "B"), metadata=b""))
    stop = True
    await watching
    assert odd == []
    async with read(store._engine) as connection:
        assert (await connection.exec_driver_sql("SELECT count(*) FROM events")).scalar_one() == 60


async def gathered(turns_apart: int, count: int) -> list[int]:
    """The sizes of the batches of appends that come so many turns of the loop apart."""
    seen: list[int] = []

    async def write(batch: Sequence[Pending]) -> list[Verdict]:
        seen.append(len(batch))
        return [Verdict.WON] * len(batch)

    committer = Committer(write)
    verdicts = [committer.commit(made_ready(append(0), NOTHING, None, bytes))]
    for place in range(1, count):
        wanted = append(0, stream=numbered(place))
        verdicts.append(committer.commit(made_ready(wanted, NOTHING, None, bytes)))
        for _ in range(turns_apart):
            await asyncio.sleep(0)
    await asyncio.gather(*verdicts)
    return seen


async def test_what_the_loop_is_bringing_shares_a_batch() -> None:
    """Appends of calls that are taken in one after the other, turns apart, go together, up to a
    number; those that come after a pause do not."""
    most = committer.GATHERED_APPENDS
    assert await gathered(0, 3) == [3]
    for apart in range(1, committer.QUIET_TURNS):
        assert await gathered(apart, most // 2) == [most // 2]
        assert (await gathered(apart, most * 2))[0] == most
    assert await gathered(committer.QUIET_TURNS + 3, 4) == [2, 1, 1]


async def test_who_comes_alone_goes_at_once() -> None:
    """No turn of the loop passes before an append that nobody else is with is written."""
    began: list[int] = []
    turn = 0

    async def write(batch: Sequence[Pending]) -> list[Verdict]:
        began.append(turn)
        return [Verdict.WON]

    verdict = Committer(write).commit(made_ready(append(0), NOTHING, None, bytes))
    while not verdict.done():
        await asyncio.sleep(0)
        turn += 1
    assert began == [0]


async def test_requests_are_known_of_rows_that_follow_what_is_known(store: SqlStore) -> None:
    """Of others, with a gap before them or on another history, nothing is: they are asked for."""
    for version in range(4):
        await store.append(append(version, "A", "B") if version == 3 else append(version))
    rows = await store.read(STREAM)
    at_two = Mark(2, rows[1].hash, 0, None, marks(["request-0", "request-1"]))
    assert requests_seen(at_two, rows[2:]) == marks(f"request-{n}" for n in range(4))
    assert requests_seen(NOTHING, rows) == marks(f"request-{n}" for n in range(4))
    for known in (
        None,
        replace(at_two, requests=None),
        replace(at_two, version=1),
        replace(at_two, hash=rows[0].hash),
    ):
        assert requests_seen(known, rows[2:]) is None
