"""The four services as real processes, every kind of caller, and whole games through the API."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, game_pb2, variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli.stack import Stack
from services.client.calls import Caller
from services.client.player import Player
from services.client.tables import Tables
from services.client.watching import ENDED
from services.runtime.connection import connect
from services.runtime.keys import OPERATORS, PLAYERS
from services.runtime.tokens import load_signer
from tests.authority import OPERATORS as OPERATORS_NAME
from tests.authority import Authority, given
from tests.rpcs import path, rpcs

FAST: Mapping[str, str] = {
    "KOZYR_LOG_LEVEL": "debug",
    "KOZYR_RATE_PER_SECOND": "1000000",
    "KOZYR_RATE_BURST": "1000000",
    "KOZYR_ADDRESS_RATE_PER_SECOND": "1000000",
    "KOZYR_ADDRESS_RATE_BURST": "1000000",
    "KOZYR_PEER_RATE_PER_SECOND": "1000000",
    "KOZYR_PEER_RATE_BURST": "1000000",
    "KOZYR_BOT_DELAY_MS": "0",
    "KOZYR_FEED_INTERVAL_MS": "50",
    "KOZYR_HEARTBEAT_MS": "500",
    "KOZYR_AI_WORKERS": "1",
    "KOZYR_STREAMS_PER_CALLER_MAX": "1000",
    "KOZYR_PASSWORD_MEMORY_KIB": "64",
}
"""No limits of rates or streams and no waiting bots; everything a process can log is logged."""

OPERATOR = "olga"
DETAILS = "grpc-status-details-bin"
CALL_SECONDS = 15.0
TOKEN_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended: its code, its reason and details, or the reply."""

    code: grpc.StatusCode
    reply: bytes = b""
    text: str = ""
    status: Status = field(default_factory=Status)

    @property
    def infos(self) -> list[ErrorInfo]:
        """Every ErrorInfo of the details."""
        return [
            ErrorInfo.FromString(detail.value)
            for detail in self.status.details
            if detail.TypeName() == "google.rpc.ErrorInfo"
        ]

    @property
    def reason(self) -> str:
        """The reason of a refusal, empty for none."""
        return self.infos[0].reason if self.infos else ""

    @property
    def fields(self) -> list[str]:
        """The fields a refusal names."""
        return [
            violation.field
            for detail in self.status.details
            if detail.TypeName() == "google.rpc.BadRequest"
            for violation in BadRequest.FromString(detail.value).field_violations
        ]


class House:
    """A running stack and those who call it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._ids = itertools.count(1)

    async def close(self) -> None:
        """Let every connection go."""
        for channel in self._channels.values():
            await channel.close()

    def token(self, role: str, subject: str = "", lifetime_ms: int = TOKEN_MS) -> str:
        """A token for `player` and `operator`, or for a service by its name."""
        issuer = {"player": PLAYERS, "operator": OPERATORS}.get(role, role)
        signer = load_signer(self.stack.settings.keys(), issuer)
        return signer.issue(subject or {"operator": OPERATOR}.get(role, role), lifetime_ms)

    def channel(self, service: str) -> grpc.aio.Channel:
        """A connection that carries anything, however large."""
        if service not in self._channels:
            self._channels[service] = connect(
                self.stack.address(service),
                self.stack.settings,
                service,
                [("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)],
            )
        return self._channels[service]

    async def ask(
        self, service: str, method: MethodDescriptor, raw: bytes, token: str | None
    ) -> Answer:
        """Send raw octets; of a stream the first message is waited for, a second at most."""
        metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        channel: Any = self.channel(service)
        try:
            if method.server_streaming:
                stream = channel.unary_stream(path(method))(
                    raw, metadata=metadata, timeout=CALL_SECONDS
                )
                try:
                    reply = await stream.read()
                    code = await stream.code() if reply is grpc.aio.EOF else grpc.StatusCode.OK
                finally:
                    stream.cancel()
                return Answer(code, b"" if reply is grpc.aio.EOF else reply)
            reply = await channel.unary_unary(path(method))(
                raw, metadata=metadata, timeout=CALL_SECONDS
            )
            return Answer(grpc.StatusCode.OK, reply)
        except grpc.aio.AioRpcError as error:
            status = Status()
            for key, value in error.trailing_metadata() or ():
                if key == DETAILS and isinstance(value, bytes):
                    status = Status.FromString(value)
            return Answer(error.code(), text=error.details() or "", status=status)

    async def send(self, service: str, name: str, request: Any, token: str | None) -> Answer:
        """Send a message to the RPC of this name."""
        method = next(m for s, m in rpcs() if s == service and m.name == name)
        return await self.ask(service, method, request.SerializeToString(), token)

    async def player(self) -> Player:
        """A new player, signed up; close it when done."""
        player = Player(self.stack.settings)
        await player.sign_up(f"Player {next(self._ids)}")
        return player

    def operator(self) -> Caller:
        """An operator's clients; close it when done."""
        token = self.token("operator")
        return Caller(self.stack.settings, lambda: token)

    async def trial(self) -> wallet_pb2.TrialBalanceResponse:
        """The wallet's trial balance."""
        operator = self.operator()
        stub = operator.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
        try:
            reply: wallet_pb2.TrialBalanceResponse = await operator.call(
                "wallet", stub.TrialBalance, wallet_pb2.TrialBalanceRequest()
            )
            return reply
        finally:
            await operator.close()

    async def verify(self, game_id: str) -> audit_pb2.VerifyGameResponse:
        """What the audit says of a game."""
        operator = self.operator()
        stub = operator.stub("game", audit_pb2_grpc.AuditServiceStub)
        try:
            reply: audit_pb2.VerifyGameResponse = await operator.call(
                "game", stub.VerifyGame, audit_pb2.VerifyGameRequest(game_id=game_id)
            )
            return reply
        finally:
            await operator.close()

    def logs(self) -> str:
        """Everything the four processes have written."""
        files = sorted(self.stack.logs.glob("*.log"))
        return "\n".join(file.read_text("utf-8", errors="replace") for file in files)


