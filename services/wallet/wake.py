"""Waking watchers of accounts that changed in this process; polling finds what others changed."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID


class Wake:
    """Who waits for which account."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[asyncio.Event]] = {}

    @contextmanager
    def watch(self, account: UUID) -> Iterator[asyncio.Event]:
        """An event that is set at every change of the account; the watcher clears it."""
        event = asyncio.Event()
        self._waiting.setdefault(account, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiting[account]
            waiting.discard(event)
            if not waiting:
                del self._waiting[account]

    def changed(self, accounts: Iterable[UUID]) -> None:
        """Wake whoever watches one of these accounts."""
        for account in accounts:
            for event in self._waiting.get(account, ()):
                event.set()
