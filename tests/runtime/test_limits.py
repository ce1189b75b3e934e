"""Rate limits: a burst, then a steady rate, for each caller by itself."""

import pytest

from services.kernel.errors import Kind, Refused
from services.runtime.limits import RateLimit


class Clock:
    """A clock that is set by hand."""

    at = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.at


def limit(clock: Clock, callers_max: int = 10) -> RateLimit:
    """Two a second, three at once."""
    return RateLimit("caller", 2.0, 3.0, callers_max, clock)


def test_a_burst_then_the_rate() -> None:
    """Over any time no more than the burst and what the rate gives."""
    clock = Clock()
    limited, passed = limit(clock), 0
    for _ in range(1000):
        try:
            limited.spend("a")
            passed += 1
        except Refused:
            pass
        clock.at += 0.01
    assert passed == 3 + 19


def test_a_refusal_says_when_it_will_pass() -> None:
    """Not a millisecond before, and then it does."""
    clock = Clock()
    limited = limit(clock)
    for _ in range(3):
        limited.spend("a")
    with pytest.raises(Refused) as caught:
        limited.spend("a")
    refused = caught.value
    assert (refused.kind, refused.facts["limit"]) == (Kind.EXHAUSTED, "caller")
    assert refused.retry_after_ms == 501
    clock.at += refused.retry_after_ms / 1000
    limited.spend("a")


def test_callers_do_not_share() -> None:
    """One who floods slows nobody else."""
    limited = limit(Clock())
    for _ in range(3):
        limited.spend("a")
    for _ in range(3):
        limited.spend("b")
    with pytest.raises(Refused):
        limited.spend("a")


def test_memory_is_bounded() -> None:
    """The longest unseen are forgotten first."""
    limited = limit(Clock(), callers_max=2)
    for _ in range(3):
        limited.spend("a")
    for caller in ("b", "a", "c"):
        try:
            limited.spend(caller)
        except Refused:
            assert caller == "a"
    assert list(limited._buckets) == ["a", "c"]


def test_a_cost_above_the_burst_takes_all_of_it() -> None:
    """A dear call can be made, by whoever has been quiet."""
    limited = limit(Clock())
    limited.spend("a", cost=50)
    with pytest.raises(Refused):
        limited.spend("a", cost=0.5)
