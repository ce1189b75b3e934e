"""The ai service over loopback, and questions to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kozyr.ai.v1 import ai_pb2 as pb
from kozyr.ai.v1.ai_pb2_grpc import AiServiceStub
from kozyr.game.v1 import variant_pb2

from services.ai.bots import Level
from services.ai.server import NAME, compose
from services.kernel.errors import Refused
from services.runtime.clients import Client
from services.runtime.keys import OPERATORS, PLAYERS, ensure_keys
from services.runtime.server import Process, Running, Service, running
from services.runtime.settings import SERVICES, Settings
from services.runtime.tokens import load_signer
from services.runtime.wire import games
from tests.services.ai.positions import Position

VARIANTS = {
    "azi": variant_pb2.VARIANT_AZI,
    "durak": variant_pb2.VARIANT_DURAK,
    "rami": variant_pb2.VARIANT_RAMI,
}


def question(position: Position, level: Level = Level.NORMAL, **more: Any) -> pb.ChooseMoveRequest:
    """The request a game would send for the position."""
    wire = games.of(position.game)
    request = pb.ChooseMoveRequest(level=variant_pb2.BotLevel.ValueType(level), **more)
    request.view.variant = VARIANTS[position.game]
    request.view.seat = position.seat
    request.view.turn = position.state.turn
    getattr(request.view, position.game).CopyFrom(wire.view.to_wire(position.view))
    for happening in position.history:
        getattr(request.history.add(), position.game).CopyFrom(wire.happening.to_wire(happening))
    return request


def hard(position: Position, **more: Any) -> pb.ChooseMoveRequest:
    """The request for a hard bot's move, with all the time that may be asked for."""
    return question(position, Level.HARD, **({"budget_ms": 5_000} | more))


def move_of(game: str, answer: pb.ChooseMoveResponse) -> Any:
    """The move in an answer."""
    return games.of(game).move.from_wire(getattr(answer.move, game))


@dataclass(frozen=True)
class Host:
    """The running service and a way to call it as anybody."""

    server: Running
    settings: Settings
    service: Service
    clients: dict[str, Client]

    def stub(self, who: str = "game") -> tuple[Client, Any]:
        """A caller's connection: a service, `operator`, `nobody` or a player's id."""
        if who not in self.clients:
            token = self._token(who)
            self.clients[who] = Client(self.server.address, self.settings, lambda: token)
        client = self.clients[who]
        return client, AiServiceStub(client.channel)

    async def choose(
        self, request: pb.ChooseMoveRequest, who: str = "game"
    ) -> pb.ChooseMoveResponse:
        """Ask for a move; raises Refused."""
        client, stub = self.stub(who)
        answer: pb.ChooseMoveResponse = await client.call(stub.ChooseMove, request)
        return answer

    async def outcome(self, request: pb.ChooseMoveRequest) -> pb.ChooseMoveResponse | Refused:
        """The answer, or how the question is refused."""
        try:
            return await self.choose(request)
        except Refused as refused:
            return refused

    def _token(self, who: str) -> str | None:
        if who == "nobody":
            return None
        issuer = who if who in SERVICES else OPERATORS if who == "operator" else PLAYERS
        return load_signer(self.settings.keys(), issuer).issue(who, 60_000)


@asynccontextmanager
async def hosting(folder: Path, **changes: Any) -> AsyncIterator[Host]:
    """The service on a free port, one worker unless said otherwise."""
    ensure_keys(folder / "keys")
    given: dict[str, Any] = {
        "data_folder": folder,
        "ai_listen": "127.0.0.1:0",
        "ai_workers": 1,
        "peer_timeout_ms": 60_000,
        "health_interval_ms": 20,
    }
    settings = Settings(**(given | changes))
    made: list[Service] = []

    async def composed(process: Process) -> Service:
        made.append(await compose(process))
        return made[0]

    async with running(NAME, settings, composed) as server:
        host = Host(server, settings, made[0], {})
        try:
            yield host
        finally:
            for client in host.clients.values():
                await client.close()
