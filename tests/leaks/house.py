"""A game service as it is composed, over real gRPC, in which a world is played command by command.

Nothing happens there by itself: what the worker of due work and the checkpointer would do is done
when the world says, so that two worlds of one game take the same steps.
"""

import asyncio
import atexit
import io
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from kozyr.ai.v1 import ai_pb2
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import game_pb2
from kozyr.wallet.v1 import wallet_pb2
from sqlalchemy import select

from services.ai import server as ai_server
from services.game import domain, server
from services.game.checkpoints import Checkpointer
from services.game.delays import Delays
from services.game.games import Games
from services.game.model import State
from services.game.pacing import AT_ONCE
from services.game.peers import Peers
from services.game.reactions import Reactions
from services.kernel.envelope import Claimed
from services.runtime import spans
from services.runtime.database import read
from services.runtime.due import DueWorker
from services.runtime.keys import OPERATORS, PLAYERS, ensure_keys
from services.runtime.migrate import migrate
from services.runtime.server import running
from services.runtime.settings import Settings
from services.runtime.spans import Tracing
from services.runtime.store.schema import work
from services.runtime.tokens import load_signer
from services.runtime.wire import games as wire
from tests import postgres
from tests.logs import logged
from tests.runtime.series import Series, series
from tests.sent import Ended
from tests.services.game import worlds
from tests.services.game.logs import GAME_ID, player
from tests.services.game.worlds import Viewer

DETAILS = "grpc-status-details-bin"
HOUR_MS = 3_600_000
STRANGER = "01890a5d-ac96-774b-bcce-0000000009ff"
MEMORY = Path("/dev/shm")
GAME = "/kozyr.game.v1.GameService/"


@dataclass(frozen=True, slots=True)
class Said:
    """How a call ended: the octets of all its replies, or of the refusal's details."""

    replies: tuple[bytes, ...]
    code: str = "OK"
    details: bytes = b""


@dataclass
class Stream:
    """What a watcher has been sent, and the task that takes it."""

    messages: list[bytes] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def version(self) -> int:
        """How far it has come."""
        if not self.messages:
            return 0
        last = game_pb2.WatchGameResponse.FromString(self.messages[-1])
        return last.step.to_version or last.snapshot.view.version


