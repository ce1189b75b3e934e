"""`kozyr tables`: the tables there are, and what their hosts and players decide between games."""

import argparse
import asyncio
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, grid, show
from services.client.calls import Caller
from services.runtime.wire import games as wire

REASONS = {
    "absent": lobby_pb2.KICK_REASON_ABSENT,
    "conduct": lobby_pb2.KICK_REASON_CONDUCT,
    "seat-needed": lobby_pb2.KICK_REASON_SEAT_NEEDED,
    "other": lobby_pb2.KICK_REASON_OTHER,
}
STATES = {
    lobby_pb2.TABLE_STATE_WAITING: "waiting",
    lobby_pb2.TABLE_STATE_STARTING: "starting",
    lobby_pb2.TABLE_STATE_PLAYING: "playing",
    lobby_pb2.TABLE_STATE_CLOSED: "closed",
}
PAGE = 100


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "tables",
        "List open tables, newest first: public ones, with --mine or --invited your own. As their "
        "host invite players and send them away; as a player ask for a rematch.",
        "kozyr tables list --variant durak --free-seats 1",
    )
    doing = made.add_subparsers(
        dest="doing", required=True, metavar="list|invite|uninvite|kick|host|rematch|close"
    )
    listing = doing.add_parser("list", help="open tables")
    _add_filters(listing)
    whom = {
        "invite": "let a player come, or come back",
        "uninvite": "take an invitation back",
        "kick": "send a person away",
        "host": "make another person the host",
    }
    asking = [doing.add_parser(name, help=said) for name, said in whom.items()]
    for each in asking:
        each.add_argument("table", metavar="TABLE", help="the table's id")
        each.add_argument("player", metavar="PLAYER", help="the player's id")
    asking[2].add_argument("--reason", choices=REASONS, default="other", help="why (other)")
    for name, said in (("rematch", "want another game"), ("close", "close your table")):
        asking.append(doing.add_parser(name, help=said))
        asking[-1].add_argument("table", metavar="TABLE", help="the table's id")
    for each in (listing, *asking):
        each.add_argument("--operator", action="store_true", help="as an operator: list or close")
        each.add_argument("--profile", default="player", help="which of your accounts (player)")
        each.add_argument("--json", action="store_true", help="one JSON object a table")
        add_flags(each)
    return made


def _add_filters(listing: argparse.ArgumentParser) -> None:
    listing.add_argument("--variant", choices=sorted(wire.VARIANTS), help="only this game")
    listing.add_argument("--mine", action="store_true", help="only where you sit")
    listing.add_argument("--invited", action="store_true", help="only where you are invited")
    listing.add_argument("--free-seats", type=int, default=0, metavar="N", help="at least so many")
    listing.add_argument("--fee-min", type=int, default=0, metavar="CHIPS", help="entry fee")
    listing.add_argument("--fee-max", type=int, metavar="CHIPS", help="entry fee")
    listing.add_argument(
        "--chips", type=int, default=0, help="only what so many chips let you join"
    )
    listing.add_argument("--most", type=int, default=50, metavar="N", help="at most so many (50)")


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked."""
    if arguments.operator and arguments.doing not in ("list", "close"):
        raise Failure("--operator: operators list and close tables", USAGE)
    if arguments.doing == "list" and arguments.most < 1:
        raise Failure("--most: must be at least 1", USAGE)
    return asyncio.run(tell(arguments))


async def tell(arguments: argparse.Namespace) -> int:
    """Ask, and show the tables of the answer; the exit code."""
    where = settings(arguments)
    opened: Any = (
        finding.as_operator(where)
        if arguments.operator
        else finding.as_player(where, arguments.profile)
    )
    async with opened as caller:
        stub: Any = caller.stub("lobby", lobby_pb2_grpc.LobbyServiceStub)
        if arguments.doing == "list":
            tables = await _listed(caller, stub, arguments)
        else:
            tables = [(await caller.call("lobby", *_asked(stub, arguments))).table]
    if arguments.json:
        for table in tables:
            emit(MessageToDict(table, preserving_proto_field_name=True))
    elif not tables:
        show(["no tables"])
    else:
        heads = ("table", "game", "fee", "state", "opened (UTC)", "seats")
        show(grid(heads, [_row(table) for table in tables]))
    return FINE


def _asked(stub: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The method to call, and its request."""
    table = {"table_id": arguments.table}
    whom = {"player_id": arguments.player} if "player" in arguments else {}
    match arguments.doing:
        case "invite":
            return stub.InvitePlayer, lobby_pb2.InvitePlayerRequest(**table, **whom)
        case "uninvite":
            return stub.UninvitePlayer, lobby_pb2.UninvitePlayerRequest(**table, **whom)
        case "kick":
            reason = REASONS[arguments.reason]
            return stub.KickPlayer, lobby_pb2.KickPlayerRequest(**table, **whom, kick_reason=reason)
        case "host":
            return stub.HandOverHost, lobby_pb2.HandOverHostRequest(**table, **whom)
        case "rematch":
            return stub.Rematch, lobby_pb2.RematchRequest(**table)
        case _:
            return stub.CloseTable, lobby_pb2.CloseTableRequest(**table)


async def _listed(
    caller: Caller, stub: Any, arguments: argparse.Namespace
) -> list[lobby_pb2.Table]:
    request = lobby_pb2.ListTablesRequest(
        mine=arguments.mine,
        invited=arguments.invited,
        free_seats=arguments.free_seats,
        entry_fee_min=arguments.fee_min,
        entry_fee_max=arguments.fee_max,
        chips=arguments.chips,
        page_size=min(arguments.most, PAGE),
    )
    if arguments.variant:
        request.variant = wire.VARIANTS[arguments.variant]
    tables: list[lobby_pb2.Table] = []
    while True:
        reply = await caller.call("lobby", stub.ListTables, request)
        tables += reply.tables
        if not reply.next_page_token or len(tables) >= arguments.most:
            return tables[: arguments.most]
        request.page_token = reply.next_page_token


def _row(table: lobby_pb2.Table) -> tuple[object, ...]:
    game = table.rules.options.WhichOneof("options") or "?"
    fee = getattr(getattr(table.rules.options, game, None), "entry_fee", 0)
    seats = ", ".join(seat.display_name or "–" for seat in table.seats)
    state = STATES.get(table.state, "?")
    return table.table_id, game, fee, state, when(table.opened_time), seats
