"""A small service for tests of the runtime: real gRPC over loopback, messages of google.rpc."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import DebugInfo, RequestInfo

from services.kernel.errors import Refused
from services.runtime import call as calls
from services.runtime.access import PLATFORM
from services.runtime.auth import Access, allow
from services.runtime.call import caller
from services.runtime.clients import Client
from services.runtime.keys import ensure_keys
from services.runtime.server import Process, Running, Service, running
from services.runtime.settings import Settings
from services.runtime.tokens import load_signer

NAME = "kozyr.test.v1.EchoService"
SECRET = "queen-of-spades"
"""A text that must never leave the process nor get into a log."""

ACCESS: Mapping[str, Access] = {
    **PLATFORM,
    f"/{NAME}/Echo": allow("public"),
    f"/{NAME}/Fail": allow("public"),
    f"/{NAME}/Sleep": allow("public"),
    f"/{NAME}/Abort": allow("public"),
    f"/{NAME}/Mine": allow("player", "operator", "service:game"),
    f"/{NAME}/Watch": allow("public"),
    f"/{NAME}/Stubborn": allow("public"),
    f"/{NAME}/MyWatch": allow("player"),
    f"/{NAME}/MyStubborn": allow("player"),
    f"/{NAME}/Dear": allow("public", cost=50),
    f"/{NAME}/Whole": allow("player", dear=("serving_data", 50)),
}


class Echo:
    """What the service saw, and what it should do."""

    def __init__(self) -> None:
        self.failure: Exception = RuntimeError(SECRET)
        self.failures_left = 10**9
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.calls = 0
        self.process: Process | None = None
        self.check: Callable[[], Awaitable[object]] = self.healthy
        self.tasks: dict[str, Callable[[], Awaitable[None]]] = {}
        self.closed = False

    async def healthy(self) -> None:
        """A check that passes."""

    async def echo(self, request: RequestInfo, _context: Any) -> RequestInfo:
        """The request back, with who asked and what request id the call has."""
        self.calls += 1
        call = calls.current()
        assert call is not None
        calls.note(game="g-1", version=7)
        said = f"{caller().key} {call.request_id} {call.remaining_ms()}"
        return RequestInfo(request_id=request.request_id, serving_data=said)

    async def fail(self, _request: RequestInfo, _context: Any) -> RequestInfo:
        """Raise what the test asks for."""
        self.calls += 1
        if self.calls > self.failures_left:
            return RequestInfo(request_id="at last")
        raise self.failure

    async def abort(self, _request: RequestInfo, context: Any) -> RequestInfo:
        """End the call as generated code does."""
        await context.abort(grpc.StatusCode.DATA_LOSS, "gone")
        raise AssertionError

    async def sleep(self, _request: RequestInfo, _context: Any) -> RequestInfo:
        """Answer when the test says so."""
        self.entered.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return RequestInfo(request_id="slept")

    async def watch(self, _request: DebugInfo, _context: Any) -> AsyncIterator[DebugInfo]:
        """A message, then one more when the process drains."""
        assert self.process is not None
        yield DebugInfo(detail="begin")
        self.entered.set()
        try:
            await self.process.drain.started.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield DebugInfo(detail="resume here")

    async def stubborn(self, _request: DebugInfo, _context: Any) -> AsyncIterator[DebugInfo]:
        """A stream that does not care about draining, or fails."""
        yield DebugInfo(detail="begin")
        self.entered.set()
        await self.go_on.wait()
        raise self.failure

    def add(self, server: grpc.aio.Server) -> None:
        """Put the handlers on a server."""
        unary = {"Echo": self.echo, "Fail": self.fail, "Sleep": self.sleep, "Abort": self.abort}
        unary |= {"Mine": self.echo, "Dear": self.echo, "Whole": self.echo, "Unlisted": self.echo}
        streams = {"Watch": self.watch, "Stubborn": self.stubborn}
        streams |= {"MyWatch": self.watch, "MyStubborn": self.stubborn}
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                behaviour, RequestInfo.FromString, RequestInfo.SerializeToString
            )
            for name, behaviour in unary.items()
        }
        handlers |= {
            name: grpc.unary_stream_rpc_method_handler(
                behaviour, DebugInfo.FromString, DebugInfo.SerializeToString
            )
            for name, behaviour in streams.items()
        }
        generic = grpc.method_handlers_generic_handler(NAME, handlers)
        server.add_generic_rpc_handlers((generic,))

    async def compose(self, process: Process) -> Service:
        """The service's composition."""
        self.process = process

        async def check() -> object:
            return await self.check()

        async def close() -> None:
            self.closed = True

        return Service(self.add, (), {"store": check}, self.tasks, close)


def settings(folder: Path, **changes: Any) -> Settings:
    """Settings on a free port with keys in `folder`."""
    ensure_keys(folder / "keys")
    given: dict[str, Any] = {
        "data_folder": folder,
        "wallet_listen": "127.0.0.1:0",
        "health_interval_ms": 20,
    }
    return Settings(**(given | changes))


def serving(echo: Echo, given: Settings) -> AbstractAsyncContextManager[Running]:
    """The service, running as `wallet`."""
    return running("wallet", given, echo.compose, ACCESS)


def token(given: Settings, issuer: str, subject: str, lifetime_ms: int = 60_000) -> str:
    """A token of an issuer."""
    return load_signer(given.keys(), issuer).issue(subject, lifetime_ms)


class Caller:
    """A client that calls the service's methods by name."""

    def __init__(
        self,
        server: Running,
        given: Settings,
        token: str | None = None,
        service: str | None = None,
    ) -> None:
        self.client = Client(server.address, given, lambda: token, service=service)

    async def unary(self, name: str, request: RequestInfo | None = None) -> RequestInfo:
        """Call a unary method; raises Refused."""
        return await self.client.call(self.method(name), request or RequestInfo(request_id="r-1"))

    async def forwarded(self, name: str, hops: str) -> grpc.StatusCode:
        """Call a unary method as a proxy does; how the call ended."""
        request = RequestInfo(request_id="r-1")
        call = self.method(name)(request, metadata=(("x-forwarded-for", hops),))
        code: grpc.StatusCode = await call.code()
        return code

    def method(self, name: str) -> Any:
        """The bare unary method."""
        return self.client.channel.unary_unary(
            f"/{NAME}/{name}", RequestInfo.SerializeToString, RequestInfo.FromString
        )

    def raw(self, name: str) -> Any:
        """A unary method that sends and receives bytes as they are."""
        return self.client.channel.unary_unary(f"/{NAME}/{name}")

    def stream(self, name: str) -> AsyncIterator[DebugInfo]:
        """The messages of a stream; raises Refused."""
        method: Any = self.client.channel.unary_stream(
            f"/{NAME}/{name}", DebugInfo.SerializeToString, DebugInfo.FromString
        )
        return self.client.stream(method, DebugInfo())

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()


@asynccontextmanager
async def setup(
    folder: Path, who: tuple[str, str] | None = None, **changes: Any
) -> AsyncIterator[tuple[Echo, Caller, Settings]]:
    """A running service and a caller of it, anonymous or with a token (issuer, subject)."""
    echo, given = Echo(), settings(folder, **changes)
    held = None if who is None else token(given, *who)
    async with serving(echo, given) as server, Caller(server, given, held) as caller:
        yield echo, caller, given


async def refused(awaitable: Any) -> Refused:
    """The refusal a call ends with."""
    with pytest.raises(Refused) as caught:
        await awaitable
    return caught.value


async def dying() -> None:
    """A background task that fails."""
    raise RuntimeError(SECRET)
