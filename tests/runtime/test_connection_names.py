"""Replicas found by a name, as in a cluster: one address comes, another goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.rpc.error_details_pb2 import RequestInfo

from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from tests.runtime.echo import NAME, Echo, serving, settings
from tests.runtime.names import Names

BOUND_SECONDS = 10.0
"""A third of the time for which gRPC's resolver rests by itself."""
FIRST, SECOND = "127.0.0.1", "127.0.0.2"


@dataclass
class Place:
    """A name server where clients look, what is closed in the end, and where keys are."""

    names: Names
    where: str
    closing: AsyncExitStack
    folder: Path

    def client(self, port: str) -> Client:
        """A client of whatever the name `echo` stands for."""
        given = settings(self.folder, peer_timeout_ms=500)
        made = Client(f"dns://{self.where}/echo.test:{port}", given)
        self.closing.push_async_callback(made.close)
        return made


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Nothing has a name yet."""
    names = Names()
    async with AsyncExitStack() as closing:
        where = await names.serve()
        closing.callback(names.close)
        yield Place(names, where, closing, tmp_path)


async def echo(client: Client) -> None:
    """A call; raises Refused."""
    method: Any = client.channel.unary_unary(
        f"/{NAME}/Echo", RequestInfo.SerializeToString, RequestInfo.FromString
    )
    await client.call(method, RequestInfo(request_id="r-1"))


async def until_answered(client: Client) -> None:
    """Call until there is an answer. Raises TimeoutError."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            try:
                await echo(client)
            except Refused as refused:
                if refused.kind not in (Kind.UNAVAILABLE, Kind.EXPIRED):
                    raise
                await asyncio.sleep(0.1)
            else:
                return


async def test_the_only_replica_is_found_again_at_another_address(place: Place) -> None:
    """Also by a client that has asked for the name a moment before."""
    async with serving(Echo(), settings(place.folder, drain_grace_ms=0)) as old:
        port = old.address.rpartition(":")[2]
        place.names.hosts["echo"] = [FIRST]
        client = place.client(port)
        await echo(client)
        given = settings(place.folder, wallet_listen=f"{SECOND}:{port}")
        await place.closing.enter_async_context(serving(Echo(), given))
        place.names.hosts["echo"] = [SECOND]
    await until_answered(client)
    assert place.names.asked["echo"] > 1


async def test_while_a_name_stands_for_nobody_a_call_is_refused(place: Place) -> None:
    """In time, and it is answered when there is a replica."""
    place.names.hosts["echo"] = []
    only = await place.closing.enter_async_context(serving(Echo(), settings(place.folder)))
    client = place.client(only.address.rpartition(":")[2])
    with pytest.raises(Refused):
        await echo(client)
    place.names.hosts["echo"] = [FIRST]
    await until_answered(client)
