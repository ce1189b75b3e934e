"""What all screens have in common: one canvas, a notice, a question, a line to type in."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from engines.api import InvalidOption, RuleViolation
from services.cli.play.canvas import Canvas
from services.cli.play.drawing import boxed, keys_line, over_it
from services.cli.play.entry import Entry
from services.cli.play.friendly import friendly
from services.cli.play.keys import TYPING
from services.cli.play.scene import Told
from services.cli.play.spans import Line, Role, Span, fitted, folded, line
from services.kernel.errors import Refused

if TYPE_CHECKING:
    from services.cli.play.app import PlayApp

QUESTION_COLUMNS = 56
Doing: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Choice: TypeAlias = tuple[str, str, Doing]
"""A key, what it says, and what then is done that takes time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A key that answers a question, what it says, and what then happens."""

    key: str
    shown: str
    says: str
    do: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before anything else; Esc takes it away."""

    asks: str
    answers: tuple[Answer, ...]


class CanvasScreen(Screen[None], inherit_bindings=False):
    """A screen of lines. Says what they are in `drawn`, and what keys do in `pressed`."""

    def __init__(self) -> None:
        super().__init__()
        self.notice: Told | None = None
        self.question: Question | None = None
        self.entry: Entry | None = None
        self._entered: Callable[[str], Awaitable[None]] | None = None
        self._canvas: Canvas | None = None

    @property
    def play(self) -> "PlayApp":
        """The app."""
        app: Any = self.app
        made: PlayApp = app
        return made

    @property
    def in_front(self) -> bool:
        """Whether this is the screen that is shown, and neither it nor the app is going."""
        return self.is_attached and self.app.screen_stack[-1:] == [self]

    def compose(self) -> ComposeResult:
        """One canvas."""
        self._canvas = Canvas(self.play.inks, ascii_only=self.play.ascii_only)
        yield self._canvas

    def drawn(self, columns: int, rows: int) -> list[Line]:
        """The screen, exactly so many lines of so many columns."""
        raise NotImplementedError

    async def pressed(self, key: str, character: str | None) -> None:
        """Do what a key means."""
        raise NotImplementedError

    async def picked(self, spot: str) -> None:
        """Do what a click on a spot means that is no key."""

    def redraw(self) -> None:
        """Show what has changed; news that come while the screen goes are not shown."""
        columns, rows = self.size
        canvas = self._canvas
        if canvas is None or not canvas.is_attached or not columns:
            return
        lines = self.drawn(columns, rows)
        if self.entry is not None:
            typing = [self.entry.shown(columns), keys_line(TYPING, columns)]
            lines = [*lines[:-2], *fitted(typing, columns, 2)]
        if self.question is not None:
            lines = over_it(lines, _asked(self.question), columns)
        canvas.show(lines, self.play.inks)

    def on_resize(self, _: events.Resize) -> None:
        """Use the room there is."""
        self.redraw()

    def on_screen_resume(self, _: events.ScreenResume) -> None:
        """Come back from another screen."""
        self.redraw()

    async def on_key(self, event: events.Key) -> None:
        """Give a key to the line that is typed, the question that is asked, or the screen."""
        event.stop()
        event.prevent_default()
        if self.entry is not None:
            await self._typed(event.key, event.character)
        elif self.question is not None:
            await self._answered(event.key)
        else:
            self.notice = None
            await self.pressed(event.key, event.character)
        self.redraw()

    def on_paste(self, event: events.Paste) -> None:
        """Put a pasted text in where a line is typed."""
        event.stop()
        if self.entry is not None:
            self.entry = self.entry.pasted(event.text)
            self.redraw()

    async def on_canvas_picked(self, message: Canvas.Picked) -> None:
        """A click on a key is that key."""
        kind, _, what = message.spot.partition(":")
        if kind == "key":
            if self.entry is not None:
                await self._typed(what, None)
            elif self.question is not None:
                await self._answered(what)
            else:
                self.notice = None
                await self.pressed(what, what if len(what) == 1 else None)
        elif self.question is None and self.entry is None:
            self.notice = None
            await self.picked(message.spot)
        self.redraw()

    def go_back(self, said: Told | None = None) -> None:
        """Show the screen below, if this one is still in front, and there tell the person this."""
        app = self.app
        if not self.in_front:
            return
        app.pop_screen()
        below = app.screen
        if said is not None and isinstance(below, CanvasScreen):
            below.say(said.text, said.role)

    def ask(self, question: Question) -> None:
        """Ask something before all else."""
        self.question = question
        self.redraw()

    def offer(self, asks: str, choices: Iterable[Choice]) -> None:
        """Ask something, and do what is chosen."""

        def chosen(do: Doing) -> Callable[[], Awaitable[None]]:
            async def answered() -> None:
                self.act(do())

            return answered

        answers = (Answer(key, key, says, chosen(do)) for key, says, do in choices)
        self.ask(Question(asks, tuple(answers)))

    def type_in(self, entry: Entry, done: Callable[[str], Awaitable[None]]) -> None:
        """Have a line typed; `done` gets it, if it is not given up."""
        self.entry, self._entered = entry, done
        self.redraw()

    def say(self, text: str, role: Role = Role.PLAIN) -> None:
        """Tell the person something, until the next key."""
        self.notice = Told(text, role)
        self.redraw()

    def act(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do something that takes time; a refusal becomes one friendly line."""
        self.run_worker(self._acted(doing), exit_on_error=True)

    async def _acted(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except (Refused, RuleViolation, InvalidOption) as refusal:
            self.say(friendly(refusal), Role.BAD)
        self.redraw()

    async def _typed(self, key: str, character: str | None) -> None:
        if self.entry is None:
            return
        if key in ("escape", "ctrl+c"):
            self.entry = None
        elif key == "enter":
            text, done = self.entry.text.strip(), self._entered
            self.entry = self._entered = None
            if text and done is not None:
                await done(text)
        else:
            self.entry = self.entry.pressed(key, character)

    async def _answered(self, key: str) -> None:
        question, chosen = self.question, None
        if question is not None:
            chosen = next((each for each in question.answers if each.key == key), None)
        if chosen is not None or key in ("escape", "q"):
            self.question = None
        if chosen is not None:
            await chosen.do()


def _asked(question: Question) -> list[Line]:
    """A question in its box."""
    lines = folded(question.asks, QUESTION_COLUMNS, Role.STRONG)
    lines.append(())
    for answer in question.answers:
        lines.append(_choice(answer.shown, answer.says, f"key:{answer.key}"))
    lines.append(_choice("Esc", "go on", "key:escape"))
    return boxed(lines, QUESTION_COLUMNS)


def _choice(key: str, says: str, spot: str) -> Line:
    return line(Span(f"{key:>6}", Role.KEY, spot), Span(f"  {says}", spot=spot))
