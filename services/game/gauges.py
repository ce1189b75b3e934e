"""What metrics say of the games at the moment they are asked for."""

from sqlalchemy import distinct, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.checkpoints import Checkpointer
from services.game.steps import Steps
from services.runtime import metrics
from services.runtime.database import read
from services.runtime.exposition import Reading
from services.runtime.store.schema import work

RUNNING = select(func.count(distinct(work.c.stream))).where(work.c.kind.in_(("seeds", "turn")))
"""A game under way waits for seeds or for somebody's move, and for nothing else has such a row."""


def gauges(engine: AsyncEngine, steps: Steps, checkpointer: Checkpointer) -> Reading:
    """Brings the gauges of games, watchers and checkpoints up to date."""

    async def read_gauges() -> None:
        tail = checkpointer.tail()
        metrics.UNCOVERED.of().set(tail.games)
        metrics.CHECKPOINT_AGE.of().set(tail.age_ms / 1_000)
        metrics.GAMES_WATCHED.of().set(steps.watched)
        metrics.WATCHERS.of().set(steps.watchers)
        async with read(engine) as connection:
            metrics.GAMES_RUNNING.of().set((await connection.execute(RUNNING)).scalar_one())

    return read_gauges
