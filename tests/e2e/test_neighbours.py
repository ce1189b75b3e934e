"""Services that are away when another needs them: everything heals, and every chip is right."""

import asyncio
import signal
from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio
from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.client.player import Player
from services.client.watching import ENDED
from tests.e2e.acknowledged import assert_sound, serving
from tests.e2e.house import Answer, House, house, play_out, rules, start, until

LEASE_MS = 3_000
"""Work that a killed service had taken is taken up after this time."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def given(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One house for all of it; quiet logs, so that they are shorter than the databases."""
    folder = tmp_path_factory.mktemp("faults")
    lease = str(LEASE_MS)
    async with house(folder, KOZYR_LOG_LEVEL="warning", KOZYR_DUE_LEASE_MS=lease) as made:
        yield made


async def test_a_wallet_away_at_the_start(given: House) -> None:
    """The start waits for the wallet and then happens, or fails and gives every chip back."""
    player = await given.player()
    balance = await chips(given, player)
    await given.stack.kill("wallet")
    starting = asyncio.create_task(start(player, rules("azi", 3)))
    await asyncio.sleep(1.0)
    assert not starting.done()
    await given.stack.start("wallet")
    _, game = await asyncio.wait_for(starting, 60)
    views = await play_out(player, game, Random(1))
    await assert_sound(given, game)
    line = views[-1].result.seats[views[-1].seat]
    assert await chips(given, player) == balance - line.stack_before + line.stack_after
    await player.close()


async def test_a_lobby_killed_in_the_middle_of_a_start(given: House) -> None:
    """The work it had taken is taken up when its lease ends, and nobody waits longer for it."""
    player = await given.player()
    balance = await chips(given, player)
    wallet = given.stack._processes["wallet"]
    wallet.send_signal(signal.SIGSTOP)
    starting = asyncio.create_task(start(player, rules("azi", 3)))
    await asyncio.sleep(1.0)
    await given.stack.kill("lobby")
    wallet.send_signal(signal.SIGCONT)
    await given.stack.start("lobby")
    _, game = await asyncio.wait_for(starting, LEASE_MS / 1_000 + 15)
    views = await play_out(player, game, Random(2))
    await assert_sound(given, game)
    line = views[-1].result.seats[views[-1].seat]
    assert await chips(given, player) == balance - line.stack_before + line.stack_after
    await player.close()


async def chips(given: House, player: Player) -> int:
    """What the player owns."""
    async with asyncio.timeout(30):
        while not (answer := await _account(given, player)).reply:  # not opened yet
            await asyncio.sleep(0.05)
    account = wallet_pb2.GetAccountResponse.FromString(answer.reply).account
    return account.balance + account.reserved


async def _account(given: House, player: Player) -> Answer:
    request = wallet_pb2.GetAccountRequest()
    return await given.send("wallet", "GetAccount", request, player.access_token)


@pytest.mark.parametrize("away", ["wallet", "lobby"])
async def test_a_neighbour_away_at_the_end(given: House, away: str) -> None:
    """The game ends without it; when it is back the chips are paid once and the table is told."""
    player = await given.player()
    balance = await chips(given, player)
    table, game = await start(player, rules("azi", 2))
    await given.stack.kill(away)
    views = await play_out(player, game, Random(4))
    assert views[-1].stage == view_pb2.STAGE_FINISHED
    await asyncio.sleep(0.5)
    await given.stack.start(away)
    await serving(given, away)

    async def told() -> bool:
        request = lobby_pb2.GetTableRequest(table_id=table)
        answer = await given.send("lobby", "GetTable", request, player.access_token)
        return lobby_pb2.GetTableResponse.FromString(answer.reply).table.games_played == 1

    await until(told, 60)
    await assert_sound(given, game)
    line = views[-1].result.seats[views[-1].seat]
    assert await chips(given, player) == balance - line.stack_before + line.stack_after
    await player.close()


async def test_no_ai_no_standstill(given: House) -> None:
    """Bots that cannot be asked are moved for at their deadlines, and play again afterwards."""
    player = await given.player()
    await given.stack.kill("ai")
    _, game = await start(player, rules("durak", 3, turn_ms=1_000))
    playing = asyncio.create_task(play_out(player, game, Random(6)))
    await until(lambda: _expired(given, player, game))
    await given.stack.start("ai")
    views = await asyncio.wait_for(playing, 120)
    assert views[-1].stage in ENDED
    await assert_sound(given, game)
    await player.close()


async def _expired(given: House, player: Player, game: str) -> bool:
    request = game_pb2.GetGameRequest(game_id=game, history=True)
    answer = await given.send("game", "GetGame", request, player.access_token)
    history = game_pb2.GetGameResponse.FromString(answer.reply).history
    return any(h.durak.HasField("turn_expired") for h in history)
