"""The four services, speaking TLS, with a real Envoy before them, and those who call them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from services.cli.checkup import reachable
from services.runtime.identity import EDGE
from services.runtime.jwks import key_set
from services.runtime.keys import PLAYERS, load_public
from services.runtime.settings import SERVICES
from tests.authority import OPERATORS, Authority, given, swap, variables
from tests.deploy.envoy import PROXIED, Browser, Edge, Refusal, edge
from tests.e2e.house import Answer, House, house
from tests.rpcs import path, rpcs

Code = grpc.StatusCode


def named(name: str) -> str:
    """The path of the RPC of this name."""
    return next(path(method) for _, method in rpcs() if method.name == name)


class Outside(House):
    """Whoever reaches the house through the edge alone."""

    def __init__(self, inside: House, edge: Edge) -> None:
        super().__init__(inside.stack)
        self.edge = edge

    def channel(self, service: str) -> grpc.aio.Channel:
        """A connection to the edge, whatever service is meant."""
        if service not in self._channels:
            trusted = grpc.ssl_channel_credentials(self.edge.trusted)
            self._channels[service] = grpc.aio.secure_channel(self.edge.address, trusted)
        return self._channels[service]


@dataclass(frozen=True, slots=True)
class Scene:
    """The four services with an edge before them."""

    inside: House
    outside: Outside
    authority: Authority

    async def by_grpc(self, name: str, request: Any, token: str | None = None) -> Answer:
        """A call by gRPC."""
        service = next(service for service, method in rpcs() if method.name == name)
        return await self.outside.send(service, name, request, token)

    async def by_web(self, name: str, request: Any, token: str | None = None) -> Answer:
        """The same call by gRPC-Web."""
        browser = Browser(self.outside.edge, token)
        try:
            return Answer(Code.OK, await asyncio.to_thread(browser.call, named(name), request))
        except Refusal as refusal:
            code = next(code for code in Code if code.value[0] == refusal.code)
            return Answer(code, text=refusal.status.message, status=refusal.status)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Scene]:
    """All of it, in a folder of its own."""
    authority = Authority()
    told = {"KOZYR_TRUSTED_PROXIES": "127.0.0.0/8", "KOZYR_KEY_REREAD_MS": "100"}
    async with house(folder / "data", authority, **told) as inside:
        jwks = key_set(load_public(inside.stack.settings.keys()), PLAYERS)
        (folder / "envoy").mkdir()
        own = authority.files(EDGE)
        async with edge(folder / "envoy", inside.stack.ports, jwks, own) as before:
            outside = Outside(inside, before)
            yield Scene(inside, outside, authority)
            await outside.close()


def by_operators(scene: Scene, home: Path) -> dict[str, str]:
    """What a command is told to call the services from inside."""
    data = scene.inside.stack.data
    told = {"KOZYR_DATA": str(data), "KOZYR_HOME": str(home)}
    return told | variables(data / "tls" / OPERATORS)


def through_the_edge(scene: Scene, home: Path) -> dict[str, str]:
    """What a command is told to call them as players do."""
    edge = scene.outside.edge
    addresses = {f"KOZYR_{name.upper()}_ADDRESS": edge.address for name in PROXIED}
    trusted = str(edge.folder / "tls" / "tls.crt")
    return {"KOZYR_HOME": str(home), "KOZYR_TLS_CA_FILE": trusted} | addresses


async def believe(scene: Scene, shown: Mapping[str, bytes]) -> bool:
    """Whether every service takes a certificate, and shows one that is taken."""
    swap(scene.inside.stack.data / "tls", "visitor", shown)
    own = given(scene.inside.stack.data / "tls" / "visitor")
    settings = scene.inside.stack.settings.model_copy(update=own)
    _, reached = await reachable.look(settings)
    return reached == {*SERVICES}
