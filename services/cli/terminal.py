"""Writing to people and to machines: colour only where it is wanted, progress, lines of JSON."""

import argparse
import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

QUIET_SECONDS = 2.0
"""Without a terminal, progress is told no more often than this."""

PAINT = (
    (re.compile(r"[2-9TJQKA][♥♦]"), "red"),
    (re.compile(r"^ ?▶.*$"), "bold"),
    (re.compile(r"^(Azi|Durak|Rami)\b.*$"), "bold cyan"),
    (re.compile(r"^(ok|fine)\b"), "green"),
    (re.compile(r"\b(WRONG|refused|failed)\b"), "bold red"),
)


def command(name: str, summary: str, example: str) -> argparse.ArgumentParser:
    """The argument parser of a command, its help ending in one example."""
    return argparse.ArgumentParser(
        prog=f"kozyr {name}",
        description=textwrap.fill(summary, 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def console(*, errors: bool = False) -> Console:
    """Standard output, or standard error; no colour with NO_COLOR or into a pipe."""
    return Console(stderr=errors, highlight=False, markup=False, emoji=False, soft_wrap=True)


def show(lines: Iterable[str], to: Console | None = None) -> None:
    """Print lines of text, painted where the output can take it."""
    out = to or console()
    for line in lines:
        out.print(paint(line) if out.is_terminal else line)


def paint(line: str) -> Text:
    """A line with its red suits red and what matters set off."""
    text = Text(line)
    for pattern, style in PAINT:
        text.highlight_regex(pattern, style)
    return text


def say_the_rest() -> None:
    """Flush both outputs. What nobody reads any more (a closed pipe, a terminal that is gone) goes
    nowhere from here on, at exit neither."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def emit(value: Any) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def can_draw_suits() -> bool:
    """Whether the output's encoding has the signs of the suits."""
    try:
        "♠♥♦♣▶".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Tell on standard error how something long gets on; call what is given with each news."""
    errors = console(errors=True)
    if errors.is_terminal:
        with errors.status(Text(what)) as status:
            yield lambda news: status.update(Text(f"{what}: {news}"))
        return
    last = time.monotonic()

    def tell(news: str) -> None:
        nonlocal last
        if time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            errors.print(f"{what}: {news}")

    yield tell


def grid(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows in columns under their heads, numbers to the right."""
    table = [list(map(str, row)) for row in rows]
    widths = [max(len(line[i]) for line in [list(heads), *table]) for i in range(len(heads))]
    right = [bool(table) and all(_is_number(row[i]) for row in table) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(placed).rstrip()

    return [line(heads), line(["-" * width for width in widths]), *map(line, table)]


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-").isdigit() or cell == "-"
