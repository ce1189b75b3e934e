"""A wallet and a game service that keep everything in memory, served over real loopback gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from kozyr.game.v1 import audit_pb2, game_pb2
from kozyr.game.v1.audit_pb2_grpc import (
    AuditServiceServicer,
    add_AuditServiceServicer_to_server,
)
from kozyr.game.v1.game_pb2_grpc import GameServiceServicer, add_GameServiceServicer_to_server
from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import (
    WalletServiceServicer,
    add_WalletServiceServicer_to_server,
)
from pydantic import SecretStr

from services.kernel.errors import Refused, not_found, precondition
from services.runtime.keys import ensure_keys
from services.runtime.server import Process, Service, running
from services.runtime.settings import Settings

WELCOME = 10_000
PENDING, VOIDED = wallet_pb2.RESERVATION_STATE_PENDING, wallet_pb2.RESERVATION_STATE_VOIDED
Context = Any


@dataclass(slots=True)
class Held:
    """A reservation."""

    account: str
    game: str
    chips: int
    voided: bool = False


@dataclass(slots=True)
class Bank:
    """What the wallet knows. `refusing` methods answer with the refusal that stands there."""

    balances: dict[str, int] = field(default_factory=dict)
    bots: set[str] = field(default_factory=set)
    issued: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    voided: set[str] = field(default_factory=set)
    pinned: set[str] = field(default_factory=set)
    answers: dict[str, tuple[bytes, Any]] = field(default_factory=dict)
    refusing: dict[str, Refused] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def once(self, name: str, request: Any, act: Callable[[], Any]) -> Any:
        """Act, or give the answer of the same request; refuse another one of the same id."""
        self.calls.append(name)
        if name in self.refusing:
            raise self.refusing[name]
        body = name.encode() + request.SerializeToString(deterministic=True)
        known = self.answers.get(request.request_id)
        if known is None:
            known = self.answers[request.request_id] = (body, act())
        if known[0] != body:
            raise precondition("REQUEST_ID_REUSED", "another request has this id")
        return known[1]

    def open_for(self, game: str) -> dict[str, Held]:
        """A game's reservations that hold chips, by account."""
        return {h.account: h for h in self.held.values() if h.game == game and not h.voided}

    def void(self, game: str) -> None:
        """Give a game's chips back and refuse it for ever."""
        self.pinned.discard(game)
        self.voided.add(game)
        for held in self.open_for(game).values():
            held.voided = True
            self.balances[held.account] += held.chips

    def total(self) -> int:
        """All chips there are, escrow included, less those issued: always zero."""
        escrow = sum(h.chips for h in self.held.values() if not h.voided)
        return sum(self.balances.values()) + escrow - self.issued


class Wallet(WalletServiceServicer):
    """The part of the wallet that the lobby uses."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def OpenAccount(self, request: wallet_pb2.OpenAccountRequest, context: Context) -> Any:
        """Open an account; a player's with the welcome."""

        def act() -> wallet_pb2.OpenAccountResponse:
            if request.account_id not in self.bank.balances:
                bot = request.kind == wallet_pb2.ACCOUNT_KIND_BOT
                if bot:
                    self.bank.bots.add(request.account_id)
                self.bank.balances[request.account_id] = 0 if bot else WELCOME
                self.bank.issued += 0 if bot else WELCOME
                self.bank.opened.set()
            return wallet_pb2.OpenAccountResponse()

        return self.bank.once("OpenAccount", request, act)

    async def GetAccount(self, request: wallet_pb2.GetAccountRequest, context: Context) -> Any:
        """The balance."""
        self.bank.calls.append("GetAccount")
        if "GetAccount" in self.bank.refusing:
            raise self.bank.refusing["GetAccount"]
        if request.account_id not in self.bank.balances:
            raise not_found("ACCOUNT_NOT_FOUND", "no such account")
        balance = self.bank.balances[request.account_id]
        account = wallet_pb2.Account(account_id=request.account_id, balance=balance)
        return wallet_pb2.GetAccountResponse(account=account)

    async def Grant(self, request: wallet_pb2.GrantRequest, context: Context) -> Any:
        """Chips for a bot."""

        def act() -> wallet_pb2.GrantResponse:
            if request.account_id not in self.bank.bots:
                raise precondition("BOTS_ONLY", "chips for bots only")
            self.bank.balances[request.account_id] += request.chips
            self.bank.issued += request.chips
            return wallet_pb2.GrantResponse()

        return self.bank.once("Grant", request, act)

    async def Reserve(self, request: wallet_pb2.ReserveRequest, context: Context) -> Any:
        """Hold chips, never for a game that was voided."""

        def act() -> wallet_pb2.ReserveResponse:
            if request.game_id in self.bank.voided:
                raise precondition("GAME_VOIDED", "the game was voided")
            if request.account_id not in self.bank.balances:
                raise not_found("ACCOUNT_NOT_FOUND", "no such account")
            if self.bank.balances[request.account_id] < request.chips:
                raise precondition("INSUFFICIENT_CHIPS", "too few chips")
            self.bank.balances[request.account_id] -= request.chips
            self.bank.held[request.reservation_id] = Held(
                request.account_id, request.game_id, request.chips
            )
            return wallet_pb2.ReserveResponse()

        return self.bank.once("Reserve", request, act)

    async def Void(self, request: wallet_pb2.VoidRequest, context: Context) -> Any:
        """Give a game's chips back and refuse it for ever."""

        def act() -> wallet_pb2.VoidResponse:
            if request.game_id in self.bank.pinned:
                raise precondition("RESERVATION_PINNED", "only games release it")
            self.bank.void(request.game_id)
            return wallet_pb2.VoidResponse()

        return self.bank.once("Void", request, act)

    async def Forfeit(self, request: wallet_pb2.ForfeitRequest, context: Context) -> Any:
        """Leave an account empty."""

        def act() -> wallet_pb2.ForfeitResponse:
            chips = self.bank.balances.get(request.account_id, 0)
            if any(h.account == request.account_id and not h.voided for h in self.held()):
                raise precondition("CHIPS_HELD", "games hold chips of this account")
            if chips and not request.forfeit:
                raise precondition("CHIPS_LEFT", "the account has chips", chips=str(chips))
            self.bank.balances[request.account_id] = 0
            self.bank.issued -= chips
            return wallet_pb2.ForfeitResponse(chips=chips)

        return self.bank.once("Forfeit", request, act)

    def held(self) -> list[Held]:
        """Every reservation."""
        return list(self.bank.held.values())


