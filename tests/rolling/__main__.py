"""`python -m tests.rolling --tables N`: a rolling restart of everything under load; exits 1 if it
was noticed."""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from services.cli.migrate import STORED
from tests.drill.database import Database
from tests.postgres import make_embedded
from tests.rolling.rolling import LONG, SHORT, Outcome, rolling


def main() -> int:
    """Do it; the exit code."""
    parser = argparse.ArgumentParser(prog="rolling", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--tables", type=int, default=LONG.tables, help=f"({LONG.tables})")
    parser.add_argument("--replicas", type=int, default=LONG.replicas, help="of each service (2)")
    parser.add_argument("--moves", type=float, default=LONG.moves, help="of all, a second (60)")
    parser.add_argument("--quiet", type=float, default=LONG.quiet, help="seconds before (30)")
    parser.add_argument(
        "--hurry", type=float, default=1.0, help="times as fast as in the manifests"
    )
    parser.add_argument("--together", action="store_true", help="all services at once")
    parser.add_argument("--short", action="store_true", help="the form of the test suite")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs there in any case")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    sys.stdout.write(f"SEED={seed}\n")
    form = replace(
        LONG,
        tables=given.tables,
        replicas=given.replicas,
        moves=given.moves,
        quiet=given.quiet,
        hurry=given.hurry,
        together=given.together,
    )
    began = time.monotonic()

    def tell(news: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:6.1f} s] {news}\n")
        sys.stdout.flush()

    async def run(folder: Path) -> Outcome:
        place = folder / "postgres"
        place.mkdir(mode=0o755)
        database = Database(make_embedded(place), None, safe=True)
        try:
            await database.make()
            urls = {name: database.url(name) for name in STORED}
            return await rolling(folder, urls, seed, SHORT if given.short else form, tell)
        finally:
            database.close()

    with tempfile.TemporaryDirectory(prefix="kozyr-rolling-") as made:
        folder, held = Path(made), False
        folder.chmod(0o755)
        try:
            outcome = asyncio.run(run(folder))
            held = outcome.held
        finally:
            if given.keep is not None or not held:
                kept = given.keep or Path(tempfile.mkdtemp(prefix="kozyr-rolling-logs-"))
                kept.mkdir(exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, kept)
                tell(f"logs are kept in {kept}")
    sys.stdout.write("\n".join(outcome.table()) + "\n")
    return 0 if outcome.held else 1


if __name__ == "__main__":
    raise SystemExit(main())
