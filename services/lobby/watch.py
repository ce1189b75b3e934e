"""Following tables: the present state at once, each change after it, a heartbeat in between."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import unavailable
from services.lobby.board import Board
from services.lobby.model import Phase, Table, Variant
from services.lobby.tables import Tables
from services.runtime.drain import Drain
from services.runtime.feed import Feed

Reply = lobby_pb2.WatchTablesResponse


class Watching:
    """The streams of one process; they end when it drains, to be taken up at another.

    `heartbeat_s` is the longest silence of a stream.
    """

    def __init__(
        self,
        tables: Tables,
        feed: Feed,
        board: Board,
        drain: Drain,
        heartbeat_s: float,
    ) -> None:
        self._tables = tables
        self._feed = feed
        self._board = board
        self._drain = drain
        self._heartbeat_s = heartbeat_s

    async def one(self, table_id: UUID, viewer: UUID | None, code: str) -> AsyncIterator[Reply]:
        """Follow a table until it closes; raises Refused once the viewer may not see it."""
        sent = 0
        while True:
            table = await self._tables.see(table_id, viewer, code)
            if table.version > sent:
                sent = table.version
                yield Reply(table=await self._tables.show(table_id, table, viewer))
                if table.phase is Phase.CLOSED:
                    return
            else:
                yield Reply()
            await self._wait(self._feed.wait(table_id, sent, self._heartbeat_s))

    async def public(self, viewer: UUID | None, wanted: Variant | None) -> AsyncIterator[Reply]:
        """Follow the listed tables, of one game or of all."""
        seen: dict[UUID, int] = {}
        clock = asyncio.get_running_loop().time
        spoken = clock()
        self._board.enter()
        try:
            while True:
                change = self._board.next_change()
                for table_id, version in self._board.news(seen):
                    seen[table_id] = version
                    table = await self._tables.see(table_id, None)
                    if wanted is None or _is(table, wanted):
                        yield Reply(table=await self._tables.show(table_id, table, viewer))
                        spoken = clock()
                # tables of other games change meanwhile, and are nothing to this watcher
                silent = spoken + self._heartbeat_s - clock()
                if silent <= 0 or not await self._wait(_within(change.wait, silent)):
                    yield Reply()
                    spoken = clock()
        finally:
            self._board.leave()

    async def _wait(self, waiting: Coroutine[Any, Any, int]) -> int:
        """What `waiting` gives; raises Refused DRAINING when the process is to stop first."""
        news = asyncio.ensure_future(waiting)
        stop = asyncio.ensure_future(self._drain.started.wait())
        try:
            await asyncio.wait((news, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not news.done():
                news.cancel()
        if self._drain.started.is_set():  # the feed stops too, and would answer at once
            raise unavailable("DRAINING", "this process is shutting down; watch again", 500)
        return news.result()


def _is(table: Table, variant: Variant) -> bool:
    return table.rules is not None and table.rules.variant is variant


async def _within(wait: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> int:
    """1 if it came in time, else 0."""
    try:
        async with asyncio.timeout(seconds):
            await wait()
    except TimeoutError:
        return 0
    return 1
