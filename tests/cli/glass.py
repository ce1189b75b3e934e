"""A terminal for tests: what a program writes to it, as the lines a person sees.

It knows what the toolkit writes: places, text, and what to ignore.
"""

import codecs
import re

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])")
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*)?$")
PLACE = re.compile(r"\x1b\[(\d*)(?:;(\d*))?H")


class Glass:
    """A screen of so many columns and rows, fed with octets."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._cells = [[" "] * columns for _ in range(rows)]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._row = self._column = 0
        self.written = ""
        """All that was written, sequences included."""

    def feed(self, octets: bytes) -> None:
        """Take in what was written."""
        text = self._decoder.decode(octets)
        self.written += text
        text, self._rest = self._rest + text, ""
        unfinished = UNFINISHED.search(text)
        if unfinished:
            text, self._rest = text[: unfinished.start()], unfinished[0]
        at = 0
        for found in SEQUENCE.finditer(text):
            self._put(text[at : found.start()])
            at = found.end()
            if place := PLACE.fullmatch(found[0]):
                self._row = int(place[1] or 1) - 1
                self._column = int(place[2] or 1) - 1
        self._put(text[at:])

    @property
    def screen(self) -> str:
        """What is seen, without blanks at the ends of lines."""
        return "\n".join("".join(row).rstrip() for row in self._cells) + "\n"

    def _put(self, text: str) -> None:
        for sign in text:
            if sign == "\r":
                self._column = 0
            elif sign == "\n":
                self._row += 1
            elif self._row < len(self._cells) and self._column < len(self._cells[0]):
                self._cells[self._row][self._column] = sign
                self._column += 1
