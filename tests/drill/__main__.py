"""`python -m tests.drill --seed N --minutes M`: the long form of the drill; exits 1 if it fails."""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.drill.drill import LONG, SHORT, drill


def main() -> int:
    """Run one drill; its exit code."""
    parser = argparse.ArgumentParser(prog="drill", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--short", action="store_true", help="the form of the test suite")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs in this new folder")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    sys.stdout.write(f"SEED={seed}\n")
    form = SHORT if arguments.short else replace(LONG, seconds=arguments.minutes * 60)
    began = time.monotonic()

    def tell(news: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:6.1f} s] {news}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="kozyr-drill-") as made:
        folder = Path(made) if arguments.keep is None else arguments.keep
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        outcome = asyncio.run(drill(folder, seed, form, tell))
    sys.stdout.write("\n".join(outcome.table()) + "\n")
    return 0 if outcome.held else 1


if __name__ == "__main__":
    raise SystemExit(main())
