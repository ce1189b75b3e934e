"""A player's way to two replicas, cut or frozen again and again: one of the two is always open."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random

from tests.runtime.line import Line, line_to

FREEZES = 0.25
"""How often a line is not cut but falls silent, as that of a stopped process does."""


class Ways:
    """Lines to two replicas. Each fault moves whoever uses them to the other one."""

    def __init__(self, lines: Sequence[Line], rng: Random) -> None:
        self._lines = list(lines)
        self._rng = rng
        self.faults: Counter[str] = Counter()

    @property
    def address(self) -> str:
        """Both, as a channel takes them."""
        return "ipv4:" + ",".join(line.address for line in self._lines)

    async def trouble(self, least: float, most: float, times: float) -> None:
        """Break the open line when it was used for a while, and open the other; so many times."""
        here, there = self._lines
        there.refuse()
        used = 0
        while self.faults.total() < times:
            while here.connections == used:
                await asyncio.sleep(0.02)
            await asyncio.sleep(self._rng.uniform(least, most))
            used = there.connections
            if self._rng.random() < FREEZES:
                here.freeze()
                self.faults["frozen"] += 1
            else:
                here.refuse()
                self.faults["cut"] += 1
            _mend(there)
            here, there = there, here

    def mend(self) -> None:
        """Open both."""
        for line in self._lines:
            _mend(line)


def _mend(line: Line) -> None:
    line.serve()
    line.drop()


@asynccontextmanager
async def ways_to(addresses: Sequence[str], rng: Random) -> AsyncIterator[Ways]:
    """Lines of one player to the two addresses."""
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(line_to(f"//{each}")) for each in addresses]
        yield Ways(lines, rng)


@asynccontextmanager
async def in_trouble(ways: Ways, least: float, most: float, times: float) -> AsyncIterator[None]:
    """Trouble as long as the context lasts, so many times at most."""
    task = asyncio.create_task(ways.trouble(least, most, times))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        ways.mend()
