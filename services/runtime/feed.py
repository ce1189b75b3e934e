"""Waking those who watch streams: at once after an append of this process, by polling otherwise.

Polling the heads of the watched streams finds what other processes appended, and whatever a lost
wake-up would hide. A relay between processes needs only to call `published`. Whoever wants the news
of a stream once waits for it; whoever wants all of it follows the stream.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import structlog

from services.runtime import metrics
from services.runtime.store.api import StoreUnavailable

log = structlog.get_logger(__name__)

REMEMBERED = 10_000
"""Of how many streams the last published version is kept, watched or not."""


class Versioned(Protocol):
    """Where a stream stands."""

    @property
    def version(self) -> int:
        """Its version."""


class Heads(Protocol):
    """What has streams with versions that only grow: a store of events, the talk of tables."""

    async def heads(self, streams: Sequence[UUID]) -> Mapping[UUID, Versioned]:
        """Where those of these streams stand that there are; raises StoreUnavailable."""
        ...


class Feed:
    """The news of one store. Start it to poll; it wakes waiters of this process without."""

    def __init__(self, store: Heads, *, interval_ms: int = 500) -> None:
        self._store = store
        self._interval = interval_ms / 1_000
        self._known: OrderedDict[UUID, int] = OrderedDict()
        self._waiting: dict[UUID, set[asyncio.Future[None]]] = {}
        self._following: dict[UUID, list[Callable[[UUID], None]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._stopped = False

    def published(self, stream: UUID, version: int) -> None:
        """Says that the stream has reached this version; an older one than known is no news."""
        if version > self._known.get(stream, 0):
            self._known[stream] = version
            self._known.move_to_end(stream)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            self._wake(stream)

    def known(self, stream: UUID) -> int:
        """The last version that was published of a stream, 0 where none is remembered."""
        return self._known.get(stream, 0)

    def forget(self, stream: UUID, version: int) -> None:
        """Says that the database does not know this version: it lost it when it failed over."""
        if self._known.get(stream) == version:
            del self._known[stream]

    async def wait(self, stream: UUID, after: int, timeout_s: float) -> int:
        """Waits until the stream is known to have a version above `after`, and returns it.

        Returns `after` when that did not happen within `timeout_s` seconds or the feed stopped.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while (known := self._known.get(stream, 0)) <= after and not self._stopped:
            if loop.time() >= until:
                return after
            waiter = loop.create_future()
            self._waiting.setdefault(stream, set()).add(waiter)
            timer = loop.call_at(until, _wake, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._go(stream, waiter)
        return max(known, after)

    def follow(self, stream: UUID, heard: Callable[[UUID], None]) -> None:
        """From now on `heard` is called whenever the stream is known to have a newer version, and
        when the feed stops."""
        self._following.setdefault(stream, []).append(heard)

    def leave(self, stream: UUID, heard: Callable[[UUID], None]) -> None:
        """Follow the stream no more."""
        following = self._following[stream]
        following.remove(heard)
        if not following:
            del self._following[stream]

    @property
    def watched(self) -> int:
        """How many streams are being waited for or followed."""
        return len(self._watched())

    @property
    def stopped(self) -> bool:
        """Whether it has been stopped and tells nothing any more."""
        return self._stopped

    @property
    def healthy(self) -> bool:
        """Whether the polling goes on."""
        return self._polling is not None and not self._polling.done()

    def start(self) -> None:
        """Begins to poll."""
        self._polling = asyncio.create_task(self._poll(), name="feed")

    async def stop(self) -> None:
        """Ends the polling and sends every waiter home."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        self._stopped = True
        for stream in self._watched():
            self._wake(stream)

    def _watched(self) -> list[UUID]:
        """The streams that are waited for or followed, in an order that does not change."""
        return [*dict.fromkeys((*self._waiting, *self._following))]

    def _wake(self, stream: UUID) -> None:
        for heard in tuple(self._following.get(stream, ())):
            heard(stream)
        for waiter in self._waiting.pop(stream, ()):
            _wake(waiter)

    def _go(self, stream: UUID, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(stream)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[stream]

    async def _poll(self) -> None:
        reachable = True
        while True:
            await asyncio.sleep(self._interval)
            if not (watched := self._watched()):
                continue
            try:
                found = await self._store.heads(watched)
            except StoreUnavailable as error:
                metrics.FEED_POLLS.of("failed").inc()
                if reachable:
                    log.warning("feed_cannot_poll", problem=str(error))
                reachable = False
                continue
            except Exception:
                metrics.FEED_POLLS.of("failed").inc()
                log.exception("feed_failed")
                continue
            metrics.FEED_POLLS.of("done").inc()
            reachable = True
            for stream, head in found.items():
                self.published(stream, head.version)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
