"""A game service and a wallet over real gRPC, with neighbours that tests can break.

The neighbours are servers of their own: an ai that plays random legal moves, and a lobby that
remembers what it was told.
"""

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import grpc
from kozyr.ai.v1 import ai_pb2, ai_pb2_grpc
from kozyr.game.v1 import audit_pb2_grpc, game_pb2, game_pb2_grpc, view_pb2
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.game import server as game_server
from services.kernel.ids import uuid7
from services.runtime.clients import Client
from services.runtime.keys import OPERATORS, PLAYERS, ensure_keys
from services.runtime.server import running
from services.runtime.settings import Settings
from services.runtime.tokens import load_signer
from services.wallet import server as wallet_server

IDS = itertools.count(1)


def new_id() -> str:
    """A UUIDv7 no one has used."""
    number = next(IDS)
    return str(uuid7(time.time_ns() // 1_000_000, number.to_bytes(10, "big")))


class RandomAi(ai_pb2_grpc.AiServiceServicer):
    """Plays any legal move, or with `steady` the first one; `failing` makes calls UNAVAILABLE."""

    def __init__(self) -> None:
        self.failing = False
        self.steady = False
        self.asked: list[ai_pb2.ChooseMoveRequest] = []

    async def ChooseMove(self, request: Any, context: Any) -> Any:
        """A random legal move of the seat."""
        if self.failing:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "down")
        self.asked.append(request)
        variant = request.view.WhichOneof("table")
        legal = getattr(request.view, variant).legal
        response = ai_pb2.ChooseMoveResponse(reason="any will do", level=request.level)
        at = 0 if self.steady else Random(bytes(request.seed)).randrange(len(legal))
        move = legal[at]
        getattr(response.move, variant).CopyFrom(move)
        return response


class Table(lobby_pb2_grpc.LobbyServiceServicer):
    """Remembers the games it was told of; with `refusing` it takes no report."""

    def __init__(self) -> None:
        self.reports: list[lobby_pb2.ReportGameRequest] = []
        self.refusing: grpc.StatusCode | None = None
        self.refused = 0

    async def ReportGame(self, request: Any, context: Any) -> Any:
        """Take a report."""
        if self.refusing is not None:
            self.refused += 1
            await context.abort(self.refusing, "no")
        self.reports.append(request)
        return lobby_pb2.ReportGameResponse()


@dataclass
class System:
    """What a test talks to."""

    settings: Settings
    ai: RandomAi
    table: Table
    clients: list[Client] = field(default_factory=list)
    metrics_port: int | None = None
    """Where the game service shows its metrics, if it does."""

    def client(self, service: str, role: str, subject: str) -> Client:
        """A client that calls as `players`, `operators` or a service."""
        token = load_signer(self.settings.keys(), role).issue(subject, 600_000)
        client = Client(self.settings.address(service), self.settings, lambda: token)
        self.clients.append(client)
        return client

    def game(self, player: str) -> "Seat":
        """The game service as a player calls it."""
        return Seat(self.client("game", PLAYERS, player))

    @property
    def operator(self) -> "Seat":
        """The game service as an operator calls it."""
        return Seat(self.client("game", OPERATORS, "olga"))

    @property
    def lobby(self) -> "Seat":
        """The game service as the lobby calls it."""
        return Seat(self.client("game", "lobby", "lobby"))

    async def open(
        self, request: game_pb2.CreateGameRequest | None = None, **changes: Any
    ) -> game_pb2.CreateGameRequest:
        """Open a game, its chips reserved in the wallet."""
        request = request or setup(**changes)
        if request.options.WhichOneof("options") == "azi":
            await self.reserve(request)
        lobby = self.lobby
        await lobby.call(lobby.games.CreateGame, request)
        return request

    async def reserve(self, request: game_pb2.CreateGameRequest) -> None:
        """Accounts for all seats, and reservations of their stacks."""
        wallet = self.client("wallet", "lobby", "lobby")
        stub = wallet_pb2_grpc.WalletServiceStub(wallet.channel)
        for seat in request.seats:
            kind = wallet_pb2.ACCOUNT_KIND_PLAYER
            opening = wallet_pb2.OpenAccountRequest(
                request_id=f"open-{seat.player_id}", account_id=seat.player_id, kind=kind
            )
            await wallet.call(stub.OpenAccount, opening)
            seat.reservation_id = new_id()
            await wallet.call(
                stub.Reserve,
                wallet_pb2.ReserveRequest(
                    request_id=seat.reservation_id,
                    reservation_id=seat.reservation_id,
                    account_id=seat.player_id,
                    game_id=request.game_id,
                    chips=seat.stack,
                    ttl_ms=60_000,
                ),
            )

    async def account(self, player: str) -> wallet_pb2.Account:
        """A player's account."""
        wallet = self.client("wallet", PLAYERS, player)
        stub = wallet_pb2_grpc.WalletServiceStub(wallet.channel)
        response = await wallet.call(stub.GetAccount, wallet_pb2.GetAccountRequest())
        return response.account


class Seat:
    """A caller's stubs."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.games = game_pb2_grpc.GameServiceStub(client.channel)
        self.audits = audit_pb2_grpc.AuditServiceStub(client.channel)

    async def call(self, method: Any, request: Any) -> Any:
        """Call, or raise Refused."""
        return await self.client.call(method, request)

    async def view(self, game_id: str) -> view_pb2.GameView:
        """The game now."""
        request = game_pb2.GetGameRequest(game_id=game_id)
        view: view_pb2.GameView = (await self.call(self.games.GetGame, request)).view
        return view

    async def watch(
        self, game_id: str, token: bytes = b""
    ) -> AsyncIterator[game_pb2.WatchGameResponse]:
        """The game's stream."""
        request = game_pb2.WatchGameRequest(game_id=game_id, resume_token=token)
        async for message in self.client.stream(self.games.WatchGame, request):
            yield message

    async def move(self, view: view_pb2.GameView, move: Any, request_id: str = "") -> Any:
        """Submit a move of the viewer's own game."""
        request = game_pb2.SubmitMoveRequest(
            request_id=request_id or new_id(), game_id=view.game_id, turn=view.turn
        )
        getattr(request.move, view.WhichOneof("table") or "").CopyFrom(move)
        return await self.call(self.games.SubmitMove, request)


def setup(
    variant: str = "rami", people: int = 1, bots: int = 1, **changes: Any
) -> game_pb2.CreateGameRequest:
    """A request to open a game of `people` and `bots`."""
    request = game_pb2.CreateGameRequest(
        request_id=new_id(),
        game_id=new_id(),
        table_id=new_id(),
        turn_ms=changes.pop("turn_ms", 30_000),
        seed_ms=changes.pop("seed_ms", 1),
        absent_policy=changes.pop("absent_policy", 1),
        **changes,
    )
    getattr(request.options, variant).SetInParent()
    if variant == "rami":
        request.options.rami.target = 10
    for number in range(people + bots):
        request.seats.add(
            player_id=new_id(),
            bot_level=0 if number < people else 1,
            stack=100 if variant == "azi" else 0,
        )
    return request


@asynccontextmanager
async def system(folder: Path, **given: Any) -> AsyncIterator[System]:
    """The whole of it, in this process, on SQLite in `folder` unless told otherwise."""
    settings = Settings(
        data_folder=folder,
        wallet_listen="127.0.0.1:0",
        game_listen="127.0.0.1:0",
        bot_delay_ms=0,
        turn_time_min_ms=1,
        rate_per_second=1e6,
        rate_burst=1e6,
        address_rate_per_second=1e6,
        address_rate_burst=1e6,
        feed_interval_ms=50,
        **given,
    )
    ensure_keys(settings.keys())
    ai, table = RandomAi(), Table()  # type: ignore[abstract]
    neighbours = grpc.aio.server()
    ai_pb2_grpc.add_AiServiceServicer_to_server(ai, neighbours)
    lobby_pb2_grpc.add_LobbyServiceServicer_to_server(table, neighbours)
    address = f"127.0.0.1:{neighbours.add_insecure_port('127.0.0.1:0')}"
    await neighbours.start()
    made: list[System] = []
    try:
        async with running("wallet", settings, wallet_server.compose) as wallet:
            settings = settings.model_copy(
                update={
                    "wallet_address": wallet.address,
                    "ai_address": address,
                    "lobby_address": address,
                }
            )
            async with running("game", settings, game_server.compose) as game:
                settings = settings.model_copy(update={"game_address": game.address})
                made.append(System(settings, ai, table, metrics_port=game.metrics_port))
                yield made[0]
    finally:
        for client in (client for house in made for client in house.clients):
            await client.close()
        await neighbours.stop(None)


def game_uuid(request: game_pb2.CreateGameRequest) -> UUID:
    """The id of the game that was asked for."""
    return UUID(request.game_id)
