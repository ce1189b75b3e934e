"""Processes that think, so that the event loop need not.

Each worker is a fresh interpreter (spawned, never forked from a process with threads) at the other
end of a pipe. One question at a time goes to each; one that dies or hangs is replaced. A question
that nobody waits for any more is given up.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from threading import Lock
from typing import TypeVar

from services.ai.thinking import READY, Baffled, Question, Thought, answer_all
from services.runtime import log, metrics

T = TypeVar("T")

START_S = 60.0
"""How long a worker may take to start."""
STUCK_S = 30.0
"""A worker that has not answered after this time is ended."""
END_S = 2.0
"""How long a worker may take to end by itself."""
RESTART_S = 1.0
"""The pause before a worker that could not be started is tried again."""
HURRIED_MS = 20.0
"""What a question gets of CPU time, in milliseconds, while others wait behind it."""


class WorkerDied(Exception):
    """The worker ended, or hung and was ended, before it answered."""


class Busy(Exception):
    """As many questions wait as may."""


class NoWorkers(Exception):
    """Not one worker is ready or thinking."""


@dataclass(slots=True, eq=False)
class Worker:
    """A process and the pipe to it.

    `number` is that of the question it was sent last, from 1.
    """

    process: SpawnProcess
    connection: Connection
    number: int = 0
    sending: Lock = field(default_factory=Lock)

    def ask(self, question: Question) -> Thought | Baffled:
        """The answer, waiting for it; raises WorkerDied. Called in a thread."""
        try:
            with self.sending:
                self.connection.send((self.number, question))
            if not self.connection.poll(STUCK_S):
                raise WorkerDied
            answer: Thought | Baffled = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerDied from None
        return answer

    def give_up(self) -> None:
        """Tell it that nobody waits for the answer to the last question any more."""
        with suppress(OSError), self.sending:
            self.connection.send(self.number)

    def end(self) -> None:
        """End the process, by force if it does not end by itself, and forget it."""
        self.connection.close()
        self.process.join(END_S)
        self.kill()

    def kill(self) -> None:
        """End the process at once and forget it."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        self.process.close()


def start_worker() -> Worker:
    """A worker that is ready; raises WorkerDied if it does not get so far."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=answer_all, args=(theirs,), name="bot", daemon=True)
    process.start()
    theirs.close()
    worker = Worker(process, ours)
    try:
        if ours.poll(START_S) and ours.recv() == READY:
            return worker
    except (EOFError, OSError):
        pass
    worker.kill()
    raise WorkerDied


class Workers:
    """`count` workers; at most `queue_max` questions wait for one of them."""

    def __init__(self, count: int, queue_max: int) -> None:
        self.count = count
        self._most = count + queue_max
        self._inside = 0
        self._waiting = 0
        self._alive = 0
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(2 * count, thread_name_prefix="bots")
        self._running: set[asyncio.Task[object]] = set()
        self._closing = False

    async def start(self) -> None:
        """Start all workers and wait until they are warm; raises WorkerDied."""
        for started in await asyncio.gather(
            *(self._in_thread(start_worker) for _ in range(self.count))
        ):
            self._welcome(started)

    async def think(self, question: Question, patience_s: float) -> Thought | Baffled:
        """The answer of a worker, within `patience_s` seconds.

        While others wait it is thought about in haste, unless it names a number of worlds. Raises
        Busy when too many wait already, TimeoutError when the time is over, WorkerDied. Whoever
        stops waiting frees the worker at once.
        """
        if self._inside >= self._most:
            raise Busy
        self._inside += 1
        metrics.QUESTIONS.of().set(self._inside)
        try:
            async with asyncio.timeout(patience_s):
                self._waiting += 1
                try:
                    worker = await self._free()
                finally:
                    self._waiting -= 1
                if self._waiting and question.budget.worlds is None:
                    question = question.within(question.budget.within(HURRIED_MS))
                return await self._answer(worker, question)
        finally:
            self._inside -= 1
            metrics.QUESTIONS.of().set(self._inside)

    async def check(self) -> None:
        """Raise NoWorkers when nobody can think (a health check)."""
        if not self._alive:
            raise NoWorkers

    async def close(self) -> None:
        """End all workers; nothing is asked any more."""
        self._closing = True
        while self._running:
            await asyncio.wait(self._running)
        while not self._idle.empty():
            await self._in_thread(self._idle.get_nowait().end)
        self._threads.shutdown()

    async def _free(self) -> Worker:
        while True:
            worker = await self._idle.get()
            if worker.process.is_alive():
                return worker
            self._replace(worker)

    async def _answer(self, worker: Worker, question: Question) -> Thought | Baffled:
        worker.number += 1
        asking = self._begin(self._ask(worker, question))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            worker.give_up()
            raise

    async def _ask(self, worker: Worker, question: Question) -> Thought | Baffled:
        try:
            answer = await self._in_thread(lambda: worker.ask(question))
        except WorkerDied:
            self._replace(worker)
            raise
        self._idle.put_nowait(worker)
        return answer

    def _replace(self, dead: Worker) -> None:
        log.get().error("bot_worker_died", count=self._alive)
        self._alive -= 1
        metrics.WORKERS.of().set(self._alive)
        self._begin(self._start_instead(dead))

    async def _start_instead(self, dead: Worker) -> None:
        await self._in_thread(dead.kill)
        while not self._closing:
            try:
                started = await self._in_thread(start_worker)
            except (WorkerDied, OSError) as error:
                log.get().error("bot_worker_failed", **log.failure(error))
                await asyncio.sleep(RESTART_S)
            else:
                self._welcome(started)
                return

    def _welcome(self, worker: Worker) -> None:
        self._alive += 1
        metrics.WORKERS.of().set(self._alive)
        self._idle.put_nowait(worker)

    def _begin(self, work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Work that goes on although nobody may wait for it any more."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[T]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
