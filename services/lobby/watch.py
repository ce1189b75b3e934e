"""Following tables: the present state at once, each change after it, a heartbeat in between."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias
from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import unavailable
from services.lobby.directory import Directory
from services.lobby.filters import Wanted, candidates, fits
from services.lobby.model import Phase, Table
from services.lobby.seeing import may_see
from services.lobby.tables import Tables
from services.runtime.drain import Drain
from services.runtime.feed import Feed

Reply = lobby_pb2.WatchTablesResponse
Change: TypeAlias = lobby_pb2.TableChange.ValueType

SHOWN_MAX = 200
"""The most tables that a stream of many begins with."""
FOLLOWED_MAX = 400
"""The most tables that one stream follows."""


class Watching:
    """The streams of one process; they end when it drains, to be taken up at another.

    `heartbeat_s` is the longest silence of a stream.
    """

    def __init__(
        self,
        tables: Tables,
        feed: Feed,
        directory: Directory,
        drain: Drain,
        heartbeat_s: float,
    ) -> None:
        self._tables = tables
        self._feed = feed
        self._directory = directory
        self._drain = drain
        self._heartbeat_s = heartbeat_s

    async def one(self, table_id: UUID, viewer: UUID | None, code: str) -> AsyncIterator[Reply]:
        """Follow a table until it closes; raises Refused once the viewer may not see it."""
        sent = told = 0
        while True:
            table = await self._tables.see(table_id, viewer, code)
            if table.version < told:
                self._feed.forget(table_id, told)
            if table.version > sent:
                sent = table.version
                yield Reply(table=await self._tables.show(table_id, table, viewer))
                if table.phase is Phase.CLOSED:
                    return
            else:
                yield Reply()
            told = await self._wait(self._feed.wait(table_id, sent, self._heartbeat_s))

    async def many(self, asked: Wanted) -> AsyncIterator[Reply]:
        """Follow the tables that fit: those there are, the newest `SHOWN_MAX`, and what changes."""
        await self._directory.fresh()
        clock = asyncio.get_running_loop().time
        told = Told(self._directory, asked)
        self._directory.enter()
        try:
            for change, table_id, table in told.all():
                yield await self._change(change, table_id, table, asked.viewer)
            yield Reply(change=lobby_pb2.TABLE_CHANGE_COMPLETE)
            spoken = clock()
            while True:
                following = self._directory.next_change()
                for change, table_id, table in told.news():
                    yield await self._change(change, table_id, table, asked.viewer)
                    spoken = clock()
                # other tables change meanwhile, and are nothing to this watcher
                silent = spoken + self._heartbeat_s - clock()
                if silent <= 0 or not await self._wait(_within(following.wait, silent)):
                    yield Reply()
                    spoken = clock()
        finally:
            self._directory.leave()

    async def _change(
        self, change: Change, table_id: UUID, table: Table | None, viewer: UUID | None
    ) -> Reply:
        reply = Reply(change=change, table_id=str(table_id))
        if table is not None and (viewer is None or may_see(table, viewer)):
            reply.table.CopyFrom(await self._tables.show(table_id, table, viewer))
        return reply

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


class Told:
    """What one watcher has been told of, and what he is to be told next.

    He follows `FOLLOWED_MAX` tables at most: those opened longest ago are let go for others.
    """

    def __init__(self, directory: Directory, asked: Wanted) -> None:
        self._directory = directory
        self._asked = asked
        self._number = directory.number
        self._told: set[UUID] = set()

    def all(self) -> list[tuple[Change, UUID, Table | None]]:
        """The tables there are, the newest first."""
        found = []
        for table_id, table in candidates(self._directory, self._asked):
            if fits(table, self._asked):
                found.append(self._tell(table_id, table))
            if len(found) == SHOWN_MAX:
                break
        return found

    def news(self) -> list[tuple[Change, UUID, Table | None]]:
        """What has changed since he was told last."""
        news = self._directory.news(self._number)
        self._number = news.number
        told = [
            self._tell(table_id, table)
            for table_id, table in news.tables
            if self._is(table_id, table)
        ]
        if not news.whole:  # he was away for long: what is not remembered any more has closed
            gone = [table_id for table_id in self._told if self._directory.find(table_id) is None]
            told += [self._tell(table_id, None) for table_id in gone]
        while len(self._told) > FOLLOWED_MAX:
            told.append(self._tell(min(self._told), None))
        return told

    def _is(self, table_id: UUID, table: Table) -> bool:
        return table_id in self._told or fits(table, self._asked)

    def _tell(self, table_id: UUID, table: Table | None) -> tuple[Change, UUID, Table | None]:
        if table is None or not fits(table, self._asked):
            self._told.discard(table_id)
            return lobby_pb2.TABLE_CHANGE_REMOVED, table_id, table
        if table_id in self._told:
            return lobby_pb2.TABLE_CHANGE_CHANGED, table_id, table
        self._told.add(table_id)
        return lobby_pb2.TABLE_CHANGE_ADDED, table_id, table


async def _within(wait: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> int:
    """1 if it came in time, else 0."""
    try:
        async with asyncio.timeout(seconds):
            await wait()
    except TimeoutError:
        return 0
    return 1
