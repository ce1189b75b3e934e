"""`kozyr export`: a game's receipt, or for operators its whole log, as one JSON document."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, game_pb2, game_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.terminal import command, show
from services.client.calls import Caller


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "export",
        "Write a game's receipt: one signed JSON document that `kozyr verify` checks without any "
        "server. Of a game that runs it holds what you may know of it.",
        "kozyr export last -o game.json",
    )
    made.add_argument(
        "game", metavar="GAME", help="a game's id, or `last` for the newest finished game"
    )
    made.add_argument(
        *("-o", "--to"), type=Path, metavar="FILE", help="write here instead of to the output"
    )
    made.add_argument("--mine", action="store_true", help="as a player who sat in the game")
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    made.add_argument(
        "--archive", type=Path, metavar="DIR", help="out of an archive, without any server"
    )
    made.add_argument(
        "--log", action="store_true", help="the whole log of an ended game instead, unsigned"
    )
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    return asyncio.run(_export(arguments))


async def receipt(caller: Caller, game: str) -> bytes:
    """The receipt of a game that the caller may see; raises Refused."""
    stub: Any = caller.stub("game", game_pb2_grpc.GameServiceStub)
    request = game_pb2.GetReceiptRequest(game_id=game)
    return b"".join([p.chunk async for p in caller.stream("game", stub.GetReceipt, request)])


async def log(caller: Caller, game: str) -> bytes:
    """The log of an ended game; raises Refused."""
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.ExportGameRequest(game_id=game)
    return b"".join([p.chunk async for p in caller.stream("game", stub.ExportGame, request)])


async def _export(arguments: argparse.Namespace) -> int:
    if arguments.archive is not None:
        if arguments.mine:
            raise Failure("--archive is for operators, not with --mine", USAGE)
        return await _written(arguments, arguments.game, _archived(arguments))
    where = settings(arguments)
    mine = finding.as_player(where, arguments.profile)
    async with mine if arguments.mine else finding.as_operator(where) as caller:
        game = await finding.game_id(caller, arguments.game, ended=True)
        document = await (log if arguments.log else receipt)(caller, game)
    return await _written(arguments, game, document)


def _archived(arguments: argparse.Namespace) -> bytes:
    """The receipt out of an archive, or the log as players are given it; raises Failure."""
    from services.cli.archiving import opened

    whole = opened.game_of(settings(arguments), arguments.archive, arguments.game)
    return (opened.log_document if arguments.log else opened.receipt_document)(whole)


async def _written(arguments: argparse.Namespace, game: str, document: bytes) -> int:
    """Write the document to where it was asked for."""
    if arguments.to is None:
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        return FINE
    try:
        await asyncio.to_thread(arguments.to.write_bytes, document)
    except OSError as error:
        raise Failure(f"{arguments.to}: {error.strerror}") from None
    show([f"{game}: {len(document)} bytes in {arguments.to}"])
    return FINE
