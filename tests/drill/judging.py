"""What must hold when all is calm again, found from logs, ledger and what players remember."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, game_pb2, view_pb2
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli.audit import verify
from services.cli.faults import fault_line
from services.cli.wallet import statement, trial_balance
from services.client import lists
from services.client.calls import Caller
from services.client.watching import ENDED
from services.game import audit
from services.game.model import ClockCredited, EngineEvent, Stage
from services.kernel.envelope import Recorded, appends
from tests.drill.faults import Outage
from tests.drill.witness import Acknowledged, Record

DueLeft = Callable[[], Awaitable[list[tuple[str, str, int]]]]
"""The due work there is but the closing of tables that wait: service, kind, how many rows."""
DUE = "SELECT kind, count(*) FROM work WHERE kind NOT IN ('idle', 'unready') GROUP BY kind"
WORKING = ("game", "lobby")
"""Services that have due work."""
PAGE = 500
SETTLE_SECONDS = 20.0
LINES_MAX = 1_000


@dataclass(slots=True)
class Findings:
    """Counts of what was looked at, and every fault by its kind, with a few examples."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def fault(self, kind: str, detail: str) -> None:
        """Something is not as it must be."""
        self.faults[kind] += 1
        if self.faults[kind] <= 5:
            self.examples.append(f"{kind}: {detail}")


