"""Players with a client's manners, and without: they sit down, play, are late, leave, come back.

A request is repeated with the same id until it is answered, and nothing a player knows is rebuilt
from guesses. What was acknowledged or refused is put before the judge.
"""

import asyncio
import hashlib
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from kozyr.game.v1 import game_pb2, variant_pb2, view_pb2
from kozyr.game.v1.game_pb2_grpc import GameServiceStub
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1.identity_pb2_grpc import IdentityServiceStub
from kozyr.lobby.v1.lobby_pb2_grpc import LobbyServiceStub

from services.ai.bots import Level, choose
from services.client.calls import Backoff
from services.kernel.errors import Kind, Refused
from services.runtime.auth import ANYONE, Caller, Role
from services.runtime.wire import games as wire
from tests.sim.house import FOR_EVER
from tests.sim.judge import Judge
from tests.sim.network import Line, Network

STRANGER = str(UUID(int=1))
"""A player who sits nowhere."""
PATIENCE_MS = 86_400_000
"""Players wait for services until the storm is over."""
AGAIN = {Kind.UNAVAILABLE, Kind.EXPIRED, Kind.EXHAUSTED}
"""Refusals after which a client sends the same request again."""
TABLES = ("azi", "durak", "rami")
OVER = {view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED}
MEANT = {
    *("NOT_YOUR_TURN", "STALE_TURN", "DEADLINE_PASSED", "GAME_OVER", "NOT_DEALT", "SEAT_LEFT"),
    *("SEEDS_CLOSED", "SEEDS_OPEN", "SEED_NOT_COMMITTED", "CONTENDED", "GAME_NOT_FOUND"),
}


@dataclass(slots=True)
class Habits:
    """How a player is; chances from 0 to 1."""

    random: float = 0.15
    mischief: float = 0.1
    dawdles: float = 0.02
    leaves: float = 0.0
    sleeps: float = 0.02
    gives_up: float = 0.02
    seeds: float = 0.6
    watched: float = 0.1


