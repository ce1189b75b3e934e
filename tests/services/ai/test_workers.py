"""Workers that are stopped, killed and too few: what a caller gets, and what remains."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from engines import durak
from services.ai import minds
from services.ai.bots import Budget, Level
from services.ai.minds import Minds
from services.ai.thinking import Baffled, Question, Thought
from services.ai.workers import HURRIED_MS, Busy, NoWorkers, Worker, WorkerDied, Workers
from tests.engines.laws import Decks
from tests.services.ai.host import hard, hosting
from tests.services.ai.positions import Position, bot, play

LONG_S = 60.0


def position() -> Position:
    """The first decision of a game with a choice."""
    movers = [bot(Level.EASY, 1)] * 2
    return next(play("durak", durak.initial(durak.Options(), 2), Decks(1), movers))


def workers() -> list[BaseProcess]:
    """The worker processes of this one."""
    return [child for child in active_children() if child.name == "bot"]


def question() -> Question:
    """The same decision, put to a hard bot."""
    asked = position()
    return Question(asked.game, asked.view, asked.history, Level.HARD, b"")


@asynccontextmanager
async def employed(count: int, queue_max: int) -> AsyncIterator[Workers]:
    """Workers without a service."""
    made = Workers(count, queue_max)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def put(to: Workers) -> asyncio.Task[object]:
    """A question that has been taken on, and waits or is thought about."""
    task: asyncio.Task[object] = asyncio.create_task(to.think(question(), LONG_S))
    await asyncio.sleep(0)
    return task


@contextmanager
def stopped() -> Iterator[None]:
    """Workers that do not get on."""
    held = [worker.pid for worker in workers() if worker.pid is not None]
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in held:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def test_out_of_time_a_lower_level_answers(tmp_path: Path) -> None:
    """The caller gets a normal move in time; the worker is free again when it is done."""
    async with hosting(tmp_path) as host:
        with stopped():
            answer = await host.choose(hard(position(), budget_ms=50))
        assert Level(answer.level) is Level.NORMAL
        assert answer.move.HasField("durak")
        answer = await host.choose(hard(position()))
        assert Level(answer.level) is Level.HARD


async def test_more_questions_than_may_wait_are_turned_away() -> None:
    """One is thought about, one waits, the third is not taken on."""
    async with employed(1, queue_max=1) as some:
        with stopped():
            taken = [await put(some), await put(some)]
            with pytest.raises(Busy):
                await some.think(question(), LONG_S)
        for thought in await asyncio.gather(*taken):
            assert isinstance(thought, Thought)
        assert isinstance(await some.think(question(), LONG_S), Thought)


async def test_with_a_full_queue_a_lower_level_answers_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is sent away or made to wait: the answer says which level it is of."""
    monkeypatch.setattr(minds, "PATIENCE_MS", 1_000 * LONG_S)
    async with employed(1, queue_max=0) as some:
        with stopped():
            taken = await put(some)
            async with asyncio.timeout(LONG_S / 2):
                thought = await Minds(some).think(question())
            assert thought.level is Level.NORMAL
        await taken


async def test_hints_leave_a_worker_to_the_bots(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask for one, a bot in play is as strong as ever; who asks for a second hint
    before the first is there gets one of a lower level at once."""
    monkeypatch.setattr(minds, "PATIENCE_MS", 1_000 * LONG_S)
    async with employed(2, queue_max=0) as some:
        mind = Minds(some)
        with stopped():
            hints = [asyncio.create_task(mind.think(question(), f"player:{n}")) for n in range(5)]
            await asyncio.sleep(0)
            async with asyncio.timeout(LONG_S / 2):
                second = await mind.think(question(), "player:0")
            assert second.level is Level.NORMAL
            turn = asyncio.create_task(mind.think(question()))
            await asyncio.sleep(0)
        assert (await turn).level is Level.HARD
        assert {(await hint).level for hint in hints} == {Level.HARD}


async def test_who_gives_up_waiting_leaves_the_worker_to_others() -> None:
    """A caller that goes away in the queue or in mid-thought takes no worker with it."""
    async with employed(1, queue_max=1) as some:
        with stopped():
            gone = [await put(some), await put(some)]
            for task in gone:
                task.cancel()
            await asyncio.wait(gone)
        assert isinstance(await some.think(question(), LONG_S), Thought)


async def test_what_others_wait_behind_is_thought_about_in_haste() -> None:
    """Only while somebody waits behind it, and not where it counts its worlds."""
    async with employed(1, queue_max=3) as some:
        seen: list[Budget] = []
        answer = some._answer

        async def heard(worker: Worker, put_to_it: Question) -> Thought | Baffled:
            seen.append(put_to_it.budget)
            return await answer(worker, put_to_it)

        some._answer = heard  # type: ignore[method-assign, assignment]
        counted = replace(question(), budget=Budget(worlds=5))
        asked = [question(), question(), counted, question()]
        await asyncio.gather(*(some.think(each, LONG_S) for each in asked))
        assert seen == [Budget(), Budget(cpu_ms=HURRIED_MS), Budget(worlds=5), Budget()]


async def test_a_search_nobody_waits_for_ends() -> None:
    """Its worker is free for the next question long before its worlds are through."""
    async with employed(1, queue_max=1) as some:
        endless = replace(question(), budget=Budget(worlds=10**9))
        asking = asyncio.create_task(some.think(endless, LONG_S))
        (worker,) = workers()
        await asyncio.sleep(0.2)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(LONG_S):
            assert isinstance(await some.think(question(), LONG_S), Thought)
        assert workers() == [worker]


async def test_a_worker_killed_in_thought_is_replaced() -> None:
    """Its caller is told at once; the next question goes to a new worker."""
    async with employed(1, queue_max=1) as some:
        (worker,) = workers()
        with stopped():
            asking = await put(some)
            worker.kill()
            with pytest.raises(WorkerDied):
                await asking
        assert isinstance(await some.think(question(), LONG_S), Thought)


async def test_a_worker_killed_at_rest_is_replaced(tmp_path: Path) -> None:
    """It is found dead before anybody is sent to it, and the answer is as good as before."""
    async with hosting(tmp_path) as host:
        (before,) = workers()
        pid = before.pid
        before.kill()
        before.join()
        answer = await host.choose(hard(position()))
        assert Level(answer.level) is Level.HARD
        assert [worker.pid for worker in workers()] != [pid]


async def test_a_service_without_a_worker_is_not_healthy() -> None:
    """The check fails until somebody can think."""
    some = Workers(1, queue_max=0)
    with pytest.raises(NoWorkers):
        await some.check()
    await some.start()
    await some.check()
    await some.close()


async def test_no_worker_outlives_its_service(tmp_path: Path) -> None:
    """After the drain every worker has ended."""
    async with hosting(tmp_path, ai_workers=2):
        pids = [worker.pid for worker in workers()]
        assert len(pids) == 2
    assert workers() == []
    for pid in pids:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
