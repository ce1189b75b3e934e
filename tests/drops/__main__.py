"""`python -m tests.drops --seed N`: games through lost connections; exits 1 if it is violated."""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from services.runtime import log
from services.runtime.settings import LogFormat
from tests import postgres
from tests.drops.drops import LONG, SHORT, drops


def main() -> int:
    """Play them; the exit code."""
    parser = argparse.ArgumentParser(prog="drops", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--games", type=int, default=LONG.games, help="of each kind (100)")
    parser.add_argument("--short", action="store_true", help="the form of the test suite")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    sys.stdout.write(f"SEED={seed}\n")
    form = SHORT if arguments.short else replace(LONG, games=arguments.games)
    log.configure("drops", "error", LogFormat.CONSOLE)
    began = time.monotonic()

    def tell(news: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:6.1f} s] {news}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="kozyr-drops-") as folder:
        run = postgres.open_run()
        url = postgres.create_database()
        try:
            outcome = asyncio.run(drops(Path(folder), url, seed, form, tell))
        finally:
            postgres.drop_database(url)
            if run is not None:
                postgres.close_run(run)
    sys.stdout.write("\n".join(outcome.table()) + "\n")
    return 0 if outcome.held else 1


if __name__ == "__main__":
    raise SystemExit(main())
