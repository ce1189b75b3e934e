"""`kozyr dispute`: complaints about games, and rulings on them."""

import argparse
import asyncio
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.client import Caller
from services.cli.outcome import FINE
from services.cli.shown import when
from services.cli.terminal import command, emit, show

RULINGS = {"upheld": audit_pb2.RULING_UPHELD, "dismissed": audit_pb2.RULING_DISMISSED}
RULED = {value: name for name, value in RULINGS.items()}


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "dispute",
        "Open a dispute as a player of the game, list disputes, or rule on one as an operator.",
        "kozyr dispute open last --at 41 'the bank should be mine'",
    )
    doing = made.add_subparsers(dest="doing", required=True, metavar="open|list|resolve")
    opening = doing.add_parser("open", help="complain about a game you sat in")
    finding.add_game(opening)
    opening.add_argument("complaint", help="what is wrong, in your words")
    opening.add_argument("--at", type=int, default=0, metavar="VERSION", help="where it shows")
    listing = doing.add_parser("list", help="disputes, newest first")
    listing.add_argument("--open", action="store_true", help="only those not ruled on")
    listing.add_argument("--mine", action="store_true", help="your own, as a player")
    resolving = doing.add_parser("resolve", help="rule on a dispute, as an operator")
    resolving.add_argument("dispute", metavar="DISPUTE", help="the dispute's id")
    resolving.add_argument("ruling", choices=sorted(RULINGS))
    resolving.add_argument("explanation", help="why")
    for each in (opening, listing, resolving):
        each.add_argument("--json", action="store_true", help="one JSON object a dispute")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Open, list or resolve."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    where = settings(arguments)
    mine = arguments.doing == "open" or (arguments.doing == "list" and arguments.mine)
    opened = finding.as_player(where) if mine else finding.as_operator(where)
    async with opened as caller:
        match arguments.doing:
            case "open":
                disputes = [await _open(caller, arguments)]
            case "resolve":
                disputes = [await _resolve(caller, arguments)]
            case _:
                disputes = await _list(caller, only_open=arguments.open)
    for dispute in disputes:
        if arguments.json:
            emit(MessageToDict(dispute, preserving_proto_field_name=True))
        else:
            show(_lines(dispute))
    if not disputes and not arguments.json:
        show(["no disputes"])
    return FINE


async def _open(caller: Caller, arguments: argparse.Namespace) -> audit_pb2.Dispute:
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.OpenDisputeRequest(
        game_id=await finding.game_id(caller, arguments.game),
        version=arguments.at,
        complaint=arguments.complaint,
    )
    reply: audit_pb2.OpenDisputeResponse = await caller.call("game", stub.OpenDispute, request)
    return reply.dispute


async def _resolve(caller: Caller, arguments: argparse.Namespace) -> audit_pb2.Dispute:
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.ResolveDisputeRequest(
        dispute_id=arguments.dispute,
        ruling=RULINGS[arguments.ruling],
        explanation=arguments.explanation,
    )
    reply: audit_pb2.ResolveDisputeResponse = await caller.call(
        "game", stub.ResolveDispute, request
    )
    return reply.dispute


async def _list(caller: Caller, *, only_open: bool) -> list[audit_pb2.Dispute]:
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.ListDisputesRequest(open=only_open, page_size=100)
    disputes: list[audit_pb2.Dispute] = []
    while True:
        page: audit_pb2.ListDisputesResponse = await caller.call("game", stub.ListDisputes, request)
        disputes += page.disputes
        if not page.next_page_token:
            return disputes
        request.page_token = page.next_page_token


def _lines(dispute: audit_pb2.Dispute) -> list[str]:
    at = f" at version {dispute.version}" if dispute.version else ""
    ruling = RULED.get(dispute.ruling, "open")
    lines = [
        f"{dispute.dispute_id} {ruling}",
        f"  game {dispute.game_id}{at}, opened {when(dispute.opened_time)} UTC",
        f"  complaint: {dispute.complaint}",
    ]
    if dispute.explanation:
        lines.append(f"  ruling: {dispute.explanation}")
    return lines
