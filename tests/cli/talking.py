"""Talking to `kozyr` as a person or a script does: a process, what it says, what is typed."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Reply = Callable[[str], str | None]
"""What to type after a line of output; None for nothing."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """A process's environment in which this repository is found, and no other stack."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KOZYR_")}
    return {**kept, "PYTHONPATH": f"{ROOT}:{ROOT / 'proto/gen'}", **given}


def kozyr(*typed: str) -> list[str]:
    """A command line."""
    return [sys.executable, "-m", "services.cli.main", *typed]


def run(
    *typed: str, given: Mapping[str, str], stdin: str = "", seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """A command run to its end, with its output."""
    return subprocess.run(
        kozyr(*typed),
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(given),
        timeout=seconds,
        check=False,
    )


def talk(*typed: str, given: Mapping[str, str], reply: Reply, tty: bool) -> tuple[int, list[str]]:
    """A conversation: the exit code and every line said, colours taken out.

    With `tty` the process sees a terminal, otherwise pipes.
    """
    ours, theirs = os.openpty() if tty else (-1, subprocess.PIPE)
    said: list[str] = []
    with subprocess.Popen(
        kozyr(*typed),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env=environment({**given, "TERM": "xterm"}),
    ) as process:
        if tty:
            os.close(theirs)
            reader = ours
        else:
            assert process.stdin is not None
            assert process.stdout is not None
            reader = process.stdout.fileno()
            ours = process.stdin.fileno()
        try:
            for line in _lines(reader):
                said.append(line)
                answer = reply(line)
                if answer is not None:
                    os.write(ours, f"{answer}\n".encode())
            return process.wait(SECONDS), said
        finally:
            if tty:
                os.close(ours)
            if process.poll() is None:
                process.kill()


def _lines(reader: int) -> Iterator[str]:
    """Whole lines as they come, until the other end is closed."""
    rest, until = b"", time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            chunk = os.read(reader, 4096)
        except OSError:
            chunk = b""
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (ANSI.sub("", line.decode()).rstrip("\r") for line in whole)
        if not chunk:
            return
    raise TimeoutError
