"""Limits of a caller: a burst, then a steady rate, and so many streams, for each by himself."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.rpc.error_details_pb2 import RequestInfo

from services.kernel.errors import Kind, Refused
from services.runtime.limits import RateLimit
from tests.runtime.echo import Caller, Echo, refused, serving, settings, setup, token


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


async def test_a_player_has_so_many_streams_at_once(tmp_path: Path) -> None:
    """Over all his connections, refused by name; another player's are counted for himself, and one
    that ended makes room."""
    echo, given = Echo(), settings(tmp_path, streams_per_caller_max=2)
    one, two = (token(given, "players", each) for each in ("p-1", "p-2"))
    async with (
        serving(echo, given) as server,
        Caller(server, given, one) as first,
        Caller(server, given, one) as again,
        Caller(server, given, two) as other,
    ):
        held = [first.stream("MyStubborn"), again.stream("MyStubborn")]
        for stream in held:
            await anext(stream)
        for caller in (first, again):
            refusal = await refused(anext(caller.stream("MyStubborn")))
            assert (refusal.kind, refusal.reason) == (Kind.EXHAUSTED, "TOO_MANY_STREAMS")
            assert (refusal.facts["limit"], refusal.facts["most"]) == ("streams", "2")
            assert refusal.retry_after_ms
        await anext(other.stream("MyStubborn"))
        await held[0].aclose()  # type: ignore[attr-defined] # a generator has aclose
        begun = None
        async with asyncio.timeout(10):
            while begun is None:
                with suppress(Refused):
                    begun = await anext(again.stream("MyStubborn"))


async def test_streams_without_a_token_are_counted_by_address(tmp_path: Path) -> None:
    """Over all connections from there; a player's are his own."""
    echo, given = Echo(), settings(tmp_path, streams_per_address_max=2)
    async with (
        serving(echo, given) as server,
        Caller(server, given) as one,
        Caller(server, given) as two,
        Caller(server, given, token(given, "players", "p-1")) as player,
    ):
        held = [one.stream("Stubborn"), two.stream("Stubborn")]
        for stream in held:
            await anext(stream)
        refusal = await refused(anext(two.stream("Stubborn")))
        assert (refusal.reason, refusal.facts["limit"]) == ("TOO_MANY_STREAMS", "address_streams")
        assert refusal.retry_after_ms
        await anext(player.stream("MyStubborn"))


async def test_a_request_for_more_costs_more(tmp_path: Path) -> None:
    """Of the same RPC: with the field that makes it dear, and without."""
    changes: dict[str, Any] = {"rate_per_second": 0.01, "rate_burst": 60}
    async with setup(tmp_path, ("players", "p-1"), **changes) as (_, caller, _given):
        whole = RequestInfo(request_id="r-1", serving_data="everything")
        await caller.unary("Whole", whole)
        assert (await refused(caller.unary("Whole", whole))).reason == "RATE_LIMITED"
        await caller.unary("Whole")
