"""A player's tokens: renewed in time, beside the calls, whatever this machine's clock says."""

import asyncio
import time
from typing import Any

import jwt
import pytest
from kozyr.game.v1 import game_pb2
from kozyr.lobby.v1 import identity_pb2

from services.client.player import Player, seconds_valid
from services.client.profile import Profile
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings

PROFILE = Profile("p", "Ann", "secret", bytes(32))


def tokens(lifetime: int, *, issued: int = 1_000, name: str = "a") -> identity_pb2.Tokens:
    """Tokens of a server whose clock stands at `issued`."""
    claims = {"sub": name, "iat": issued, "exp": issued + lifetime}
    made = identity_pb2.Tokens(access_token=jwt.encode(claims, "k" * 32), refresh_token=f"r{name}")
    made.access_expire_time.FromSeconds(issued + lifetime)
    return made


class Lobby:
    """Answers of the services: `away` refuses what the lobby is asked, `late` is what it waits for.

    `games` are the outcomes of calls to the game service, `sent` the tokens they came with.
    """

    def __init__(self, player: Player, *games: Refused | str) -> None:
        self.player = player
        self.games = list(games)
        self.away = False
        self.late = asyncio.Event()
        self.late.set()
        self.refreshed = 0
        self.sent: list[str] = []

    async def lobby(self, _method: Any, request: Any, _timeout_ms: int) -> Any:
        """Refresh or sign in."""
        self.refreshed += 1
        await self.late.wait()
        if self.away:
            raise Refused(Kind.UNAVAILABLE, "PEER_UNAVAILABLE", "away")
        return identity_pb2.RefreshResponse(tokens=tokens(900, name=f"n{self.refreshed}"))

    async def game(self, _method: Any, _request: Any, _timeout_ms: int) -> Any:
        """A call to the game service."""
        self.sent.append(self.player.access_token)
        await asyncio.sleep(0)
        outcome = self.games.pop(0)
        if isinstance(outcome, Refused):
            raise outcome
        return outcome


def made(monkeypatch: pytest.MonkeyPatch, lifetime: int, *games: Refused | str) -> Lobby:
    """A signed-in player with tokens of this lifetime, and what answers him."""
    player = Player(Settings(), patience_ms=50)
    lobby = Lobby(player, *games)
    monkeypatch.setattr(player._clients["lobby"], "call", lobby.lobby)
    monkeypatch.setattr(player._clients["game"], "call", lobby.game)
    player.be(PROFILE, tokens(lifetime))
    return lobby


async def ask(lobby: Lobby) -> Any:
    """A call of the player to the game service."""
    return await lobby.player.call("game", None, game_pb2.GetGameRequest())


def test_how_long_a_token_lasts_is_what_it_says() -> None:
    """By its own times; where it has none to read, until its end by this machine's clock."""
    assert seconds_valid(tokens(900)) == 900
    opaque = identity_pb2.Tokens(access_token="opaque")
    opaque.access_expire_time.FromSeconds(int(time.time()) + 1_000)
    assert 900 < seconds_valid(opaque) <= 1_001


async def test_a_fresh_token_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its times lie in the past of this machine's clock, and a short one as well."""
    for lifetime in (900, 30):
        lobby = made(monkeypatch, lifetime, "done")
        assert await ask(lobby) == "done"
        assert lobby.refreshed == 0
        await lobby.player.close()


async def test_no_call_waits_for_the_lobby_while_the_token_is_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nearly at its end it is renewed, once for all calls, and they go on with the one there is."""
    lobby = made(monkeypatch, 900, "one", "two", "three")
    lobby.player._renew_at = 0.0
    lobby.late.clear()
    assert [await ask(lobby), await ask(lobby)] == ["one", "two"]
    assert lobby.refreshed == 1
    lobby.late.set()
    assert lobby.player._renewing is not None
    await lobby.player._renewing
    assert await ask(lobby) == "three"
    assert len(set(lobby.sent)) == 2
    assert lobby.sent[0] == lobby.sent[1]
    await lobby.player.close()


async def test_a_lobby_that_is_away_fails_no_call_before_the_token_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then it does, and says so; when the lobby is back, all is well again."""
    lobby = made(monkeypatch, 900, "one", "two")
    lobby.player._renew_at, lobby.away = 0.0, True
    assert await ask(lobby) == "one"
    lobby.player._ends_at = 0.0
    with pytest.raises(Refused, match="PEER_UNAVAILABLE"):
        await ask(lobby)
    lobby.away = False
    assert await ask(lobby) == "two"
    await lobby.player.close()


async def test_an_expired_token_is_renewed_once_however_many_calls_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may judge otherwise than the token says; nobody's call is lost for that."""
    expired = Refused(Kind.UNAUTHENTICATED, "TOKEN_EXPIRED", "expired")
    lobby = made(monkeypatch, 900, expired, expired, "one", "two")
    assert sorted(await asyncio.gather(ask(lobby), ask(lobby))) == ["one", "two"]
    assert lobby.refreshed == 1
    await lobby.player.close()
