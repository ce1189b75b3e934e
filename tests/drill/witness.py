"""Players who remember everything that they were told: what was acknowledged, what streams said."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from kozyr.game.v1 import game_pb2, game_pb2_grpc
from kozyr.lobby.v1 import identity_pb2_grpc

from services.client.player import Player
from services.kernel.errors import Refused
from services.runtime.clients import Client
from services.runtime.settings import SERVICES, Settings

PATIENCE_MS = 90_000
DELAYED_SECONDS = 1.0
EXAMPLES_MAX = 5
GAME = game_pb2.DESCRIPTOR


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A move the service has said to have: its game, seat and request, the version it led to."""

    game_id: str
    seat: int
    request_id: str
    version: int


@dataclass(slots=True)
class Record:
    """What all witnesses together saw and did.

    `slept` holds decisions (game, seat, turn) that a player let pass on purpose; `seen` the
    highest version anybody was shown of a game; `not_stored` when the database refused a game's
    move (Unix microseconds); `answered` when each move was sent (Unix seconds) and how long its
    answer took, the client's tries together (seconds); `wrong` what must never come, with examples.
    """

    moves: list[Acknowledged] = field(default_factory=list)
    slept: set[tuple[str, int, int]] = field(default_factory=set)
    games: set[str] = field(default_factory=set)
    not_stored: list[int] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    answered: list[tuple[float, float]] = field(default_factory=list)
    streams: int = 0
    resumed: int = 0
    steps: int = 0
    slowest: float = 0.0
    delayed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def fault(self, kind: str, detail: str) -> None:
        """Something came that must not."""
        self.wrong[kind] += 1
        if self.wrong[kind] <= EXAMPLES_MAX:
            self.examples.append(f"{kind}: {detail}")

    def watched(
        self, game_id: str, last: int | None, message: game_pb2.WatchGameResponse
    ) -> int | None:
        """A message of one stream after version `last`; the version it brings the viewer to."""
        event = message.WhichOneof("event")
        if event == "heartbeat":
            if message.heartbeat.version != (last or 0):
                self.fault("heartbeat of another version", f"{game_id} {last}")
            return last
        part = message.step if event == "step" else message.snapshot
        first, view = part.from_version, part.view
        expected = 1 if last is None else last + 1
        if first < expected or view.version < first:
            self.fault("version twice or backwards", f"{game_id}: {first} after {last}")
        elif first > expected:
            self.fault("version left out", f"{game_id}: {first} after {last}")
        self.steps += 1
        self.seen[game_id] = max(self.seen.get(game_id, 0), view.version)
        return view.version


class Remembering(Client):
    """A client to one service that writes down what it is answered."""

    def __init__(
        self, service: str, settings: Settings, token: Callable[[], str | None], record: Record
    ) -> None:
        super().__init__(settings.address(service), settings, token, service=service)
        self._record = record
        self._versions: dict[bytes, int | None] = {}

    async def call(self, method: Any, request: Any, timeout_ms: int | None = None) -> Any:
        """As `Client.call`; an acknowledged move and every failure are remembered."""
        try:
            reply = await super().call(method, request, timeout_ms)
        except Refused as refused:
            self._record.failures[refused.reason] += 1
            if refused.reason == "STORE_UNAVAILABLE" and request.DESCRIPTOR.file is GAME:
                self._record.not_stored.append(time.time_ns() // 1_000)
            raise
        if isinstance(request, game_pb2.SubmitMoveRequest):
            acknowledged = Acknowledged(
                request.game_id, reply.view.seat, request.request_id, reply.view.version
            )
            self._record.moves.append(acknowledged)
        return reply

    async def stream(
        self, method: Any, request: Any, silence: Callable[[Any], float | None] = lambda _: None
    ) -> AsyncGenerator[Any, None]:
        """As `Client.stream`; every message of a game is compared with the one before."""
        stream: AsyncGenerator[Any, None] = super().stream(method, request, silence)
        watching = isinstance(request, game_pb2.WatchGameRequest)
        if watching:
            self._record.streams += 1
            self._record.resumed += bool(request.resume_token)
            last = self._versions.get(request.resume_token)
        else:
            last = None
        async with aclosing(stream):
            async for message in stream:
                if watching:
                    last = self._record.watched(request.game_id, last, message)
                    self._versions[message.resume_token] = last
                yield message


class Witness(Player):
    """A player who remembers."""

    def __init__(self, settings: Settings, record: Record) -> None:
        super().__init__(settings, PATIENCE_MS)
        self.record = record
        self._unused = list(self._clients.values())
        self._clients = {
            name: Remembering(name, settings, lambda: self.access_token, record)
            for name in SERVICES
        }
        self._identity = self.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
        self._games = self.stub("game", game_pb2_grpc.GameServiceStub)

    async def call(self, service: str, method: Any, request: Any) -> Any:
        """As `Player.call`, timed."""
        sent, began = time.time(), time.monotonic()
        try:
            reply = await super().call(service, method, request)
            if isinstance(request, game_pb2.SubmitMoveRequest):
                self.record.answered.append((sent, time.monotonic() - began))
            return reply
        finally:
            spent = time.monotonic() - began
            self.record.slowest = max(self.record.slowest, spent)
            self.record.delayed += spent > DELAYED_SECONDS

    async def close(self) -> None:
        """Let all connections go."""
        await super().close()
        for client in self._unused:
            await client.close()
