"""Draining: how a process that must stop lets go of its calls and streams."""

import asyncio
from typing import Any


class Drain:
    """The stages of a shutdown.

    `started` is set first: streams end themselves, saying how to resume, and new ones are refused.
    Then `end_streams` cancels the streams that are left, and new calls are refused too.
    """

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.closed = False
        self._streams: set[asyncio.Task[Any]] = set()

    def refuses(self, *, stream: bool) -> bool:
        """Whether a new call (or stream) is refused."""
        return self.closed or (stream and self.started.is_set())

    def enter(self, stream: asyncio.Task[Any]) -> None:
        """A stream runs in this task."""
        self._streams.add(stream)

    def leave(self, stream: asyncio.Task[Any]) -> None:
        """The stream in this task has ended."""
        self._streams.discard(stream)

    async def wait_streams(self, at_most_ms: int) -> None:
        """Wait until the streams that run now have ended, but not longer than this."""
        if self._streams:
            await asyncio.wait(self._streams, timeout=at_most_ms / 1000)

    def end_streams(self) -> None:
        """Cancel streams that have not ended by themselves; their clients are told DRAINING."""
        self.closed = True
        for stream in tuple(self._streams):
            stream.cancel()
