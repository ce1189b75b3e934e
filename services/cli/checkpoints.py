"""`kozyr checkpoints`: the signed record over all games: kept elsewhere, proven, checked."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc

from services.cli import finding, witness
from services.cli.addresses import add_flags, settings
from services.cli.outcome import FINE, Failure
from services.cli.shown import when
from services.cli.terminal import command, emit, show
from services.runtime.moments import timestamp
from services.runtime.notes import Checkpoint
from services.runtime.settings import Settings


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "checkpoints",
        "Keep signed checkpoints of all games' logs where nobody who can write into the database "
        "can write, say how far they cover the logs, prove a game's place under one, check what "
        "was kept. Whoever has a checkpoint can show that a game it covers was changed, removed or "
        "lost.",
        "kozyr checkpoints export checkpoints.jsonl",
    )
    doing = made.add_subparsers(dest="doing", required=True, metavar="status|export|prove|check")
    status = doing.add_parser("status", help="how far the logs are covered, as an operator")
    exporting = doing.add_parser(
        "export", help="add the newest checkpoint to a file, if it continues the file's last"
    )
    exporting.add_argument("file", type=Path, metavar="FILE")
    proving = doing.add_parser("prove", help="prove that a game is covered by a checkpoint")
    finding.add_game(proving)
    proving.add_argument("--to", type=Path, metavar="FILE", help="keep the proof in a file")
    checking = doing.add_parser("check", help="check a file of checkpoints or a proof, offline")
    checking.add_argument("file", type=Path, metavar="FILE")
    for each in (exporting, proving):
        each.add_argument("--mine", action="store_true", help="as a player")
    for each in (status, exporting, proving, checking):
        each.add_argument("--json", action="store_true", help="one JSON object")
        add_flags(each)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    where = settings(arguments)
    match arguments.doing:
        case "status":
            return asyncio.run(_status(where, as_json=arguments.json))
        case "export":
            return asyncio.run(_export(where, arguments))
        case "prove":
            return asyncio.run(_prove(where, arguments))
        case _:
            return _check(where, arguments)


async def _status(where: Settings, *, as_json: bool) -> int:
    async with finding.as_operator(where) as caller:
        stub: Any = caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
        reply: checkpoint_pb2.GetCoverageResponse = await caller.call(
            "game", stub.GetCoverage, checkpoint_pb2.GetCoverageRequest()
        )
    newest = reply.checkpoint if reply.HasField("checkpoint") else None
    since = reply.oldest_uncovered_time if reply.HasField("oldest_uncovered_time") else None
    if as_json:
        emit(
            {
                "size": newest.size if newest else 0,
                "signed_time": newest.signed_time.ToJsonString() if newest else None,
                "logs": reply.logs,
                "uncovered_logs": reply.uncovered_logs,
                "uncovered_events": reply.uncovered_events,
                "oldest_uncovered_time": since.ToJsonString() if since else None,
            }
        )
        return FINE
    signed = f"{newest.size} leaves, signed {when(newest.signed_time)} UTC" if newest else "none"
    tail = f"{reply.uncovered_events} events of {reply.uncovered_logs} logs are not covered"
    tail += f", the oldest since {when(since)} UTC" if since else ""
    show([f"checkpoint: {signed}", f"logs: {reply.logs}", f"tail: {tail}"])
    return FINE


async def _export(where: Settings, arguments: argparse.Namespace) -> int:
    keys = witness.keys_of(where)
    lines = await asyncio.to_thread(witness.read_lines, arguments.file, keys)
    last = lines[-1].checkpoint if lines else None
    opened = finding.as_player(where) if arguments.mine else finding.as_operator(where)
    async with opened as caller:
        line = await witness.newest(caller, keys, last)
    if line is None:
        raise Failure("there is no checkpoint yet")
    news = last is None or line.checkpoint.size > last.size
    if news:
        await asyncio.to_thread(witness.append_line, arguments.file, line)
    if arguments.json:
        emit({"size": line.checkpoint.size, "new": news, "lines": len(lines) + news})
    else:
        said = "added" if news else "nothing new"
        show([f"{arguments.file}: {said}, {_described(line.checkpoint)}"])
    return FINE


async def _prove(where: Settings, arguments: argparse.Namespace) -> int:
    keys = witness.keys_of(where)
    opened = finding.as_player(where) if arguments.mine else finding.as_operator(where)
    async with opened as caller:
        game = await finding.game_id(caller, arguments.game)
        proof = await witness.prove(caller, keys, game)
    if arguments.to is not None:
        await asyncio.to_thread(witness.write_proof, arguments.to, proof)
    if arguments.json:
        emit({"game": game, "version": proof.version, "head": proof.head.hex(), "note": proof.note})
    else:
        show([f"ok {game} up to version {proof.version}: {_described(proof.checkpoint)}"])
    return FINE


def _check(where: Settings, arguments: argparse.Namespace) -> int:
    keys = witness.keys_of(where)
    path: Path = arguments.file
    if not path.exists():
        raise Failure(f"{path}: there is no such file")
    try:
        lines = witness.read_lines(path, keys)
    except Failure as not_checkpoints:
        try:
            held = witness.read_held(path, keys)
        except Failure as not_held:
            is_lines = "line 1: not a checkpoint" not in not_checkpoints.line
            raise (not_checkpoints if is_lines else not_held) from None
        if arguments.json:
            emit({"game": held.game_id, "version": held.version, "head": held.hash.hex()})
        else:
            show([f"ok {held.game_id}: signed head {held.hash.hex()}"])
        return FINE
    if not lines:
        raise Failure(f"{path}: empty")
    if arguments.json:
        emit({"lines": len(lines), "size": lines[-1].checkpoint.size})
    else:
        show([f"ok {len(lines)} checkpoints, {_described(lines[-1].checkpoint)}"])
    return FINE


def _described(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.size} leaves, signed {when(timestamp(checkpoint.at))} UTC"
