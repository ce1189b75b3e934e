"""Crashes, broken databases, clients killed and drains: real processes, one house for all.

Whatever was acknowledged is in the log afterwards, games go on, and no chip is lost.
"""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
import pytest_asyncio
from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.client.player import Player
from tests.e2e.acknowledged import (
    Acknowledged,
    assert_all_stored,
    assert_sound,
    is_serving,
    pid,
    play,
    serving,
)
from tests.e2e.house import House, house, legal, rules, start, until
from tests.services.game.stopped import still

Code = grpc.StatusCode
SQLITE_FILES = ("", "-wal", "-shm")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def given(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One house for all of it; quiet logs, so that they are shorter than the databases."""
    folder = tmp_path_factory.mktemp("faults")
    async with house(folder, KOZYR_LOG_LEVEL="warning") as made:
        yield made


async def sick(given: House, name: str) -> None:
    """Wait until it says that it is not."""

    async def unwell() -> bool:
        return not await is_serving(given, name)

    await until(unwell)


async def test_a_killed_game_service_goes_on_with_the_same_games(given: House) -> None:
    """SIGKILL in the middle of three games, twice: every answered move is there, all are ended."""
    players = [await given.player() for _ in range(3)]
    made = []
    for player, variant in zip(players, ("azi", "durak", "rami"), strict=True):
        _, game = await start(player, rules(variant, 3))
        made.append(Acknowledged(game))
    playing = [
        asyncio.create_task(play(player, done.game_id, Random(n), done))
        for n, (player, done) in enumerate(zip(players, made, strict=True))
    ]
    for moves in (3, 9):

        async def enough(moves: int = moves) -> bool:
            return any(len(done.versions) >= moves or done.ended for done in made)

        await until(enough)
        await given.stack.kill("game")
        await given.stack.start("game")
    async with asyncio.timeout(120):
        await asyncio.gather(*playing)
    for done in made:
        assert done.ended
        await assert_all_stored(given, done)
    await assert_sound(given, *(done.game_id for done in made))
    for player in players:
        await player.close()


async def _try(given: House, player: Player, view: view_pb2.GameView, request_id: str) -> Any:
    request = game_pb2.SubmitMoveRequest(
        request_id=request_id, game_id=view.game_id, turn=view.turn
    )
    getattr(request.move, view.WhichOneof("table") or "").CopyFrom(legal(view)[0])
    return await given.send("game", "SubmitMove", request, player.access_token)


async def waiting_game(given: House) -> tuple[list[Player], str]:
    """Two persons at a long game of Rami that waits for one of them."""
    one, two = await given.player(), await given.player()
    asked = rules("rami", 2, turn_ms=600_000)
    asked.options.rami.target = 1_000
    _, game = await start(one, asked, two)

    async def dealt() -> bool:
        return (await one.view(game)).stage == view_pb2.STAGE_PLAYING

    await until(dealt)
    return [one, two], game


async def mover(players: list[Player], game: str) -> tuple[Player, view_pb2.GameView]:
    """Whose turn it is, and what he sees."""
    for player in players:
        view = await player.view(game)
        if legal(view):
            return player, view
    raise AssertionError("it is nobody's turn")


def moved(data: Path, name: str, there: bool) -> None:
    """Move a database away, or back."""
    for suffix in SQLITE_FILES:
        here, away = data / f"{name}.db{suffix}", data / f"away.db{suffix}"
        source, target = (here, away) if there else (away, here)
        if source.exists():
            source.rename(target)


async def test_a_database_moved_away_and_back(given: House) -> None:
    """Nothing is acknowledged meanwhile; back again, the same request goes through, once."""
    players, game = await waiting_game(given)
    player, view = await mover(players, game)
    moved(given.stack.data, "game", there=True)
    try:
        answer = await _try(given, player, view, "while-away")
        assert (answer.code, answer.reason) == (Code.UNAVAILABLE, "STORE_UNAVAILABLE")
        looked = await given.send(
            "game", "GetGame", game_pb2.GetGameRequest(game_id=game), player.access_token
        )
        assert looked.code in (Code.OK, Code.UNAVAILABLE)
        await sick(given, "game")
    finally:
        moved(given.stack.data, "game", there=False)
    await serving(given, "game")
    assert (await player.view(game)).version == view.version
    answer = await _try(given, player, view, "while-away")
    again = await _try(given, player, view, "while-away")
    assert (answer.code, again.code) == (Code.OK, Code.OK)
    first, second = (game_pb2.SubmitMoveResponse.FromString(each.reply) for each in (answer, again))
    assert still(first.view) == still(second.view)
    assert list((await given.verify(game)).faults) == []
    for each in players:
        await each.close()


@pytest.mark.parametrize("name", ["game", "wallet", "lobby"])
async def test_a_full_disk(given: House, name: str) -> None:
    """No file may grow: UNAVAILABLE, health says so or calls are served; space again, all goes on.

    What was acknowledged on the full disk is there afterwards, what was not can be repeated.
    """
    players, game = await waiting_game(given)
    operator = given.token("operator")
    log = given.stack.logs / f"{name}.log"
    process = pid(given, name)
    # Large enough for the log of the process, too small for any commit of the database.
    full = max(log.stat().st_size, 4_096)
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
    acknowledged: list[str] = []
    refused: list[str] = []

    async def change(request_id: str) -> Any:
        match name:
            case "game":
                player, view = await mover(players, game)
                return await _try(given, player, view, request_id)
            case "wallet":
                grant = wallet_pb2.GrantRequest(
                    request_id=request_id,
                    account_id=players[0].player_id,
                    chips=1,
                    reason="A test.",
                )
                return await given.send("wallet", "Grant", grant, operator)
            case _:
                asked = lobby_pb2.CreateTableRequest(request_id=request_id, rules=rules("durak", 2))
                token = players[0].access_token
                return await given.send("lobby", "CreateTable", asked, token)

    try:
        for n in range(12):
            answer = await change(f"full-{name}-{n}")
            if answer.code is Code.OK:
                acknowledged.append(f"full-{name}-{n}")
                continue
            assert (answer.code, answer.reason) == (Code.UNAVAILABLE, "STORE_UNAVAILABLE"), answer
            refused.append(f"full-{name}-{n}")
            break
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)
    assert refused, "the disk was not full"
    await serving(given, name)
    for request_id in refused:
        answer = await change(request_id)
        assert answer.code is Code.OK, answer
    if name == "game":
        await assert_all_stored(given, Acknowledged(game, dict.fromkeys(acknowledged, 2**62)))
        assert list((await given.verify(game)).faults) == []
    assert (await given.trial()).sound
    for each in players:
        await each.close()


VANISHING = """
import asyncio, sys
import grpc
from kozyr.game.v1 import game_pb2, game_pb2_grpc
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

async def main(game, lobby, wallet, token, game_id):
    metadata, streams = [("authorization", f"Bearer {token}")], []
    for _ in range(70):
        own = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(at, own) for at in (game, lobby, wallet)]
        streams += [
            game_pb2_grpc.GameServiceStub(channels[0]).WatchGame(
                game_pb2.WatchGameRequest(game_id=game_id), metadata=metadata),
            lobby_pb2_grpc.LobbyServiceStub(channels[1]).WatchTables(
                lobby_pb2.WatchTablesRequest(), metadata=metadata),
            wallet_pb2_grpc.WalletServiceStub(channels[2]).WatchAccount(
                wallet_pb2.WatchAccountRequest(), metadata=metadata),
        ]
    await asyncio.gather(*(stream.read() for stream in streams))
    print("watching", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""
"""A client with 210 streams on as many connections; it is killed."""


def descriptors(given: House) -> dict[str, int]:
    """Open files and connections of each process that has watchers."""
    names = ("game", "lobby", "wallet")
    folders = {name: Path(f"/proc/{pid(given, name)}/fd") for name in names}
    return {name: len(list(folder.iterdir())) for name, folder in folders.items()}


async def test_a_client_killed_with_its_streams_open(given: House) -> None:
    """210 streams end with their process: no connection stays, and all goes on."""
    players, game = await waiting_game(given)
    assert (await given.trial()).sound
    before = descriptors(given)
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", VANISHING),
        *(given.stack.address(name) for name in ("game", "lobby", "wallet")),
        *(players[0].access_token, game),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert client.stdout is not None
    async with asyncio.timeout(60):
        assert await client.stdout.readline() == b"watching\n"
    during = descriptors(given)
    assert all(during[name] >= count + 70 for name, count in before.items())
    client.kill()
    await client.wait()

    async def gone() -> bool:
        now = descriptors(given)  # what a service keeps is its pool: 3 files a connection
        return all(now[name] <= count + 20 for name, count in before.items())

    await until(gone)
    player, view = await mover(players, game)
    assert (await _try(given, player, view, "after them")).code is Code.OK
    for each in players:
        await each.close()


async def test_a_drain_ends_streams_and_loses_no_answered_call(given: House) -> None:
    """SIGTERM under load: streams end with a reason and are taken up; answered moves are stored."""
    players = [await given.player() for _ in range(3)]
    made = []
    for player in players:
        _, game = await start(player, rules("durak", 2))
        made.append(Acknowledged(game))
    playing = [
        asyncio.create_task(play(player, done.game_id, Random(n), done))
        for n, (player, done) in enumerate(zip(players, made, strict=True))
    ]
    watched: Any = given.channel("game")
    stream = watched.unary_stream("/kozyr.game.v1.GameService/WatchGame")(
        game_pb2.WatchGameRequest(game_id=made[0].game_id).SerializeToString(),
        metadata=[("authorization", f"Bearer {players[0].access_token}")],
    )
    token = game_pb2.WatchGameResponse.FromString(await stream.read()).resume_token
    process = given.stack._processes["game"]
    given.stack._stopping.add("game")
    process.terminate()
    ended: grpc.aio.AioRpcError | None = None
    try:
        while (message := await stream.read()) is not grpc.aio.EOF:
            token = game_pb2.WatchGameResponse.FromString(message).resume_token or token
    except grpc.aio.AioRpcError as error:
        ended = error
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await given.stack.start("game")
    assert token
    if ended is not None:  # a game that ended just before ends its stream well
        assert (ended.code(), "going away" in (ended.details() or "")) == (Code.UNAVAILABLE, True)
        again = game_pb2.WatchGameRequest(game_id=made[0].game_id, resume_token=token)
        answer = await given.send("game", "WatchGame", again, players[0].access_token)
        assert answer.code is Code.OK
    async with asyncio.timeout(60):
        await asyncio.gather(*playing)
    for done in made:
        await assert_all_stored(given, done)
    await assert_sound(given, *(done.game_id for done in made))
    for player in players:
        await player.close()
