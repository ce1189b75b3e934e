"""`kozyr token`: a token for an operator, a tool or yourself."""

import argparse
import asyncio
import sys

from services.cli import finding
from services.cli.addresses import add_flags, settings
from services.cli.operators import OPERATOR, signer
from services.cli.outcome import FINE, USAGE, Failure
from services.cli.terminal import command
from services.runtime.keys import OPERATORS
from services.runtime.settings import SERVICES, Settings

MINUTE_MS = 60_000
MINUTES_MAX = 24 * 60


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "token",
        "Print a token for the `authorization: Bearer` header: an operator's or a service's, "
        "signed with the key in the key folder, or your own as a player.",
        "KOZYR_TOKEN=$(kozyr token operator) kozyr games",
    )
    made.add_argument("role", choices=(OPERATOR, "player", *SERVICES), help="who it is for")
    made.add_argument("--subject", default=OPERATOR, metavar="NAME", help="the operator's name")
    made.add_argument("--minutes", type=int, default=60, metavar="N", help="how long it holds (60)")
    add_flags(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    where = settings(arguments)
    if not 1 <= arguments.minutes <= MINUTES_MAX:
        raise Failure(f"--minutes: must be 1 to {MINUTES_MAX}", USAGE)
    own = arguments.role == "player"
    token = asyncio.run(_own(where)) if own else _signed(where, arguments)
    sys.stdout.write(token + "\n")
    return FINE


def _signed(where: Settings, arguments: argparse.Namespace) -> str:
    issuer = OPERATORS if arguments.role == OPERATOR else arguments.role
    subject = arguments.subject if arguments.role == OPERATOR else arguments.role
    try:
        return signer(where, issuer).issue(subject, arguments.minutes * MINUTE_MS)
    except ValueError:
        raise Failure("--subject: 1 to 64 printable characters without blanks", USAGE) from None


async def _own(where: Settings) -> str:
    async with finding.as_player(where) as player:
        return player.access_token