@dataclass(slots=True)
class Hall:
    """What the game service knows. `pinning` says what to do before a game opens."""

    opened: dict[str, game_pb2.CreateGameRequest] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    refusing: dict[str, Refused] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    pinning: Callable[[str], None] = lambda _game: None
    texts: dict[str, list[str]] = field(default_factory=dict)
    """What players wrote, by player."""


class Games(GameServiceServicer):
    """The part of the game service that the lobby uses."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall

    async def CreateGame(self, request: game_pb2.CreateGameRequest, context: Context) -> Any:
        """Open a game, unless it was cancelled."""
        self.hall.calls.append("CreateGame")
        self.hall.pinning(request.game_id)
        if "CreateGame" in self.hall.refusing:
            raise self.hall.refusing["CreateGame"]
        if request.game_id in self.hall.cancelled:
            raise precondition("GAME_CANCELLED", "the game was cancelled")
        known = self.hall.opened.setdefault(request.game_id, request)
        assert known == request, "the same game was created with other seats"
        return game_pb2.CreateGameResponse(version=1)

    async def CancelGame(self, request: game_pb2.CancelGameRequest, context: Context) -> Any:
        """Say whether the game had been opened; if not, it never will be."""
        self.hall.calls.append("CancelGame")
        if "CancelGame" in self.hall.refusing:
            raise self.hall.refusing["CancelGame"]
        if request.game_id in self.hall.opened:
            return game_pb2.CancelGameResponse(opened=True)
        self.hall.cancelled.add(request.game_id)
        return game_pb2.CancelGameResponse(opened=False)


class Audits(AuditServiceServicer):
    """The part of the audit service that the lobby uses."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall

    async def CheckErasure(self, request: audit_pb2.CheckErasureRequest, context: Context) -> Any:
        """Refuse, or have nothing against it."""
        self.hall.calls.append("CheckErasure")
        if "CheckErasure" in self.hall.refusing:
            raise self.hall.refusing["CheckErasure"]
        return audit_pb2.CheckErasureResponse()

    async def ErasePlayer(self, request: audit_pb2.ErasePlayerRequest, context: Context) -> Any:
        """Remove what a player wrote."""
        self.hall.calls.append("ErasePlayer")
        if "ErasePlayer" in self.hall.refusing:
            raise self.hall.refusing["ErasePlayer"]
        gone = self.hall.texts.pop(request.player_id, [])
        return audit_pb2.ErasePlayerResponse(texts=len(gone))


@dataclass(frozen=True, slots=True)
class Peers:
    """The two services at work, and settings with which a lobby reaches them."""

    bank: Bank
    hall: Hall
    settings: Settings
    wallet: Wallet
    games: Games
    audits: Audits

    def afresh(self, lobby_url: str) -> "Peers":
        """The same services with nothing in them, for a lobby with another database."""
        bank, hall = Bank(), Hall()
        self.wallet.bank, self.games.hall, self.audits.hall = bank, hall, hall
        changed = self.settings.model_copy(update={"lobby_database_url": SecretStr(lobby_url)})
        return Peers(bank, hall, changed, self.wallet, self.games, self.audits)


@asynccontextmanager
async def peers(folder: Path, **changes: Any) -> AsyncIterator[Peers]:
    """A wallet and a game service on free ports, with keys in `folder`."""
    ensure_keys(folder / "keys")
    given: dict[str, Any] = {
        "data_folder": folder,
        **{f"{name}_listen": "127.0.0.1:0" for name in ("lobby", "game", "wallet")},
        "drain_stream_ms": 200,
        "rate_per_second": 100_000,
        "rate_burst": 100_000,
        "address_rate_per_second": 100_000,
        "address_rate_burst": 100_000,
        "peer_rate_per_second": 100_000,
        "peer_rate_burst": 100_000,
    }
    settings = Settings(**(given | changes))
    at_bank, at_hall = Wallet(Bank()), Games(Hall())  # type: ignore[abstract]
    at_audits = Audits(at_hall.hall)  # type: ignore[abstract]

    async def wallet(_process: Process) -> Service:
        def add(server: grpc.aio.Server) -> None:
            add_WalletServiceServicer_to_server(at_bank, server)

        return Service(add, ())

    async def game(_process: Process) -> Service:
        def add(server: grpc.aio.Server) -> None:
            add_GameServiceServicer_to_server(at_hall, server)
            add_AuditServiceServicer_to_server(at_audits, server)

        return Service(add, ())

    async with (
        running("wallet", settings, wallet) as at_wallet,
        running("game", settings, game) as at_game,
    ):
        addresses = {"wallet_address": at_wallet.address, "game_address": at_game.address}
        reaching = Settings(**(given | changes | addresses))
        yield Peers(at_bank.bank, at_hall.hall, reaching, at_bank, at_hall, at_audits)
