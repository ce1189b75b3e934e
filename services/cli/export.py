"""`kozyr export`: a finished game as one JSON document."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, Failure
from services.cli.terminal import command, show


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "export",
        "Write a finished game, rows and all, as one JSON document.",
        "kozyr export last --to game.json",
    )
    finding.add_game(made, ended=True)
    made.add_argument("--to", type=Path, metavar="FILE", help="write here instead of to the output")
    made.add_argument("--mine", action="store_true", help="as a player who sat in the game")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    return asyncio.run(_export(arguments))


async def _export(arguments: argparse.Namespace) -> int:
    where = settings(arguments)
    opened = finding.as_player(where) if arguments.mine else finding.as_operator(where)
    async with opened as caller:
        stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
        game = await finding.game_id(caller, arguments.game, ended=True)
        request = audit_pb2.ExportGameRequest(game_id=game)
        pieces = [piece.chunk async for piece in caller.stream("game", stub.ExportGame, request)]
    document = b"".join(pieces)
    if arguments.to is None:
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        return FINE
    try:
        await asyncio.to_thread(arguments.to.write_bytes, document)
    except OSError as error:
        raise Failure(f"{arguments.to}: {error.strerror}") from None
    show([f"{game}: {len(document)} bytes in {arguments.to}"])
    return FINE
