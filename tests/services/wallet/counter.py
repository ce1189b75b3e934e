"""A wallet that serves on loopback, and its callers: a token of each role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from google.protobuf.message import Message
from kozyr.wallet.v1 import wallet_pb2 as pb
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub

from services.runtime.clients import Client
from services.runtime.keys import ensure_keys
from services.runtime.server import Running, running
from services.runtime.settings import Settings
from services.runtime.tokens import load_signer
from services.wallet.server import NAME, compose

WELCOME = 1_000


def settings(folder: Path, **changes: Any) -> Settings:
    """Settings on a free port, with keys and the database in `folder`."""
    ensure_keys(folder / "keys")
    given: dict[str, Any] = {
        "data_folder": folder,
        "wallet_listen": "127.0.0.1:0",
        "welcome_chips": WELCOME,
        "health_interval_ms": 50,
        "drain_grace_ms": 1_000,
    }
    return Settings(**(given | changes))


class Counter:
    """A serving wallet and one client a caller."""

    def __init__(self, server: Running, given: Settings) -> None:
        self.server = server
        self._settings = given
        self._clients: dict[str, Client] = {}

    def client(self, who: str) -> Client:
        """The client of `lobby`, `game`, `ai`, `operator`, `nobody`, or of a player by id."""
        if who not in self._clients:
            token = self._token(who)
            self._clients[who] = Client(self.server.address, self._settings, lambda: token)
        return self._clients[who]

    def _token(self, who: str) -> str | None:
        if who == "nobody":
            return None
        issuer = {"operator": "operators", "lobby": "lobby", "game": "game", "ai": "ai"}
        signer = load_signer(self._settings.keys(), issuer.get(who, "players"))
        return signer.issue("olga" if who == "operator" else who, 60_000)

    async def call(self, who: str, method: str, request: Message) -> Any:
        """Call an RPC; raises Refused. A request without an id is given one."""
        if "request_id" in request.DESCRIPTOR.fields_by_name:
            named: Any = request
            named.request_id = named.request_id or uuid4().hex
        client = self.client(who)
        return await client.call(getattr(WalletServiceStub(client.channel), method), request)

    def watch(self, who: str, account: str = "") -> AsyncIterator[pb.WatchAccountResponse]:
        """Follow an account."""
        client = self.client(who)
        stub = WalletServiceStub(client.channel)
        return client.stream(stub.WatchAccount, pb.WatchAccountRequest(account_id=account))

    async def open(self, kind: pb.AccountKind.ValueType = pb.ACCOUNT_KIND_PLAYER) -> str:
        """A new account."""
        account = str(uuid4())
        await self.call(
            "lobby", "OpenAccount", pb.OpenAccountRequest(account_id=account, kind=kind)
        )
        return account

    async def seat(self, players: list[str], chips: int) -> tuple[str, list[str]]:
        """A game with a reservation a player."""
        game, held = str(uuid4()), [str(uuid4()) for _ in players]
        for reservation, player in zip(held, players, strict=True):
            await self.call("lobby", "Reserve", reserve(reservation, player, game, chips))
        return game, held

    async def close(self) -> None:
        """Let every client go."""
        for client in self._clients.values():
            await client.close()


@asynccontextmanager
async def serving(folder: Path, **changes: Any) -> AsyncIterator[Counter]:
    """A wallet on SQLite in `folder`, serving."""
    given = settings(folder, **changes)
    async with running(NAME, given, compose) as server:
        counter = Counter(server, given)
        try:
            yield counter
        finally:
            await counter.close()


def reserve(reservation: str, player: str, game: str, chips: int) -> pb.ReserveRequest:
    """A reservation to make, held for a minute."""
    return pb.ReserveRequest(
        reservation_id=reservation, account_id=player, game_id=game, chips=chips, ttl_ms=60_000
    )


def pin(game: str, held: list[str], players: list[str], chips: int) -> pb.PinRequest:
    """All of a game's reservations."""
    claims = [
        pb.ReservationClaim(reservation_id=r, account_id=p, chips=chips)
        for r, p in zip(held, players, strict=True)
    ]
    return pb.PinRequest(game_id=game, claims=claims)


def settle(game: str, *lines: tuple[str, int, int]) -> pb.SettleRequest:
    """Seats with what they paid in and were paid out."""
    made = [pb.SettleLine(reservation_id=r, paid_in=i, paid_out=o) for r, i, o in lines]
    return pb.SettleRequest(game_id=game, lines=made, head=b"h" * 32)


def new_id() -> str:
    """A UUID as text."""
    return str(UUID(int=uuid4().int))
