"""`kozyr audit`: a game's log executed again, and everything in it checked; or every game's."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.cli import audit_all, finding, witness
from services.cli.addresses import add_flags, settings
from services.cli.faults import fault_line, fault_object
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.terminal import command, emit, show
from services.client.calls import Caller

ARCHIVED = (
    "its events are no longer here, its head is that of its last place in the tree; "
    "`kozyr verify --archive FOLDER GAME` checks the game itself"
)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "audit",
        "Check games from their stored rows: the chain, the rules' every decision, the deals, the "
        "chips and their agreement with the wallet, and what signed checkpoints say of them. Exits "
        "1 when something is wrong and names the first event that is.",
        "kozyr audit --all --against checkpoints.jsonl",
    )
    made.add_argument("game", nargs="?", metavar="GAME", help="a game's id, or `last`")
    made.add_argument(
        "--all",
        action="store_true",
        help="every game and dispute there is a trace of, then the tree of checkpoints",
    )
    made.add_argument(
        "--held",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a player's proof, receipt or acknowledgement: the log must have come by its head",
    )
    made.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="with --all: exported checkpoints that the tree must continue",
    )
    made.add_argument("--after", metavar="GAME", help="with --all: only ids above this one")
    made.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="with --all: where it keeps how far it came; a later run goes on from there",
    )
    made.add_argument("--verbose", action="store_true", help="with --all: also what is in order")
    made.add_argument("--json", action="store_true", help="one JSON object a game")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Check them."""
    if bool(arguments.game) == arguments.all:
        raise Failure("name a game, or --all", USAGE)
    if arguments.all:
        if arguments.held:
            raise Failure("--held goes with one game", USAGE)
        return audit_all.run(arguments)
    if arguments.against or arguments.after or arguments.state:
        raise Failure("--against, --after and --state go with --all", USAGE)
    return asyncio.run(_audit(arguments))


async def verify(
    caller: Caller, game: str, held: list[witness.HeldHead] | None = None
) -> audit_pb2.VerifyGameResponse:
    """What the game service finds when it checks this game; raises Refused."""
    stub: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    heads = [audit_pb2.HeldHead(version=one.version, hash=one.hash) for one in held or []]
    request = audit_pb2.VerifyGameRequest(game_id=game, held=heads)
    reply: audit_pb2.VerifyGameResponse = await caller.call("game", stub.VerifyGame, request)
    return reply


async def _audit(arguments: argparse.Namespace) -> int:
    where = settings(arguments)
    held = []
    if arguments.held:
        keys = witness.keys_of(where)
        held = [await asyncio.to_thread(witness.read_held, path, keys) for path in arguments.held]
    async with finding.as_operator(where) as caller:
        game = await finding.game_id(caller, arguments.game)
        for path, one in zip(arguments.held, held, strict=True):
            if one.game_id != game:
                raise Failure(f"{path}: is about game {one.game_id}")
        found = await verify(caller, game, held)
    faults = list(map(fault_object, found.faults))
    if arguments.json:
        checks = list(found.checks)
        emit(
            {
                "game": game,
                "events": found.events,
                "checks": checks,
                "faults": faults,
                "covered": found.covered_version,
                "archived": found.archived,
            }
        )
    elif faults:
        show(f"WRONG {game} {fault_line(fault)}" for fault in found.faults)
    elif found.archived:
        show([f"archived {game}: {ARCHIVED}"])
    else:
        covered = f"checkpoints cover {found.covered_version}"
        show([f"ok {game}: {found.events} events, {covered} ({', '.join(found.checks)})"])
    return WRONG if faults else FINE
