"""The committer: commands that arrive together are committed together, one batch after another.

A batch is whatever has arrived when the one before it is done; nothing waits for more to come. Each
command of a batch is accepted or refused alone, and nobody is answered before the batch is on disk.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.records import maker
from services.kernel.errors import Kind, Refused, unavailable
from services.runtime import log, metrics
from services.runtime.database import DATABASE_ERRORS
from services.runtime.moments import new_id
from services.runtime.store.api import StoreUnavailable
from services.wallet.batch import Asked, Batch, Found, Wanted, Writing, wanted
from services.wallet.postgres import Contended, Doubtful, Fold
from services.wallet.wake import Wake

BATCH_MAX = 256
"""Most commands of one transaction."""
QUEUE_MAX = 4_096
"""Most commands that wait; more are refused at once."""
RETRY_MS = 200

Outcome = bytes | Exception


class CommitterDied(Exception):
    """The committer met a fault of its own and carries nothing out any more."""


class Database(Protocol):
    """The books in a database, PostgreSQL or SQLite."""

    async def commit(self, wanted: Wanted, fold: Fold) -> None:
        """Fold a batch from what there is and write what it leaves, whole or not at all.

        Raises Contended, and StoreUnavailable: then the outcome is unknown.
        """
        ...

    async def find(self, wanted: Wanted) -> Found:
        """What there is of what is wanted."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A command with the future of its answer."""

    asked: Asked
    answer: asyncio.Future[bytes]

    def tell(self, outcome: Outcome) -> None:
        """Answer whoever waits, if anybody still does."""
        if self.answer.done():
            return
        if isinstance(outcome, bytes):
            self.answer.set_result(outcome)
        else:
            self.answer.set_exception(outcome)
            self.answer.exception()  # whoever was cancelled will not ask for it


_waiting = maker(Waiting)


class Committer:
    """Carries commands out on one database, those that wait together in one transaction."""

    def __init__(self, database: Database, wake: Wake, queue_max: int = QUEUE_MAX) -> None:
        self._database = database
        self._wake = wake
        self._queue_max = queue_max
        self._queue: deque[Waiting] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._fault: BaseException | None = None
        self._died = asyncio.Event()

    def submit(self, asked: Asked) -> asyncio.Future[bytes]:
        """Queue a command; the future holds its answer, or what it was refused for.

        Raises Refused RESOURCE_EXHAUSTED `TOO_MANY_WAITING` at once when the queue is full, and
        CommitterDied.
        """
        self.check()
        if len(self._queue) >= self._queue_max:
            raise Refused(
                Kind.EXHAUSTED,
                "TOO_MANY_WAITING",
                "too many commands wait for the database; try again",
                retry_after_ms=RETRY_MS,
            )
        if self._loop is None or self._work is None:
            self._loop = asyncio.get_running_loop()  # which asks the system each time
        waiting = _waiting(asked, self._loop.create_future())
        self._queue.append(waiting)
        if self._work is None:
            self._work = self._loop.create_task(self._run(), name="committer")
        return waiting.answer

    def check(self) -> None:
        """Raise CommitterDied if it carries nothing out any more."""
        if self._fault is not None:
            raise CommitterDied from self._fault

    async def watch(self) -> None:
        """Wait for its end, which should never come; raises CommitterDied."""
        await self._died.wait()
        self.check()

    async def finish(self) -> None:
        """Wait until nothing is queued or under way."""
        while self._work is not None:
            await asyncio.wait((self._work,))

    async def _run(self) -> None:
        """Commit batches until nothing waits. A fault that is not the database's is the end."""
        batch: list[Waiting] = []
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
                await self._commit(batch)
        except BaseException as error:
            self._fault = error
            self._died.set()
            for waiting in (*batch, *self._queue):
                waiting.tell(CommitterDied())
            self._queue.clear()
            if not isinstance(error, Exception):
                raise
            log.get().error("committer_died", **log.failure(error))
        finally:
            self._work = None

    async def _commit(self, batch: Sequence[Waiting]) -> None:
        """Carry a batch out and answer everyone in it."""
        folded = Folded([waiting.asked for waiting in batch])
        try:
            await self._database.commit(wanted(folded.asked), folded.fold)
        except StoreUnavailable as error:
            await self._settle_unknown(batch, folded, error)
        except Contended:
            refusal = unavailable("CONTENTION", "others change the same accounts; try again")
            self._tell(batch, [refusal] * len(batch))
        except (*DATABASE_ERRORS, ValueError, OverflowError) as error:
            if len(batch) == 1:
                self._tell(batch, [error])
                return
            for waiting in batch:  # one of them cannot be stored: the others go on without it
                await self._commit((waiting,))
        else:
            if folded.writing is not None:
                self._wake.changed(folded.writing.changed)
            metrics.COMMAND_BATCHES.of().observe(len(batch))
            self._tell(batch, folded.outcomes)

    async def _settle_unknown(
        self, batch: Sequence[Waiting], folded: "Folded", error: StoreUnavailable
    ) -> None:
        """The connection was lost or the database refused: look what is stored before answering.

        What is found was committed, and the batch with it. What is not found may still be: whoever
        asked is told that the outcome is unknown, and the same request again tells it.
        """
        answers = {} if folded.writing is None else folded.writing.answers
        if answers:
            keys = Wanted(requests=tuple(answers))
            try:
                stored = (await self._database.find(keys)).answers
            except (StoreUnavailable, *DATABASE_ERRORS):
                stored = {}
            if all(stored.get(key) == answer for key, answer in answers.items()):
                self._wake.changed(folded.writing.changed if folded.writing else ())
                self._tell(batch, folded.outcomes)
                return
        self._tell(batch, [error] * len(batch))

    def _tell(self, batch: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.tell(outcome)
        for name, count in Counter(map(_named, outcomes)).items():
            metrics.COMMANDS.of(name).inc(count)


def _named(outcome: Outcome) -> str:
    """How metrics name what became of a command."""
    if isinstance(outcome, bytes):
        return "done"
    return "refused" if isinstance(outcome, Refused) else "failed"


class Folded:
    """The commands of a batch and what became of each, the last time they were folded."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.asked = asked
        self.outcomes: list[Outcome] = []
        self.writing: Writing | None = None

    def fold(self, found: Found) -> Writing | None:
        """Carry the commands out on what was found; None when nothing is to be written.

        Raises Doubtful if one was refused, or would change nothing, because of what is remembered.
        """
        batch = Batch(found, new_id)
        self.outcomes = [outcome_of(batch, asked) for asked in self.asked]
        refused = any(isinstance(outcome, Exception) for outcome in self.outcomes)
        if found.is_remembered and (refused or batch.is_idle):
            raise Doubtful
        self.writing = batch.writing() if batch.has_changed() else None
        return self.writing


def outcome_of(batch: Batch, asked: Asked) -> Outcome:
    """The answer to a command, or what it ends with instead: then it has changed nothing."""
    try:
        return batch.carry_out(asked)
    except Exception as error:  # noqa: BLE001 - a fault in one command is told to its caller alone
        return error
