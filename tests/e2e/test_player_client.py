"""The player's client against real services: what it promises across crashes and retries."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import jwt
import pytest
from kozyr.game.v1 import game_pb2, game_pb2_grpc, variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.cli.demo_games import play_with
from services.cli.stack import Stack
from services.client.calls import new_request_id
from services.client.driving import drive
from services.client.player import Player
from services.client.profile import ProfileFile
from services.client.tables import Tables, game_options
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings
from tests.e2e.house import FAST

SECONDS = 90.0


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """Four services of this test alone."""
    async with Stack(tmp_path / "data", environment=FAST) as running:
        yield running


def durak_rules(seats: int) -> lobby_pb2.TableRules:
    """A table of Durak where nobody need hurry."""
    return lobby_pb2.TableRules(options=game_options("durak", {}), seats=seats, turn_ms=60_000)


async def seated(stack: Stack, names: tuple[str, ...], bots: int) -> tuple[list[Player], str]:
    """Players at one table of Durak with bots, the game started."""
    players = [Player(stack.settings) for _ in names]
    for player, name in zip(players, names, strict=True):
        await player.sign_up(name)
    rules = durak_rules(len(names) + bots)
    host = Tables(players[0])
    table = (await host.create(rules)).table_id
    for player in players[1:]:
        await Tables(player).sit(table)
    for _ in range(bots):
        await host.add_bot(table, variant_pb2.BOT_LEVEL_EASY)
    for player in players:
        await Tables(player).ready(table)
    return players, await host.started(table)


async def turn_of(player: Player, game: str) -> view_pb2.GameView:
    """The view in which the player is first asked for a move."""
    async with aclosing(player.follow(game)) as updates:
        async for update in updates:
            if update.mine:
                return update.view
    raise AssertionError


async def test_a_crash_of_the_game_service_loses_nothing_for_anybody(stack: Stack) -> None:
    """Two clients play on through a SIGKILL: every version once, in order, their seeds counted.

    A spectator's stream lasts through it too.
    """
    players, game = await seated(stack, ("Ann", "Bo"), bots=1)
    watcher = Player(stack.settings)
    await watcher.sign_up("Eve")
    killed = asyncio.Event()

    async def crash(view: view_pb2.GameView) -> None:
        if view.version >= 25 and not killed.is_set():
            killed.set()
            await stack.kill("game")
            await stack.start("game")

    async with asyncio.timeout(SECONDS):
        ann, bo = await asyncio.gather(
            drive(players[0], game, play_with(1), crash), drive(players[1], game, play_with(2))
        )
    assert killed.is_set()
    assert ann.gaps == bo.gaps == []
    assert ann.last.stage == bo.last.stage == view_pb2.STAGE_FINISHED
    assert ann.last.head == bo.last.head
    for player, seen in zip(players, (ann, bo), strict=True):
        assert seen.last.seats[seen.last.seat].seed == player.seed(game)
    with pytest.raises(Refused, match="GAME_NOT_FOUND"):
        await watcher.view(game)
    for player in (*players, watcher):
        await player.close()


async def test_the_same_request_acts_once(stack: Stack) -> None:
    """A move sent twice with one request id is one move; with another id it comes too late."""
    (ann,), game = await seated(stack, ("Ann",), bots=1)
    games = ann.stub("game", game_pb2_grpc.GameServiceStub)
    async with asyncio.timeout(SECONDS):
        view = await turn_of(ann, game)
    request = game_pb2.SubmitMoveRequest(
        request_id=new_request_id(), game_id=game, turn=view.turn, move=play_with(1)(view)
    )
    first = await ann.call("game", games.SubmitMove, request)
    second = await ann.call("game", games.SubmitMove, request)
    assert first.view.version == second.view.version
    with pytest.raises(Refused) as refused:
        await ann.submit(view, request.move)
    assert refused.value.kind in (Kind.CONFLICT, Kind.PRECONDITION)
    await ann.close()


async def test_an_account_another_server_made_is_kept_aside(stack: Stack, tmp_path: Path) -> None:
    """Signing in where the account is unknown makes a new one and keeps the old profile."""
    file = ProfileFile("ann", tmp_path / "home")
    elsewhere = Player(stack.settings)
    assert await elsewhere.enter(file, "Ann") is None
    kept = file.read()
    assert kept is not None
    await elsewhere.close()
    async with Stack(tmp_path / "other", environment=FAST) as other:
        player = Player(other.settings)
        said = await player.enter(file, "Ann")
        assert said is not None
        assert kept.player_id in said
        assert player.player_id != kept.player_id
        await player.close()
    assert ProfileFile(f"ann-{kept.player_id}", tmp_path / "home").read() == kept


async def test_a_service_that_stays_away_is_a_refusal_in_time(stack: Stack) -> None:
    """When patience has run out, what comes is UNAVAILABLE, not a hang."""
    player = Player(stack.settings, patience_ms=1_500)
    await player.sign_up("Ann")
    await stack.kill("game")
    async with asyncio.timeout(SECONDS):
        with pytest.raises(Refused) as refused:
            await player.view("01a22a9f-491c-7e6b-abce-c3f11f09df89")
    assert refused.value.kind is Kind.UNAVAILABLE
    await player.close()


async def test_a_stream_of_a_game_that_has_ended_ends(stack: Stack) -> None:
    """Watching a finished game brings one snapshot that says so, and no more."""
    (ann,), game = await seated(stack, ("Ann",), bots=1)
    async with asyncio.timeout(SECONDS):
        await drive(ann, game, play_with(1))
        updates = [update async for update in ann.follow(game)]
    assert [(update.over, update.skipped, update.first) for update in updates] == [(True, True, 1)]
    await ann.close()


class Resuming(Player):
    """A client that remembers with which tokens its game streams were begun."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.resumed: list[tuple[str, bytes]] = []

    def stream(self, service: str, method: Any, request: Any, *more: Any) -> Any:
        """Begin a stream."""
        if service == "game":
            self.resumed.append((self.access_token, request.resume_token))
        return super().stream(service, method, request, *more)


async def test_a_stream_goes_on_under_a_fresh_token_when_its_own_expires(tmp_path: Path) -> None:
    """The server ends it; the client resumes with its last resume token: no gap, nothing twice."""
    short = {"KOZYR_PLAYER_TOKEN_MS": "2000", "KOZYR_CLOCK_SKEW_MS": "0"}
    async with Stack(tmp_path / "data", environment={**FAST, **short}) as stack:
        ann = Resuming(stack.settings)
        await ann.sign_up("Ann")
        table = (await Tables(ann).create(durak_rules(2))).table_id
        await Tables(ann).add_bot(table, variant_pb2.BOT_LEVEL_EASY)
        await Tables(ann).ready(table)
        game = await Tables(ann).started(table)
        outlived: list[int] = []

        async def outlive(view: view_pb2.GameView) -> None:
            if view.version >= 12 and not outlived:
                outlived.append(view.version)
                began, _ = ann.resumed[-1]
                expires = jwt.decode(began, options={"verify_signature": False})["exp"]
                while time.time() < expires + 0.5:
                    await asyncio.sleep(0.05)

        async with asyncio.timeout(SECONDS):
            seen = await drive(ann, game, play_with(1), outlive)
        assert outlived
        assert seen.gaps == []
        assert seen.last.stage == view_pb2.STAGE_FINISHED
        assert ann.dropped[game] == 0
        (first, nothing), *later = ann.resumed
        assert nothing == b""
        assert later
        assert all(token != first and resume for token, resume in later)
        await ann.close()
