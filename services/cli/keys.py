"""Single keys of a terminal; without one, lines are keys."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from services.cli.lines import Lines

ESCAPES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b": "escape",
}
CHUNK = 16


@asynccontextmanager
async def keys() -> AsyncIterator[Callable[[], Awaitable[str | None]]]:
    """Gives a function that waits for the next key, `None` at the end of the input.

    The terminal is put back as it was.
    """
    if not sys.stdin.isatty():
        async with Lines() as lines:

            async def line() -> str | None:
                typed = await lines.next()
                return typed if typed is None else typed.strip()

            yield line
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield lambda: asyncio.to_thread(_key, terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key(terminal: int) -> str | None:
    try:
        pressed = os.read(terminal, CHUNK)
    except OSError:
        return None
    if not pressed:
        return None
    return ESCAPES.get(pressed, pressed.decode(errors="replace")[:1])
