"""A person at a terminal in a seat: shows the table, reads moves, tells refusals.

The table may be a game on a server or one in this process: whatever has the face of `Table`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import engines.azi
from engines.api import RuleViolation
from services.cli import pictures
from services.cli.lines import Lines
from services.cli.moves import USAGE, read_move
from services.cli.pictures.look import Look, wrapped
from services.cli.terminal import show
from services.client.variants import Move, View
from services.kernel.errors import Refused

BEGINNING = "h tells what can be typed, q leaves the game."
HELP = (
    "a number makes that move, or type it: {usage}",
    "t shows the table | ? asks a bot what it would do | h shows this | q leaves the game",
)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a player is shown at once: sentences, and the table after them.

    `view` is None before the first deal; `ending` says how the game came out, once it is over;
    `clock` how much time is left to decide, where there is a clock.
    """

    told: tuple[str, ...]
    view: View | None
    ending: tuple[str, ...] = ()
    over: bool = False
    clock: str = ""


Asked = tuple[int, tuple[Move, ...]]
"""A decision a person was asked for: its number and the moves there were."""


class Table(Protocol):
    """A game one sits at."""

    game: str
    look: Look
    seat: int

    def moments(self) -> AsyncIterator[Moment]:
        """Everything that happens, in order, the last one being `over`."""
        ...

    async def submit(self, view: View, move: Move) -> None:
        """Make a move in what `view` shows; raises Refused or RuleViolation."""
        ...

    async def leave(self) -> None:
        """Leave for good."""
        ...

    async def hint(self, view: View) -> str:
        """What a bot would do, in words."""
        ...


async def sit(table: Table, lines: Lines) -> bool:
    """Play until the game is over (True) or the person leaves (False).

    A script's lines are taken one for each question; what a person types is taken at any time.
    """
    moments = aiter(table.moments())
    view: View | None = None
    asked: Asked | None = None
    answered: Asked | None = None
    upcoming = asyncio.ensure_future(anext(moments, None))
    typed = asyncio.ensure_future(lines.next())
    if lines.interactive:
        show([BEGINNING])
    try:
        while True:
            listening = lines.interactive or asked != answered
            waited = (upcoming, typed) if listening else (upcoming,)
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if upcoming.done():
                moment = upcoming.result()
                if moment is None:
                    return True
                view = moment.view or view
                _tell(table, moment)
                if moment.over:
                    return True
                asked = _ask(table, view, asked, moment.clock)
                upcoming = asyncio.ensure_future(anext(moments, None))
            else:
                line = typed.result()
                if line is None or line.strip().lower() in ("q", "quit"):
                    await _leave(table)
                    return False
                if await _answer(table, view, line.strip()):
                    answered = asked
                elif lines.interactive and view is not None and table.seat in view.to_act:
                    show(choices(table.game, view, table.look))
                typed = asyncio.ensure_future(lines.next())
    finally:
        await _end(upcoming, typed, lines)


async def _leave(table: Table) -> None:
    """Leave for good, or say why that is not possible."""
    try:
        await table.leave()
    except (Refused, RuleViolation) as refusal:
        show([*refusal_lines(refusal), "The game goes on without you."])
    else:
        show(["You have left the game."])


async def _end(upcoming: asyncio.Future[Any], typed: asyncio.Future[Any], lines: Lines) -> None:
    """Wait for nothing more; a line that has come already is kept for who asks next."""
    if typed.done() and not typed.cancelled():
        lines.give_back(typed.result())
    for task in (upcoming, typed):
        task.cancel()
    await asyncio.gather(upcoming, typed, return_exceptions=True)


def _tell(table: Table, moment: Moment) -> None:
    show(piece for line in moment.told for piece in pictures.fold(line))
    if moment.over:
        if moment.view is not None:
            show(["", *pictures.table(table.game, moment.view, table.look)])
        show(moment.ending)


def _ask(table: Table, view: View | None, asked: Asked | None, clock: str) -> Asked | None:
    """Show the table and the moves when this seat has something new to decide; what was asked."""
    if view is None or table.seat not in view.to_act:
        return asked
    asking = (view.turn, view.legal)
    if asking != asked:
        show(["", *pictures.table(table.game, view, table.look)])
        show(choices(table.game, view, table.look, clock))
    return asking


def choices(game: str, view: View, look: Look, clock: str = "") -> list[str]:
    """The legal moves with their numbers."""
    items = [
        f"{number} {pictures.move(game, made, look)}" for number, made in enumerate(view.legal, 1)
    ]
    lines = wrapped(f"your move{f' ({clock})' if clock else ''}: ", items)
    if isinstance(view, engines.azi.View):
        lines += _prices(view)
    return lines


def _prices(view: engines.azi.View) -> list[str]:
    said = []
    if view.bid_maximum:
        said.append(f"`bid N` with N from {view.bid_minimum} to {view.bid_maximum}")
    if view.level_price:
        said.append(f"to level costs {view.level_price}")
    if view.phase is engines.azi.Phase.BUYING_BACK:
        said.append(f"to buy back costs {view.buy_back_price}")
    return [f"({'; '.join(said)})"] if said else []


async def _answer(table: Table, view: View | None, line: str) -> bool:
    """Do what was typed; whether it was a move that was made."""
    match line.lower():
        case "":
            return False
        case "h" | "help":
            said = [text.format(usage=USAGE[table.game]) for text in HELP]
            show(piece for text in said for piece in pictures.fold(text))
            return False
        case "t" | "table" if view is not None:
            show([*pictures.table(table.game, view, table.look)])
            return False
    if view is None or table.seat not in view.to_act:
        show(["It is not your turn."])
        return False
    try:
        if line == "?":
            show(pictures.fold(await table.hint(view)))
            return False
        await table.submit(view, read_move(table.game, line, view))
    except ValueError as problem:
        show(pictures.fold(f"? {problem}"))
        return False
    except (Refused, RuleViolation) as refusal:
        show(refusal_lines(refusal))
        return False
    return True


def refusal_lines(refusal: Refused | RuleViolation) -> Sequence[str]:
    """A refusal in words, its reason once."""
    text = refusal.message if isinstance(refusal, Refused) else f"the rules refuse it: {refusal}"
    named = text if refusal.reason in text else f"{refusal.reason}: {text}"
    return pictures.fold(f"refused: {named}")
