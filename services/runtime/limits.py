"""Limits of a caller: his rate, a token bucket in bounded memory, and his streams at once."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.kernel.errors import Kind, Refused

STREAM_RETRY_MS = 1_000
"""When whoever has too many streams may ask for another: one may just be ending."""


class RateLimit:
    """`rate` calls a second on average and `burst` at once, for each of at most `callers_max`.

    The callers longest unseen are forgotten first (they start again with a full bucket).
    """

    def __init__(
        self,
        name: str,
        rate: float,
        burst: float,
        callers_max: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._rate = rate
        self._burst = burst
        self._max = callers_max
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str, cost: float = 1.0) -> None:
        """Take `cost` from the caller's bucket.

        Raises Refused RESOURCE_EXHAUSTED `RATE_LIMITED` with the limit's name and when to retry.
        """
        now = self._now()
        level, at = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        cost = min(cost, self._burst)
        enough = level >= cost
        self._buckets[caller] = (level - cost if enough else level, now)
        if len(self._buckets) > self._max:
            self._buckets.popitem(last=False)
        if not enough:
            wait_ms = int((cost - level) / self._rate * 1000) + 1
            raise Refused(
                Kind.EXHAUSTED,
                "RATE_LIMITED",
                f"too many calls; the limit {self.name} is {self._rate:g} a second",
                facts={"limit": self.name, "per_second": f"{self._rate:g}"},
                retry_after_ms=wait_ms,
            )


class StreamLimit:
    """At most `most` open streams for each caller, over all his connections to this process."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def open(self, caller: str) -> Iterator[None]:
        """One more of his streams is open meanwhile.

        Raises Refused RESOURCE_EXHAUSTED `TOO_MANY_STREAMS` with the limit's name.
        """
        if self._open[caller] >= self._most:
            raise Refused(
                Kind.EXHAUSTED,
                "TOO_MANY_STREAMS",
                f"too many streams; the limit {self.name} is {self._most} at once",
                facts={"limit": self.name, "most": str(self._most)},
                retry_after_ms=STREAM_RETRY_MS,
            )
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
