"""What only operators are told: whether all chips sum to zero, and how far the signed record is."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli import witness
from services.cli.checkup.stored import DRIFT
from services.cli.checkup.symptoms import Symptom, age, bad, ok, warn
from services.cli.outcome import Failure
from services.client.calls import Caller
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings

SWEPT_A_ROUND = 2_000
"""Logs that a checkpointer's sweep looks at in a round (`services/game/checkpoints.py`)."""
ROUNDS = 6
REWRITTEN = ("TREE_REWRITTEN", "TREE_BROKEN")
Look = Callable[[Settings, Caller], Awaitable[list[Symptom]]]


async def trial(_settings: Settings, caller: Caller) -> list[Symptom]:
    """The wallet's trial balance."""
    check, stub = "trial balance", caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    found = await _told(
        check, "wallet", caller, stub.TrialBalance, wallet_pb2.TrialBalanceRequest()
    )
    if isinstance(found, Symptom):
        return [found]
    if not found.sound:
        return [
            bad(
                check,
                f"the total is {found.total}: balances and postings do not agree",
                DRIFT,
            )
        ]
    return [ok(check, f"zero, {found.open_reservations} reservations open")]


async def chain(settings: Settings, caller: Caller) -> list[Symptom]:
    """The newest checkpoint: whose signature it bears, and how long the tail behind it is."""
    check, stub = "checkpoints", caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
    asked = checkpoint_pb2.ListCheckpointsRequest(newest=True)
    newest = await _told(check, "game", caller, stub.ListCheckpoints, asked)
    if isinstance(newest, Symptom):
        return [newest]
    signed = "none yet"
    if newest.checkpoints:
        try:
            keys = witness.keys_of(settings)
            line = await witness.newest(caller, keys, None)
        except Failure:
            signed = "its signature was not checked: game.pub is not here"
        except Refused as refused:
            return [
                bad(
                    check,
                    f"the newest is not signed with a game.pub that is here ({refused.reason})",
                    "see `published keys`; if keys agree, somebody else signs: deploy/README.md, "
                    "Suspected tampering",
                )
            ]
        else:
            signed = f"{line.checkpoint.size if line else 0} leaves, signed by game"
    cover = await _told(
        check, "game", caller, stub.GetCoverage, checkpoint_pb2.GetCoverageRequest()
    )
    if isinstance(cover, Symptom):
        return [cover]
    tail = f"{cover.uncovered_events} events of {cover.uncovered_logs} logs not covered"
    since_ms = 0.0
    if cover.HasField("oldest_uncovered_time"):
        since_ms = 1_000 * time.time() - cover.oldest_uncovered_time.ToMilliseconds()
    rounds = ROUNDS + cover.logs / SWEPT_A_ROUND
    if since_ms > rounds * settings.checkpoint_ms + settings.clock_skew_ms:
        return [
            bad(
                check,
                f"{signed}; {tail}, the oldest for {age(since_ms)}",
                "the log of game says why it signs nothing (`checkpoint_tree_broken`, "
                "`checkpoint_failed`): deploy/README.md, Suspected tampering",
            )
        ]
    return [ok(check, f"{signed}; {tail}")]


async def against(settings: Settings, caller: Caller, path: Path) -> list[Symptom]:
    """Whether the tree continues what was exported."""
    check = "exported checkpoints"
    try:
        keys = witness.keys_of(settings)
        lines = await asyncio.to_thread(witness.read_lines, path, keys)
    except Failure as failure:
        return [bad(check, failure.line, "name the file that is kept, with game.pub in reach")]
    if not lines:
        return [bad(check, f"{path}: there are none in it", "name the file that is kept")]
    last = lines[-1].checkpoint
    try:
        await witness.newest(caller, keys, last)
    except Refused as refused:
        if refused.reason not in REWRITTEN:
            return [_unheard(check, "game", refused)]
        return [
            bad(
                check,
                f"the tree does not continue the {last.size} leaves of {path}: games were changed, "
                "removed or lost",
                f"after a restored backup that is so: `kozyr audit --all --against {path}` says "
                "since when, begin a new file; otherwise deploy/README.md, Suspected tampering",
            )
        ]
    return [ok(check, f"the tree continues the {last.size} leaves of {path}")]


async def _told(check: str, service: str, caller: Caller, method: Any, request: Any) -> Any:
    """What a service answers, or the symptom that it does not."""
    try:
        return await caller.call(service, method, request)
    except Refused as refused:
        return _unheard(check, service, refused)


def _unheard(check: str, service: str, refused: Refused) -> Symptom:
    if refused.kind is Kind.EXPIRED:
        return warn(check, f"{service} did not say in time", "try again when it is less busy")
    return warn(check, f"{service} does not say ({refused.reason})", f"see `service {service}`")
