"""`kozyr players`: for operators, what is held about a player, his limits, erasures on request."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.cli import dossier, finding, limits, me, statistics
from services.cli.addresses import add_flags, settings
from services.cli.operators import OPERATOR
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, grid, show
from services.client.calls import Caller

PAGE = 200


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "players",
        "As an operator: see what is held about a player, his statistics and limits, limit or "
        "exclude him, have it in a file, erase a player on request, list erasures. docs/privacy.md "
        "says what goes and what stays, docs/play.md what is limited.",
        "kozyr players erasures --open",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="show|stats|limits|export|erase|erasures"
    )
    showing = doing.add_parser("show", help="a player's account")
    counting = doing.add_parser("stats", help="a player's statistics")
    limiting = doing.add_parser("limits", help="a player's limits, and the house's for him")
    exporting = doing.add_parser("export", help="what is held about a player, but for his receipts")
    erasing = doing.add_parser("erase", help="erase a player for good")
    listing = doing.add_parser("erasures", help="erasures, newest first")
    for each in (showing, counting, limiting, exporting, erasing):
        each.add_argument("player", metavar="PLAYER", help="the player's id")
    limits.add_words(limiting, limits.HOUSE)
    limiting.add_argument("--reason", metavar="TEXT", help="why; the player reads it")
    exporting.add_argument("file", type=Path, metavar="FILE", help="where to")
    me.add_confirmation(erasing)
    erasing.add_argument(
        "--leave-claims", action="store_true", help="claims on the player stay uncollected for ever"
    )
    listing.add_argument("--open", action="store_true", help="only those that have not ended")
    listing.add_argument("--most", type=int, default=50, metavar="N", help="at most so many (50)")
    for each in (showing, counting, listing):
        each.add_argument("--json", action="store_true", help="one JSON object a line")
    for each in (showing, counting, limiting, exporting, erasing, listing):
        each.add_argument("--by", default=OPERATOR, metavar="NAME", help="the operator's name")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with finding.as_operator(settings(arguments), arguments.by) as caller:
        match arguments.doing:
            case "show":
                found = await dossier.Dossier(caller, arguments.player, own=False).profile()
                me.tell(found, as_json=arguments.json)
            case "stats":
                numbers = await statistics.statistics(caller, arguments.player)
                statistics.tell(numbers, as_json=arguments.json)
            case "limits":
                await limits.run_house(caller, arguments.player, arguments)
            case "export":
                await me.save(caller, arguments.player, arguments.file, own=False)
            case "erase":
                request = identity_pb2.ErasePlayerRequest(
                    player_id=arguments.player,
                    confirm_name=arguments.confirm,
                    give_up_chips=arguments.give_up_chips,
                    leave_claims=arguments.leave_claims,
                )
                show(me.lines(await me.erase(caller, request)))
            case _:
                _list(await _erasures(caller, arguments), as_json=arguments.json)
    return FINE


async def _erasures(caller: Caller, arguments: argparse.Namespace) -> list[identity_pb2.Erasure]:
    if arguments.most < 1:
        raise Failure("--most: must be at least 1", USAGE)
    stub: Any = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
    request = identity_pb2.ListErasuresRequest(open=arguments.open)
    found: list[identity_pb2.Erasure] = []
    while len(found) < arguments.most:
        request.page_size = min(PAGE, arguments.most - len(found))
        page = await caller.call("lobby", stub.ListErasures, request)
        found += page.erasures
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    return found


def _list(erasures: list[identity_pb2.Erasure], *, as_json: bool) -> None:
    if as_json:
        for erasure in erasures:
            emit(MessageToDict(erasure, preserving_proto_field_name=True))
        return
    rows = [
        (
            erasure.player_id,
            when(erasure.asked_time),
            erasure.asked_by or "(himself)",
            identity_pb2.ErasureStep.Name(erasure.step).removeprefix("ERASURE_STEP_").lower(),
            erasure.chips,
            when(erasure.end_time),
        )
        for erasure in erasures
    ]
    heads = ("player", "asked for (UTC)", "by", "step", "chips", "ends (UTC)")
    show(grid(heads, rows) if rows else ["no erasures"])
