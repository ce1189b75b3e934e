"""The due worker: everything that is due is handled, whatever goes wrong on the way."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from services.kernel.envelope import Claimed, Due, Plan
from services.kernel.errors import precondition
from services.runtime.due import DueWorker
from services.runtime.store.api import StoreUnavailable
from services.runtime.store.sql import SqlStore
from tests.runtime.appends import append, numbered
from tests.runtime.conftest import Clock

LONG = 30.0
"""Seconds no test waits for unless it has failed."""


@asynccontextmanager
async def working(worker: DueWorker) -> AsyncIterator[DueWorker]:
    """A worker at work."""
    worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Polls until something holds; fails after a long time."""
    async with asyncio.timeout(LONG):
        while not await holds():
            await asyncio.sleep(0.005)


async def ask(store: SqlStore, streams: int, after_ms: int = 0) -> None:
    """Asks for work in several streams."""
    for number in range(streams):
        plan = Plan(due=(Due("turn", "", after_ms),))
        await store.append(append(0, stream=numbered(number), plan=plan))


async def nothing_left(store: SqlStore) -> bool:
    """Whether no work is asked for any more."""
    return await store.next_due_ms() is None


async def test_what_is_due_is_handled_and_gone(store: SqlStore) -> None:
    """Every row reaches the handler once, with its kind, and is dropped when it returns."""
    await ask(store, 20)
    handled: list[tuple[str, Claimed]] = []

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.append((kind, claimed))

    async with working(DueWorker(store, handle, name="w", concurrency=3)) as worker:
        await eventually(lambda: nothing_left(store))
        assert worker.healthy
    assert sorted(claimed.stream for _, claimed in handled) == [numbered(n) for n in range(20)]
    assert {(kind, claimed.attempts) for kind, claimed in handled} == {("turn", 1)}


async def test_two_workers_share_the_work(store: SqlStore) -> None:
    """A row that one has, the other leaves alone."""
    await ask(store, 30)
    handled: list[Claimed] = []

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.append(claimed)
        await asyncio.sleep(0.001)

    first = DueWorker(store, handle, name="first", concurrency=2)
    second = DueWorker(store, handle, name="second", concurrency=2)
    async with working(first), working(second):
        await eventually(lambda: nothing_left(store))
    assert sorted(claimed.stream for claimed in handled) == [numbered(n) for n in range(30)]


async def test_the_outcome_and_the_row_go_together(store: SqlStore) -> None:
    """A handler whose append names the row as done leaves what that append asked for in turn."""
    await ask(store, 1)
    seen: list[int] = []

    async def handle(kind: str, claimed: Claimed) -> None:
        seen.append(claimed.version)
        if claimed.version < 4:
            plan = Plan(done=(("turn", ""),), due=(Due("turn", "", 0),))
            request = f"turn {claimed.version}"
            await store.append(append(claimed.version, "Expired", request=request, plan=plan))

    async with working(DueWorker(store, handle, name="w", idle_ms=5)):
        await eventually(lambda: nothing_left(store))
    assert seen == [1, 2, 3, 4]


async def test_what_failed_comes_back_later_and_the_loop_lives(
    store: SqlStore, clock: Clock
) -> None:
    """An exception, a refusal or a lost database postpones the row, longer each time."""
    await ask(store, 1)
    troubles: list[Exception] = [
        RuntimeError("odd"),
        precondition("NOT_NOW", "Not now."),
        StoreUnavailable("gone"),
    ]
    attempts: list[int] = []
    pauses: list[int | None] = []

    async def handle(kind: str, claimed: Claimed) -> None:
        attempts.append(claimed.attempts)
        if troubles:
            raise troubles.pop(0)

    worker = DueWorker(
        store, handle, name="w", idle_ms=5, retry_ms=1_000, retry_max_ms=1_500, chance=lambda: 0.5
    )

    async def postponed() -> bool:
        pause = await store.next_due_ms()
        if pause is not None and 0 < pause < 20_000:
            pauses.append(pause)
            clock.turn(pause)
            worker.wake()
        return pause is None

    async with working(worker):
        await eventually(postponed)
        assert worker.healthy
    assert attempts == [1, 2, 3, 4]
    assert pauses == [1_000, 1_500, 1_500]


