"""How long a search may go on: so many worlds, and no more than so much CPU time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

LOOK_EVERY_MS = 5.0
"""How much CPU time a search takes before it asks again whether anybody still waits for it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A search ends after `worlds` (or iterations), and in any case after `cpu_ms` of CPU.

    Without `worlds` the game's own number of them, which takes about 80 ms; without `cpu_ms` as
    long as they take, which makes the search reproducible. `gone` tells that nobody waits for the
    answer any more.
    """

    worlds: int | None = None
    cpu_ms: float | None = None
    gone: Callable[[], bool] | None = field(default=None, compare=False, repr=False)

    def begin(self, usual: int) -> "Meter":
        """A meter that runs from now on; `usual` is the game's own number of worlds."""
        return Meter(usual if self.worlds is None else self.worlds, self.cpu_ms, self.gone)

    def within(self, cpu_ms: float) -> "Budget":
        """The same budget with no more CPU time than this."""
        return replace(self, cpu_ms=cpu_ms if self.cpu_ms is None else min(self.cpu_ms, cpu_ms))


USUAL = Budget()
"""Each game's own number of worlds."""


class Meter:
    """What is left of a budget."""

    __slots__ = ("_end_ms", "_gone", "_look_ms", "_worlds")

    def __init__(
        self, worlds: int, cpu_ms: float | None, gone: Callable[[], bool] | None = None
    ) -> None:
        self._worlds = worlds
        self._gone = gone
        self._look_ms = _cpu_ms() + LOOK_EVERY_MS
        self._end_ms = None if cpu_ms is None else _cpu_ms() + cpu_ms

    def allows(self, worlds: int) -> bool:
        """Whether the search may go on after so many worlds."""
        if worlds >= self._worlds:
            return False
        if self._end_ms is None and self._gone is None:
            return True
        now = _cpu_ms()
        if self._gone is not None and now >= self._look_ms:
            self._look_ms = now + LOOK_EVERY_MS
            if self._gone():
                self._worlds = 0
                return False
        return self._end_ms is None or now < self._end_ms


def _cpu_ms() -> float:
    return time.thread_time_ns() / 1e6