@asynccontextmanager
async def house(
    folder: Path, authority: Authority | None = None, /, **environment: str
) -> AsyncIterator[House]:
    """Run the four services in `folder`; variables are added to `FAST`.

    With an authority they speak TLS, by certificates in `folder/tls`, and are called by operators'.
    """
    laid = {} if authority is None else authority.lay_all(folder / "tls")
    running = Stack(folder, environment={**FAST, **environment}, apart=laid)
    if authority is not None:
        shown = given(folder / "tls" / OPERATORS_NAME)
        running.settings = running.settings.model_copy(update=shown)
    async with running as stack:
        made = House(stack)
        try:
            yield made
        finally:
            await made.close()


def rules(variant: str, seats: int, **changes: Any) -> lobby_pb2.TableRules:
    """A table's rules; a match of Rami is one short round."""
    made = lobby_pb2.TableRules(seats=seats, **changes)
    getattr(made.options, variant).SetInParent()
    if variant == "rami":
        made.options.rami.target = 10
    return made


async def start(host: Player, given: lobby_pb2.TableRules, *guests: Player) -> tuple[str, str]:
    """Open a table, seat the guests, fill it with bots and start: ids of table and game."""
    table = await Tables(host).create(given)
    for guest in guests:
        await Tables(guest).sit(table.table_id)
    for _ in range(given.seats - 1 - len(guests)):
        await Tables(host).add_bot(table.table_id, variant_pb2.BOT_LEVEL_EASY)
    for player in (*guests, host):
        await Tables(player).ready(table.table_id)
    return table.table_id, await Tables(host).started(table.table_id)


def legal(view: view_pb2.GameView) -> list[Any]:
    """The legal moves of the viewer, if it is his turn."""
    if not view.HasField("seat") or view.seat not in view.to_act:
        return []
    return list(getattr(view, view.WhichOneof("table") or "").legal)


async def move(player: Player, view: view_pb2.GameView, rng: Random) -> view_pb2.GameView:
    """Make a random legal move."""
    request = game_pb2.SubmitMoveRequest()
    chosen = getattr(request.move, view.WhichOneof("table") or "")
    chosen.CopyFrom(rng.choice(legal(view)))
    return await player.submit(view, request.move)


async def play_out(player: Player, game_id: str, rng: Random) -> list[view_pb2.GameView]:
    """Play a seat with random legal moves to the end; every view that came."""
    views = []
    async for update in player.follow(game_id):
        views.append(update.view)
        if legal(update.view):
            await move(player, update.view, rng)
    assert views[-1].stage in ENDED
    return views


async def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait until an async condition holds; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)
