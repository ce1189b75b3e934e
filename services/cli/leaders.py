"""`kozyr leaders`: the leaderboard of a game."""

import argparse
import asyncio
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.v1 import standing_pb2 as pb
from kozyr.lobby.v1.standing_pb2_grpc import StandingServiceStub

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.statistics import GAMES, cells
from services.cli.terminal import command, emit, grid, show
from services.client.calls import Caller

TIMES = {"all": pb.PERIOD_ALL, "month": pb.PERIOD_MONTH, "week": pb.PERIOD_WEEK}
PAGE = 100


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "leaders",
        "The leaderboard of a game, among people. Durak: by the share of duraks avoided; Rami: by "
        "matches won; Azi: by chips won, of those who want to be seen. docs/play.md says more.",
        "kozyr leaders durak --time month",
    )
    made.add_argument("game", choices=list(GAMES), help="which game")
    made.add_argument("--time", choices=list(TIMES), default="all", help="of which time (all)")
    made.add_argument("--most", type=int, default=20, metavar="N", help="at most so many (20)")
    made.add_argument("--json", action="store_true", help="one JSON object a player")
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    if arguments.most < 1:
        raise Failure("--most: must be at least 1", USAGE)
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    variant = GAMES[arguments.game]
    async with finding.as_player(settings(arguments), arguments.profile) as player:
        page, found = await _leaders(player, arguments)
    if arguments.json:
        for leader in found:
            emit(MessageToDict(leader, preserving_proto_field_name=True))
        return FINE
    since = (
        f"since {when(page.period_begin_time)} UTC" if page.HasField("period_begin_time") else ""
    )
    least = f"at least {page.games_min} games" if page.games_min > 1 else ""
    show([" ".join(filter(None, (arguments.game.capitalize(), since, least)))])
    rows = [(leader.rank, leader.display_name, *cells(variant, leader.numbers)) for leader in found]
    heads = ("rank", "player", "games", "firsts", "duraks", "points", "chips")
    show(grid(heads, rows) if rows else ["nobody yet"])
    return FINE


async def _leaders(
    caller: Caller, arguments: argparse.Namespace
) -> tuple[pb.ListLeadersResponse, list[pb.Leader]]:
    """The last page, and the players of all pages, as many as were asked for."""
    stub: Any = caller.stub("lobby", StandingServiceStub)
    request = pb.ListLeadersRequest(variant=GAMES[arguments.game], period=TIMES[arguments.time])
    found: list[pb.Leader] = []
    while True:
        request.page_size = min(PAGE, arguments.most - len(found))
        page: pb.ListLeadersResponse = await caller.call("lobby", stub.ListLeaders, request)
        found += page.leaders
        if not page.next_page_token or len(found) >= arguments.most:
            return page, found
        request.page_token = page.next_page_token
