"""Where a move is thought about: at once what takes no time, in a worker what may take some.

Bots' turns come before hints: of the workers one is kept for them where there are two or more, and
whoever asks for hints one after another makes no bot play below its level. A player is thought for
once at a time.
"""

import asyncio
from collections.abc import Mapping

from services.ai.bots import Level
from services.ai.thinking import Baffled, Question, Thought, think
from services.ai.workers import Busy, WorkerDied, Workers
from services.kernel.errors import invalid
from services.runtime import log, metrics
from services.runtime.call import current

PATIENCE_MS = 1_000
"""How long a question may wait for a worker and its answer, beside the time to think."""
STRETCH = 4
"""How much longer than its CPU time a thought may take where processors are shared."""
RESERVE_MS = 100
"""What of a caller's patience is left for everything but thinking."""
INSTEAD = Level.NORMAL
"""The level that answers when a worker does not."""

CAUSES: Mapping[type[Exception], str] = {
    TimeoutError: "slow", WorkerDied: "died", Busy: "full",
}  # fmt: skip
"""Why a lower level answers, as metrics name it."""


class Minds:
    """Answers questions; the levels that do not search are answered where they are asked.

    They take a tenth of a millisecond, less than the way to a worker and back.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._hints = asyncio.Semaphore(max(1, workers.count - 1))
        self._asking: set[str] = set()

    async def think(self, question: Question, asker: str = "") -> Thought:
        """The thought. Where a worker is not free in time, or fails, that of a lower level.

        `asker` is the player who wants a hint, empty for a bot's turn. Raises Refused
        INVALID_ARGUMENT for a view no bot understands.
        """
        if question.level is Level.HARD:
            thought = await (self._hint(question, asker) if asker else self._searched(question))
            if not isinstance(thought, Baffled):
                return thought
            metrics.SHEDS.of("baffled").inc()
            log.get().error("bot_baffled", kind=question.game, error=thought.error)
            question = question.at(INSTEAD)
        thought = think(question)
        if isinstance(thought, Baffled):
            log.get().warning("bot_baffled", kind=question.game, error=thought.error)
            raise invalid("view", "does not fit together")
        return thought

    async def _hint(self, question: Question, asker: str) -> Thought | Baffled:
        """A hint waits for its place; a second one of the same player does not."""
        if asker in self._asking:
            return _shed(question, "full")
        self._asking.add(asker)
        try:
            async with asyncio.timeout(_patience_s(question)):
                await self._hints.acquire()
            try:
                return await self._searched(question)
            finally:
                self._hints.release()
        except TimeoutError:
            return _shed(question, "slow")
        finally:
            self._asking.discard(asker)

    async def _searched(self, question: Question) -> Thought | Baffled:
        try:
            return await self._workers.think(question, _patience_s(question))
        except (TimeoutError, WorkerDied, Busy) as error:
            log.get().warning("bot_plays_lower", kind=question.game, **log.failure(error))
            return _shed(question, CAUSES[type(error)])


def _shed(question: Question, cause: str) -> Thought | Baffled:
    """The thought of the level that answers instead."""
    metrics.SHEDS.of(cause).inc()
    return think(question.at(INSTEAD))


def _patience_s(question: Question) -> float:
    wanted = PATIENCE_MS + STRETCH * (question.budget.cpu_ms or 0)
    call = current()
    left = call.remaining_ms() if call is not None else None
    return (wanted if left is None else max(min(wanted, left - RESERVE_MS), 1)) / 1_000
