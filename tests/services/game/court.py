"""A court about one finished game: its players, two operators, a wallet; all over gRPC."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import audit_pb2
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.kernel.errors import Refused
from services.runtime.keys import OPERATORS
from tests.services.game.system import Seat, System, new_id, system
from tests.services.game.test_service import settled

Dispute = audit_pb2.Dispute
ALONE = 150
"""More chips than rulings of these tests move without a second operator."""


@dataclass
class Court:
    """A finished game of Azi, its players and two operators."""

    house: System
    game_id: str
    players: list[str]
    nets: dict[str, int]
    olga: Seat
    omar: Seat
    seats: dict[str, Seat] = field(default_factory=dict)

    def seat(self, player: str) -> Seat:
        """The game service as a player calls it."""
        return self.seats.setdefault(player, self.house.game(player))

    async def open(self, player: str, words: str = "That was not right.") -> Dispute:
        """Open a dispute."""
        request = audit_pb2.OpenDisputeRequest(
            request_id=new_id(), game_id=self.game_id, complaint=words
        )
        reply: audit_pb2.OpenDisputeResponse
        reply = await self.ask(self.seat(player), "OpenDispute", request)
        return reply.dispute

    async def rule(self, dispute: Dispute, remedy: Any = 0, **moves: int) -> Dispute:
        """Uphold a dispute as olga; `moves` are chips by `p0`, `p1` and so on."""
        request = audit_pb2.ResolveDisputeRequest(
            request_id=new_id(),
            dispute_id=dispute.dispute_id,
            ruling=audit_pb2.RULING_UPHELD,
            explanation="It was so.",
            remedy=remedy,
            moves=[
                audit_pb2.ChipMove(player_id=self.players[int(name[1:])], chips=chips)
                for name, chips in moves.items()
            ],
        )
        reply: audit_pb2.ResolveDisputeResponse
        reply = await self.ask(self.olga, "ResolveDispute", request)
        return reply.dispute

    async def get(self, dispute: Dispute, by: Seat | None = None) -> Dispute:
        """A dispute as somebody sees it, an operator unless named."""
        request = audit_pb2.GetDisputeRequest(dispute_id=dispute.dispute_id)
        reply: audit_pb2.GetDisputeResponse
        reply = await self.ask(by or self.olga, "GetDispute", request)
        return reply.dispute

    async def until(self, dispute: Dispute, state: Any, refused: str = "") -> Dispute:
        """Wait until a dispute stands there."""
        async with asyncio.timeout(20):
            while True:
                now = await self.get(dispute)
                if now.state == state and now.refused == refused:
                    return now
                await asyncio.sleep(0.02)

    async def ask(self, caller: Seat, name: str, request: Any) -> Any:
        """Call an RPC of the audit service."""
        return await caller.call(getattr(caller.audits, name), request)

    async def refused(self, caller: Seat, name: str, request: Any) -> str:
        """The reason for which a call is refused."""
        with pytest.raises(Refused) as caught:
            await self.ask(caller, name, request)
        return caught.value.reason

    async def balance(self, player: str) -> int:
        """What a player can spend."""
        return (await self.house.account(player)).balance

    async def wallet(self, role: str, name: str, request: Any) -> Any:
        """Call the wallet."""
        subject = {"operators": "olga"}.get(role, role)
        client = self.house.client("wallet", role, subject)
        return await client.call(
            getattr(wallet_pb2_grpc.WalletServiceStub(client.channel), name), request
        )

    async def fund(self, chips: int) -> None:
        """Fund the dispute reserve."""
        request = wallet_pb2.FundReserveRequest(request_id=new_id(), chips=chips, reason="Reserve")
        await self.wallet("operators", "FundReserve", request)

    async def spend(self, player: str, chips: int) -> str:
        """Bind chips to another game, so that they cannot be had; the game."""
        game = new_id()
        request = wallet_pb2.ReserveRequest(
            request_id=new_id(),
            reservation_id=new_id(),
            account_id=player,
            game_id=game,
            chips=chips,
            ttl_ms=600_000,
        )
        await self.wallet("lobby", "Reserve", request)
        return game

    async def grant(self, player: str, chips: int) -> None:
        """Give a player chips."""
        request = wallet_pb2.GrantRequest(
            request_id=new_id(), account_id=player, chips=chips, reason="More"
        )
        await self.wallet("operators", "Grant", request)

    async def collect(self, dispute: Dispute, player: str) -> None:
        """Have the claim on a player collected."""
        request = audit_pb2.CollectClaimRequest(
            request_id=new_id(), dispute_id=dispute.dispute_id, player_id=player
        )
        await self.ask(self.olga, "CollectClaim", request)

    async def collected(self, dispute: Dispute, chips: int, refused: str = "") -> None:
        """Wait until so much of the only claim has come in."""
        async with asyncio.timeout(20):
            while True:
                (claim,) = (await self.get(dispute)).claims
                if (claim.collected, claim.refused) == (chips, refused):
                    return
                await asyncio.sleep(0.02)

    async def evidence(self, dispute: Dispute) -> Any:
        """The evidence about a dispute."""
        request = audit_pb2.GetEvidenceRequest(dispute_id=dispute.dispute_id)
        stream = self.olga.client.stream(self.olga.audits.GetEvidence, request)
        return json.loads(b"".join([piece.chunk async for piece in stream]))

    async def faults(self) -> list[str]:
        """What an audit of the game finds."""
        verify = audit_pb2.VerifyGameRequest(game_id=self.game_id)
        verdict = await self.ask(self.olga, "VerifyGame", verify)
        return [fault.detail for fault in verdict.faults]

    async def sound(self) -> bool:
        """Whether the books balance and the audit agrees."""
        request = wallet_pb2.TrialBalanceRequest()
        trial = await self.wallet("operators", "TrialBalance", request)
        return bool(trial.sound) and trial.total == 0 and await self.faults() == []


@asynccontextmanager
async def court(folder: Path, **given: Any) -> AsyncIterator[Court]:
    """A court about a game that three have played."""
    async with system(folder, ruling_alone_chips=ALONE, **given) as house:
        request = await house.open(variant="azi", people=0, bots=3)
        await settled(house)
        players = [seat.player_id for seat in request.seats]
        olga, omar = (Seat(house.client("game", OPERATORS, name)) for name in ("olga", "omar"))
        view = await olga.view(request.game_id)
        nets = {s.player_id: s.stack_after - s.stack_before for s in view.result.seats}
        yield Court(house, request.game_id, players, nets, olga, omar)
