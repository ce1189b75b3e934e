"""How long a search goes on."""

import itertools
import time

from services.ai.bots import Budget


def worlds(budget: Budget, usual: int) -> int:
    """How many worlds a search gets to see, each a little work."""
    meter = budget.begin(usual)
    for done in itertools.count():
        if not meter.allows(done):
            return done
        sum(range(500))
    raise AssertionError


def test_a_search_sees_the_worlds_it_is_given_or_the_games_own_number() -> None:
    """No more and no fewer, without a look at the clock."""
    assert worlds(Budget(), usual=40) == 40
    assert worlds(Budget(worlds=7), usual=40) == 7


def test_a_search_ends_when_its_cpu_time_is_over() -> None:
    """Also where worlds are left; the least of two limits holds."""
    began = time.thread_time()
    assert 0 < worlds(Budget(worlds=10**9, cpu_ms=20), usual=1) < 10**9
    assert time.thread_time() - began < 1
    assert worlds(Budget(worlds=1, cpu_ms=10_000), usual=1) == 1
    assert Budget(cpu_ms=150).within(20).cpu_ms == 20
    assert Budget(cpu_ms=10).within(20).cpu_ms == 10
    assert Budget().within(20).cpu_ms == 20


def test_a_search_ends_when_nobody_waits_for_it() -> None:
    """It asks now and then, and once it was told, not again."""
    asked = 0

    def gone() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    meter = Budget(worlds=10**9, gone=gone).begin(1)
    while meter.allows(1):
        pass
    assert asked == 3
    assert not meter.allows(0)
    assert asked == 3
