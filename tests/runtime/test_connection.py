"""Calls and streams when one of two replicas is frozen: connections stand, and nothing is said."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.rpc.error_details_pb2 import DebugInfo, RequestInfo

from services.kernel.errors import Kind, Refused
from services.runtime import connection
from services.runtime.clients import Client
from tests.runtime.echo import NAME, Echo, serving, settings
from tests.runtime.line import Line, line_to

BOUND_SECONDS = 20.0
ANSWER_MS = 400


@dataclass
class Ways:
    """A client, and the lines to the two addresses it knows."""

    client: Client
    lines: tuple[Line, Line]
    echoes: tuple[Echo, Echo]

    async def echo(self) -> RequestInfo:
        """A call; raises Refused."""
        method: Any = self.client.channel.unary_unary(
            f"/{NAME}/Echo", RequestInfo.SerializeToString, RequestInfo.FromString
        )
        reply: RequestInfo = await self.client.call(method, RequestInfo(request_id="r-1"))
        return reply

    def watch(self, seconds: float | None) -> AsyncIterator[DebugInfo]:
        """A stream that may be silent for so long."""
        method: Any = self.client.channel.unary_stream(
            f"/{NAME}/Watch", DebugInfo.SerializeToString, DebugInfo.FromString
        )
        return self.client.stream(method, DebugInfo(), lambda _: seconds)

    async def both(self) -> None:
        """Wait until both replicas are connected."""
        async with asyncio.timeout(BOUND_SECONDS):
            while not all(line.connections for line in self.lines):
                await self.echo()
            for _ in range(4):
                await self.echo()

    async def refusals(self, calls: int) -> list[str]:
        """So many calls, one after the other; the reasons of those that failed."""
        reasons = []
        async with asyncio.timeout(BOUND_SECONDS):
            for _ in range(calls):
                try:
                    await self.echo()
                except Refused as refused:
                    reasons.append(refused.reason)
        return reasons


@pytest.fixture
async def ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ways]:
    """Two replicas behind lines of their own."""
    monkeypatch.setattr(connection, "RENEWAL_SECONDS", 0.0)
    async with opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Ways]:
    """Two replicas behind lines of their own."""
    async with AsyncExitStack() as closing:
        lines = []
        echoes = (Echo(), Echo())
        for echo in echoes:
            server = await closing.enter_async_context(serving(echo, settings(folder)))
            lines.append(await closing.enter_async_context(line_to(f"//{server.address}")))
        to = "ipv4:" + ",".join(line.address for line in lines)
        given = settings(folder, peer_timeout_ms=ANSWER_MS)
        client = Client(to, given)
        closing.push_async_callback(client.close)
        yield Ways(client, (lines[0], lines[1]), echoes)


async def test_a_frozen_replica_costs_one_call_and_is_left_out_then(ways: Ways) -> None:
    """The call that met it is not answered in time; those after it go over fresh connections."""
    await ways.both()
    ways.lines[0].freeze()
    assert await ways.refusals(20) == ["DEADLINE_EXCEEDED"]


async def test_a_replica_that_is_well_again_is_found_again(ways: Ways) -> None:
    """Once it says something it is connected anew, by the channel itself."""
    await ways.both()
    ways.lines[0].freeze()
    await ways.refusals(4)
    ways.lines[0].serve()
    ways.lines[0].drop()
    ways.lines[1].freeze()
    reasons = await ways.refusals(20)
    assert set(reasons) <= {"DEADLINE_EXCEEDED", "PEER_UNAVAILABLE"}
    assert await ways.refusals(10) == []


async def test_where_nobody_answers_every_call_ends_in_time(ways: Ways) -> None:
    """Also when connections come about and say nothing: a refusal, never a hang."""
    await ways.both()
    for line in ways.lines:
        line.freeze()
    reasons = await ways.refusals(4)
    assert len(reasons) == 4
    assert set(reasons) <= {"DEADLINE_EXCEEDED", "PEER_UNAVAILABLE"}


async def test_a_stream_that_goes_on_keeps_its_connection(ways: Ways) -> None:
    """A fresh channel does not end what the old one still brings, and closing it leaves nothing."""
    await ways.both()
    streams = [aiter(ways.watch(None)) for _ in range(2)]
    for stream in streams:
        assert (await anext(stream)).detail == "begin"
    ways.lines[0].freeze()
    assert await ways.refusals(6) == ["DEADLINE_EXCEEDED"]
    waiting = [asyncio.ensure_future(_next(stream)) for stream in streams]
    for echo in ways.echoes:
        assert echo.process is not None
        echo.process.drain.started.set()
    done, still = await asyncio.wait(
        waiting, timeout=BOUND_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    assert [task.result().detail for task in done] == ["resume here"]
    for task in still:
        task.cancel()
    await asyncio.gather(*still, return_exceptions=True)


async def _next(stream: AsyncIterator[DebugInfo]) -> DebugInfo:
    return await anext(stream)


async def test_a_silent_stream_is_refused_and_leads_elsewhere(ways: Ways) -> None:
    """Silence beyond what was promised ends the stream; the ones after it begin at once."""
    await ways.both()
    streams = [aiter(ways.watch(0.3)) for _ in range(2)]
    for stream in streams:
        assert (await anext(stream)).detail == "begin"
    ways.lines[0].freeze()
    for stream in streams:
        with pytest.raises(Refused) as caught:
            await anext(stream)
        assert (caught.value.kind, caught.value.reason) == (Kind.EXPIRED, "STREAM_SILENT")
    assert await ways.refusals(10) == []
    for _ in range(4):
        assert (await anext(aiter(ways.watch(2.0)))).detail == "begin"


async def test_a_slow_server_is_not_asked_to_shake_hands_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel that was opened a moment ago is not doubted."""
    monkeypatch.setattr(connection, "RENEWAL_SECONDS", float("inf"))
    async with opened(tmp_path) as ways:
        for line in ways.lines:
            line.freeze()
        over = ways.client._connection.channel
        assert len(await ways.refusals(3)) == 3
        assert ways.client._connection.channel is over
