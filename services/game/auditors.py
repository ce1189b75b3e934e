"""Processes that check many games, so that the event loop need not and both cores are used.

They are fresh interpreters (spawned) that read the database by themselves, beside the service, and
give way to it. They are started by the first audit and end when none has come for a while.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import aclosing
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.audit import Fault
from services.game.checking import Beside, Checked, check_game, look_beside, read_ahead
from services.kernel.errors import unavailable
from services.runtime import log
from services.runtime.database import open_reader
from services.runtime.keys import master_keys
from services.runtime.settings import Settings
from services.runtime.store.api import Log, StoreUnavailable
from services.runtime.store.sealing import KeyUnknown
from services.runtime.store.sql import SqlStore

GAMES_AT_ONCE = 16
"""How many games one of them is given to check before it answers."""
IDLE_SECONDS = 30.0
NICE = 10
"""How far they give way to whoever plays."""

Answer = tuple[UUID, Checked]


class Auditors:
    """Up to `count` processes for one service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._count = settings.audit_workers
        self._pool: ProcessPoolExecutor | None = None
        self._asked = 0
        self._ending: asyncio.TimerHandle | None = None

    async def check(self, games: Sequence[UUID]) -> AsyncGenerator[list[Answer], None]:
        """What is found in each of the games, in order, some at a time.

        No more is begun than is soon taken. Raises Refused UNAVAILABLE: STORE_UNAVAILABLE,
        AUDITORS_DIED.
        """
        waiting: deque[asyncio.Future[list[Answer] | None]] = deque()
        todo = deque(
            games[start : start + GAMES_AT_ONCE] for start in range(0, len(games), GAMES_AT_ONCE)
        )
        self._begin()
        try:
            while todo or waiting:
                while todo and len(waiting) < 2 * self._count:
                    waiting.append(self._ask(todo.popleft()))
                answers = await waiting.popleft()
                if answers is None:
                    raise unavailable("STORE_UNAVAILABLE", "The database does not answer.")
                yield answers
        except BrokenProcessPool:
            self.close()
            raise unavailable("AUDITORS_DIED", "what checks the games has died") from None
        finally:
            for asked in waiting:
                asked.cancel()
            self._end()

    def close(self) -> None:
        """End the processes once they are done with what they have begun."""
        if self._ending is not None:
            self._ending.cancel()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, games: Sequence[UUID]) -> asyncio.Future[list[Answer] | None]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._count,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=begin,
                initargs=(self._settings,),
            )
        return asyncio.get_running_loop().run_in_executor(self._pool, check_games, games)

    def _begin(self) -> None:
        self._asked += 1
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        self._asked -= 1
        if not self._asked and self._pool is not None:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(IDLE_SECONDS, self.close)


# ---------------------------------------------------------------------------------- in the process


@dataclass(frozen=True, slots=True)
class Reading:
    """What such a process works with."""

    loop: asyncio.AbstractEventLoop
    engine: AsyncEngine
    store: SqlStore


READING: list[Reading] = []


def begin(settings: Settings) -> None:
    """Make ready: read the database, give way, and end with the service."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    log.configure("game", settings.log_level, settings.log_format)
    threading.Thread(target=end_with_parent, daemon=True).start()
    engine = open_reader(settings.database_url("game"))
    store = SqlStore(engine, master_keys(settings))
    READING.append(Reading(asyncio.new_event_loop(), engine, store))


def end_with_parent() -> None:
    """A service that was killed leaves nobody behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def check_games(games: Sequence[UUID]) -> list[Answer] | None:
    """Check some games, one after the other; None when the database does not answer."""
    (reading,) = READING
    try:
        return reading.loop.run_until_complete(check_each(reading, games))
    except StoreUnavailable:
        return None


async def check_each(reading: Reading, games: Sequence[UUID]) -> list[Answer]:
    """What is found in each game. Raises StoreUnavailable."""
    beside = await look_beside(reading.engine, games)
    async with aclosing(read_ahead(reading.store, games)) as logs:
        return [(game, await check(reading, game, beside[game], read)) async for game, read in logs]


async def check(reading: Reading, game: UUID, beside: Beside, read: Log | None) -> Checked:
    """Check a game, whose log was read or is to be; why it cannot be checked is a fault of it.

    Raises StoreUnavailable.
    """
    try:
        if checked := await check_game(
            reading.engine, reading.store, game, beside=beside, log=read
        ):
            return checked
        fault = Fault(0, "GAME_MISSING", "it was there a moment ago")
    except KeyUnknown as error:
        fault = Fault(0, "LOG_SEALED", f"the master key {error.key_id!r} is missing")
    return Checked(0, 0, 0, (fault,))