@dataclass
class House:
    """The service, its callers, and what it has written to its log."""

    settings: Settings
    games: Games
    checkpointer: Checkpointer
    written: io.StringIO
    channel: Any
    ai: Any
    """A channel to the ai service, whose lines go where the game service's go."""
    tracing: Tracing
    ended_spans: Ended
    """The spans of both that have ended; every call is traced."""
    before: Mapping[Series, float] = field(default_factory=series)
    """The metrics when the house was opened."""
    streams: dict[Viewer, Stream] = field(default_factory=dict)
    timers: list[list[tuple[Any, ...]]] = field(default_factory=list)
    """The due rows after each append, their moments counted from the append that asked for them."""
    moments: dict[int, int] = field(default_factory=dict)
    """When each append was recorded, by its last version."""
    questions: dict[int, list[ai_pb2.ChooseMoveRequest]] = field(default_factory=dict)
    """What bots were asked, by seat."""
    advice: list[ai_pb2.ChooseMoveRequest] = field(default_factory=list)
    """What bots were asked for hints."""
    asked: set[str] = field(default_factory=set)
    """The RPCs that were called."""

    async def think(self, question: ai_pb2.ChooseMoveRequest) -> Said:
        """Ask the ai service as the game service does."""
        token = load_signer(self.settings.keys(), "game").issue("game", HOUR_MS)
        metadata = [("authorization", f"Bearer {token}"), ("x-request-id", "leaks")]
        try:
            reply = await self.ai.unary_unary("/kozyr.ai.v1.AiService/ChooseMove")(
                question.SerializeToString(), metadata=metadata, timeout=30
            )
        except grpc.aio.AioRpcError as error:
            return Said((), error.code().name)
        return Said((reply,))

    async def advise(self, question: ai_pb2.ChooseMoveRequest) -> Any:
        """Ask the ai service for a hint, as the game service does."""
        self.advice.append(question)
        (reply,) = (await self.think(question)).replies
        return ai_pb2.ChooseMoveResponse.FromString(reply)

    async def ended(self) -> list[Message]:
        """What wallet and lobby are told at the end of the game."""
        told: list[Message] = []

        async def tell(request: Message) -> None:
            told.append(request)

        peers: Any = SimpleNamespace(settle=tell, void=tell, report=tell)
        row = Claimed(GAME_ID, "end", "", 0, 0, 1)
        unused: Any = None
        await Reactions(self.games, peers, unused, AT_ONCE).handle("end", row)
        return told

    def token(self, viewer: Viewer, *, operator: bool = False) -> str:
        """A token of a seat's player, of a stranger, or of an operator."""
        role = OPERATORS if operator else PLAYERS
        subject = "olga" if operator else STRANGER if viewer is None else player(viewer)
        return load_signer(self.settings.keys(), role).issue(subject, HOUR_MS)

    async def ask(
        self, method: str, request: Any, viewer: Viewer = None, *, operator: bool = False
    ) -> Said:
        """Call and take all that comes."""
        self.asked.add(method)
        bearer = f"Bearer {self.token(viewer, operator=operator)}"
        metadata = [("authorization", bearer), ("x-request-id", "leaks")]
        call = self.channel.unary_stream(method)(
            request.SerializeToString(), metadata=metadata, timeout=30
        )
        try:
            return Said(tuple([reply async for reply in call]))
        except grpc.aio.AioRpcError as error:
            trailing: Any = [value for key, value in error.trailing_metadata() if key == DETAILS]
            return Said((), error.code().name, b"".join(trailing))

    async def follow(self, viewer: Viewer) -> None:
        """Begin to watch as somebody, and wait for the first message."""
        self.asked.add(f"{GAME}WatchGame")
        stream = self.streams[viewer] = Stream()
        request = game_pb2.WatchGameRequest(game_id=str(GAME_ID))
        metadata = [("authorization", f"Bearer {self.token(viewer)}")]
        call = self.channel.unary_stream(f"{GAME}WatchGame")(
            request.SerializeToString(), metadata=metadata
        )

        async def take() -> None:
            with suppress(grpc.aio.AioRpcError):
                async for message in call:
                    stream.messages.append(message)

        stream.task = asyncio.create_task(take())
        await self.reached(viewer, 1)

    async def reached(self, viewer: Viewer, version: int) -> None:
        """Wait until a watcher has been told of a version."""
        stream = self.streams[viewer]
        async with asyncio.timeout(20):
            while stream.version() < version:
                await asyncio.sleep(0.001)

    async def shown(self, viewer: Viewer) -> int:
        """The version that a viewer is shown by now."""
        loaded = await self.games.load(GAME_ID)
        return (await Delays(self.games).seen(loaded, viewer)).version

    async def state(self) -> State:
        """The game now."""
        return (await self.games.load(GAME_ID)).state

    async def carry_out(self, number: int, command: domain.GameCommand) -> None:
        """Take the world's next step in the way it happens: by a call, or by due work."""
        before = await self.games.load(GAME_ID)
        match command:
            case domain.Play() if not command.by_bot:
                request = game_pb2.SubmitMoveRequest(
                    request_id=f"move-{number}", game_id=str(GAME_ID), turn=command.turn
                )
                variant = before.state.variant
                move = wire.of(variant).move.to_wire(command.move)
                getattr(request.move, variant).CopyFrom(move)
                await self.ask(f"{GAME}SubmitMove", request, command.seat)
            case domain.Return():
                back = game_pb2.ReturnToSeatRequest(request_id=f"on-{number}", game_id=str(GAME_ID))
                await self.ask(f"{GAME}ReturnToSeat", back, command.seat)
            case domain.LeaveSeat():
                leave = game_pb2.LeaveGameRequest(request_id=f"go-{number}", game_id=str(GAME_ID))
                await self.ask(f"{GAME}LeaveGame", leave, command.seat)
            case _:
                if isinstance(command, domain.Play):
                    await self._question(before.state, command.seat, before.hash)
                metadata = stored.Metadata(actor="server", reason="as it was")
                row = Claimed(GAME_ID, "turn", str(number), before.version, 0, 1)
                with self.tracing.working(row):
                    await self.games.act(
                        GAME_ID, command, request_id=f"step:{number}", metadata=metadata
                    )
        after = await self.games.load(GAME_ID)
        assert after.version > before.version, "a step of the world led nowhere"
        self.moments[after.version] = after.recorded_at
        await self._time()

    async def _question(self, state: State, seat: int, head: bytes) -> None:
        asked = Reactions(self.games, Any, Any, AT_ONCE)  # type: ignore[arg-type] # no peer is called
        self.questions.setdefault(seat, []).append(await asked._question(state, seat, head))

    async def _time(self) -> None:
        async with read(self.games.store._engine) as connection:  # type: ignore[attr-defined]
            rows = await connection.execute(select(work).order_by(work.c.kind, work.c.key))
            found = [(r.kind, r.key, r.version, r.due_at - self.moments[r.version]) for r in rows]
        self.timers.append(found)


