"""How long a search may go on: so many worlds, or so much CPU time."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A search ends after `worlds` (or iterations), or after `cpu_ms` milliseconds of CPU.

    With both, whichever comes first; with neither the game's own number of worlds, which takes
    about 80 ms. A budget of worlds alone makes a search reproducible.
    """

    worlds: int | None = None
    cpu_ms: float | None = None

    def begin(self, usual: int) -> "Meter":
        """A meter that runs from now on; `usual` worlds where the budget names nothing."""
        worlds = self.worlds
        if worlds is None and self.cpu_ms is None:
            worlds = usual
        return Meter(worlds, None if self.cpu_ms is None else _cpu_ms() + self.cpu_ms)


USUAL = Budget()
"""Each game's own number of worlds."""


class Meter:
    """What is left of a budget."""

    __slots__ = ("_end_ms", "_worlds")

    def __init__(self, worlds: int | None, end_ms: float | None) -> None:
        self._worlds = worlds
        self._end_ms = end_ms

    def allows(self, worlds: int) -> bool:
        """Whether the search may go on after so many worlds."""
        if self._worlds is not None and worlds >= self._worlds:
            return False
        return self._end_ms is None or _cpu_ms() < self._end_ms


def _cpu_ms() -> float:
    return time.thread_time_ns() / 1e6
