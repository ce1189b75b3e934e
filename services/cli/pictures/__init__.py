"""The three games as characters: 80 columns, readable without colour."""

import importlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import engines.azi
from engines.cards import Card
from services.cli.pictures.look import WIDTH, Look
from services.client.variants import Move, View

PICTURES: Mapping[str, Any] = {
    name: importlib.import_module(f"services.cli.pictures.{name}")
    for name in ("azi", "durak", "rami")
}
"""Each game's pictures: a module with `table`, `move` and `told`."""


def table(
    game: str, view: View, look: Look, hands: Mapping[int, Sequence[Card]] | None = None
) -> list[str]:
    """The table as lines of at most 80 columns, as the viewer sees it.

    `hands` lays these hands open, by seat; left out, the viewer's own.
    """
    if hands is None:
        closed = isinstance(view, engines.azi.View) and view.seat is not None and _is_blind(view)
        hands = {} if view.seat is None or closed else {view.seat: view.hand}
    lines: list[str] = PICTURES[game].table(view, look, hands)
    return [folded for line in lines for folded in fold(line)]


def move(game: str, made: Move, look: Look) -> str:
    """A move as a choice in words."""
    said: str = PICTURES[game].move(made, look)
    return said


def told(game: str, happening: object, look: Look) -> str:
    """What happened in the game, as a sentence."""
    said: str = PICTURES[game].told(happening, look)
    return said


def fold(line: str) -> list[str]:
    """A line in pieces of at most 80 columns, continued further in."""
    if len(line) <= WIDTH:
        return [line]
    return textwrap.wrap(
        line, WIDTH, subsequent_indent="    ", drop_whitespace=True, break_on_hyphens=False
    )


def _is_blind(view: engines.azi.View) -> bool:
    return any(seat.seat == view.seat and seat.blind for seat in view.seats)