@cache
def furnished() -> Path:
    """A folder with keys and a migrated database, made once a process, to be copied."""
    folder = Path(mkdtemp(prefix="kozyr-leaks-", dir=MEMORY if MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ensure_keys(folder / "keys")
    url = f"sqlite+aiosqlite:///{folder}/game.db"
    postgres.in_own_loop(migrate(url, server.FOLDERS))
    return folder


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    """A new one, in a folder of its own; it logs all that can be logged."""
    template = furnished()
    folder = Path(mkdtemp(prefix="world-", dir=template))
    shutil.copy(template / "game.db", folder / "game.db")
    settings = Settings(
        data_folder=folder,
        key_folder=template / "keys",
        game_listen="127.0.0.1:0",
        ai_listen="127.0.0.1:0",
        rate_per_second=1e6,
        rate_burst=1e6,
        address_rate_per_second=1e6,
        address_rate_burst=1e6,
        checkpoint_ms=600_000,
        heartbeat_ms=600_000,
        wallet_address="127.0.0.1:1",
        peer_timeout_ms=500,
        bot_delay_ms=400,
        otlp_endpoint="http://127.0.0.1:1",
        trace_ratio=1.0,
    )
    made: dict[type, Any] = {}

    def kept(cls: type) -> Any:
        def make(*given: Any, **named: Any) -> Any:
            made[cls] = cls(*given, **named)
            return made[cls]

        return make

    written, ended = io.StringIO(), Ended()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for cls in (Games, Checkpointer):
            patch.setattr(server, cls.__name__, kept(cls))
        patch.setattr(spans, "Tracing", kept(Tracing))
        patch.setattr(spans, "open_sender", lambda settings: ended)
        patch.setattr(DueWorker, "start", lambda worker: None)
        patch.setattr(DueWorker, "stop", _nothing)
        patch.setattr(DueWorker, "healthy", True)
        patch.setattr(Checkpointer, "run", lambda checkpointer, drain: drain.started.wait())
        stack.enter_context(logged(written, "game", "debug"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        process = await stack.enter_async_context(running("game", settings, server.compose))
        tracing = made[Tracing]
        patch.setattr(ai_server, "Workers", Nobody)
        patch.setattr(Peers, "reservations", _no_reservations)
        patch.setattr(Peers, "transfers", _no_transfers)
        ai = await stack.enter_async_context(running("ai", settings, ai_server.compose))
        channel, asked = [grpc.aio.insecure_channel(each.address) for each in (process, ai)]
        stack.push_async_callback(channel.close)
        stack.push_async_callback(asked.close)
        opened = House(
            settings, made[Games], made[Checkpointer], written, channel, asked, tracing, ended
        )
        patch.setattr(Peers, "choose_move", opened.advise)
        try:
            yield opened
        finally:
            for stream in opened.streams.values():
                if stream.task is not None:
                    stream.task.cancel()


async def _no_reservations(_peers: Peers, game_id: str) -> wallet_pb2.ListReservationsResponse:
    """The wallet knows nothing of the game."""
    return wallet_pb2.ListReservationsResponse()


async def _no_transfers(_peers: Peers, game_id: str) -> list[wallet_pb2.GameTransfer]:
    """No chips have moved."""
    return []


class Nobody:
    """Workers for bots that need none."""

    count = 1

    def __init__(self, *_: Any) -> None:
        pass

    async def start(self) -> None:
        """There is nobody to start."""

    check = close = start


async def _nothing(_worker: DueWorker, grace_s: float = 0.0) -> None:
    """There is nothing to stop."""


@asynccontextmanager
async def played(
    commands: Sequence[domain.GameCommand], decks: worlds.Decks, watchers: Sequence[Viewer]
) -> AsyncIterator[House]:
    """A house in which the world of these commands and decks has been played and watched."""
    with worlds.dealing(decks):
        async with house() as opened:
            for number, command in enumerate(commands):
                await opened.carry_out(number, command)
                if not number:
                    for viewer in watchers:
                        await opened.follow(viewer)
            for viewer in watchers:
                await opened.reached(viewer, await opened.shown(viewer))
            await opened.checkpointer.try_round()
            yield opened
