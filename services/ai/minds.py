"""Where a move is thought about: at once what takes no time, in a worker what may take some."""

from services.ai.bots import Level
from services.ai.roster import BUDGET_MS
from services.ai.thinking import Baffled, Question, Thought, think
from services.ai.workers import WorkerDied, Workers
from services.kernel.errors import invalid
from services.runtime import log
from services.runtime.call import current

RESERVE_MS = 100
"""What of a caller's patience is left for everything but thinking."""
INSTEAD = Level.NORMAL
"""The level that answers when a worker cannot."""


class Minds:
    """Answers questions; the levels that do not search are answered where they are asked.

    They take a tenth of a millisecond, less than the way to a worker and back.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def think(self, question: Question, budget_ms: int) -> Thought:
        """The thought, `budget_ms` (0: the level's own) at most.

        When time is up or a worker dies the answer is that of the highest level that needs none.
        Raises Refused: INVALID_ARGUMENT for a view no bot understands, RESOURCE_EXHAUSTED.
        """
        if question.level is not Level.HARD:
            return _understood(think(question))
        try:
            thought = await self._workers.think(question, _seconds(question.level, budget_ms))
        except (TimeoutError, WorkerDied) as error:
            log.get().warning("bot_plays_lower", kind=question.game, **log.failure(error))
            lower = Question(question.game, question.view, question.history, INSTEAD, question.seed)
            thought = think(lower)
        return _understood(thought)


def _understood(thought: Thought | Baffled) -> Thought:
    if isinstance(thought, Baffled):
        log.get().warning("bot_baffled", error=thought.error)
        raise invalid("view", "does not fit together")
    return thought


def _seconds(level: Level, budget_ms: int) -> float:
    call = current()
    left = call.remaining_ms() if call is not None else None
    asked = budget_ms or BUDGET_MS[level]
    return (asked if left is None else max(min(asked, left - RESERVE_MS), 1)) / 1_000
