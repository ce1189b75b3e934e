"""`kozyr rules`: a game's rules and options, told to people in their language."""

import argparse
import textwrap
from collections.abc import Iterator

from kozyr.lobby.v1.lobby_pb2 import OptionInfo, VariantInfo

from engines.api import CHIPS_MAX
from services.cli.outcome import FINE
from services.cli.terminal import command, show
from services.client.variants import GAMES
from services.lobby.guides import LANGUAGES, spoken
from services.lobby.model import Variant
from services.lobby.variants import variant_info

WIDTH = 78
INDENT = "  "
UNBROKEN = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
"""Keeps an option and its default on one line."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command(
        "rules",
        "Show the rules of a game as players are told them, and the options of its tables with "
        "bounds and defaults. No server is asked: these are the rules this program plays by.",
        "kozyr rules durak --language pt",
    )
    made.add_argument("game", choices=GAMES)
    made.add_argument(
        "--language",
        action="append",
        default=[],
        metavar="TAG",
        help=f"a BCP 47 tag; again for a second choice ({', '.join(LANGUAGES)}; else English)",
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    """Print the rules."""
    variant = Variant[arguments.game.upper()]
    show(told(variant_info(variant, spoken(arguments.language))))
    return FINE


def told(game: VariantInfo) -> Iterator[str]:
    """A game's rules and options as lines of at most 78 columns; options stand at the end."""
    yield f"{game.title} · {game.rules} · {game.seats_min}–{game.seats_max}"
    for section in game.sections:
        yield from ("", section.title)
        for number, paragraph in enumerate(section.text.split("\n\n")):
            if number:
                yield ""
            yield from _filled(paragraph)
    for option in game.options:
        yield from ("", f"{option.name} = {option.default}{_bounds(option)}")
        yield from _filled(f"{option.title}. {option.description}")
        for choice, title in zip(option.choices, option.choice_titles, strict=True):
            yield f"{INDENT * 2}{choice}: {title}"


def _bounds(option: OptionInfo) -> str:
    if option.type != "int":
        return ""
    if option.high == CHIPS_MAX:
        return f" (≥ {option.low})"
    return f" ({option.low} … {option.high})"


def _filled(paragraph: str) -> list[str]:
    lines = textwrap.wrap(
        paragraph.replace(" = ", UNBROKEN),
        WIDTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_on_hyphens=False,
    )
    return [line.replace(UNBROKEN, " = ") for line in lines]
