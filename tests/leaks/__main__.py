"""`python -m tests.leaks --games N`: leaks in every channel, looked for in N games of a kind."""

import argparse
import asyncio
import sys
import time

from tests.leaks.fuzz import SEATS, Leak, Tally, fuzz


def main() -> int:
    """Look; the exit code is 1 where something leaks."""
    parser = argparse.ArgumentParser(prog="leaks", description=__doc__)
    parser.add_argument("--games", type=int, default=10, help="games of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--kind", choices=tuple(SEATS), help="one kind only")
    arguments = parser.parse_args()
    tally, began, leaks = Tally(), time.monotonic(), 0
    for number in range(arguments.first, arguments.first + arguments.games):
        for variant in SEATS if arguments.kind is None else (arguments.kind,):
            try:
                asyncio.run(fuzz(variant, number, tally))
            except Leak as leak:
                leaks += 1
                sys.stdout.write(f"LEAK {leak}\n")
        sys.stdout.write(f"[{time.monotonic() - began:6.1f} s] game {number}\n")
        sys.stdout.flush()
    sys.stdout.write("\n".join([*tally.table(), f"{leaks} leaks"]) + "\n")
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
