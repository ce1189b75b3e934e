"""What follows an event later: closing seeds, deadlines, bot turns, paying out and reporting.

Each is a due row, claimed by any replica. Every action has a request id derived from its row, so
doing it twice has the effect of once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import structlog
from kozyr.ai.v1 import ai_pb2
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import view_pb2
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.game import domain, views
from services.game.endings import Endings
from services.game.games import Games
from services.game.model import Stage, State
from services.game.pacing import Pace
from services.game.peers import Peers
from services.game.questions import question
from services.game.requests import move_of
from services.game.results import bank_flows
from services.game.rulebook import engine_for
from services.game.work import deadline_key
from services.kernel.envelope import Claimed
from services.kernel.errors import Kind, Refused, unavailable
from services.kernel.seats import BotLevel

ABSENT_LEVEL = BotLevel.NORMAL
"""The level at which a bot plays for an absent player."""

WORK_AT_ONCE = 256
"""Due rows that one process handles at the same time. Most are bots' turns, which wait a quarter of
a second for their moment."""
BOTS_AT_ONCE = 192
ENDS_AT_ONCE = 8
"""Of those so many may ask the ai, and so many the wallet and the lobby: while another service
hangs, deadlines still find a free place."""

PASSING = (Kind.UNAVAILABLE, Kind.EXPIRED, Kind.EXHAUSTED, Kind.CONFLICT)
"""Refusals that pass by themselves."""
REFUSED_END_RETRY_MS = 300_000
"""How long the end of a game waits after a refusal of another kind."""
CLOSED_RETRY_MS = 300_000
"""How long work waits whose game is sealed with a master key that is missing."""
Step = Callable[[], Awaitable[object]]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Reactions:
    """Handles the game service's due work."""

    games: Games
    peers: Peers
    endings: Endings
    pace: Pace
    bots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(BOTS_AT_ONCE))
    ends: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ENDS_AT_ONCE))

    async def handle(self, kind: str, row: Claimed) -> None:
        """Do what a due row asks for; returns when it is done, or not needed any more."""
        try:
            await self._react(kind, row)
        except domain.Moot:
            return
        except Refused as refused:
            if refused.reason == "LOG_SEALED":
                refused.retry_after_ms = CLOSED_RETRY_MS
            raise

    async def _react(self, kind: str, row: Claimed) -> None:
        match kind:
            case "seeds":
                stage = Stage[row.key.upper()]
                await self._act(row, domain.CloseSeeds(stage), stored.Metadata(actor="server"))
            case "turn":
                await self._expire(row)
            case "bot":
                if self.bots.locked():
                    raise unavailable("BOTS_BUSY", "too many bots are being asked")
                async with self.bots:
                    await self._bot_turn(row)
            case "end":
                if self.ends.locked():
                    raise unavailable("ENDS_BUSY", "too many games are being paid out")
                async with self.ends:
                    await self._end(row)
            case _:
                raise ValueError(f"no such work: {kind}")

    async def _expire(self, row: Claimed) -> None:
        """The rule's move for a seat whose time is up, unless an outage took some of that time.

        A clock credited meanwhile has a row of its own. A credited one may come due early, where
        this machine's clock is ahead of the database's.
        """
        seat, turn = _decision(row.key)
        if await self.games.credit(row.stream, turn):
            return
        state = (await self.games.load(row.stream)).state
        deadline = state.deadline_of(seat)
        if state.turn != turn or deadline is None or row.key != deadline_key(state, seat):
            return
        early_us = deadline - await self.games.store.now()
        await asyncio.sleep(max(0, early_us) / 1_000_000)
        await self._act(row, domain.Expire(seat, turn), stored.Metadata(actor="server"))

    async def _act(
        self, row: Claimed, command: domain.GameCommand, metadata: stored.Metadata
    ) -> None:
        request_id = f"{row.kind}:{row.key}"
        await self.games.act(row.stream, command, request_id=request_id, metadata=metadata)

    async def _bot_turn(self, row: Claimed) -> None:
        """Make a bot's moves in one decision: a blind seat of Azi may look and then drop."""
        seat, turn = _decision(row.key)
        while True:
            # who has moved since is found out by the append
            loaded = await self.games.load(row.stream, known=row.version)
            if not _is_asked(loaded.state, seat, turn):
                return
            answer = await self.peers.choose_move(
                await self._question(loaded.state, seat, loaded.hash)
            )
            await self._moment(loaded.state, seat)
            command = domain.Play(seat, turn, move_of(loaded.state, answer.move), by_bot=True)
            metadata = stored.Metadata(actor="bot", reason=answer.reason, level=answer.level)
            request_id = f"{row.kind}:{row.key}:{loaded.version}"
            try:
                await self.games.act(row.stream, command, request_id=request_id, metadata=metadata)
            except Refused as refused:
                if refused.kind is Kind.UNAVAILABLE or refused.reason == "CONTENDED":
                    raise
                if refused.reason == "DEADLINE_PASSED":
                    # the row was taken up late; the deadline's own move follows
                    log.warning("bot_move_late", game=str(row.stream), seat=seat)
                elif _is_asked((await self.games.load(row.stream)).state, seat, turn):
                    # The deadline's own move follows; no bot must get here by its choice.
                    log.error(
                        "bot_move_refused", game=str(row.stream), seat=seat, reason=refused.reason
                    )
                return

    async def _moment(self, state: State, seat: int) -> None:
        """Wait until the seat moves at its pace."""
        if self.pace.mean_ms:
            now = await self.games.store.now()
            await asyncio.sleep(self.pace.wait_ms(state, seat, now) / 1_000)

    async def _question(self, state: State, seat: int, head: bytes) -> ai_pb2.ChooseMoveRequest:
        level = state.seats[seat].bot_level or ABSENT_LEVEL
        return await question(self.games, state, seat, head, level, b"bot")

    async def _end(self, row: Claimed) -> None:
        """Pay the game out and tell its table, in this order.

        What is refused for a reason that time alone does not heal is tried again slowly, an
        error in the log each time, and a fault in the game's audit until it succeeds.
        """
        loaded = await self.games.load(row.stream, known=row.version)
        for step, call in self._steps(row.stream, loaded.state, loaded.hash):
            try:
                await call()
            except Refused as refused:
                if refused.kind in PASSING:
                    raise
                log.error(
                    "end_refused",
                    game=str(row.stream),
                    task=step,
                    reason=refused.reason,
                    attempts=row.attempts,
                )
                await self.endings.refused(row.stream, step, refused.reason, row.attempts)
                refused.retry_after_ms = REFUSED_END_RETRY_MS
                raise
        if row.attempts > 1:
            await self.endings.done(row.stream)

    def _steps(self, game_id: UUID, state: State, head: bytes) -> Iterator[tuple[str, Step]]:
        if state.stage is Stage.FINISHED and any(seat.reservation_id for seat in state.seats):
            yield "settle", partial(self.peers.settle, settlement(game_id, state, head))
        elif state.stage is Stage.CANCELLED:
            request = wallet_pb2.VoidRequest(
                request_id=f"void:{game_id}", game_id=str(game_id), reason="GAME_CANCELLED"
            )
            yield "void", partial(self.peers.void, request)
        if state.table_id:
            yield "report", partial(self.peers.report, report(game_id, state))


