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
async def ways(tmp_path: Path) -> AsyncIterator[Ways]:
    """Two replicas behind lines of their own."""
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


async def test_where_nobody_answers_every_call_ends_in_time(ways: Ways) -> None:
    """Also when connections come about and say nothing: a refusal, never a hang."""
    await ways.both()
    for line in ways.lines:
        line.freeze()
    reasons = await ways.refusals(4)
    assert len(reasons) == 4
    assert set(reasons) <= {"DEADLINE_EXCEEDED", "PEER_UNAVAILABLE"}


async def test_a_silent_stream_is_refused(ways: Ways) -> None:
    """Silence beyond what was promised ends the stream."""
    await ways.both()
    for line in ways.lines:
        line.freeze()
    stream = aiter(ways.watch(0.3))
    with pytest.raises(Refused) as refused:
        await anext(stream)
    assert (refused.value.kind, refused.value.reason) == (Kind.EXPIRED, "STREAM_SILENT")
