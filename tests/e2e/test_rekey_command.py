"""`kozyr rekey` against a running system: the master key is exchanged while a game goes on, by a
command that is broken off; and what is said of a key that is lost."""

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from kozyr.game.v1 import audit_pb2, game_pb2, keys_pb2, keys_pb2_grpc, variant_pb2, view_pb2

from services.cli.outcome import Failure
from services.client.player import Player
from services.client.profile import Profile
from services.kernel.ids import uuid7
from tests.e2e.house import House, house, legal, move, play_out, rules, start, until

FINE, WRONG = 0, 1
MANY = 450
"""So many games take three steps of the exchange."""
KILLED_AFTER_S = (0.7,)
"""When a command is killed, whatever it has come to."""


async def begun(given: House, *arguments: str) -> asyncio.subprocess.Process:
    """Begin a command as an operator."""
    path = os.pathsep.join(each for each in sys.path if each)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli.main", *arguments),
        *("--data", str(given.stack.data)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


async def kozyr(given: House, *arguments: str) -> tuple[int, str]:
    """Run a command: its exit code and output."""
    process = await begun(given, *arguments)
    out, err = await process.communicate()
    assert not err, err.decode()
    return process.returncode or 0, out.decode()


async def status(given: House) -> tuple[int, dict[str, Any], dict[str, list[str]]]:
    """What `kozyr rekey status` says: its exit code, the keys by id, the games each closes."""
    code, out = await kozyr(given, "rekey", "status", "--json")
    said = json.loads(out)
    return code, {each["key"]: each for each in said["keys"]}, said["closed"]


async def open_many(given: House) -> None:
    """Games that wait for seeds, as a lobby opens them."""
    token, now = given.token("lobby"), time.time_ns() // 1_000_000
    for number in range(MANY):
        game, *players = (
            str(uuid7(now, bytes([*divmod(number, 256), n] * 5)[:10])) for n in range(3)
        )
        request = game_pb2.CreateGameRequest(
            request_id=f"many-{number}",
            game_id=game,
            table_id=game,
            turn_ms=600_000,
            seed_ms=60_000,
            absent_policy=variant_pb2.ABSENT_POLICY_EXPIRE,
        )
        request.options.durak.SetInParent()
        for player in players:
            request.seats.add(player_id=player)
        answer = await given.send("game", "CreateGame", request, token)
        assert answer.code is grpc.StatusCode.OK, answer


async def broken_off(given: House) -> int:
    """Begin the exchange and leave after its first step, however far it has come by then; how many
    games it has told of."""
    operator = given.operator()
    stub = operator.stub("game", keys_pb2_grpc.KeyServiceStub)
    stream = operator.stream("game", stub.WrapKeys, keys_pb2.WrapKeysRequest())
    try:
        step: keys_pb2.WrapKeysResponse = await anext(stream)
        return step.wrapped
    finally:
        await stream.aclose()
        await operator.close()


def new_key(folder: Path, name: str) -> None:
    """A master key in a file."""
    (folder / name).write_bytes(base64.b64encode(os.urandom(32)))


@asynccontextmanager
async def signed_in(given: House, profile: Profile) -> AsyncIterator[Player]:
    """A player of an earlier house."""
    player = Player(given.stack.settings)
    await player.sign_in(profile)
    try:
        yield player
    finally:
        await player.close()


async def played(given: House) -> tuple[Profile, str, str]:
    """A player, a game of his that has ended and one that runs."""
    player = Player(given.stack.settings)
    profile = await player.sign_up("Anna")
    _, over = await start(player, rules("durak", 2))
    await play_out(player, over, Random(1))
    _, running = await start(player, rules("durak", 2, turn_ms=600_000))

    async def dealt() -> bool:
        return bool(legal(await player.view(running)))

    await until(dealt)
    await player.close()
    return profile, over, running


async def test_a_master_key_is_exchanged_by_a_command_that_is_broken_off(tmp_path: Path) -> None:
    """At no time is a game sealed by none or two of the keys, or the running one held up; run once
    more the command does what is left, and then nothing needs the old key."""
    keys = tmp_path / "keys"
    async with house(tmp_path) as given:
        profile, over, running = await played(given)
        await open_many(given)
        code, found, closed = await status(given)
        every = MANY + 2
        assert (code, closed, found["1"]["games"], found["1"]["current"]) == (FINE, {}, every, True)
    new_key(keys, "master.2.key")
    (keys / "master.key").rename(keys / "master.1.key")
    (keys / "master.2.key").rename(keys / "master.key")
    async with house(tmp_path, KOZYR_MASTER_KEY_ID="2") as given:
        code, out = await kozyr(given, "rekey", "needed", "1")
        assert (code, f"needed by {running}\n" in out) == (WRONG, True)
        assert out.count("needed by ") == MANY + 1, "the ended game laid its cards open"
        told = await broken_off(given)
        _, found, _ = await status(given)
        assert 0 < told <= found["2"]["games"] <= every
        assert found["1"]["games"] + found["2"]["games"] == every
        for seconds in KILLED_AFTER_S:
            command = await begun(given, "rekey", "wrap")
            await asyncio.sleep(seconds)
            if command.returncode is None:
                command.kill()
            await command.communicate()
            _, found, _ = await status(given)
            assert found["1"]["games"] + found["2"]["games"] == every
        async with signed_in(given, profile) as player:
            wrapping = asyncio.create_task(kozyr(given, "rekey", "wrap", "--json"))
            await move(player, await player.view(running), Random(1))
            code, out = await wrapping
        assert (code, json.loads(out)["left"], json.loads(out)["broken"]) == (FINE, [], [])
        assert await kozyr(given, "rekey", "wrap") == (
            FINE,
            "0 games wrapped under the current master key\n",
        )
        code, out = await kozyr(given, "rekey", "needed", "1")
        assert (code, out) == (FINE, "master key 1 is not needed: no game is closed without it\n")
        code, out = await kozyr(given, "rekey", "status")
        assert (code, f"master key 2: current, seals {every} games" in out) == (FINE, True)
        assert "master key 1: here, seals 0 games, 0 run\n" in out
    (keys / "master.1.key").unlink()
    async with house(tmp_path, KOZYR_MASTER_KEY_ID="2") as given:
        for game in (over, running):
            assert list((await given.verify(game)).faults) == []
        async with signed_in(given, profile) as player:
            await play_out(player, running, Random(2))
        _, found, _ = await status(given)
        assert list(found) == ["2"]


async def test_a_lost_master_key_is_named_with_the_games_it_closes(tmp_path: Path) -> None:
    """The game service does not start and says why; told that the key is gone for good it starts,
    and `kozyr rekey` names the games that are closed, which the ended one is not."""
    async with house(tmp_path) as given:
        profile, over, running = await played(given)
    (tmp_path / "keys" / "master.key").unlink()
    new_key(tmp_path / "keys", "master.key")
    with pytest.raises(Failure, match=rf"key folder: 1; .*closed are 1 running games: {running}"):
        async with house(tmp_path, KOZYR_MASTER_KEY_ID="2"):
            raise AssertionError
    lost = {"KOZYR_MASTER_KEY_ID": "2", "KOZYR_MASTER_KEYS_LOST": "1"}
    async with house(tmp_path, **lost) as given:
        code, found, closed = await status(given)
        assert (code, closed) == (WRONG, {"1": [running]})
        assert (found["1"]["present"], found["1"]["running"], found["2"]["games"]) == (False, 1, 0)
        code, out = await kozyr(given, "rekey", "status")
        assert code == WRONG
        assert "master key 1: MISSING, seals 2 games, 1 run\n" in out
        assert f"closed {running}: master key 1 is missing\n" in out
        assert await kozyr(given, "rekey", "needed", "1") == (WRONG, f"needed by {running}\n")
        code, out = await kozyr(given, "rekey", "wrap")
        assert (code, "left: master key 1: MISSING" in out) == (WRONG, True)
        async with signed_in(given, profile) as player:
            assert (await player.view(over)).stage == view_pb2.STAGE_FINISHED
            asked = game_pb2.GetGameRequest(game_id=running)
            answer = await given.send("game", "GetGame", asked, player.access_token)
            assert answer.reason == "LOG_SEALED"
        replay = audit_pb2.ReplayGameRequest(game_id=over)
        assert (await given.send("game", "ReplayGame", replay, given.token("operator"))).reply