@dataclass(frozen=True, slots=True)
class Judge:
    """Looks at everything as an operator does."""

    operator: Caller
    due: DueLeft
    record: Record
    outages: Sequence[Outage]
    outage_ms: int
    found: Findings = field(default_factory=Findings)

    async def all(self) -> Findings:
        """Judge every game there is."""
        summaries = [g async for g in lists.games(self.operator, game_pb2.ListGamesRequest())]
        missing = self.record.games - {summary.game_id for summary in summaries}
        for game_id in missing:
            self.found.fault("game lost", game_id)
        await self._until_settled()
        moves: dict[str, list[Acknowledged]] = {}
        for move in self.record.moves:
            moves.setdefault(move.game_id, []).append(move)
        for summary in summaries:
            rows = await self._rows(summary.game_id)
            self._log(summary.game_id, rows, moves.get(summary.game_id, []))
            self._expiries(summary.game_id, rows)
            await self._audit(summary.game_id)
            await self._chips(summary)
        await self._trial()
        return self.found

    async def _until_settled(self) -> None:
        """Wait until no work is left that came due with a game's end."""
        left: list[tuple[str, str, int]] = []
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while left := await self.due():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            for name, kind, count in left:
                self.found.fault("work left undone", f"{name}: {count} of {kind}")

    async def _rows(self, game_id: str) -> list[Recorded]:
        stub: Any = self.operator.stub("game", audit_pb2_grpc.AuditServiceStub)
        request = audit_pb2.ReadLogRequest(game_id=game_id, page_size=PAGE)
        rows: list[Recorded] = []
        while True:
            reply = await self.operator.call("game", stub.ReadLog, request)
            rows += [_recorded(UUID(game_id), row) for row in reply.rows]
            if not reply.more:
                return rows
            request.after_version = rows[-1].version

    def _log(
        self, game_id: str, rows: Sequence[Recorded], acknowledged: Sequence[Acknowledged]
    ) -> None:
        """Every version once; every request once; every acknowledged move where it was said."""
        counts, found = self.found.counts, self.found
        counts["events"] += len(rows)
        counts["acknowledged moves"] += len(acknowledged)
        if [row.version for row in rows] != list(range(1, len(rows) + 1)):
            found.fault("versions are not 1, 2, 3 …", game_id)
        if self.record.seen.get(game_id, 0) > len(rows):
            found.fault("a version that was shown is not in the log", game_id)
        ends: dict[str, int] = {}
        for group in appends(rows):
            request_id = group[0].request_id or ""
            if request_id in ends:
                found.fault("a move twice", f"{game_id} {request_id}")
            ends[request_id] = group[-1].version
        for move in acknowledged:
            end = ends.get(f"{move.seat}/{move.request_id}")
            if end is None:
                found.fault("acknowledged move lost", f"{game_id} {move.version}")
            elif end != move.version:
                found.fault("acknowledged at another version", f"{game_id} {move.version} {end}")

    def _expiries(self, game_id: str, rows: Sequence[Recorded]) -> None:
        """Nobody was timed out who had not had his time, or was there to use it."""
        for append in audit.replay(rows):
            before, at = append.before, append.rows[0].recorded_at
            for event in append.events:
                if isinstance(event, ClockCredited):
                    self.found.counts["clocks credited"] += 1
                if not isinstance(event, EngineEvent):
                    continue
                if type(event.event).__name__ != "TurnExpired" or before.stage is not Stage.PLAYING:
                    continue
                seat = event.event.seat
                where = f"{game_id} seat {seat} turn {before.turn} version {append.rows[0].version}"
                if before.seats[seat].is_bot:
                    self.found.counts["bots timed out"] += 1
                else:
                    self.found.counts["people timed out"] += 1
                    if (game_id, seat, before.turn) not in self.record.slept:
                        self.found.fault("timed out though awake", where)
                lost = sum(_overlap(outage, before.turn_at, at) for outage in self.outages)
                lost_most = sum(
                    _overlap(outage, before.turn_at, at) > 0 for outage in self.outages
                ) * (self.outage_ms * 1_000)
                had = at - before.turn_at - lost
                if had + lost_most < before.turn_ms * 1_000:
                    self.found.fault("timed out by an outage", f"{where}: had {had // 1000} ms")
                if at < (before.deadline_of(seat) or 0):
                    self.found.fault("timed out before the deadline", where)

    async def _audit(self, game_id: str) -> None:
        found = await verify(self.operator, game_id)
        self.found.counts["games audited"] += 1
        for fault in found.faults:
            self.found.fault("audit", f"{game_id} {fault_line(fault)}")

    async def _chips(self, game: game_pb2.GameSummary) -> None:
        """The game has ended; its reservations are posted, each account's lines say its result."""
        self.found.counts["games"] += 1
        if game.stage not in ENDED:
            self.found.fault("game stuck", f"{game.game_id} at version {game.version}")
            return
        stub: Any = self.operator.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
        held = await self.operator.call(
            "wallet",
            stub.ListReservations,
            wallet_pb2.ListReservationsRequest(game_id=game.game_id),
        )
        finished = game.stage == view_pb2.STAGE_FINISHED
        state = (
            wallet_pb2.RESERVATION_STATE_POSTED if finished else wallet_pb2.RESERVATION_STATE_VOIDED
        )
        staked = any(seat.stack_before for seat in game.result.seats)
        if len(held.reservations) != (len(game.seats) if staked else 0):
            self.found.fault("reservations of another number", game.game_id)
        for reservation in held.reservations:
            if reservation.state != state:
                self.found.fault("reservation not closed", reservation.reservation_id)
        if not staked:
            return
        self.found.counts["games settled"] += 1
        settled: set[str] = set()
        for seat in game.result.seats:
            lines = await statement(self.operator, seat.player_id, game.game_id, LINES_MAX)
            transfers = {
                line.transfer_id for line in lines if line.kind == wallet_pb2.TRANSFER_KIND_SETTLE
            }
            settled |= transfers
            change = sum(line.chips for line in lines)
            if change != seat.stack_after - seat.stack_before:
                self.found.fault("ledger and log differ", f"{game.game_id} seat {seat.seat}")
        if len(settled) != 1:
            self.found.fault("not settled exactly once", f"{game.game_id}: {len(settled)}")

    async def _trial(self) -> None:
        trial = await trial_balance(self.operator)
        if trial.total or not trial.sound:
            self.found.fault("ledger does not sum to zero", str(trial.total))
        if trial.open_reservations:
            self.found.fault("reservation left", str(trial.open_reservations))


def _recorded(stream: UUID, row: audit_pb2.LogRow) -> Recorded:
    return Recorded(
        stream=stream,
        version=row.version,
        name=row.name,
        schema=row.schema,
        payload=row.payload,
        metadata=row.metadata,
        request_id=row.request_id or None,
        body_hash=row.body_hash or None,
        recorded_at=row.recorded_at,
        secret_digest=row.secret_digest or None,
        salt=row.salt or None,
        secret=row.secret or None,
        hash=row.hash,
    )


def _overlap(outage: Outage, began: int, ended: int) -> int:
    return max(0, min(ended, outage.ended_at) - max(began, outage.began_at))
