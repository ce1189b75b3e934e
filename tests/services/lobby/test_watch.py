"""Streams of tables: what is shown, signs of life, and the end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.errors import Refused
from services.lobby.commands import Close, Open
from services.lobby.directory import Directory
from services.lobby.filters import Wanted
from services.lobby.watch import Watching
from services.runtime.drain import Drain
from services.runtime.feed import Feed
from tests.services.lobby.peers import peers
from tests.services.lobby.saga import GAME, TABLE, Fault, Rig, rig
from tests.services.lobby.tables import durak_rules, player


@pytest.fixture
async def lobby(tmp_path: Path) -> AsyncIterator[Rig]:
    """A lobby without its server, with one listed table."""
    async with peers(tmp_path) as others, rig(others, lambda _n, _i: Fault.NONE) as opened:
        await opened.do(Open(player(0), durak_rules(2), 0, GAME), 1)
        yield opened


ALL = Wanted(player(1), None, False, False, 0, 0, 10**12, None)
"""Every listed table."""


def watching(lobby: Rig, drain: Drain, directory: Directory) -> Watching:
    """Streams with a short silence."""
    return Watching(lobby.tables, Feed(lobby.store), directory, drain, heartbeat_s=0.05)


async def test_a_quiet_table_gives_signs_of_life_until_the_process_drains(lobby: Rig) -> None:
    """The table at once, then heartbeats, then UNAVAILABLE DRAINING."""
    drain = Drain()
    stream = watching(lobby, drain, Directory(lobby.engine, lobby.store, lobby.streams)).one(
        TABLE, player(1), ""
    )
    assert (await anext(stream)).table.table_id == str(TABLE)
    assert not (await anext(stream)).HasField("table")
    drain.started.set()
    with pytest.raises(Refused, match="DRAINING"):
        await anext(stream)


async def test_the_listed_tables_give_signs_of_life_too(lobby: Rig) -> None:
    """One look for all watchers; a closed table is shown once more to those who saw it."""
    drain, directory = Drain(), Directory(lobby.engine, lobby.store, lobby.streams, interval_s=0.02)
    looking = asyncio.create_task(directory.run())
    stream = watching(lobby, drain, directory).many(ALL)
    async with asyncio.timeout(10):
        shown = [reply async for reply in _tables(stream, 1)]
        assert (await anext(stream)).change == lobby_pb2.TABLE_CHANGE_COMPLETE
        assert await anext(stream) == lobby_pb2.WatchTablesResponse()
        await lobby.do(Close(player(0)), 2)
        shown += [reply async for reply in _tables(stream, 1)]
        assert [t.state for t in shown] == [1, 4]
        late = watching(lobby, drain, directory).many(ALL)
        assert (await anext(late)).change == lobby_pb2.TABLE_CHANGE_COMPLETE
        drain.started.set()
        for ending in (stream, late):
            with pytest.raises(Refused, match="DRAINING"):
                await anext(ending)
    looking.cancel()


async def _tables(
    stream: AsyncIterator[lobby_pb2.WatchTablesResponse], count: int
) -> AsyncIterator[lobby_pb2.Table]:
    """The next tables of a stream, without heartbeats."""
    while count:
        reply = await anext(stream)
        if reply.HasField("table"):
            count -= 1
            yield reply.table


async def test_news_that_a_database_lost_is_news_once(lobby: Rig) -> None:
    """It failed over to where an append is missing: the stream goes on as a quiet one."""
    feed, directory = Feed(lobby.store), Directory(lobby.engine, lobby.store, lobby.streams)
    stream = Watching(lobby.tables, feed, directory, Drain(), 0.05).one(TABLE, player(1), "")
    version = (await anext(stream)).table.version
    feed.published(TABLE, version + 5)
    assert not (await anext(stream)).HasField("table")
    assert await feed.wait(TABLE, version, 0) == version
