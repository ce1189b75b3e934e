"""`kozyr rekey`: which master keys seal the games, and their exchange while games go on."""

import argparse
import asyncio
from typing import Any

from kozyr.game.v1 import keys_pb2, keys_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, WRONG
from services.cli.terminal import command, emit, progress, show
from services.client.calls import Caller
from services.runtime.settings import Settings


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "rekey",
        "Exchange the master key that seals the games' hidden cards, while games go on: give every "
        "replica the new key beside the old one, make it current, wrap, see that the old one is "
        "not needed, take it away. `status` exits 1 when a key is missing that closes games, "
        "`needed` when a key is needed.",
        "kozyr rekey wrap",
    )
    doing = made.add_subparsers(dest="doing", required=True, metavar="status|wrap|needed")
    status = doing.add_parser("status", help="the master keys that are here or in use")
    wrap = doing.add_parser("wrap", help="wrap all games' keys under the current master key")
    needed = doing.add_parser("needed", help="the games that are closed without a key, if any")
    needed.add_argument("key", metavar="KEY", help="the key's id")
    for each in (status, wrap, needed):
        each.add_argument("--json", action="store_true", help="one JSON object")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    return asyncio.run(_do(settings(arguments), arguments))


async def _do(where: Settings, arguments: argparse.Namespace) -> int:
    async with finding.as_operator(where) as caller:
        match arguments.doing:
            case "status":
                return await _status(caller, as_json=arguments.json)
            case "wrap":
                return await _wrap(caller, as_json=arguments.json)
            case _:
                return await _needed(caller, arguments.key, as_json=arguments.json)


def _stub(caller: Caller) -> Any:
    return caller.stub("game", keys_pb2_grpc.KeyServiceStub)


async def _list(caller: Caller) -> list[keys_pb2.MasterKey]:
    reply: keys_pb2.ListKeysResponse = await caller.call(
        "game", _stub(caller).ListKeys, keys_pb2.ListKeysRequest()
    )
    return list(reply.keys)


async def _status(caller: Caller, *, as_json: bool) -> int:
    keys = await _list(caller)
    closed = {k.key_id: await _closed(caller, k.key_id) for k in keys if not k.present}
    if as_json:
        emit({"keys": [_plain(key) for key in keys], "closed": closed})
    else:
        show(_line(key) for key in keys)
        show(
            f"closed {game}: master key {key} is missing" for key in closed for game in closed[key]
        )
    return WRONG if any(closed.values()) else FINE


def _plain(key: keys_pb2.MasterKey) -> dict[str, Any]:
    return {
        "key": key.key_id,
        "present": key.present,
        "current": key.current,
        "games": key.games,
        "running": key.running_games,
    }


def _line(key: keys_pb2.MasterKey) -> str:
    here = "current" if key.current else "here" if key.present else "MISSING"
    return f"master key {key.key_id}: {here}, seals {key.games} games, {key.running_games} run"


async def _wrap(caller: Caller, *, as_json: bool) -> int:
    wrapped, broken = 0, []
    with progress("wrap") as tell:
        async for step in caller.stream("game", _stub(caller).WrapKeys, keys_pb2.WrapKeysRequest()):
            wrapped = step.wrapped
            broken += step.broken_game_ids
            tell(f"{wrapped} games")
    left = [key for key in await _list(caller) if key.games and not key.current]
    if as_json:
        emit({"wrapped": wrapped, "broken": broken, "left": [_plain(key) for key in left]})
    else:
        show([f"{wrapped} games wrapped under the current master key"])
        show(f"broken {game}: its stored key cannot be opened" for game in broken)
        show(f"left: {_line(key)}" for key in left)
    return WRONG if broken or left else FINE


async def _closed(caller: Caller, key_id: str) -> list[str]:
    request = keys_pb2.ListClosedGamesRequest(key_id=key_id)
    found: list[str] = []
    async for page in caller.stream("game", _stub(caller).ListClosedGames, request):
        found += page.game_ids
    return found


async def _needed(caller: Caller, key_id: str, *, as_json: bool) -> int:
    closed = await _closed(caller, key_id)
    if as_json:
        emit({"key": key_id, "closed": closed})
    elif closed:
        show(f"needed by {game}" for game in closed)
    else:
        show([f"master key {key_id} is not needed: no game is closed without it"])
    return WRONG if closed else FINE
