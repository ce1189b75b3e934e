"""Every issuer's key is exchanged while four real processes serve; no call is refused for it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import jwt
import pytest
from kozyr.game.v1 import game_pb2
from kozyr.lobby.v1 import identity_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.client.player import Player
from services.runtime.keys import PLAYERS, make_next
from services.runtime.settings import SERVICES
from tests.e2e.house import House, house, play_out, rules, start, until

ISSUERS = (PLAYERS, *SERVICES)
ANNOUNCE_MS = 1_500
CALLS = (("lobby", "GetProfile"), ("game", "ListGames"), ("wallet", "GetAccount"))


@pytest.fixture
async def given(tmp_path: Path) -> AsyncIterator[House]:
    """Four services that look at their keys all the time."""
    environment = {
        "KOZYR_KEY_REREAD_MS": "100",
        "KOZYR_KEY_ANNOUNCE_MS": str(ANNOUNCE_MS),
        "KOZYR_CLOCK_SKEW_MS": "0",
    }
    async with house(tmp_path, **environment) as made:
        yield made


async def one_call(given: House, player: Player, token: str, number: int) -> str:
    """One call to one of the three that players call; why it was refused."""
    service, name = CALLS[number % 3]
    request = {
        "GetProfile": identity_pb2.GetProfileRequest(),
        "ListGames": game_pb2.ListGamesRequest(),
        "GetAccount": wallet_pb2.GetAccountRequest(account_id=player.player_id),
    }[name]
    return (await given.send(service, name, request, token)).reason


def kid(player: Player) -> str:
    """The key that signed a player's token."""
    found: str = jwt.get_unverified_header(player.access_token)["kid"]
    return found


async def test_keys_are_exchanged_under_load(given: House) -> None:
    """Old tokens hold until their key is removed, new ones from the first; services among each
    other as well: tables are opened, bots asked, games reported and paid all the while."""
    keys = given.stack.settings.keys()
    holder = await given.player()
    old, refused, over, games = holder.access_token, set[str](), asyncio.Event(), list[str]()

    async def calls() -> None:
        number = 0
        while not over.is_set():
            refused.add(await one_call(given, holder, old, number))
            number += 1

    async def plays() -> None:
        while not over.is_set():
            player = await given.player()
            _, game = await start(player, rules("azi", 2))
            await play_out(player, game, Random(len(games)))
            games.append(game)
            await player.close()

    load = [asyncio.create_task(calls()), asyncio.create_task(plays())]
    for issuer in ISSUERS:
        make_next(keys, issuer, 2)
    fresh = await given.player()
    assert kid(fresh) == kid(holder)

    async def exchanged() -> bool:
        player = await given.player()
        await player.close()
        return kid(player) != kid(holder)

    await until(exchanged)
    played = len(games)
    await until_true(lambda: len(games) > played + 1)
    over.set()
    await asyncio.gather(*load)
    assert refused == {""}
    for issuer in ISSUERS:
        for kind in ("key", "pub"):
            if issuer != "game":  # it signs receipts, too
                (keys / f"{issuer}.{kind}").unlink()

    async def ended() -> bool:
        return {await one_call(given, holder, old, n) for n in range(3)} == {"TOKEN_INVALID"}

    await until(ended)
    last = await given.player()
    _, game = await start(last, rules("azi", 2))
    await play_out(last, game, Random(1))
    assert "account_left_for_later" not in given.logs()
    assert "PEER_FAILED" not in given.logs()
    for player in (holder, fresh, last):
        await player.close()


async def until_true(condition: object) -> None:
    """Wait until something plain holds."""

    async def holds() -> bool:
        assert callable(condition)
        return bool(condition())

    await until(holds)
