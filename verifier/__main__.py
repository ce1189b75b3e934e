"""`python -m verifier FILE…`: check receipts; exits 1 for the first thing that is wrong in one."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from verifier.keys import read_keys
from verifier.receipt import FULL
from verifier.verify import Verdict, verify
from verifier.wrong import Wrong

FINE, WRONG, USAGE = 0, 1, 2


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = argparse.ArgumentParser(
        prog="python -m verifier",
        description="Check receipts of games without any server: hash chain, secrets, seeds, every "
        "deal and every decision of the rules, result, payouts, signature.",
    )
    made.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a receipt")
    made.add_argument(
        "--trusted",
        action="append",
        type=Path,
        default=[],
        metavar="KEYFILE",
        help="a public key of the game service (PEM); without one, the key in the receipt counts",
    )
    made.add_argument(
        "--acknowledged",
        type=Path,
        metavar="FILE",
        help="what your client kept of your own seed: check that it is in the game",
    )
    made.add_argument(
        "--earlier",
        type=Path,
        metavar="RECEIPT",
        help="a receipt you were given before: check that this one tells the same game",
    )
    made.add_argument("--json", action="store_true", help="one JSON object a receipt")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the receipts of a command line; the exit code."""
    given = parser().parse_args(arguments)
    try:
        trusted = read_keys(given.trusted)
        kept = None if given.acknowledged is None else given.acknowledged.read_bytes()
        earlier = None if given.earlier is None else given.earlier.read_bytes()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    return check(given.files, trusted, lambda _: kept, earlier, as_json=given.json)


def check(
    files: Sequence[Path],
    trusted: dict[str, bytes],
    kept: Callable[[bytes], bytes | None],
    earlier: bytes | None = None,
    *,
    as_json: bool,
    source: Callable[[Path], bytes] = Path.read_bytes,
) -> int:
    """Check each file and say in a line what came of it; the exit code.

    `kept` gives the player's own acknowledgement for a receipt, None where it is not asked for;
    `source` the receipt of a file.
    """
    wrong = 0
    for file in files:
        try:
            document = source(file)
            verdict = verify(document, trusted, kept(document), earlier)
        except OSError as error:
            wrong += 1
            said, why = f"WRONG {file}: {error.strerror}", {"where": "file", "what": error.strerror}
        except Wrong as problem:
            wrong += 1
            said, why = f"WRONG {file}: {problem}", {"where": problem.where, "what": problem.what}
        else:
            said, why = _line(file, verdict), {}
        if as_json:
            said = json.dumps({"file": str(file), "ok": not why, **why})
        sys.stdout.write(said + "\n")
    return WRONG if wrong else FINE


def _line(file: Path, verdict: Verdict) -> str:
    receipt = verdict.receipt
    whose = "" if receipt.kind == FULL else ", what one viewer may know"
    pinned = "trusted" if verdict.pinned else "not compared with any key you trust"
    return (
        f"ok {file}: {receipt.rules}, {receipt.version} events{whose} "
        f"({', '.join(verdict.checks)}); {_dealt(verdict)}; key {receipt.key}, {pinned}"
    )


def _dealt(verdict: Verdict) -> str:
    """By whose seeds cards are dealt: one that comes from the server alone was its to choose."""
    if verdict.contributed is None:
        return "nothing is dealt yet"
    if not verdict.contributed:
        return "NO PLAYER'S SEED is in the cards: the server could choose them"
    seats = ", ".join(map(str, verdict.contributed))
    return f"in the cards are the seeds of the server and of seats {seats}"


if __name__ == "__main__":
    raise SystemExit(main())
