"""A page to read, over whatever screen it was asked for on."""

from collections.abc import Callable, Sequence

from services.cli.play.canvas_screen import CanvasScreen
from services.cli.play.keys import EVERYWHERE, MOVING, READING, Do, found
from services.cli.play.pages import page
from services.cli.play.spans import Line

Lines = Callable[[int], Sequence[Line]]
"""A page's lines in so many columns."""


class ReaderScreen(CanvasScreen):
    """Lines of a page, scrolled by keys or the wheel."""

    def __init__(self, title: str, lines: Lines) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._at = 0

    def drawn(self, columns: int, rows: int) -> list[Line]:
        """The page from where it is read."""
        lines = self._lines(columns)
        self._at = max(0, min(self._at, len(lines) - (rows - 2)))
        return page(self._title, lines, self._at, columns, rows)

    async def pressed(self, key: str, character: str | None) -> None:
        """Scroll, or go back."""
        far = self.size.height - 3
        match found(key, READING, MOVING, EVERYWHERE):
            case Do.DOWN:
                self._at += 1 if key == "down" else far
            case Do.UP:
                self._at -= 1 if key == "up" else far
            case Do.FIRST:
                self._at = 0
            case Do.LAST:
                self._at = len(self._lines(self.size.width))
            case Do.THEME:
                self.play.next_colours()
            case Do.BACK | Do.HELP | Do.QUIT | Do.ENTER:
                self.go_back()

    def on_mouse_scroll_down(self) -> None:
        """The wheel."""
        self._at += 3
        self.redraw()

    def on_mouse_scroll_up(self) -> None:
        """The wheel."""
        self._at -= 3
        self.redraw()
