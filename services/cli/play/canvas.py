"""The one widget of all screens: lines, of which only those that changed are painted again."""

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from services.cli.play.spans import Line, Role, fitted

ASCII = str.maketrans("·…–—→←↑↓─│╭╮╰╯●○▶≥", "-.--><^v-|++++*o>>")
"""What stands for the signs that a terminal without them cannot show, one column each."""


class Canvas(Widget):
    """Shows lines; a click on a piece that has a spot is posted as `Picked`."""

    can_focus = False
    ALLOW_SELECT = False

    class Picked(Message):
        """A piece was clicked, by its spot."""

        def __init__(self, spot: str) -> None:
            super().__init__()
            self.spot = spot

    def __init__(self, inks: Mapping[Role, Style], *, ascii_only: bool) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._inks = inks
        self._ascii = ascii_only

    def show(self, lines: Sequence[Line], inks: Mapping[Role, Style]) -> None:
        """Show these lines; rows that are as before are not painted."""
        whole = inks is not self._inks or len(lines) != len(self._lines)
        before, self._lines, self._inks = self._lines, list(lines), inks
        if whole:
            self.refresh()
            return
        changed = [row for row, line in enumerate(self._lines) if line != before[row]]
        if changed:
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def render_line(self, y: int) -> Strip:
        """A row as the terminal gets it."""
        width = self.size.width
        [line] = fitted(self._lines[y : y + 1], width, 1)
        return Strip(
            [Segment(self._signs(span.text), self._inks[span.role]) for span in line], width
        )

    def on_click(self, event: events.Click) -> None:
        """Find what was clicked."""
        if not 0 <= event.y < len(self._lines):
            return
        at = 0
        for span in self._lines[event.y]:
            at += len(span.text)
            if event.x < at:
                if span.spot:
                    self.post_message(self.Picked(span.spot))
                return

    def _signs(self, text: str) -> str:
        """The text with what this terminal can show, and nothing that it would obey."""
        if not text.isprintable():
            text = "".join(sign if sign.isprintable() else "?" for sign in text)
        if not self._ascii:
            return text
        return text.translate(ASCII).encode("ascii", "replace").decode()
