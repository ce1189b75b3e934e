"""`kozyr audit --all`: every log there is a trace of, page by page, then the tree over them.

The game service does the work, in processes of its own. What is kept here is how far it came and
the counts of the report, whatever the number of games.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, checkpoint_pb2, checkpoint_pb2_grpc

from services.cli import finding, witness
from services.cli.addresses import settings
from services.cli.faults import fault_line, fault_object
from services.cli.outcome import FINE, USAGE, WRONG, Failure
from services.cli.terminal import emit, progress, show
from services.client.calls import RETRIED, Backoff, Caller
from services.client.profile import write_private
from services.game.disputes import DISPUTE_VERSION
from services.kernel.errors import Refused
from services.kernel.ids import parse_uuid
from services.runtime.settings import Settings

PAGE = 200
FORMAT = "kozyr audit 1"
TREE = "TREE_BROKEN"
REWRITTEN = "TREE_REWRITTEN"


@dataclass(slots=True)
class Tally:
    """How far an audit has come, and what it has found: `after` is the last id it is done with."""

    after: str = ""
    games: int = 0
    disputes: int = 0
    events: int = 0
    wrong: int = 0
    archived: int = 0
    uncovered_logs: int = 0
    uncovered_events: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def logs(self) -> int:
        """Logs it is done with."""
        return self.games + self.disputes

    def take(self, verdict: audit_pb2.Verdict) -> None:
        """Count a log."""
        self.after = verdict.game_id
        if UUID(verdict.game_id).version == DISPUTE_VERSION:
            self.disputes += 1
        else:
            self.games += 1
        self.events += verdict.events
        self.archived += verdict.archived
        uncovered = max(0, verdict.version - verdict.covered_version)
        self.uncovered_events += uncovered
        self.uncovered_logs += uncovered > 0
        self.wrong += bool(verdict.faults)
        self.faults.update(fault.kind for fault in verdict.faults)


def run(arguments: argparse.Namespace) -> int:
    """Check all; when that is broken off, say how it goes on."""
    state: Path | None = arguments.state
    tally = _read_state(state) if state else Tally()
    if arguments.after:
        if parse_uuid(arguments.after) is None:
            raise Failure(f"{arguments.after!r} is no game's id", USAGE)
        tally.after = arguments.after
    try:
        code = asyncio.run(_audit_all(arguments, tally))
    except BaseException:
        if tally.after:
            went = f"--state {state}" if state else f"--after {tally.after}"
            sys.stderr.write(
                f"kozyr audit: {tally.logs} logs are done, {tally.wrong} of them wrong; "
                f"`kozyr audit --all {went}` goes on\n"
            )
        raise
    if state:
        state.unlink(missing_ok=True)
    return code


async def _audit_all(arguments: argparse.Namespace, tally: Tally) -> int:
    where = settings(arguments)
    async with finding.as_operator(where) as caller:
        with progress("audit") as tell:
            await _logs(caller, arguments, tally, tell)
            tree = await _tree(caller, tally, tell)
        if arguments.against:
            tree["against"] = await _against(caller, where, arguments.against, tally)
    if arguments.json:
        emit({"report": {**asdict(tally), "faults": dict(tally.faults), "tree": tree}})
    else:
        show(_report(tally, tree, arguments.against))
    return WRONG if tally.faults else FINE


async def _logs(
    caller: Caller, arguments: argparse.Namespace, tally: Tally, tell: Callable[[str], None]
) -> None:
    """Every log above the last one that is done."""
    checkpoints: Any = caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
    asked = checkpoint_pb2.GetCoverageRequest()
    of = (await caller.call("game", checkpoints.GetCoverage, asked)).logs
    audits: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
    backoff, began, before = Backoff(caller.patience_ms), time.monotonic(), tally.logs
    while True:
        request = audit_pb2.VerifyGamesRequest(after_game_id=tally.after, page_size=PAGE)
        done = tally.logs
        try:
            async for message in caller.stream("game", audits.VerifyGames, request):
                for verdict in message.verdicts:
                    tally.take(verdict)
                    _say(verdict, as_json=arguments.json, verbose=arguments.verbose)
                rate = (tally.logs - before) / max(0.001, time.monotonic() - began)
                tell(f"{tally.logs} of {of} logs, {rate:.0f} a second, {tally.wrong} wrong")
        except Refused as refused:
            if refused.kind not in RETRIED:
                raise
            await backoff.wait(refused)
            continue
        backoff.reset()
        if arguments.state:
            await asyncio.to_thread(_write_state, arguments.state, tally)
        if tally.logs == done:
            return


async def _tree(caller: Caller, tally: Tally, tell: Callable[[str], None]) -> dict[str, Any]:
    """The tree over them, and its signatures."""
    stub: Any = caller.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)
    leaves = signed = 0
    faults: list[str] = []
    request = checkpoint_pb2.VerifyTreeRequest()
    async for step in caller.stream("game", stub.VerifyTree, request):
        leaves, signed = step.leaves, step.checkpoints
        faults += step.faults
        tell(f"{step.leaves} of {step.of} leaves of the tree")
    tally.faults[TREE] += len(faults)
    tally.faults = +tally.faults
    return {"leaves": leaves, "checkpoints": signed, "faults": faults}


async def _against(caller: Caller, where: Settings, path: Path, tally: Tally) -> dict[str, Any]:
    """Whether the tree continues what was exported; if not, since when it does not."""
    keys = witness.keys_of(where)
    lines = await asyncio.to_thread(witness.read_lines, path, keys)
    if not lines:
        raise Failure(f"{path}: there are no checkpoints in it")
    kept = await witness.continued(caller, keys, lines)
    last = lines[-1].checkpoint
    if kept == len(lines):
        return {"size": last.size, "continued": True}
    tally.faults[REWRITTEN] += 1
    return {
        "size": last.size,
        "continued": False,
        "from_leaf": lines[kept - 1].checkpoint.size if kept else 0,
        "to_leaf": lines[kept].checkpoint.size,
    }


def _say(verdict: audit_pb2.Verdict, *, as_json: bool, verbose: bool) -> None:
    """What was found in a log, where it is wrong or all are to be told."""
    if as_json:
        emit(
            {
                "game": verdict.game_id,
                "events": verdict.events,
                "covered": verdict.covered_version,
                "archived": verdict.archived,
                "faults": list(map(fault_object, verdict.faults)),
            }
        )
    elif verdict.faults:
        show(f"WRONG {verdict.game_id} {fault_line(fault)}" for fault in verdict.faults)
    elif verbose and verdict.archived:
        show([f"archived {verdict.game_id}: its head is that of its last place in the tree"])
    elif verbose:
        covered = f"checkpoints cover {verdict.covered_version}"
        show([f"ok {verdict.game_id}: {verdict.events} events, {covered}"])


def _report(tally: Tally, tree: dict[str, Any], against: Path | None) -> list[str]:
    """The report for people."""
    lines = [f"WRONG tree: {fault}" for fault in tree["faults"]]
    if (found := tree.get("against")) is not None:
        if found["continued"]:
            lines.append(f"ok {against}: the tree continues its {found['size']} leaves")
        else:
            between = f"between leaf {found['from_leaf']} and leaf {found['to_leaf']}"
            lines.append(f"WRONG {against}: {REWRITTEN}: the tree was made anew {between}")
    wrong = f"{tally.wrong} wrong" if tally.wrong else "all sound"
    tail = f"{tally.uncovered_events} events of {tally.uncovered_logs} logs"
    lines += [
        f"{tally.logs} logs ({tally.disputes} of disputes), {tally.events} events: {wrong}",
        f"tree: {tree['leaves']} leaves, {tree['checkpoints']} checkpoints; not covered: {tail}",
    ]
    if tally.archived:
        lines.insert(
            -1,
            f"{tally.archived} of them are archived: only their heads were looked at; "
            "`kozyr archive verify FOLDER` checks the logs",
        )
    return lines + [f"  {kind}: {number}" for kind, number in tally.faults.most_common()]


def _write_state(path: Path, tally: Tally) -> None:
    write_private(path, {"format": FORMAT, **asdict(tally), "faults": dict(tally.faults)})


def _read_state(path: Path) -> Tally:
    """Where an audit was broken off; the beginning if there is no such file."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        if kept.pop("format") != FORMAT:
            raise ValueError
        return Tally(**{**kept, "faults": Counter(kept["faults"])})
    except FileNotFoundError:
        return Tally()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Failure(f"{path}: not where an audit was broken off") from None
