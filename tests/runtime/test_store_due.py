"""Due work, on both engines: asked for with the events, claimed by one, never lost."""

import asyncio

from services.kernel.envelope import Claimed, Due, Plan
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import OTHER, STREAM, append, numbered
from tests.runtime.conftest import Clock

LEASE = 10_000


def asking(*works: Due, done: tuple[tuple[str, str], ...] = ()) -> Plan:
    """A plan that sets and deletes due rows."""
    return Plan(due=works, done=done)


async def claim(store: SqlStore, worker: str = "w", limit: int = 10) -> list[Claimed]:
    """Claims what is due."""
    return await store.claim(worker, limit, LEASE)


async def test_work_is_claimable_when_its_moment_has_come(store: SqlStore, clock: Clock) -> None:
    """Not a millisecond sooner; the row says which version asked for it and when it was due."""
    assert await store.next_due_ms() is None
    await store.append(append(0, "A", "B", plan=asking(Due("turn", "1", 500))))
    assert await store.next_due_ms() == 500
    clock.turn(499)
    assert await claim(store) == []
    assert await store.next_due_ms() == 1
    clock.turn(1)
    assert await store.next_due_ms() == 0
    assert await claim(store) == [Claimed(STREAM, "turn", "1", 2, clock.now, 1)]


async def test_what_has_waited_longest_comes_first(store: SqlStore, clock: Clock) -> None:
    """Claims follow the moments, and no more than asked for are given out."""
    for number, after in enumerate((30, 10, 20)):
        await store.append(append(0, stream=numbered(number), plan=asking(Due("t", "", after))))
    clock.turn(100)
    assert [row.stream for row in await claim(store, limit=2)] == [numbered(1), numbered(2)]
    assert [row.stream for row in await claim(store, limit=2)] == [numbered(0)]


async def test_the_same_work_again_replaces_the_first(store: SqlStore, clock: Clock) -> None:
    """Kind and key name a row within its stream; another key, kind or stream is another row."""
    await store.append(append(0, plan=asking(Due("turn", "", 10), Due("bot", "1", 10))))
    await store.append(append(0, stream=OTHER, plan=asking(Due("turn", "", 10))))
    await store.append(append(1, plan=asking(Due("turn", "", 500), Due("bot", "2", 10))))
    clock.turn(10)
    found = {(row.stream, row.kind, row.key, row.version) for row in await claim(store)}
    assert found == {(STREAM, "bot", "1", 1), (STREAM, "bot", "2", 2), (OTHER, "turn", "", 1)}
    clock.turn(490)
    assert [(row.kind, row.version) for row in await claim(store)] == [("turn", 2)]


async def test_work_that_is_done_goes_with_the_append(store: SqlStore, clock: Clock) -> None:
    """A plan deletes before it sets; what never was may be deleted too."""
    await store.append(append(0, plan=asking(Due("turn", "", 0), Due("bot", "", 0))))
    done = (("turn", ""), ("bot", ""), ("never", "was"))
    await store.append(append(1, plan=asking(Due("turn", "", 5), done=done)))
    clock.turn(5)
    assert [(row.kind, row.version) for row in await claim(store)] == [("turn", 2)]


async def test_many_workers_never_share_a_row(store: SqlStore) -> None:
    """Fifty rows, ten workers at once: each row goes to exactly one."""
    for number in range(10):
        works = tuple(Due("turn", str(key), 0) for key in range(5))
        await store.append(append(0, stream=numbered(number), plan=asking(*works)))

    async def work(name: str) -> list[Claimed]:
        mine: list[Claimed] = []
        while await store.next_due_ms() == 0:
            mine += await claim(store, name, limit=3)
        return mine

    shares = await asyncio.gather(*(work(f"w{n}") for n in range(10)))
    claimed = [(row.stream, row.key) for share in shares for row in share]
    assert len(claimed) == len(set(claimed)) == 50


async def test_a_lease_that_ends_gives_the_row_to_another(store: SqlStore, clock: Clock) -> None:
    """A worker that died does not take the work with it; the attempts are counted."""
    await store.append(append(0, plan=asking(Due("turn", "", 0))))
    (first,) = await claim(store, "dies")
    clock.turn(LEASE - 1)
    assert await claim(store) == []
    assert await store.next_due_ms() == 1
    clock.turn(1)
    (second,) = await claim(store)
    assert (first.attempts, second.attempts) == (1, 2)
    assert second.due_at == first.due_at


async def test_postponed_work_comes_back_later(store: SqlStore, clock: Clock) -> None:
    """The moment counts from now, and the row keeps what it was asked for."""
    await store.append(append(0, plan=asking(Due("turn", "", 0))))
    (first,) = await claim(store)
    await store.postpone(first, 250)
    assert await store.next_due_ms() == 250
    clock.turn(250)
    (second,) = await claim(store)
    assert (second.version, second.due_at, second.attempts) == (1, first.due_at, 2)


async def test_dropped_work_is_gone(store: SqlStore) -> None:
    """Only this row, and only once."""
    await store.append(append(0, plan=asking(Due("turn", "", 0), Due("bot", "", 900))))
    (first,) = await claim(store)
    await store.drop(first)
    await store.drop(first)
    assert await store.next_due_ms() == 900


async def test_a_claim_that_is_over_changes_nothing(store: SqlStore, clock: Clock) -> None:
    """Whoever lost its lease, or whose row was replaced, can neither postpone nor drop it."""
    await store.append(append(0, plan=asking(Due("turn", "", 0), Due("bot", "", 0))))
    old = {row.kind: row for row in await claim(store)}
    await store.append(append(1, plan=asking(Due("turn", "", 100))))
    clock.turn(LEASE)
    new = {row.kind: row for row in await claim(store)}
    assert (new["turn"].version, new["turn"].attempts) == (2, 1)
    assert (new["bot"].version, new["bot"].attempts) == (1, 2)
    for row in old.values():
        await store.postpone(row, 0)
        await store.drop(row)
    assert await claim(store) == []
    assert await store.next_due_ms() == LEASE


async def test_due_moments_are_database_time(store: SqlStore) -> None:
    """Without a clock of a test, claims and moments are judged by the database's own clock."""
    own = SqlStore(store._engine, None)
    before = await own.now()
    stored = await own.append(append(0, plan=asking(Due("turn", "", 0), Due("bot", "", 60_000))))
    (row,) = await claim(own)
    assert before <= row.due_at == stored.events[0].recorded_at <= await own.now()
    assert 0 < (await own.next_due_ms() or 0) <= LEASE