async def test_no_more_is_handled_at_once_than_allowed(store: SqlStore) -> None:
    """The bound on concurrency holds, and is reached."""
    await ask(store, 12)
    at_once: list[int] = []
    now = 0

    async def handle(kind: str, claimed: Claimed) -> None:
        nonlocal now
        now += 1
        at_once.append(now)
        await asyncio.sleep(0.01)
        now -= 1

    async with working(DueWorker(store, handle, name="w", concurrency=4)):
        await eventually(lambda: nothing_left(store))
    assert max(at_once) == 4


async def test_a_handler_that_hangs_is_cut_off_within_its_lease(store: SqlStore) -> None:
    """It cannot hold its row, or its place, for ever."""
    await ask(store, 1)
    cut_off = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            cut_off.set()
            raise

    async with working(DueWorker(store, handle, name="w", lease_ms=20)):
        async with asyncio.timeout(LONG):
            await cut_off.wait()
    assert await store.next_due_ms()


async def test_sleep_ends_with_a_wake_up(store: SqlStore, clock: Clock) -> None:
    """Work asked for by this process is begun at once, not when the sleep would have ended."""
    handled = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.set()

    async with working(DueWorker(store, handle, name="w", idle_ms=3_600_000)) as worker:
        await eventually(lambda: asyncio.sleep(0, worker._woken.is_set() is False))
        await store.append(append(0, plan=Plan(due=(Due("bot", "", 0),))))
        worker.wake()
        async with asyncio.timeout(LONG):
            await handled.wait()


async def test_what_only_others_can_do_is_given_back_and_left_to_them(store: SqlStore) -> None:
    """Both rows of the stream are another worker's at once; this one claims none of it again."""
    await ask(store, 3)
    own: list[int] = []
    foreign: list[int] = []

    async def old(kind: str, claimed: Claimed) -> None:
        own.append(claimed.stream.int)
        if claimed.stream == numbered(1):
            raise precondition("TOO_NEW", "another release opened it")

    async def new(kind: str, claimed: Claimed) -> None:
        foreign.append(claimed.stream.int)

    async with working(DueWorker(store, old, name="old", elsewhere=("TOO_NEW",))) as worker:
        await eventually(lambda: asyncio.sleep(0, bool(worker._left) and len(own) == 3))
        await eventually(lambda: due_now(store))
        await store.append(append(1, stream=numbered(1), plan=Plan(due=(Due("end", "", 0),))))
        worker.wake()
        await ask_again(store, worker)
        assert sorted(own) == [numbered(n).int for n in range(3)]
        async with working(DueWorker(store, new, name="new")):
            await eventually(lambda: nothing_left(store))
    assert foreign == [numbered(1).int] * 2


async def due_now(store: SqlStore) -> bool:
    """Whether something can be claimed at once."""
    return await store.next_due_ms() == 0


async def ask_again(store: SqlStore, worker: DueWorker) -> None:
    """Let the worker look twice more, and find that nothing is its own."""
    for _ in range(2):
        assert await worker._round() > 0
    assert await store.next_due_ms(tuple(worker._left)) is None


async def test_the_database_is_asked_only_when_something_may_be_due(store: SqlStore) -> None:
    """Appends whose work is due later than the next look cost the worker no statement."""
    looks = 0

    class Counted(SqlStore):
        async def claim(
            self, worker: str, limit: int, lease_ms: int, but: Collection[UUID] = ()
        ) -> list[Claimed]:
            nonlocal looks
            looks += 1
            return await super().claim(worker, limit, lease_ms)

    async def handle(kind: str, claimed: Claimed) -> None:
        raise AssertionError

    counted = Counted(store._engine, None, clock=store._clock)
    async with working(DueWorker(counted, handle, name="w", idle_ms=3_600_000)) as worker:
        await eventually(lambda: asyncio.sleep(0, worker._next_at < math.inf))
        for number in range(50):
            plan = Plan(due=(Due("turn", "", 7_200_000),))
            await store.append(append(0, stream=numbered(number), plan=plan))
            worker.wake(7_200_000)
        await asyncio.sleep(0)
    assert looks == 1


