"""Pages to read: all keys, the rules of a game, what has been played."""

from collections.abc import Sequence

from kozyr.lobby.v1 import lobby_pb2

from services.cli.play.drawing import keys_line
from services.cli.play.keys import (
    BETWEEN,
    EVERYWHERE,
    LOBBY,
    OF_GAMES,
    PLAYING,
    READING,
    TALKING,
    Key,
    shown,
)
from services.cli.play.spans import Line, Role, Span, fitted, folded, line

NAMES = 14
"""The columns of a key in the help."""


def help_page(game: str) -> list[Line]:
    """Every key there is where the person is; `game` is empty outside of a game."""
    parts: list[tuple[str, Sequence[Key]]] = []
    if game:
        parts.append((f"At the table ({game.capitalize()})", OF_GAMES[game]))
        parts.append(("In every game", (*PLAYING, *TALKING)))
        parts.append(("Between games", BETWEEN))
    else:
        parts.append(("In the lobby", LOBBY))
    parts.append(("Everywhere", EVERYWHERE))
    lines: list[Line] = []
    for title, keys in parts:
        lines += [line(Span(f" {title}", Role.STRONG)), *map(_told, keys), ()]
    if game:
        lines += [line(Span(" How to play", Role.STRONG))]
        for said in HOW[game]:
            lines += [(Span("  "), *each) for each in folded(said, 74)]
    lines += [(), *((Span("  "), *each) for each in folded(CLICKS, 74))]
    return lines


HOW = {
    "azi": (
        "To bid, type the amount and press Enter; ↑ and ↓ change it by the least bet.",
        "Cards have their key below them; one that has none cannot be played now.",
        "`bid` is what a seat has bid to, `up` how often it may still raise, `won` its tricks.",
    ),
    "durak": (
        "Press the key below a card to attack or to beat with it, or go to it and press Enter.",
        "A card without a key cannot be played now.",
        "Cards beside another seat are known to be there: it took them from the table.",
    ),
    "rami": (
        "Draw first. Then mark cards by the keys below them, and lay or discard them.",
        "A + below a card says that it could be laid. Discarding ends your turn.",
        "Click the stock or the pile to draw, a combination to lay the marked cards on it.",
    ),
}
CLICKS = (
    "All keys at the foot of a screen, cards, piles and tables can be clicked as well. The time at "
    "the right is what is left for a decision, and after the + what your time bank holds."
)


def _told(key: Key) -> Line:
    names = " ".join(shown(name) for name in key.names)
    return line(Span(f"  {names:<{NAMES}}", Role.KEY), f" {key.means}")


def rules_page(variant: lobby_pb2.VariantInfo, columns: int) -> list[Line]:
    """A game's rules as the server tells them, and the options of its tables."""
    inside = min(columns, 90) - 6
    lines: list[Line] = [line(Span(f" {variant.title} · {variant.rules}", Role.STRONG))]
    for section in variant.sections:
        lines += [(), line(Span(f" {section.title}", Role.KEY))]
        for number, paragraph in enumerate(section.text.split("\n\n")):
            lines += [()] if number else []
            lines += [(Span("   "), *each) for each in folded(paragraph, inside)]
    for option in variant.options:
        lines += [
            (),
            line(Span(f" {option.title}", Role.KEY), f" ({option.name} = {option.default})"),
        ]
        lines += [(Span("   "), *each) for each in folded(option.description, inside)]
    return lines


def page(title: str, lines: Sequence[Line], at: int, columns: int, rows: int) -> list[Line]:
    """The part of a page from line `at` on, with its title and the keys for reading."""
    end = min(len(lines), at + rows - 2)
    where = f"{at + 1}–{end} of {len(lines)} " if len(lines) > rows - 2 else ""
    head = f" {title}"
    bar = line(Span(f"{head}{where:>{columns - len(head)}}", Role.BAR))
    return [
        *fitted([bar, *lines[at:end]], columns, rows - 1),
        *fitted([keys_line(READING, columns)], columns, 1),
    ]
