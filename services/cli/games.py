"""`kozyr games`: the games there are, newest first."""

import argparse
import asyncio

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import game_pb2

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.shown import STAGES, when
from services.cli.terminal import command, emit, grid, show
from services.client import lists
from services.runtime.wire import games as wire

OUTCOMES = {
    "won": game_pb2.GAME_OUTCOME_WON,
    "lost": game_pb2.GAME_OUTCOME_LOST,
    "even": game_pb2.GAME_OUTCOME_EVEN,
    "cancelled": game_pb2.GAME_OUTCOME_CANCELLED,
}
OUTCOME_NAMES = {value: name for name, value in OUTCOMES.items()}


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "games",
        "List games, newest first: everybody's as operator, with --mine your own.",
        "kozyr games --running",
    )
    which = made.add_mutually_exclusive_group()
    which.add_argument("--running", action="store_true", help="only games that are being played")
    which.add_argument("--ended", action="store_true", help="only games that have ended")
    made.add_argument("--player", default="", metavar="ID", help="only games of this player")
    made.add_argument("--table", default="", metavar="ID", help="only games of this table")
    made.add_argument("--variant", choices=sorted(wire.VARIANTS), help="only this game")
    made.add_argument(
        "--outcome", choices=OUTCOMES, help="only games that came out so, of --mine or --player"
    )
    made.add_argument("--mine", action="store_true", help="your own games, as a player")
    made.add_argument("--most", type=int, default=50, metavar="N", help="at most so many (50)")
    made.add_argument("--json", action="store_true", help="one JSON object a game")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    return asyncio.run(_list(arguments))


async def _list(arguments: argparse.Namespace) -> int:
    if arguments.most < 1:
        raise Failure("--most: must be at least 1", USAGE)
    where = settings(arguments)
    request = game_pb2.ListGamesRequest(player_id=arguments.player, table_id=arguments.table)
    if arguments.running or arguments.ended:
        request.running = arguments.running
    if arguments.variant:
        request.variant = wire.VARIANTS[arguments.variant]
    if arguments.outcome:
        request.outcome = OUTCOMES[arguments.outcome]
    opened = finding.as_player(where) if arguments.mine else finding.as_operator(where)
    async with opened as caller:
        found = [game async for game in lists.games(caller, request, arguments.most)]
        if arguments.json:
            for game in found:
                emit(MessageToDict(game, preserving_proto_field_name=True))
            return FINE
        names = await lists.names_of(caller, (s.player_id for g in found for s in g.seats))
    rows = [
        (
            game.game_id,
            wire.NAMES.get(game.variant, "?"),
            OUTCOME_NAMES.get(game.outcome) or STAGES.get(game.stage, _unread(game)),
            game.version,
            when(game.opened_time),
            ", ".join(names.get(seat.player_id, "?") for seat in game.seats),
        )
        for game in found
    ]
    if not rows:
        show(["no games"])
        return FINE
    show(grid(("game", "kind", "stage", "events", "opened (UTC)", "seats"), rows))
    return FINE


def _unread(game: game_pb2.GameSummary) -> str:
    """Why nothing is told of a game but its id."""
    return "archived" if game.HasField("archived_time") else "log damaged"
