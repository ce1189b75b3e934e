"""The listed tables, for everybody who watches them: one poll a process, not one a watcher.

The newest `SHOWN_MAX` open tables are shown. A table that closes stays for a while at its last
version, so that those who were shown it are told.
"""

import asyncio
from collections import OrderedDict
from uuid import UUID

from services.lobby.evolve import TAG_OPEN
from services.runtime import log
from services.runtime.store.api import Store, StoreUnavailable

SHOWN_MAX = 200
"""The most open tables that are shown."""
INTERVAL_S = 1.0
GAP_S = 0.05
"""The least time between two looks, however much happens."""


class Board:
    """Which listed tables there are, and at which versions."""

    def __init__(self, store: Store, interval_s: float = INTERVAL_S) -> None:
        self._store = store
        self._interval_s = interval_s
        self._open: dict[UUID, int] = {}
        self._closed: OrderedDict[UUID, int] = OrderedDict()
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._watchers = 0

    def published(self, _table: UUID, _version: int) -> None:
        """Something was appended in this process."""
        self._woken.set()

    def enter(self) -> None:
        """Somebody watches."""
        self._watchers += 1
        self._woken.set()

    def leave(self) -> None:
        """Somebody watches no more."""
        self._watchers -= 1

    def news(self, seen: dict[UUID, int]) -> list[tuple[UUID, int]]:
        """Tables beyond the versions a watcher has seen, closed ones only if he saw them open."""
        fresh = [(t, v) for t, v in self._open.items() if v > seen.get(t, 0)]
        gone = [(t, v) for t, v in self._closed.items() if t in seen and v > seen[t]]
        return fresh + gone

    def next_change(self) -> asyncio.Event:
        """Set at the next change. To miss none, take it before asking for news."""
        return self._changed

    async def run(self) -> None:
        """For ever, while anybody watches: look when woken or when the interval has passed."""
        while True:
            self._woken.clear()
            if self._watchers:
                await self._look()
            await asyncio.sleep(GAP_S)
            try:
                async with asyncio.timeout(self._interval_s if self._watchers else None):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        try:
            heads = await self._store.tagged(TAG_OPEN, limit=SHOWN_MAX, ended=False)
            found = {head.stream: head.version for head in heads}
            missing = [table for table in self._open if table not in found]
            for head in (await self._store.heads(missing)).values() if missing else ():
                if head.ended:
                    self._closed[head.stream] = head.version
        except StoreUnavailable:
            log.get().warning("board_waits_for_the_store")
            return
        while len(self._closed) > SHOWN_MAX:
            self._closed.popitem(last=False)
        if found != self._open:
            self._open = found
            self._changed.set()
            self._changed = asyncio.Event()
