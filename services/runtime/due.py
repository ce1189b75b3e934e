"""The worker for what is due: claims rows, has them handled, tries again what failed.

Every replica runs one. A row is handled at least once; a handler makes that once in effect by
deriving the request id of what it does from the row, and either names the row in `plan.done` of
its append (then row and outcome go together) or just returns, and the row is dropped.
"""

import asyncio
import math
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from services.kernel.envelope import Claimed, Plan
from services.kernel.errors import Refused
from services.runtime import metrics, traces
from services.runtime.store.api import Store, StoreUnavailable

if TYPE_CHECKING:
    from services.runtime.spans import Tracing

log = structlog.get_logger(__name__)

Handler = Callable[[str, Claimed], Awaitable[None]]
"""`handler(kind, claimed)`: returns when the work is done, raises to have it tried again later."""

OTHERS_TOOK_IT_MS = 20
"""How long to leave alone what others are claiming at this moment."""
LEFT_KEPT = 1_000
"""How many streams are kept in mind that only others can work on."""
STALE_SECONDS = 30.0
"""A loop that has not come round for so long counts as dead."""


class DueWorker:
    """Works off the due rows of one store, up to `concurrency` at a time.

    A handler has four fifths of `lease_ms`. What failed comes back after `retry_ms`, doubling up
    to `retry_max_ms`, give or take a half by `chance` (0 … 1); what was Refused for longer than
    that, when the refusal says. A database that is gone is looked for every `idle_ms`, however
    long that takes: what became due meanwhile shall not wait any longer when it is back. What was
    Refused for a reason in `elsewhere` only other processes can do: it is given back at once, and
    nothing of its stream is claimed here again.

    The worker keeps in mind when the next row is due: what the database said when it last looked,
    and what appends of this process have asked for since (`expect`). `idle_ms` bounds the sleep, so
    work that another process asked for is found without being told.
    """

    def __init__(
        self,
        store: Store,
        handler: Handler,
        *,
        name: str,
        concurrency: int = 8,
        lease_ms: int = 30_000,
        idle_ms: int = 1_000,
        retry_ms: int = 500,
        retry_max_ms: int = 30_000,
        chance: Callable[[], float] = random.random,
        elsewhere: Collection[str] = (),
        tracing: "Tracing | None" = None,
    ) -> None:
        self._store = store
        self._handler = handler
        self._name = name
        self._concurrency = concurrency
        self._lease_ms = lease_ms
        self._idle_ms = idle_ms
        self._retry_ms = retry_ms
        self._retry_max_ms = retry_max_ms
        self._chance = chance
        self._elsewhere = elsewhere
        self._tracing = tracing
        self._left: OrderedDict[UUID, None] = OrderedDict()
        self._woken = asyncio.Event()
        self._stopping = False
        self._working: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._next_at = math.inf
        self._came_round = 0.0
        self._failures = 0

    def start(self) -> None:
        """Begins to work."""
        self._came_round = time.monotonic()
        self._loop = asyncio.create_task(self._run(), name=f"due {self._name}")

    def wake(self, after_ms: int = 0) -> None:
        """Says that something is due after so long."""
        at = asyncio.get_running_loop().time() + after_ms / 1_000
        if at < self._next_at:
            self._next_at = at
            self._woken.set()

    def expect(self, stream: UUID, plan: Plan) -> None:
        """Says what an append to a stream, made by this process, asks for."""
        if plan.due:
            self.wake(min(work.after_ms for work in plan.due))
            if self._tracing is not None:
                self._tracing.expect(stream, plan.due)

    @property
    def healthy(self) -> bool:
        """Whether the loop lives and has come round lately."""
        alive = self._loop is not None and not self._loop.done()
        return alive and time.monotonic() - self._came_round < STALE_SECONDS

    @property
    def working(self) -> int:
        """How many rows are being handled."""
        return len(self._working)

    async def stop(self, grace_s: float = 10.0) -> None:
        """Claims no more and lets what is being handled finish, up to `grace_s` seconds.

        What is cut off then comes back to another worker when its lease ends.
        """
        self._stopping = True
        self._woken.set()
        if self._loop is not None:
            await asyncio.wait([self._loop])
        if self._working:
            _, late = await asyncio.wait(self._working, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _run(self) -> None:
        while not self._stopping:
            self._came_round = time.monotonic()
            self._next_at = math.inf
            try:
                pause_ms = await self._round()
                self._failures = 0
            except StoreUnavailable as error:
                if not self._failures:
                    log.warning("due_store_unavailable", worker=self._name, problem=str(error))
                pause_ms = self._failed()
            except Exception:
                log.exception("due_loop_failed", worker=self._name)
                pause_ms = self._failed()
            await self._sleep(pause_ms)

    def _failed(self) -> int:
        self._failures += 1
        return min(self._backoff_ms(self._failures), self._idle_ms)

    async def _sleep(self, pause_ms: int) -> None:
        """Until then, or until something is due of which it was told since the round began."""
        clock = asyncio.get_running_loop().time
        self._next_at = min(self._next_at, clock() + pause_ms / 1_000)
        while not self._stopping and (left := self._next_at - clock()) > 0:
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._woken.wait()

    async def _round(self) -> int:
        """Claims what is due and starts it; how long to sleep then, milliseconds."""
        free = self._concurrency - len(self._working)
        if free <= 0:
            return self._idle_ms
        most = 1 << free.bit_length() - 1  # for each number a database keeps a plan
        found = await self._store.claim(self._name, most, self._lease_ms, tuple(self._left))
        for claimed in found:
            task = asyncio.create_task(self._work(claimed), name=f"due {claimed.kind}")
            self._working.add(task)
            task.add_done_callback(self._worked)
        if len(found) == most:  # perhaps there is more
            return 0 if len(self._working) < self._concurrency else self._idle_ms
        next_ms = await self._store.next_due_ms(tuple(self._left))
        if next_ms is None:
            return self._idle_ms
        # what is due and was not claimed, others are claiming at this moment
        return min(next_ms or OTHERS_TOOK_IT_MS, self._idle_ms)

    def _worked(self, task: asyncio.Task[None]) -> None:
        full = len(self._working) == self._concurrency
        self._working.discard(task)
        if full:
            self.wake()

    async def _work(self, claimed: Claimed) -> None:
        facts = {
            "kind": claimed.kind,
            "stream": str(claimed.stream),
            "version": claimed.version,
            "attempts": claimed.attempts,
        }
        after_ms, outcome = self._backoff_ms(claimed.attempts), "failed"
        try:
            with traces.NOTHING if self._tracing is None else self._tracing.working(claimed):
                async with asyncio.timeout(self._lease_ms * 0.8 / 1_000):
                    await self._handler(claimed.kind, claimed)
            await self._store.drop(claimed)
            if self._tracing is not None:
                self._tracing.worked(claimed)
            metrics.DUE_WORKED.of(claimed.kind, "done").inc()
            return
        except Refused as refused:
            if refused.reason in self._elsewhere:
                await self._leave(claimed, refused.reason)
                return
            outcome = "refused"
            log.warning("due_refused", reason=refused.reason, **facts)
            if (refused.retry_after_ms or 0) > self._retry_max_ms:
                after_ms = refused.retry_after_ms or 0
        except StoreUnavailable as error:
            log.warning("due_store_unavailable", problem=str(error), **facts)
        except TimeoutError:
            log.warning("due_too_slow", **facts)
        except Exception:
            log.exception("due_failed", **facts)
        metrics.DUE_WORKED.of(claimed.kind, outcome).inc()
        try:
            await self._store.postpone(claimed, after_ms)
            self.wake(after_ms)
        except StoreUnavailable as error:
            log.warning("due_left_to_its_lease", problem=str(error), **facts)

    async def _leave(self, claimed: Claimed, reason: str) -> None:
        """Gives a row back at once, and leaves its stream to processes that can work on it."""
        metrics.DUE_WORKED.of(claimed.kind, "left").inc()
        log.info("due_left_to_others", stream=str(claimed.stream), reason=reason)
        self._left[claimed.stream] = None
        if len(self._left) > LEFT_KEPT:
            self._left.popitem(last=False)
        with suppress(StoreUnavailable):  # then its lease ends
            await self._store.postpone(claimed, 0)

    def _backoff_ms(self, attempts: int) -> int:
        longest = min(self._retry_max_ms, self._retry_ms * 2 ** min(attempts - 1, 20))
        return max(1, int(longest * (0.5 + self._chance())))
