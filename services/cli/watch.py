"""`kozyr watch`: a game as it is played."""

import argparse
import asyncio

from google.protobuf.json_format import MessageToDict

from services.cli import finding, pictures
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE
from services.cli.pictures.look import Look
from services.cli.shown import ending, picture, told
from services.cli.terminal import command, emit, show
from services.client.calls import Caller
from services.client.watching import follow


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "watch",
        "Follow a game until it ends, as a spectator sees it; with --mine from your own seat. "
        "Connections that break are taken up again, nothing is told twice.",
        "kozyr watch last",
    )
    finding.add_game(made)
    made.add_argument("--mine", action="store_true", help="as a player, from your own seat")
    made.add_argument("--json", action="store_true", help="each message as one JSON object")
    finding.add_look(made)
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Follow it."""
    return asyncio.run(_follow(arguments))


async def _follow(arguments: argparse.Namespace) -> int:
    where = settings(arguments)
    opened = finding.as_player(where) if arguments.mine else finding.as_operator(where)
    async with opened as caller:
        await _watch(caller, await finding.game_id(caller, arguments.game), arguments)
    return FINE


async def _watch(caller: Caller, game: str, arguments: argparse.Namespace) -> None:
    look: Look | None = None
    async for update in follow(caller, game):
        view = update.view
        if arguments.json:
            emit(MessageToDict(update.message, preserving_proto_field_name=True))
            continue
        if look is None:
            look = await finding.look_for(caller, view.seats, ascii_only=arguments.ascii)
        lines = [told(happening, look) for happening in update.happenings]
        show(["", *(piece for line in lines for piece in pictures.fold(line))])
        show(picture(view, look))
        if update.over:
            show(ending(view, look))
