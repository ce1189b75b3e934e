"""Clients that go away in the middle of a stream leave no task, watcher or stream behind."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import game_pb2

from services.game import server as game_server
from services.runtime.drain import Drain
from services.runtime.feed import Feed
from tests.services.game.system import System, new_id, system
from tests.services.game.test_service import dealt

CONNECTIONS = 10
STREAMS = 20


async def vanish(house: System, game_id: str, how: str) -> None:
    """Take the first message of twenty streams on one connection, and be gone."""
    seat = house.game(new_id())
    request = game_pb2.WatchGameRequest(game_id=game_id)
    streams = [
        seat.games.WatchGame(request, metadata=seat.client._metadata()) for _ in range(STREAMS)
    ]
    for stream in streams:
        assert await stream.read()
    if how == "cancel":
        for stream in streams:
            stream.cancel()
    await seat.client.close()


async def gone(feed: Feed, drain: Drain) -> None:
    """Wait until nobody watches a game; streams of health are not meant."""
    async with asyncio.timeout(20):
        while feed.watched:
            await asyncio.sleep(0.05)
    assert len(drain._streams) < STREAMS


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_vanished_watchers_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """After 200 of them there are as many tasks as before, and the game is played on."""
    feeds: list[Feed] = []
    drains: list[Drain] = []

    def feed(*given: Any, **named: Any) -> Feed:
        feeds.append(Feed(*given, **named))
        return feeds[-1]

    async def compose(process: Any) -> Any:
        drains.append(process.drain)
        return await compose_game(process)

    compose_game = game_server.compose
    monkeypatch.setattr(game_server, "Feed", feed)
    monkeypatch.setattr(game_server, "compose", compose)
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0, spectators=True)
        seats = [house.game(seat.player_id) for seat in request.seats]
        view = await dealt(seats[0], request.game_id)
        await vanish(house, request.game_id, how)
        await gone(feeds[0], drains[0])
        before = len(asyncio.all_tasks())
        for _ in range(CONNECTIONS):
            await vanish(house, request.game_id, how)
        await gone(feeds[0], drains[0])
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.05)
        mover = seats[view.to_act[0]]
        mine = await mover.view(request.game_id)
        after = await mover.move(mine, mine.rami.legal[0])
        assert after.view.version > mine.version
