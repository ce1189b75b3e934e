"""How roles look: a dark theme, a light one, and none at all.

The themes paint their own ground, so what is read does not hang on how a terminal is set. Without
colours a screen is told apart by signs, by bold and by reversed text alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.style import Style

from services.cli.play.spans import Role

Theme = Literal["dark", "light", "none"]
THEMES: tuple[Theme, ...] = ("dark", "light", "none")


@dataclass(frozen=True, slots=True)
class Ink:
    """A role's looks; colours are `#rrggbb`, empty for the theme's own."""

    colour: str = ""
    ground: str = ""
    bold: bool = False
    reverse: bool = False


GROUNDS: Mapping[str, str] = {"dark": "#14181f", "light": "#fbfaf5"}
INKS: Mapping[str, Mapping[Role, Ink]] = {
    "dark": {
        Role.PLAIN: Ink("#d8dee9"),
        Role.MUTED: Ink("#8d98aa"),
        Role.STRONG: Ink("#ffffff", bold=True),
        Role.RED: Ink("#ff7b72"),
        Role.TURN: Ink("#ffd166", bold=True),
        Role.BAR: Ink("#e6edf3", "#26405c", bold=True),
        Role.KEY: Ink("#7cc4ff", bold=True),
        Role.CHOSEN: Ink("#14181f", "#ffd166", bold=True),
        Role.GOOD: Ink("#7ee787"),
        Role.BAD: Ink("#ffa198", bold=True),
        Role.TALK: Ink("#d2bdff"),
    },
    "light": {
        Role.PLAIN: Ink("#24292f"),
        Role.MUTED: Ink("#5f6872"),
        Role.STRONG: Ink("#000000", bold=True),
        Role.RED: Ink("#b3001b"),
        Role.TURN: Ink("#8a4100", bold=True),
        Role.BAR: Ink("#ffffff", "#2f5475", bold=True),
        Role.KEY: Ink("#0550ae", bold=True),
        Role.CHOSEN: Ink("#ffffff", "#8a4100", bold=True),
        Role.GOOD: Ink("#116329"),
        Role.BAD: Ink("#a40e26", bold=True),
        Role.TALK: Ink("#6130b5"),
    },
    "none": {
        Role.PLAIN: Ink(),
        Role.MUTED: Ink(),
        Role.STRONG: Ink(bold=True),
        Role.RED: Ink(),
        Role.TURN: Ink(bold=True),
        Role.BAR: Ink(reverse=True),
        Role.KEY: Ink(bold=True),
        Role.CHOSEN: Ink(reverse=True),
        Role.GOOD: Ink(bold=True),
        Role.BAD: Ink(bold=True),
        Role.TALK: Ink(),
    },
}


def styles(theme: Theme) -> Mapping[Role, Style]:
    """Each role as the terminal is told it."""
    ground = GROUNDS.get(theme)
    return {
        role: Style(
            color=ink.colour or None,
            bgcolor=ink.ground or ground,
            bold=ink.bold or None,
            reverse=ink.reverse or None,
        )
        for role, ink in INKS[theme].items()
    }


def next_theme(theme: Theme) -> Theme:
    """The theme after this one."""
    return THEMES[(THEMES.index(theme) + 1) % len(THEMES)]
