"""Rulings carried out: due work of disputes, done by the wallet once however often it is asked.

The wallet is asked under a request id that follows from the game and the number of its rulings, so
of two rulings that were made on the same state of a game only one moves chips: the other dispute is
open again and must be ruled on what is now. A crash before the wallet has acted, after it, or
before its answer is written down leaves a due row, and the same question again.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.wallet.v1 import wallet_pb2

from services.game.disputes import COLLECT, PAY, Dispute, DisputeEvent, due_work
from services.game.peers import Peers
from services.kernel.envelope import Claimed
from services.kernel.errors import Kind, Refused, unavailable
from services.runtime.fingerprint import fingerprint
from services.runtime.streams import Streams

PASSING = (Kind.UNAVAILABLE, Kind.EXPIRED, Kind.EXHAUSTED, Kind.CONFLICT)
"""Refusals that pass by themselves. After others, too, the worker asks again, up to half a minute
later, for somebody may have funded the reserve."""
RULINGS_AT_ONCE = 4
OVERTAKEN = "OVERTAKEN"
"""Why a ruling is taken back: another one on the same game came first."""
MOVED_ON = ("NOT_PAYING", "CLAIM_NOT_CALLED")
"""Refusals of our own events: another worker has written the same."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Compensating:
    """Handles disputes' due work."""

    streams: Streams[Dispute, DisputeEvent, DisputeEvent]
    peers: Peers
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RULINGS_AT_ONCE))
    """Rulings that may be carried out at once; while the wallet hangs, deadlines find a place."""

    async def handle(self, kind: str, row: Claimed) -> None:
        """Do what a due row asks for; returns when it is done, or not needed any more."""
        if self.places.locked():
            raise unavailable("RULINGS_BUSY", "too many rulings are being carried out")
        async with self.places:
            await self._handle(kind, row)

    async def _handle(self, kind: str, row: Claimed) -> None:
        state = (await self.streams.load(row.stream, known=row.version)).state
        if (kind, row.key) not in due_work(state):
            return
        match kind:
            case "pay":
                await self._pay(row, state)
            case "collect":
                await self._collect(row, state)
            case _:
                raise ValueError(f"no such work: {kind}")

    async def _pay(self, row: Claimed, state: Dispute) -> None:
        request = compensation(row.stream, state)
        try:
            reply = await self.peers.compensate(request)
        except Refused as refused:
            if refused.kind in PASSING:
                raise
            if refused.reason == "REQUEST_ID_REUSED":
                withdrawn = stored.RulingWithdrawn(reason=OVERTAKEN)
                await self._write(row.stream, f"overtaken:{row.key}", withdrawn)
                return
            log.error("ruling_refused", dispute=str(row.stream), reason=refused.reason)
            if state.refused != refused.reason:
                event = stored.RulingRefused(reason=refused.reason)
                await self._write(row.stream, f"refused:{row.key}:{row.attempts}", event)
            raise
        claims = [
            stored.DisputeMove(player_id=claim.account_id, chips=claim.chips)
            for claim in reply.claims
        ]
        paid = stored.RulingPaid(transfer_id=reply.transfer_id, claims=claims)
        await self._write(row.stream, f"{PAY}:{row.key}", paid)

    async def _collect(self, row: Claimed, state: Dispute) -> None:
        called, opened = state.called, state.opened
        if called is None or opened is None:
            return
        request = wallet_pb2.CollectRequest(
            request_id=f"claim:{row.stream}:{row.key}",
            dispute_id=str(row.stream),
            game_id=opened.game_id,
            account_id=called.player_id,
            chips=called.chips,
        )
        event: stored.ClaimCollected | stored.ClaimRefused
        try:
            reply = await self.peers.collect(request)
        except Refused as refused:
            if refused.kind in PASSING:
                raise
            event = stored.ClaimRefused(player_id=called.player_id, reason=refused.reason)
        else:
            event = stored.ClaimCollected(
                player_id=called.player_id, chips=reply.chips, transfer_id=reply.transfer_id
            )
        await self._write(row.stream, f"{COLLECT}:{row.key}", event)

    async def _write(self, dispute: UUID, request_id: str, event: DisputeEvent) -> None:
        body_hash = fingerprint(stored.Metadata(actor="server", subject=request_id))
        try:
            await self.streams.transact(dispute, event, request_id=request_id, body_hash=body_hash)
        except Refused as refused:
            if refused.reason not in MOVED_ON:
                raise


def compensation(dispute: UUID, state: Dispute) -> wallet_pb2.CompensateRequest:
    """What the wallet is asked for a ruling: the same octets whoever asks, and however often."""
    if state.opened is None or state.ruled is None:
        raise ValueError("nothing was ruled")
    game_id = state.opened.game_id
    return wallet_pb2.CompensateRequest(
        request_id=f"ruling:{game_id}:{state.ruled.rulings_before}",
        dispute_id=str(dispute),
        game_id=game_id,
        moves=[
            wallet_pb2.Compensation(account_id=move.player_id, chips=move.chips)
            for move in state.ruled.moves
        ],
    )
