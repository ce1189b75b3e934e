"""Long work in slices: between two of them the event loop does what else is waiting.

A game may have ten thousand events, and whatever looks at all of them takes a second of CPU. Made
in one go, that second would be one in which nobody's move is answered. A thread would not help, as
it holds the interpreter for 5 ms at a time.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.002
"""How long a slice of work may be, in seconds, but for the piece that it ends with."""


async def each(pieces: Iterable[T]) -> AsyncGenerator[T, None]:
    """The pieces one by one; making them and what is done with each is the work."""
    now = asyncio.get_running_loop().time
    until = now() + SLICE_S
    for piece in pieces:
        yield piece
        if now() > until:
            await asyncio.sleep(0)
            until = now() + SLICE_S


async def finished(work: Generator[object, None, T]) -> T:
    """What work comes to that yields wherever it may be interrupted."""
    now = asyncio.get_running_loop().time
    until = now() + SLICE_S
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        if now() > until:
            await asyncio.sleep(0)
            until = now() + SLICE_S


def at_once(work: Generator[object, None, T]) -> T:
    """The same without interruption."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
