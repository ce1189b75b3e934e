"""Metrics: named by convention, bounded, shown by HTTP to who asks for them well."""

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

from services.runtime import exposition as exposition_module
from services.runtime import metrics
from services.runtime.exposition import CONNECTIONS_MAX, REQUEST_MAX, Exposition
from services.runtime.metrics import FAMILIES, OTHER

SERIES_MAX = 4_000
"""Of one process, were every label to take every value; a service has a part of the calls."""


def test_families_are_named_by_convention_and_explained() -> None:
    """Prefix, lower case, unit where there is one, `_total` for counters and for nothing else."""
    for name, family in FAMILIES.items():
        assert name == family.name
        assert name.startswith("kozyr_")
        assert name == name.lower()
        assert name.endswith("_total") == isinstance(family.metric, Counter)
        assert family.about.endswith(".")
        assert len(family.about) > 15
        for end in ("_ms", "_us", "_millis", "_count", "_sum", "_bucket"):
            assert not name.endswith(end)


def test_how_many_series_there_can_be_is_bounded() -> None:
    """The product of the values of the labels, for a histogram once a bucket."""
    total = 0
    for family in FAMILIES.values():
        count = 1
        for label, values in family.labels.items():
            assert values
            assert not label.endswith("id")
            count *= len(values) + 1
        if family.name == "kozyr_rpc_calls_total":
            continue  # methods × codes; of a method, most codes never come
        if isinstance(family.metric, Histogram):
            count *= len(metrics.SECONDS) + 3
        total += count
    assert total < SERIES_MAX


def test_an_undeclared_value_becomes_other_and_is_not_remembered() -> None:
    """A million ids make one series."""
    known = dict(metrics.DUE_WORKED._series)
    one, two = (metrics.DUE_WORKED.of(f"id-{n}", "done") for n in range(2))
    assert one is two is metrics.DUE_WORKED.metric.labels(OTHER, "done")
    assert metrics.DUE_WORKED._series == known
    with pytest.raises(ValueError, match="zip"):
        metrics.DUE_WORKED.of("turn")


async def asked(port: int, request: bytes) -> bytes:
    """What is answered to some octets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_the_page_is_what_prometheus_reads() -> None:
    """GET /metrics has every family with its help, at a connection that then ends."""
    exposition = Exposition(())
    port = await exposition.start("127.0.0.1:0")
    try:
        head, _, body = (await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
    finally:
        await exposition.stop()
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert f"Content-Length: {len(body)}".encode() in head
    families = {f.name: f for f in text_string_to_metric_families(body.decode())}
    for name, family in FAMILIES.items():
        found = families[name.removesuffix("_total")]
        assert (found.documentation, found.type) == (family.about, family.metric._type)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
        (b"GET\r\n\r\n", b""),
        (b"\x16\x03\x01\x00\r\n\r\n", b""),
        (b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * REQUEST_MAX, b""),
    ],
)
async def test_who_asks_amiss_gets_no_metrics(request_: bytes, answer: bytes) -> None:
    """And the next who asks well does."""
    exposition = Exposition(())
    port = await exposition.start("127.0.0.1:0")
    try:
        said = await asked(port, request_)
        assert said.startswith(answer)
        assert b"kozyr_" not in said
        assert b"kozyr_build_info" in await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    finally:
        await exposition.stop()


async def test_too_many_at_once_are_turned_away() -> None:
    """Connections that say nothing keep their places until their time is over, and no more."""
    exposition = Exposition(())
    port = await exposition.start("127.0.0.1:0")
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
    try:
        assert await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
    finally:
        for _, writer in silent:
            writer.close()
        await exposition.stop()


async def test_a_reading_that_fails_leaves_the_other_series() -> None:
    """A database that is away is when metrics are wanted most."""

    async def fail() -> None:
        raise OSError

    async def read() -> None:
        metrics.DUE_LAG.of().set(12_345)

    page = await Exposition((fail, read)).page()
    assert b"kozyr_due_lag_seconds 12345.0" in page


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that asks and takes nothing is gone when its time is over."""
    monkeypatch.setattr(exposition_module, "REQUEST_S", 0.5)
    monkeypatch.setattr(exposition_module, "generate_latest", lambda _: b"x" * 50_000_000)
    exposition = Exposition(())
    port = await exposition.start("127.0.0.1:0")
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(10):
            while not exposition._open:
                await asyncio.sleep(0.01)
            while exposition._open:
                await asyncio.sleep(0.01)
        received = 0
        with suppress(ConnectionError):
            while part := await asyncio.wait_for(reader.read(1 << 20), 10):
                received += len(part)
        assert 0 < received < 50_000_000
    finally:
        writer.close()
        await exposition.stop()