@dataclass(eq=False)
class Person:
    """One player. `calm` is set when he is to play on steadily to the end."""

    name: str
    network: Network
    judge: Judge
    random: Random
    habits: Habits
    calm: asyncio.Event
    player_id: str = ""
    caller: Caller = ANYONE
    requests: int = 0
    played: list[UUID] = field(default_factory=list)
    submitted: list[game_pb2.SubmitMoveRequest] = field(default_factory=list)

    @property
    def line(self) -> Line:
        """The way to the services."""
        return Line(self.network, self.caller, timeout_s=3.0)

    def request_id(self) -> str:
        """A fresh request id."""
        self.requests += 1
        return f"{self.name}-request-{self.requests:06}"

    # ------------------------------------------------------------------------------------- asking

    async def ask(self, stub: Any, request: Any) -> Any:
        """Call, and call again with the same request until there is an answer; raises Refused."""
        method = getattr(stub(self.line.channel), type(request).__name__.removesuffix("Request"))
        backoff = Backoff(PATIENCE_MS, self.random.random)
        while True:
            try:
                return await self.line.call(method, request)
            except Refused as refused:
                lost = refused
                again = refused.kind in AGAIN or refused.reason == "CONTENDED"
                if not again:
                    raise
                gives_up = not self.calm.is_set() and self.random.random() < self.habits.gives_up
                if gives_up and isinstance(request, game_pb2.SubmitMoveRequest):
                    raise
            await backoff.wait(lost)

    async def lobby(self, request: Any) -> Any:
        """Ask the lobby."""
        return await self.ask(LobbyServiceStub, request)

    async def change(self, game_id: UUID, seat: int, request: Any) -> Any:
        """Ask for a change of a game, and put its outcome before the judge; None if refused."""
        key = f"{seat}/{request.request_id}"
        try:
            answer = await self.ask(GameServiceStub, request)
        except Refused as refused:
            under_way = self.network.under_way[self.caller.key, request.request_id]
            if refused.kind not in AGAIN and not under_way:
                await self.judge.refused(game_id, key, refused.reason)
            return refused
        view = getattr(answer, "view", None)
        if view is not None:
            await self.judge.shown(self.player_id, view)
        version = int(answer.version if view is None else view.version)
        await self.judge.acknowledged(game_id, key, version)
        return answer

    # --------------------------------------------------------------------------------- at a table

    async def sign_up(self) -> None:
        """Become somebody."""
        request = identity_pb2.SignUpRequest(
            request_id=f"{self.name}-signs-up-with-this", display_name=self.name
        )
        answer = await self.ask(IdentityServiceStub, request)
        self.player_id = answer.player.player_id
        self.caller = Caller(Role.PLAYER, self.player_id, FOR_EVER)

    async def host(self, rules: lobby_pb2.TableRules, bots: int) -> lobby_pb2.Table:
        """Open a table and put bots at it."""
        request = lobby_pb2.CreateTableRequest(request_id=self.request_id(), rules=rules)
        table = (await self.lobby(request)).table
        for _ in range(bots):
            level = variant_pb2.BotLevel.ValueType(self.random.choice((1, 2, 2, 3)))
            added = lobby_pb2.AddBotRequest(
                request_id=self.request_id(), table_id=table.table_id, level=level
            )
            table = (await self.lobby(added)).table
        answer: lobby_pb2.Table = table
        return answer

    async def sit(self, table_id: str, games: int) -> None:
        """Sit at a table and play so many games there, as long as that is possible."""
        sit = lobby_pb2.TakeSeatRequest(request_id=self.request_id(), table_id=table_id)
        with suppress(Refused):  # the host sits there already
            await self.lobby(sit)
        tries = 0
        while len(self.played) < games and tries < 4:
            tries += 1
            game = await self._next_game(table_id)
            if game is None:
                break
            if game.int and game not in self.played:
                self.played.append(game)
                await self.play(game)
                tries = 0
        with suppress(Refused):
            leave = lobby_pb2.LeaveSeatRequest(request_id=self.request_id(), table_id=table_id)
            await self.lobby(leave)

    async def _next_game(self, table_id: str) -> UUID | None:
        """Get ready and wait for the game; None when there will be none here."""
        ready = lobby_pb2.SetReadyRequest(
            request_id=self.request_id(), table_id=table_id, ready=True
        )
        try:
            await self.lobby(ready)
        except Refused as refused:
            if refused.reason != "GAME_RUNNING":
                return None
        for _ in range(60):
            table = (await self.lobby(lobby_pb2.GetTableRequest(table_id=table_id))).table
            mine = next((s for s in table.seats if s.player_id == self.player_id), None)
            if mine is None or table.state == lobby_pb2.TABLE_STATE_CLOSED:
                return None
            playing = table.state == lobby_pb2.TABLE_STATE_PLAYING
            if playing and mine.in_game and UUID(table.game_id) not in self.played:
                return UUID(table.game_id)
            if table.state == lobby_pb2.TABLE_STATE_WAITING:
                if not mine.ready:
                    return UUID(int=0)  # the start failed
                others = [s for s in table.seats if s.player_id and not s.bot_level]
                if len(others) < 2 and self.played:
                    return None  # the others have gone
            await asyncio.sleep(0.5 + self.random.random() * 1.5)
        return None

    # ----------------------------------------------------------------------------------- at a game

    async def play(self, game_id: UUID) -> None:
        """Follow the game and move when asked, to its end."""
        token, seen = b"", 0
        method = GameServiceStub(self.line.channel).WatchGame
        seed = self.random.randbytes(32) if self.random.random() < self.habits.seeds else b""
        sent: set[int] = set()
        while True:
            request = game_pb2.WatchGameRequest(game_id=str(game_id), resume_token=token)
            try:
                async with aclosing(self.line.stream(method, request)) as messages:
                    async for message in messages:
                        if self.random.random() < 0.95:
                            seen = await self.judge.streamed(self.player_id, game_id, message, seen)
                            token = message.resume_token
                        else:
                            break  # it was lost with the connection
                        if message.HasField("heartbeat"):
                            continue
                        part = message.step if message.HasField("step") else message.snapshot
                        if part.view.stage in OVER:
                            return
                        await self._answer(part.view, seed, sent)
                        if not self.calm.is_set() and self.random.random() < self.habits.sleeps:
                            await asyncio.sleep(self.random.random() * 12)
                            break
            except Refused as refused:
                if refused.kind not in AGAIN:
                    raise
            await asyncio.sleep(self.random.random() * 0.2)

    async def _answer(self, view: view_pb2.GameView, seed: bytes, sent: set[int]) -> None:
        """What the view asks of the player, once for each decision."""
        game_id, seat = UUID(view.game_id), view.seat
        if view.seats[seat].left:
            return
        if view.stage == view_pb2.STAGE_COMMITTING and seed and -1 not in sent:
            sent.add(-1)
            commit = game_pb2.CommitSeedRequest(
                request_id=self.request_id(),
                game_id=view.game_id,
                hash=hashlib.sha256(seed).digest(),
            )
            await self.change(game_id, seat, commit)
        if view.stage == view_pb2.STAGE_REVEALING and seed and -2 not in sent:
            sent.add(-2)
            reveal = game_pb2.RevealSeedRequest(
                request_id=self.request_id(), game_id=view.game_id, seed=seed
            )
            await self.change(game_id, seat, reveal)
        if view.stage != view_pb2.STAGE_PLAYING:
            return
        if not self.calm.is_set():
            if self.random.random() < self.habits.mischief:
                await self._mischief(view)
            if self.random.random() < self.habits.watched:
                await self._let_a_stranger_look(view)
            if self.random.random() < self.habits.leaves:
                leave = game_pb2.LeaveGameRequest(
                    request_id=self.request_id(), game_id=view.game_id
                )
                await self.change(game_id, seat, leave)
                return
        if seat in view.to_act and view.turn not in sent:
            sent.add(view.turn)
            await self._move(view)

    async def _move(self, view: view_pb2.GameView) -> None:
        dawdles = not self.calm.is_set() and self.random.random() < self.habits.dawdles
        think = view.clock.turn_ms / 1_000 * 1.2 if dawdles else 0.3
        await asyncio.sleep(self.random.random() * think)
        request = game_pb2.SubmitMoveRequest(
            request_id=self.request_id(), game_id=view.game_id, turn=view.turn
        )
        request.move.CopyFrom(self._chosen(view))
        self.submitted.append(request)
        outcome = await self.change(UUID(view.game_id), view.seat, request)
        if isinstance(outcome, Refused):
            known = outcome.reason in MEANT or outcome.kind in AGAIN
            assert known, f"a legal move was refused: {outcome.reason} {outcome.message}"

    def _chosen(self, view: view_pb2.GameView) -> variant_pb2.Move:
        variant = view.WhichOneof("table") or ""
        game = wire.of(variant)
        seen = game.view.from_wire(getattr(view, variant), "view")
        if self.random.random() < self.habits.random and not self.calm.is_set():
            move = self.random.choice(seen.legal)
        else:
            move = choose(variant, seen, (), Level.NORMAL, Random(self.random.random())).move
        made = variant_pb2.Move()
        getattr(made, variant).CopyFrom(game.move.to_wire(move))
        return made

    async def _mischief(self, view: view_pb2.GameView) -> None:
        """Something that must be refused, or do nothing."""
        kind = self.random.randrange(5)
        request = game_pb2.SubmitMoveRequest(
            request_id=self.request_id(), game_id=view.game_id, turn=view.turn
        )
        variant = view.WhichOneof("table") or ""
        if kind == 0 and view.turn > 1:  # late: for a decision that is over
            request.turn = view.turn - 1
            request.move.CopyFrom(self._any_card(variant))
        elif kind == 1:  # foreign: a move of another game
            other = self.random.choice([name for name in TABLES if name != variant])
            request.move.CopyFrom(self._any_card(other))
        elif kind == 2 and self.submitted:  # the same request with another body
            before = self.random.choice(self.submitted)
            request.CopyFrom(before)
            request.move.CopyFrom(self._any_card(variant))
            if request == before:
                return
        elif kind == 3 and self.submitted:  # an old request once more: it has no new effect
            with suppress(Refused):
                await self.line.call(
                    GameServiceStub(self.line.channel).SubmitMove,
                    self.random.choice(self.submitted),
                )
            return
        else:  # out of turn, or a card that is not there
            if view.seat in view.to_act:
                return
            request.move.CopyFrom(self._any_card(variant))
        try:
            answer = await self.line.call(GameServiceStub(self.line.channel).SubmitMove, request)
        except Refused:
            return
        raise AssertionError(f"mischief {kind} was taken at version {answer.view.version}")

    async def _let_a_stranger_look(self, view: view_pb2.GameView) -> None:
        """Where spectators may come in, one sees what lies open; elsewhere there is no game."""
        line = Line(self.network, Caller(Role.PLAYER, STRANGER, FOR_EVER))
        method = GameServiceStub(line.channel).GetGame
        try:
            answer = await line.call(method, game_pb2.GetGameRequest(game_id=view.game_id))
        except Refused as refused:
            if refused.kind not in AGAIN and refused.reason != "GAME_NOT_FOUND":
                raise
            return
        await self.judge.overseen(STRANGER, answer.view)

    def _any_card(self, variant: str) -> variant_pb2.Move:
        move, card = variant_pb2.Move(), 1 + self.random.randrange(52)
        match variant:
            case "azi":
                move.azi.play_card.card = card  # type: ignore[assignment]
            case "durak":
                move.durak.attack.card = card  # type: ignore[assignment]
            case _:
                move.rami.discard.card = card  # type: ignore[assignment]
        return move
