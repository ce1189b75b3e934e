"""`kozyr accesses`: what operators looked at."""

import argparse
import asyncio
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, grid, show

PAGE = 500


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "accesses",
        "List what operators looked at, newest first: when, who, by which call, which game. The "
        "record is only added to, and an audit of all finds what was changed in it.",
        "kozyr accesses last",
    )
    made.add_argument("game", nargs="?", metavar="GAME", help="only to this game, or `last`")
    made.add_argument("--most", type=int, default=50, metavar="N", help="how many (default 50)")
    made.add_argument("--json", action="store_true", help="one JSON object an access")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    if arguments.most < 1:
        raise Failure("--most: must be at least 1", USAGE)
    return asyncio.run(_list(arguments))


async def _list(arguments: argparse.Namespace) -> int:
    found: list[audit_pb2.Access] = []
    async with finding.as_operator(settings(arguments)) as caller:
        stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
        game = await finding.game_id(caller, arguments.game) if arguments.game else ""
        asked = audit_pb2.ListAccessesRequest(game_id=game)
        while len(found) < arguments.most:
            asked.page_size = min(PAGE, arguments.most - len(found))
            page: audit_pb2.ListAccessesResponse = await caller.call(
                "game", stub.ListAccesses, asked
            )
            found += page.accesses
            if not page.next_page_token:
                break
            asked.page_token = page.next_page_token
    if arguments.json:
        for access in found:
            emit(MessageToDict(access, preserving_proto_field_name=True))
        return FINE
    rows = [
        (each.number, when(each.access_time), each.operator, each.action, each.game_id, each.detail)
        for each in found
    ]
    heads = ("number", "when (UTC)", "operator", "call", "game", "detail")
    show(grid(heads, rows) if rows else ["no accesses"])
    return FINE