def settlement(game_id: UUID, state: State, head: bytes) -> wallet_pb2.SettleRequest:
    """What the wallet is told at the end of a game: every seat's chips in and out of banks."""
    lines = [
        wallet_pb2.SettleLine(
            reservation_id=seat.reservation_id, paid_in=paid_in, paid_out=paid_out
        )
        for seat, (paid_in, paid_out) in zip(state.seats, bank_flows(state), strict=True)
    ]
    return wallet_pb2.SettleRequest(
        request_id=f"settle:{game_id}", game_id=str(game_id), lines=lines, head=head
    )


def report(game_id: UUID, state: State) -> lobby_pb2.ReportGameRequest:
    """What the table is told at the end of a game."""
    request = lobby_pb2.ReportGameRequest(
        request_id=f"report:{game_id}",
        table_id=state.table_id,
        game_id=str(game_id),
        stage=view_pb2.Stage.ValueType(state.stage.value),
        left_player_ids=[seat.player_id for seat in state.seats if seat.left],
    )
    if state.result is not None:
        request.result.CopyFrom(views.result_message(state.result))
    return request


def _is_asked(state: State, seat: int, turn: int) -> bool:
    """Whether a bot is to move for this seat in this decision."""
    if state.stage is not Stage.PLAYING or state.turn != turn:
        return False
    return state.seats[seat].is_bot and seat in engine_for(state.rules).to_act(state.engine)


def _decision(key: str) -> tuple[int, int]:
    seat, turn, *_ = key.split(".")
    return int(seat), int(turn)
