"""`kozyr audit`: a game's log executed again, and everything in it checked."""

import argparse
import asyncio
from typing import Any

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.client import Caller
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.terminal import command, emit, progress, show
from services.kernel.errors import Kind, Refused


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "audit",
        "Check games from their stored rows: the chain, the rules' every decision, the deals, the "
        "chips and their agreement with the wallet. Exits 1 when something is wrong and names the "
        "first event that is.",
        "kozyr audit --all",
    )
    made.add_argument("game", nargs="?", metavar="GAME", help="a game's id, or `last`")
    made.add_argument(
        "--all", action="store_true", help="every game there is a log of, in lists or not"
    )
    made.add_argument("--json", action="store_true", help="one JSON object a game")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Check them."""
    if bool(arguments.game) == arguments.all:
        raise Failure("name a game, or --all", USAGE)
    return asyncio.run(_audit(arguments))


async def verify(caller: Caller, game: str) -> audit_pb2.VerifyGameResponse:
    """What the game service finds when it checks this game; raises Refused."""
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.VerifyGameRequest(game_id=game)
    reply: audit_pb2.VerifyGameResponse = await caller.call("game", stub.VerifyGame, request)
    return reply


async def _audit(arguments: argparse.Namespace) -> int:
    wrong = 0
    async with finding.as_operator(settings(arguments)) as caller:
        if arguments.all:
            ids = await finding.logs(caller)
        else:
            ids = [await finding.game_id(caller, arguments.game)]
        with progress("audit") as tell:
            for number, game in enumerate(ids, 1):
                tell(f"{number} of {len(ids)}")
                found = (
                    await _verdict(caller, game) if arguments.all else await verify(caller, game)
                )
                wrong += not _report(game, found, as_json=arguments.json)
    if arguments.all and not arguments.json:
        show([f"{len(ids)} games, {wrong} wrong"])
    return WRONG if wrong else FINE


async def _verdict(caller: Caller, game: str) -> audit_pb2.VerifyGameResponse:
    """What is found in one game of many: one that cannot be checked keeps nobody from the rest."""
    try:
        return await verify(caller, game)
    except Refused as refused:
        if refused.kind not in (Kind.PRECONDITION, Kind.INVALID, Kind.NOT_FOUND):
            raise
        fault = audit_pb2.Fault(kind=refused.reason, detail=refused.message)
        return audit_pb2.VerifyGameResponse(faults=[fault])


def _report(game: str, found: audit_pb2.VerifyGameResponse, *, as_json: bool) -> bool:
    """Say what was found; whether all is well."""
    faults = [
        {"version": fault.version, "kind": fault.kind, "detail": fault.detail}
        for fault in found.faults
    ]
    if as_json:
        checks = list(found.checks)
        emit({"game": game, "events": found.events, "checks": checks, "faults": faults})
    elif faults:
        show(f"WRONG {game} {fault_line(fault)}" for fault in found.faults)
    else:
        show([f"ok {game}: {found.events} events ({', '.join(found.checks)})"])
    return not faults


def fault_line(fault: audit_pb2.Fault) -> str:
    """A fault in words: version, kind, detail."""
    where = f"version {fault.version}" if fault.version else "as a whole"
    return f"{where}: {fault.kind}: {fault.detail}"
