"""`kozyr play`: what can be asked for, and whether it is played on screens or in lines."""

import argparse
import asyncio
import os
import sys

from engines.api import InvalidOption
from services.cli import finding
from services.cli.addresses import add_flags
from services.cli.outcome import USAGE, Failure
from services.cli.play.plan import Plan
from services.cli.shown import LEVELS
from services.cli.terminal import command
from services.cli.variants import SEATS
from services.client.variants import GAMES, engine, read_values

COLOURS = ("dark", "light", "none")


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "play",
        "Play at this terminal, against bots or with others. Without a game the lobby is shown; "
        "with --offline no server is needed. Press ? for the keys. Into a pipe, or with --plain, "
        "it is played in lines; type h there.",
        "kozyr play durak --seats 3 --level hard",
    )
    made.add_argument("game", choices=GAMES, nargs="?")
    made.add_argument("--seats", type=int, metavar="N", help="seats at the table, yours included")
    made.add_argument("--bots", type=int, metavar="N", help="bots (all other seats)")
    made.add_argument("--level", choices=sorted(LEVELS), default="normal", help="of the bots")
    made.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a rule option (engines/GAME/RULES.md)",
    )
    made.add_argument("--join", metavar="TABLE", help="sit down at this table instead")
    made.add_argument(
        "--seconds", type=int, default=120, metavar="N", help="time for a decision (120)"
    )
    made.add_argument("--offline", action="store_true", help="no server: engine and bots in here")
    made.add_argument("--name", help="your name, the first time")
    made.add_argument("--profile", default="player", help="which of your accounts (player)")
    _add_screens(made)
    finding.add_look(made)
    add_flags(made)
    return made


def _add_screens(made: argparse.ArgumentParser) -> None:
    """What concerns screens alone."""
    made.add_argument("--plain", action="store_true", help="lines instead of screens")
    made.add_argument("--colours", choices=COLOURS, help="of the screens; F2 changes them (dark)")
    made.add_argument("--no-colour", action="store_true", help="none, as with NO_COLOR")
    made.add_argument("--language", metavar="TAG", help="of the rules: en, pt, ka (your locale's)")
    made.add_argument(
        "--hang-up",
        choices=("keep", "leave"),
        default="keep",
        help="your seat when the connection is cut in a game: keep it and come back (keep)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Play."""
    plan = None if arguments.game is None else planned(arguments)
    if arguments.plain or not _has_screen():
        if plan is None:
            raise Failure(f"name a game: {', '.join(GAMES)}", USAGE)
        from services.cli.play import plain

        return asyncio.run(plain.play(arguments, plan))
    from services.cli.play import screens

    return asyncio.run(screens.play(arguments, plan))


def planned(arguments: argparse.Namespace) -> Plan:
    """The game that was asked for; raises Failure for one that cannot be."""
    rules = engine(arguments.game)
    seats = arguments.seats
    if seats is None:
        seats = arguments.bots + 1 if arguments.bots else SEATS[arguments.game]
    if seats not in rules.SEATS:
        most = rules.SEATS[-1]
        raise Failure(f"{arguments.game} has {rules.SEATS[0]} to {most} seats, not {seats}", USAGE)
    bots = seats - 1 if arguments.bots is None else arguments.bots
    if not 0 <= bots < seats:
        raise Failure(f"--bots: 0 to {seats - 1} at a table of {seats}", USAGE)
    if arguments.offline and bots != seats - 1:
        raise Failure("--bots: without a server all other seats are bots'", USAGE)
    if arguments.seconds < 1:
        raise Failure("--seconds: must be at least 1", USAGE)
    try:
        given = dict(_pair(text) for text in arguments.option)
        read_values(rules.Options, given)
    except InvalidOption as problem:
        raise Failure(f"--option {problem}", USAGE) from None
    return Plan(arguments.game, seats, bots, given)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Failure(f"--option: {text!r} is not NAME=VALUE", USAGE)
    return name, value


def _has_screen() -> bool:
    """Whether a person sits at a terminal that can do more than lines."""
    ends = (sys.stdin, sys.stdout, sys.stderr)
    return all(end.isatty() for end in ends) and os.environ.get("TERM", "dumb") != "dumb"
