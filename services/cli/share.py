"""`kozyr share`: links to games of your own, which show what anybody at the table could see."""

import argparse
import asyncio
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import history_pb2, history_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, grid, show
from services.client.player import Player


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "share",
        "Make a link to a finished game of yours. Whoever has it sees the game as the table saw "
        "it, with no account: no hidden hand, no name, no date.",
        "kozyr share last",
    )
    made.add_argument("game", metavar="GAME", nargs="?", help="a game's id, or `last`")
    made.add_argument("--list", action="store_true", help="your links that still open")
    made.add_argument("--revoke", metavar="LINK", help="end this link, named by its id")
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    made.add_argument("--json", action="store_true", help="one JSON object a link")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Make, list or end links."""
    asked = (arguments.game is not None, arguments.list, arguments.revoke is not None)
    if sum(asked) != 1:
        raise Failure("say a GAME, or --list, or --revoke LINK", USAGE)
    return asyncio.run(_share(arguments))


async def _share(arguments: argparse.Namespace) -> int:
    async with finding.as_player(settings(arguments), arguments.profile) as player:
        stub: Any = player.stub("game", history_pb2_grpc.HistoryServiceStub)
        if arguments.list:
            request = history_pb2.ListSharesRequest()
            reply = await player.call("game", stub.ListShares, request)
            _list(reply, as_json=arguments.json)
        elif arguments.revoke is not None:
            revoking = history_pb2.RevokeShareRequest(share_id=arguments.revoke)
            await player.call("game", stub.RevokeShare, revoking)
            show([f"{arguments.revoke} opens nothing any more"])
        else:
            await _make(player, stub, arguments)
    return FINE


async def _make(player: Player, stub: Any, arguments: argparse.Namespace) -> None:
    game = await finding.game_id(player, arguments.game, ended=True)
    request = history_pb2.ShareGameRequest(game_id=game)
    made = await player.call("game", stub.ShareGame, request)
    if arguments.json:
        emit(MessageToDict(made, preserving_proto_field_name=True))
        return
    show([
        f"{made.share.share_id} shows {game} until {when(made.share.expire_time)} UTC",
        f"kozyr replay --link {made.token}",
    ])  # fmt: skip


def _list(reply: history_pb2.ListSharesResponse, *, as_json: bool) -> None:
    if as_json:
        for share in reply.shares:
            emit(MessageToDict(share, preserving_proto_field_name=True))
        return
    rows = [(s.share_id, s.game_id, when(s.expire_time)) for s in reply.shares]
    show(grid(("link", "game", "ends (UTC)"), rows) if rows else ["no links"])
