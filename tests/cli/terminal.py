"""`kozyr play` in a terminal of its own: a process, keys, what is seen, how it ends."""

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tests.cli.glass import Glass
from tests.cli.talking import SECONDS, environment, kozyr

QUIET_SECONDS = 0.05
"""A screen to which nothing was written for so long is whole."""


class Terminal:
    """A running `kozyr` at a pseudo-terminal of 80 × 24."""

    def __init__(self, *typed: str, given: Mapping[str, str]) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.glass = Glass()
        self.process = subprocess.Popen(
            kozyr(*typed),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment({"TERM": "xterm-256color", "LANG": "C.UTF-8", **given}),
            start_new_session=True,
        )
        self._theirs = theirs

    def press(self, keys: str) -> None:
        """Type keys; `enter` is the key of that name."""
        os.write(self._ours, b"\r" if keys == "enter" else keys.encode())

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Wait until the screen is whole and as wanted; the screen."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if not self._read(QUIET_SECONDS) and wanted(self.glass.screen):
                return self.glass.screen
            if self.process.poll() is not None and not self._read(0.0):
                break
        raise AssertionError(f"the screen never came to it:\n{self.glass.screen}")

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            self._read(QUIET_SECONDS)
        self._read(0.0)
        return self.process.wait(0)

    def modes(self) -> list[object]:
        """How the terminal is set now."""
        return list(termios.tcgetattr(self._theirs))

    def hang_up(self) -> None:
        """Let the terminal go away, as a cut connection does."""
        self.close()

    def close(self) -> None:
        """Close both ends."""
        for end in (self._ours, self._theirs):
            try:
                os.close(end)
            except OSError:
                continue

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return False
        try:
            octets = os.read(self._ours, 65_536)
        except OSError:
            return False
        self.glass.feed(octets)
        return bool(octets)


@contextmanager
def terminal(*typed: str, given: Mapping[str, str]) -> Iterator[Terminal]:
    """A terminal, gone in the end whatever happens."""
    opened = Terminal(*typed, given=given)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
            opened.process.wait()
        opened.close()
