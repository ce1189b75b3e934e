"""`kozyr dispute`: complaints about games, evidence, rulings, and what comes of them."""

import argparse
import asyncio
import re
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, game_pb2, game_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.operators import OPERATOR
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, show
from services.client.calls import Caller
from services.runtime.settings import Settings

RULINGS = {"upheld": audit_pb2.RULING_UPHELD, "dismissed": audit_pb2.RULING_DISMISSED}
RULED = {value: name for name, value in RULINGS.items()}
STATES: dict[int, str] = {
    audit_pb2.DISPUTE_STATE_OPEN: "open",
    audit_pb2.DISPUTE_STATE_AWAITING_APPROVAL: "awaits a second operator",
    audit_pb2.DISPUTE_STATE_PAYING: "chips on their way",
    audit_pb2.DISPUTE_STATE_CLOSED: "closed",
}
REMEDIES: dict[int, str] = {
    audit_pb2.REMEDY_VOID: "stakes go back",
    audit_pb2.REMEDY_CORRECTION: "chips are put right",
}
MOVE = re.compile(r"(\d+)=([+-]\d+)")
PAYING_SECONDS = 3.0
"""How long a command waits to tell that the chips have moved."""
MINE = ("open",)
"""What a player does; the rest is for operators, or for players with --mine."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "dispute",
        "Open a dispute as a player of the game; as an operator look at disputes and their "
        "evidence, rule, approve what moves many chips, collect claims. docs/disputes.md shows it.",
        "kozyr dispute open last --at 41 'the bank should be mine'",
    )
    doing = made.add_subparsers(
        dest="doing",
        required=True,
        metavar="open|list|show|evidence|resolve|approve|withdraw|claims|collect",
    )
    opening = doing.add_parser("open", help="complain about a game you sat in")
    finding.add_game(opening)
    opening.add_argument("complaint", help="what is wrong, in your words")
    opening.add_argument("--at", type=int, default=0, metavar="VERSION", help="where it shows")
    listing = doing.add_parser("list", help="disputes, newest first")
    listing.add_argument("--open", action="store_true", help="only those that are not closed")
    listing.add_argument("--game", default="", metavar="GAME", help="only those about this game")
    showing = doing.add_parser("show", help="one dispute")
    for each in (listing, showing):
        each.add_argument("--mine", action="store_true", help="as a player")
    evidence = doing.add_parser("evidence", help="all there is to judge by, as one JSON document")
    evidence.add_argument(
        *("-o", "--to"), type=Path, metavar="FILE", help="write here instead of to the output"
    )
    resolving = doing.add_parser("resolve", help="rule on a dispute")
    approving = doing.add_parser("approve", help="let a ruling move chips, as a second operator")
    withdrawing = doing.add_parser("withdraw", help="take back a ruling that awaits approval")
    claims = doing.add_parser("claims", help="what the reserve paid for players")
    claims.add_argument("--all", action="store_true", help="also what has been collected")
    collecting = doing.add_parser("collect", help="collect a claim, as far as the player has chips")
    for each in (showing, evidence, resolving, approving, withdrawing, collecting):
        each.add_argument("dispute", metavar="DISPUTE", help="its id, or `last` for the newest")
    _add_ruling(resolving)
    collecting.add_argument("player", metavar="PLAYER", help="the player's id, or his seat")
    for each in (evidence, resolving, approving, withdrawing, claims, collecting, listing, showing):
        each.add_argument("--by", default=OPERATOR, metavar="NAME", help="the operator's name")
    for each in doing.choices.values():
        each.add_argument("--json", action="store_true", help="one JSON object a line")
        add_flags(each)
    return made


def _add_ruling(resolving: argparse.ArgumentParser) -> None:
    resolving.add_argument("ruling", choices=sorted(RULINGS))
    resolving.add_argument("explanation", help="why; all players of the game can read it")
    resolving.add_argument("--void", action="store_true", help="every player's stake goes back")
    resolving.add_argument(
        "--move",
        action="append",
        default=[],
        metavar="SEAT=±CHIPS",
        help="chips a seat gains or loses, once a seat; zero in all",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


def _opened(where: Settings, arguments: argparse.Namespace) -> AbstractAsyncContextManager[Caller]:
    mine = arguments.doing in MINE or getattr(arguments, "mine", False)
    return finding.as_player(where) if mine else finding.as_operator(where, arguments.by)


async def _run(arguments: argparse.Namespace) -> int:
    async with _opened(settings(arguments), arguments) as caller:
        desk = Desk(caller)
        match arguments.doing:
            case "list":
                disputes = await desk.disputes(arguments)
                if not disputes and not arguments.json:
                    show(["no disputes"])
                for dispute in disputes:
                    _tell(dispute, arguments)
            case "claims":
                claims = await desk.claims(everything=arguments.all)
                if not claims and not arguments.json:
                    show(["no claims"])
                for claim in claims:
                    _tell_claim(claim, arguments)
            case "evidence":
                await desk.evidence(arguments)
            case _:
                dispute = await desk.act(arguments)
                _tell(dispute, arguments)
                if dispute.refused or (arguments.doing == "collect" and _refusals(dispute)):
                    return WRONG
    return FINE


class Desk:
    """A caller's requests about disputes; every one raises Refused."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)

    async def act(self, arguments: argparse.Namespace) -> audit_pb2.Dispute:
        """Open, look at, rule, approve, withdraw or collect; the dispute after it."""
        if arguments.doing == "open":
            request: Any = audit_pb2.OpenDisputeRequest(
                game_id=await finding.game_id(self._caller, arguments.game),
                version=arguments.at,
                complaint=arguments.complaint,
            )
            return await self._dispute("OpenDispute", request)
        dispute = await self._id(arguments.dispute, mine=getattr(arguments, "mine", False))
        match arguments.doing:
            case "show":
                return await self._get(dispute)
            case "resolve":
                request = await self._ruling(dispute, arguments)
                ruled = await self._dispute("ResolveDispute", request)
            case "approve":
                request = audit_pb2.ApproveRulingRequest(dispute_id=dispute)
                ruled = await self._dispute("ApproveRuling", request)
            case "collect":
                player = await self._player(dispute, arguments.player)
                request = audit_pb2.CollectClaimRequest(dispute_id=dispute, player_id=player)
                return await self._collected(await self._dispute("CollectClaim", request), player)
            case _:
                request = audit_pb2.WithdrawRulingRequest(dispute_id=dispute)
                return await self._dispute("WithdrawRuling", request)
        return await self._paid(ruled)

    async def disputes(self, arguments: argparse.Namespace) -> list[audit_pb2.Dispute]:
        """The disputes that are asked for."""
        game = arguments.game and await finding.game_id(self._caller, arguments.game)
        request = audit_pb2.ListDisputesRequest(open=arguments.open, page_size=100, game_id=game)
        found: list[audit_pb2.Dispute] = []
        while True:
            page = await self._caller.call("game", self._stub.ListDisputes, request)
            found += page.disputes
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def claims(self, *, everything: bool) -> list[audit_pb2.Claim]:
        """What the reserve paid for players."""
        request = audit_pb2.ListClaimsRequest(all=everything, page_size=100)
        found: list[audit_pb2.Claim] = []
        while True:
            page = await self._caller.call("game", self._stub.ListClaims, request)
            found += page.claims
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def evidence(self, arguments: argparse.Namespace) -> None:
        """Write the evidence about a dispute."""
        dispute = await self._id(arguments.dispute, mine=False)
        request = audit_pb2.GetEvidenceRequest(dispute_id=dispute)
        stream = self._caller.stream("game", self._stub.GetEvidence, request)
        document = b"".join([piece.chunk async for piece in stream])
        if arguments.to is None:
            sys.stdout.write(document.decode() + "\n")
            return
        try:
            arguments.to.write_bytes(document)
        except OSError as error:
            raise Failure(f"{arguments.to}: {error.strerror}") from None
        show([f"{arguments.to}: the evidence about dispute {dispute}"])

    async def _id(self, named: str, *, mine: bool) -> str:
        if named != finding.LAST:
            return named
        request = audit_pb2.ListDisputesRequest(page_size=1)
        page = await self._caller.call("game", self._stub.ListDisputes, request)
        if not page.disputes:
            raise Failure("you have opened no dispute" if mine else "there is no dispute yet")
        return str(page.disputes[0].dispute_id)

    async def _ruling(
        self, dispute: str, arguments: argparse.Namespace
    ) -> audit_pb2.ResolveDisputeRequest:
        request = audit_pb2.ResolveDisputeRequest(
            dispute_id=dispute,
            ruling=RULINGS[arguments.ruling],
            explanation=arguments.explanation,
        )
        if arguments.void and arguments.move:
            raise Failure("--void or --move, not both", USAGE)
        if arguments.void:
            request.remedy = audit_pb2.REMEDY_VOID
        elif arguments.move:
            request.remedy = audit_pb2.REMEDY_CORRECTION
            for move in arguments.move:
                parts = MOVE.fullmatch(move)
                if parts is None:
                    raise Failure(f"--move {move}: must be SEAT=+CHIPS or SEAT=-CHIPS", USAGE)
                player = await self._player(dispute, parts[1])
                request.moves.add(player_id=player, chips=int(parts[2]))
        return request

    async def _player(self, dispute: str, named: str) -> str:
        """A player's id, of a seat where a number is given."""
        if not named.isdigit():
            return named
        stub: Any = self._caller.stub("game", game_pb2_grpc.GameServiceStub)
        request = game_pb2.GetGameRequest(game_id=(await self._get(dispute)).game_id)
        seats = (await self._caller.call("game", stub.GetGame, request)).view.seats
        if int(named) >= len(seats):
            raise Failure(f"the game has no seat {named}")
        return str(seats[int(named)].player_id)

    async def _paid(self, dispute: audit_pb2.Dispute) -> audit_pb2.Dispute:
        """The dispute once its chips have moved, or were refused, or after a while."""
        until = time.monotonic() + PAYING_SECONDS
        while dispute.state == audit_pb2.DISPUTE_STATE_PAYING and not dispute.refused:
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.05)
            dispute = await self._get(dispute.dispute_id)
        return dispute

    async def _collected(self, before: audit_pb2.Dispute, player: str) -> audit_pb2.Dispute:
        """The dispute once something came in, or was refused, or after a while."""
        until = time.monotonic() + PAYING_SECONDS
        dispute = before
        while time.monotonic() < until and _claim(dispute, player) == _claim(before, player):
            await asyncio.sleep(0.05)
            dispute = await self._get(before.dispute_id)
        return dispute

    async def _get(self, dispute: str) -> audit_pb2.Dispute:
        return await self._dispute("GetDispute", audit_pb2.GetDisputeRequest(dispute_id=dispute))

    async def _dispute(self, name: str, request: Message) -> audit_pb2.Dispute:
        reply = await self._caller.call("game", getattr(self._stub, name), request)
        found: audit_pb2.Dispute = reply.dispute
        return found