async def test_work_of_this_process_begins_when_it_is_due(store: SqlStore, clock: Clock) -> None:
    """Not at the next look, and not before: the sleep is as long as what was asked for first."""
    handled = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.set()

    async with working(DueWorker(store, handle, name="w", idle_ms=3_600_000)) as worker:
        await eventually(lambda: asyncio.sleep(0, worker._next_at < math.inf))
        await store.append(append(0, plan=Plan(due=(Due("bot", "", 40),))))
        worker.wake(40)
        worker.wake(1_000_000)
        assert not handled.is_set()
        clock.turn(40)
        async with asyncio.timeout(LONG):
            await handled.wait()


async def test_stopping_finishes_what_is_begun(store: SqlStore) -> None:
    """What is being handled ends; nothing new is claimed; what was not begun stays."""
    await ask(store, 3)
    begun, may_end = asyncio.Event(), asyncio.Event()
    ended: list[Claimed] = []

    async def handle(kind: str, claimed: Claimed) -> None:
        begun.set()
        await may_end.wait()
        ended.append(claimed)

    worker = DueWorker(store, handle, name="w", concurrency=1)
    worker.start()
    await begun.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping
    assert len(ended) == 1
    assert len(await store.claim("other", 10, 1_000)) == 2
    assert not worker.healthy


async def test_stopping_does_not_wait_for_ever(store: SqlStore, clock: Clock) -> None:
    """What outlasts the grace is cut off, and its row comes back when the lease ends."""
    await ask(store, 1)
    begun = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        begun.set()
        await asyncio.sleep(LONG)

    worker = DueWorker(store, handle, name="w", lease_ms=30_000)
    worker.start()
    await begun.wait()
    await worker.stop(grace_s=0.01)
    assert await store.claim("other", 10, 1_000) == []
    clock.turn(30_000)
    assert [claimed.attempts for claimed in await store.claim("other", 10, 1_000)] == [2]


async def test_a_lost_database_does_not_end_the_loop(store: SqlStore) -> None:
    """Nor does anything else that goes wrong in it."""
    await ask(store, 1)
    troubles: list[Exception] = [StoreUnavailable("gone"), RuntimeError("odd")]

    class Troubled(SqlStore):
        async def next_due_ms(self, but: Collection[UUID] = ()) -> int | None:
            if troubles:
                raise troubles.pop()
            return await super().next_due_ms()

    handled = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.set()

    troubled = Troubled(store._engine, None, clock=store._clock)
    async with working(DueWorker(troubled, handle, name="w", retry_ms=1)) as worker:
        async with asyncio.timeout(LONG):
            await handled.wait()
        assert worker.healthy


async def test_a_database_that_was_gone_for_long_is_looked_for_often(store: SqlStore) -> None:
    """However many looks have failed, the next is not later than one when nothing is due: so the
    loop counts as alive, and what became due meanwhile is begun when the database is back."""
    await ask(store, 1)
    failures = 20

    class Gone(SqlStore):
        async def claim(
            self, worker: str, limit: int, lease_ms: int, but: Collection[UUID] = ()
        ) -> list[Claimed]:
            nonlocal failures
            if failures:
                failures -= 1
                raise StoreUnavailable("gone")
            return await super().claim(worker, limit, lease_ms)

    handled = asyncio.Event()

    async def handle(kind: str, claimed: Claimed) -> None:
        handled.set()

    gone = Gone(store._engine, None, clock=store._clock)
    worker = DueWorker(gone, handle, name="w", idle_ms=5, retry_ms=1, retry_max_ms=3_600_000)
    async with working(worker):
        async with asyncio.timeout(LONG):
            await handled.wait()


async def test_a_dead_loop_is_noticed(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was not started, has ended or no longer comes round is not healthy."""

    async def handle(kind: str, claimed: Claimed) -> None:
        raise AssertionError

    worker = DueWorker(store, handle, name="w")
    health = [worker.healthy]
    async with working(worker):
        health.append(worker.healthy)
        monkeypatch.setattr("services.runtime.due.STALE_SECONDS", 0.0)
        health.append(worker.healthy)
        monkeypatch.undo()
    health.append(worker.healthy)
    assert health == [False, True, False, False]
