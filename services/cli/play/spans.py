"""Lines of a screen as data: pieces of text with a role, some of which can be clicked.

A role says what a piece is, never how it looks; `ink` gives the looks. A spot is what a click on
the piece means, in the words that keys lead to as well (`card:3`, `key:p`).
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size


class Role(Enum):
    """What a piece of text is."""

    PLAIN = auto()
    MUTED = auto()
    """Of less weight: what cannot be chosen, what was a while ago."""
    STRONG = auto()
    RED = auto()
    """A card of hearts or diamonds, or one of these signs."""
    TURN = auto()
    """Whose turn it is, what is asked."""
    BAR = auto()
    """The bar at the top of a screen."""
    KEY = auto()
    """A key that can be pressed."""
    CHOSEN = auto()
    """Where the cursor is."""
    GOOD = auto()
    BAD = auto()
    """A refusal, a failure, time that runs out."""
    TALK = auto()
    """What people say."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line: its text, what it is, and what a click on it means."""

    text: str
    role: Role = Role.PLAIN
    spot: str = ""


Line = tuple[Span, ...]


def line(*pieces: Span | str) -> Line:
    """A line of pieces; bare text is plain."""
    return tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)


def text(of: Line) -> str:
    """What a line says."""
    return "".join(span.text for span in of)


def width(of: Line) -> int:
    """How many columns a line takes."""
    return sum(cell_len(span.text) for span in of)


def fit(of: Line, columns: int) -> Line:
    """The line in exactly so many columns: cut at the end, or filled up with blanks."""
    fitted: list[Span] = []
    left = columns
    for span in of:
        taken = cell_len(span.text)
        if taken > left:
            fitted.append(Span(set_cell_size(span.text, left), span.role, span.spot))
            return tuple(fitted)
        fitted.append(span)
        left -= taken
    return (*fitted, Span(" " * left)) if left else tuple(fitted)


def fitted(lines: Sequence[Line], columns: int, rows: int) -> list[Line]:
    """Exactly so many lines of so many columns."""
    blank = (Span(" " * columns),)
    cut = [fit(each, columns) for each in lines[: max(0, rows)]]
    return cut + [blank] * (rows - len(cut))


def beside(left: Sequence[Line], columns: int, right: Sequence[Line]) -> list[Line]:
    """Two blocks side by side, the left one in so many columns."""
    rows = zip_longest(left, right, fillvalue=())
    return [(*fit(first, columns), *second) for first, second in rows]


def between(left: Line, right: Line, columns: int) -> Line:
    """One line with a part at each end; the right one stays whole."""
    room = columns - width(right)
    return (*fit(left, max(0, room)), *right)


def folded(said: str, columns: int, role: Role = Role.PLAIN, indent: str = "") -> list[Line]:
    """A sentence in as many lines as it takes."""
    pieces = textwrap.wrap(
        said,
        max(1, columns),
        subsequent_indent=indent,
        drop_whitespace=True,
        break_on_hyphens=False,
    )
    return [(Span(piece, role),) for piece in pieces]


def joined(lines: Iterable[Line], gap: str = "  ") -> Line:
    """Several short lines in a row."""
    made: list[Span] = []
    for each in lines:
        if made:
            made.append(Span(gap))
        made += each
    return tuple(made)