def _refusals(dispute: audit_pb2.Dispute) -> list[str]:
    """Why claims could not be collected."""
    return [claim.refused for claim in dispute.claims if claim.refused]


def _claim(dispute: audit_pb2.Dispute, player: str) -> audit_pb2.Claim | None:
    return next((claim for claim in dispute.claims if claim.player_id == player), None)


def _tell(dispute: audit_pb2.Dispute, arguments: argparse.Namespace) -> None:
    if arguments.json:
        emit(MessageToDict(dispute, preserving_proto_field_name=True))
    else:
        show(_lines(dispute))


def _tell_claim(claim: audit_pb2.Claim, arguments: argparse.Namespace) -> None:
    if arguments.json:
        emit(MessageToDict(claim, preserving_proto_field_name=True))
    else:
        show([f"{claim.dispute_id} {_claim_line(claim)}"])


def _lines(dispute: audit_pb2.Dispute) -> list[str]:
    at = f" at version {dispute.version}" if dispute.version else ""
    state = STATES.get(dispute.state, "unknown")
    ruling = f" {RULED[dispute.ruling]}," if dispute.ruling in RULED else ""
    lines = [
        f"{dispute.dispute_id}{ruling} {state}",
        f"  game {dispute.game_id}{at}, opened {when(dispute.opened_time)} UTC",
    ]
    if dispute.complaint or dispute.complaint_erased:
        lines.append(f"  complaint: {dispute.complaint or '(removed)'}")
    if dispute.ruling:
        by = f" by {dispute.ruled_by}" if dispute.ruled_by else ""
        agreed = f", approved by {dispute.approved_by}" if dispute.approved_by else ""
        lines.append(f"  ruling{by}{agreed}: {dispute.explanation or '(removed)'}")
    if dispute.remedy in REMEDIES:
        lines.append(f"  {REMEDIES[dispute.remedy]}:")
        lines += [f"    {move.player_id} {move.chips:+d}" for move in dispute.moves]
    if dispute.transfer_id:
        lines.append(f"  transfer {dispute.transfer_id}")
    if dispute.refused:
        lines.append(f"  the wallet refuses so far: {dispute.refused}")
    lines += [f"  claim on {_claim_line(claim)}" for claim in dispute.claims]
    return lines


def _claim_line(claim: audit_pb2.Claim) -> str:
    why = f", last try: {claim.refused}" if claim.refused else ""
    return f"{claim.player_id}: {claim.chips} chips, {claim.collected} collected{why}"
