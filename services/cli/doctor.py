"""`kozyr doctor`: looks over a running installation and says what to do."""

import argparse
import asyncio
from collections.abc import Awaitable
from dataclasses import asdict
from pathlib import Path

from services.cli.addresses import add_flags, settings
from services.cli.checkup import books, certificates, keyfolder, reachable, stored, tokens
from services.cli.checkup.symptoms import Level, Symptom, bad
from services.cli.outcome import FINE, WRONG
from services.cli.terminal import command, emit, show
from services.client.calls import Caller
from services.runtime.settings import Settings

CALL_MS = 10_000
CHECK_S = 60.0
"""No check takes longer: what hangs is a finding too."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "doctor",
        "Look over a running installation: certificates, services, rules, keys, tokens, clocks, "
        "databases, months, due work, chips, the signed record. One line a check (ok, warn, BAD) "
        "and what to do. Changes nothing, shows no secret; exit code 1 when something is bad. It "
        "sees the more the more it is given: addresses, the databases' URLs, the key folder, an "
        "operator's token.",
        "kozyr doctor --against checkpoints.jsonl",
    )
    made.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="exported checkpoints that the tree must continue",
    )
    made.add_argument("--json", action="store_true", help="one JSON object a check")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Look, and tell."""
    found = asyncio.run(examine(settings(arguments), arguments.against))
    for symptom in found:
        if arguments.json:
            emit(asdict(symptom))
        else:
            show(_lines(symptom))
    worst = sum(symptom.level is Level.BAD for symptom in found)
    warned = sum(symptom.level is Level.WARN for symptom in found)
    if not arguments.json:
        show([f"{len(found)} checks: {worst} bad, {warned} warnings"])
    return WRONG if worst else FINE


async def examine(where: Settings, against: Path | None = None) -> list[Symptom]:
    """Everything that is found, in the order in which it is to be mended."""
    found = await _within("certificates", asyncio.to_thread(certificates.look, where))
    answers, reached = await reachable.look(where)
    found += answers
    found += await _within("certificates", certificates.served(where))
    found += await _within("keys", asyncio.to_thread(keyfolder.look, where))
    if "lobby" in reached:
        found.append(await keyfolder.published(where))
    token, said = tokens.issue(where)
    found.append(said)
    if token is not None:
        found += await asyncio.gather(*(tokens.taken(where, n, token) for n in sorted(reached)))
    found += await _within("databases", stored.look(where))
    if token is not None and reached:
        found += await _asked(where, token, reached, against)
    return found


async def _asked(
    where: Settings, token: str, reached: frozenset[str], against: Path | None
) -> list[Symptom]:
    """What services tell operators, of those that answer."""
    caller, found = Caller(where, lambda: token, patience_ms=0), []
    caller.prompt_ms = caller.answer_ms = CALL_MS
    try:
        if "wallet" in reached:
            found += await _within("trial balance", books.trial(where, caller))
        if "game" in reached:
            found += await _within("checkpoints", books.chain(where, caller))
            if against is not None:
                found += await _within("exported", books.against(where, caller, against))
    finally:
        await caller.close()
    return found


async def _within(check: str, looking: Awaitable[list[Symptom]]) -> list[Symptom]:
    """What a check finds, in bounded time; one that breaks is a finding as well."""
    try:
        async with asyncio.timeout(CHECK_S):
            return await looking
    except TimeoutError:
        return [bad(check, f"no answer within {CHECK_S:.0f} s", "see what it waits for")]
    except Exception as error:  # noqa: BLE001 - what it has met is out of order, whatever it is
        problem = type(error).__name__
        return [bad(check, f"could not be looked at ({problem})", "look at it by hand")]


def _lines(symptom: Symptom) -> list[str]:
    level = symptom.level.upper() if symptom.level is Level.BAD else symptom.level
    lines = [f"{level:<5}{symptom.check}: {symptom.said}"]
    return lines + [f"     → {symptom.advice}"] * bool(symptom.advice)
