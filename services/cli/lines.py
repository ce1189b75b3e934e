"""Lines of standard input, awaited beside other things: terminal, pipe or file."""

import asyncio
import os
import sys
from typing import TextIO

CHUNK = 4096


class Lines:
    """Hands out typed lines; `None` once the input has ended.

    Reads only while in use as a context, and never blocks the loop.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""

    @property
    def interactive(self) -> bool:
        """Whether a person types; a script's lines can wait until they are asked for."""
        return self._stream.isatty()

    async def __aenter__(self) -> "Lines":
        """Begin to read."""
        try:
            asyncio.get_running_loop().add_reader(self._stream.fileno(), self._read)
        except (PermissionError, OSError, ValueError):
            # A plain file is always readable and no event loop waits for it.
            for line in self._stream.read().splitlines():
                self._lines.put_nowait(line)
            self._lines.put_nowait(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Read no more."""
        try:
            asyncio.get_running_loop().remove_reader(self._stream.fileno())
        except (OSError, ValueError):
            return

    async def next(self) -> str | None:
        """The next line without its end."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        return line

    def give_back(self, line: str | None) -> None:
        """Put a line that nobody has used before all others."""
        later = [self._lines.get_nowait() for _ in range(self._lines.qsize())]
        for each in (line, *later):
            self._lines.put_nowait(each)

    def _read(self) -> None:
        try:
            chunk = os.read(self._stream.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""  # the other end of a terminal was closed
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._stream.fileno())
            if self._rest:
                self._lines.put_nowait(self._rest.decode(errors="replace"))
            self._lines.put_nowait(None)
            return
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._lines.put_nowait(line.decode(errors="replace").rstrip("\r"))
