"""What a service has answered, and whether it is true afterwards: moves, health, chips."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
from kozyr.game.v1 import audit_pb2, game_pb2, game_pb2_grpc

from services.client.calls import new_request_id
from services.client.player import Player
from tests.e2e.house import House, legal, until


@dataclass
class Acknowledged:
    """Requests of one game that were answered: their ids, and the version each led to."""

    game_id: str
    versions: dict[str, int] = field(default_factory=dict)
    ended: bool = False


async def play(player: Player, game_id: str, rng: Random, made: Acknowledged) -> None:
    """Play a seat to the end, however often the service goes away, keeping what was answered."""
    games = player.stub("game", game_pb2_grpc.GameServiceStub)
    async for update in player.follow(game_id):
        view = update.view
        if not legal(view):
            continue
        request = game_pb2.SubmitMoveRequest(
            request_id=new_request_id(), game_id=game_id, turn=view.turn
        )
        variant = view.WhichOneof("table") or ""
        getattr(request.move, variant).CopyFrom(rng.choice(legal(view)))
        reply = await player.call("game", games.SubmitMove, request)
        assert reply.view.version > view.version
        made.versions[request.request_id] = reply.view.version
    made.ended = True


async def assert_all_stored(given: House, made: Acknowledged) -> None:
    """Every answered request is in the log, at no later version than was answered."""
    rows: dict[str, int] = {}
    after, more = 0, True
    while more:
        request = audit_pb2.ReadLogRequest(
            game_id=made.game_id, after_version=after, page_size=1_000
        )
        answer = await given.send("game", "ReadLog", request, given.token("operator"))
        page = audit_pb2.ReadLogResponse.FromString(answer.reply)
        for row in page.rows:
            if row.request_id:
                rows[row.request_id.rpartition("/")[2]] = row.version
        after, more = page.rows[-1].version, page.more
    for request_id, version in made.versions.items():
        assert rows[request_id] <= version


def pid(given: House, name: str) -> int:
    """The process of a service."""
    return given.stack.pid(name)


async def is_serving(given: House, name: str) -> bool:
    """Whether a service says that it is well."""
    channel: Any = given.channel(name)
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        return bool(await check(b"", timeout=5) == b"\x08\x01")
    except grpc.aio.AioRpcError:
        return False


async def serving(given: House, name: str) -> None:
    """Wait until it is well."""
    await until(lambda: is_serving(given, name))


async def assert_sound(given: House, *games: str) -> None:
    """Chips add up, nothing stays reserved, and the audits of these games find nothing."""

    async def nothing_open() -> bool:
        trial = await given.trial()
        assert trial.sound
        return trial.open_reservations == 0

    await until(nothing_open)
    for game in games:
        assert list((await given.verify(game)).faults) == []
