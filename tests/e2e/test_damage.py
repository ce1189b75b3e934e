"""Logs that somebody wrote into: reported by game and version, and all other games playable."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import grpc
import pytest
import pytest_asyncio
from kozyr.game.v1 import game_pb2, view_pb2

from services.client.player import Player
from services.client.tables import Tables
from tests.e2e.house import House, house, legal, move, play_out, rules, start, until

Code = grpc.StatusCode
AT = 5
"""The version that is damaged, where one is."""
DAMAGE = {
    "payload": "UPDATE events SET payload = payload || x'00' WHERE stream = :g AND version = 5",
    "name": "UPDATE events SET name = 'durak.Nonsense' WHERE stream = :g AND version = 5",
    "text": "UPDATE events SET name = CAST(x'fffe' AS TEXT) WHERE stream = :g AND version = 5",
    "time": "UPDATE events SET recorded_at = recorded_at + 1 WHERE stream = :g AND version = 5",
    "hole": "DELETE FROM events WHERE stream = :g AND version = 5",
    "end": "DELETE FROM events WHERE stream = :g AND version >= 5",
    "secret": (
        "UPDATE event_secrets SET sealed = zeroblob(length(sealed)) "
        "WHERE stream = :g AND version = (SELECT max(version) FROM event_secrets WHERE stream = :g)"
    ),
    "unsealed": "DELETE FROM event_secrets WHERE stream = :g",
    "head": "UPDATE heads SET hash = zeroblob(32) WHERE stream = :g",
    "nothing left": "DELETE FROM events WHERE stream = :g",
}
"""What is done to a game's rows, by name."""
ANYWHERE = ("secret", "unsealed", "head", "nothing left")
"""Damage that shows at another version than `AT`."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Scene:
    """Finished games, each damaged in its way, a running one too, and two that are whole."""

    house: House
    player: Player
    other: Player
    damaged: dict[str, str]
    running: str
    whole: str
    waiting: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Games are played, the service is killed, its file is edited, and it is started again."""
    async with house(tmp_path_factory.mktemp("damage")) as given:
        player, other = await given.player(), await given.player()
        damaged = {}
        for n, name in enumerate((*DAMAGE, "whole")):
            table, damaged[name] = await start(player, rules("durak", 2))
            await play_out(player, damaged[name], Random(n))
            await Tables(player).settled(table, 1)
            await Tables(player).leave(table)
        long = rules("rami", 2, turn_ms=2_000)
        long.options.rami.target = 1_000
        _, running = await start(player, long, other)
        long.turn_ms = 600_000
        _, waiting = await start(player, long, other)
        for game in (running, waiting):

            async def dealt(game: str = game) -> bool:
                return (await player.view(game)).stage == view_pb2.STAGE_PLAYING

            await until(dealt)
        await given.stack.kill("game")
        whole = damaged.pop("whole")
        edit(given.stack.data / "game.db", damaged, running)
        await given.stack.start("game")
        yield Scene(given, player, other, damaged, running, whole, waiting)
        await player.close()
        await other.close()


def edit(file: Path, damaged: dict[str, str], running: str) -> None:
    """Take the guards away and write into the log."""
    with closing(sqlite3.connect(file)) as connection, connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (trigger,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        kind = connection.execute("SELECT typeof(stream) FROM heads").fetchone()[0]
        for name, game in (*damaged.items(), ("payload", running)):
            key = game.replace("-", "")
            stream = bytes.fromhex(key) if kind == "blob" else key
            changed = connection.execute(DAMAGE[name], {"g": stream}).rowcount
            assert changed > 0, (name, kind)


@pytest.mark.parametrize("name", sorted(DAMAGE))
async def test_the_audit_names_the_version(scene: Scene, name: str) -> None:
    """Whatever was written into a log, the audit says where it shows first."""
    verdict = await scene.house.verify(scene.damaged[name])
    assert verdict.faults
    if name not in ANYWHERE:
        assert verdict.faults[0].version == AT, verdict


@pytest.mark.parametrize("name", sorted(DAMAGE))
async def test_a_damaged_game_is_refused_by_reason(scene: Scene, name: str) -> None:
    """Looking at it is no crash: its state as far as it is certain, or LOG_DAMAGED."""
    request = game_pb2.GetGameRequest(game_id=scene.damaged[name], history=True)
    answer = await scene.house.send("game", "GetGame", request, scene.player.access_token)
    if answer.code is not Code.OK:
        assert (answer.code, answer.reason) in (
            (Code.FAILED_PRECONDITION, "LOG_DAMAGED"),
            (Code.NOT_FOUND, "GAME_NOT_FOUND"),
        )


async def test_a_damaged_running_game_takes_no_move(scene: Scene) -> None:
    """Nothing is added to a log that is not what was stored; its timers do no harm."""
    request = game_pb2.LeaveGameRequest(request_id="l", game_id=scene.running)
    answer = await scene.house.send("game", "LeaveGame", request, scene.player.access_token)
    assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, "LOG_DAMAGED")


@pytest.mark.parametrize("role", ["player", "operator"])
async def test_lists_show_damaged_games_beside_the_others(scene: Scene, role: str) -> None:
    """One bad log does not hide the rest: it is listed without a stage."""
    token = scene.player.access_token if role == "player" else scene.house.token("operator")
    request = game_pb2.ListGamesRequest(page_size=100)
    answer = await scene.house.send("game", "ListGames", request, token)
    assert answer.code is Code.OK, answer
    games = {g.game_id: g for g in game_pb2.ListGamesResponse.FromString(answer.reply).games}
    assert games[scene.whole].stage == view_pb2.STAGE_FINISHED
    assert games[scene.waiting].stage == view_pb2.STAGE_PLAYING
    for name, game in scene.damaged.items():
        assert games[game].stage in (view_pb2.STAGE_UNSPECIFIED, view_pb2.STAGE_FINISHED), name
    assert games[scene.running].stage == view_pb2.STAGE_UNSPECIFIED


async def test_the_command_line_audits_them_all(scene: Scene) -> None:
    """`kozyr audit --all` exits 1 and names every damaged game, and no other."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli.main", "audit", "--all", "--verbose"),
        *("--data", str(scene.house.stack.data)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    out, _ = await process.communicate()
    told = out.decode()
    assert process.returncode == 1, told
    wrong = {line.split()[1] for line in told.splitlines() if line.startswith("WRONG")}
    assert wrong == {*scene.damaged.values(), scene.running}, told
    assert f"ok {scene.whole}" in told


async def test_all_other_games_go_on(scene: Scene) -> None:
    """A running game takes moves, a finished one is shown, a new one is played to its end."""
    rng = Random(3)
    for _ in range(4):
        for each in (scene.player, scene.other):
            view = await each.view(scene.waiting)
            if legal(view):
                await move(each, view, rng)
    assert (await scene.player.view(scene.whole)).stage == view_pb2.STAGE_FINISHED
    _, game = await start(scene.player, rules("durak", 3))
    views = await play_out(scene.player, game, rng)
    assert views[-1].stage == view_pb2.STAGE_FINISHED
    for game_id in (scene.waiting, scene.whole, game):
        assert list((await scene.house.verify(game_id)).faults) == []
    lines = [line for line in scene.house.logs().splitlines() if '"event":"call_failed"' in line]
    assert lines == []
