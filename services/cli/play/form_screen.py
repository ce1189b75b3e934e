"""The form of a new table, as a screen."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kozyr.lobby.v1 import lobby_pb2

from services.cli.play import form
from services.cli.play.canvas_screen import CanvasScreen
from services.cli.play.keys import EVERYWHERE, FORM, Do, found
from services.cli.play.session import Session
from services.cli.play.spans import Line

Variants = Sequence[lobby_pb2.VariantInfo]
Done = Callable[[lobby_pb2.Table], Awaitable[None]]


class FormScreen(CanvasScreen):
    """The form of a new table; `done` gets the table."""

    def __init__(self, session: Session, game: str, variants: Variants, done: Done) -> None:
        super().__init__()
        self._session = session
        self._variants = variants
        self._done = done
        self.form = form.form_for(game, variants, alone=session.alone)

    def drawn(self, columns: int, rows: int) -> list[Line]:
        """The form."""
        trouble = "" if self.notice is None else self.notice.text
        return form.drawn(self.form, trouble, columns, rows)

    async def pressed(self, key: str, character: str | None) -> None:
        """Change the form, open the table, or go back."""
        match found(key, FORM, EVERYWHERE):
            case Do.UP:
                self.form = self.form.moved(-1)
            case Do.DOWN:
                self.form = self.form.moved(1)
            case Do.LEFT:
                self._step(-1)
            case Do.RIGHT:
                self._step(1)
            case Do.ENTER:
                self.act(self._open())
            case Do.THEME:
                self.play.next_colours()
            case Do.BACK | Do.QUIT:
                self.go_back()
            case _ if key.isascii() and key.isdigit():
                self.form = self.form.with_digit(key)

    async def picked(self, spot: str) -> None:
        """A click chooses a line."""
        kind, _, what = spot.partition(":")
        if kind == "field":
            self.form = replace(self.form, at=int(what))

    def _step(self, by: int) -> None:
        self.form = self.form.stepped(by)
        game = self.form.value("game")
        if game != self.form.game:
            alone = self._session.alone
            self.form = form.form_for(game, self._variants, alone=alone, kept=self.form)

    async def _open(self) -> None:
        opening = form.opening_of(self.form, self._variants, alone=self._session.alone)
        table = await self._session.open(opening)
        self.go_back()
        await self._done(table)
