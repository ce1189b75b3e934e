"""Calling a service: one channel, tokens, deadlines, retries, errors as `Refused`.

`Client` serves players' tools as well as services; `Peers` holds a service's clients to the others,
with its own service token. A mutation carries a request id, so a call may be repeated when the
answer is UNAVAILABLE; the channel does that by itself, for those that `service_config.json` allows.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import grpc

from services.kernel.errors import Kind, Refused, unavailable
from services.runtime import call as calls
from services.runtime import traces
from services.runtime.connection import open_channel
from services.runtime.settings import SERVICES, Settings
from services.runtime.status import from_rpc_error
from services.runtime.tokens import Issues

Q = TypeVar("Q")
R = TypeVar("R")
_OUR_FAULT = ("ROLE_NOT_ALLOWED", "CERTIFICATE_MISMATCH")


class Client:
    """One caller's connection to one service.

    `token` gives the token to send, or None for none. `timeout_ms` bounds each unary call. Stubs
    are made on `channel`: `client.call(WalletServiceStub(client.channel).GetAccount, request)`.
    `service` is the name that its certificate must bear (`connection.py`).
    """

    def __init__(
        self,
        address: str,
        settings: Settings,
        token: Callable[[], str | None] = lambda: None,
        timeout_ms: int | None = None,
        service: str | None = None,
    ) -> None:
        self.channel = open_channel(address, settings, service)
        self._token = token
        self._timeout_ms = settings.peer_timeout_ms if timeout_ms is None else timeout_ms

    async def call(
        self,
        method: Callable[..., grpc.aio.UnaryUnaryCall[Q, R]],
        request: Q,
        timeout_ms: int | None = None,
    ) -> R:
        """Call a unary RPC; raises Refused for every failure.

        Inside an RPC the time its own caller has left bounds the call too.
        """
        timeout = self._seconds(timeout_ms)
        with traces.calling(request):
            try:
                return await method(request, timeout=timeout, metadata=self._metadata())
            except grpc.aio.AioRpcError as error:
                raise from_rpc_error(error) from None

    async def stream(
        self,
        method: Callable[..., grpc.aio.UnaryStreamCall[Q, R]],
        request: Q,
        silence: Callable[[R | None], float | None] = lambda _: None,
    ) -> AsyncGenerator[R, None]:
        """The messages of a server stream; raises Refused when it fails. Closing it cancels it.

        `silence` says, of the last message (None: of none yet), how many seconds may pass until
        the next; a stream that is silent for longer is refused as EXPIRED, STREAM_SILENT.
        """
        last = None
        replies = method(request, metadata=self._metadata())
        messages = aiter(replies)  # reading one by one would lose what is there at the end
        try:
            while True:
                async with asyncio.timeout(silence(last)):
                    last = await anext(messages)
                yield last
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(Kind.EXPIRED, "STREAM_SILENT", "the stream fell silent") from None
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        finally:
            replies.cancel()

    async def close(self) -> None:
        """Let the connection go."""
        await self.channel.close()

    def _seconds(self, timeout_ms: int | None) -> float:
        limit = self._timeout_ms if timeout_ms is None else timeout_ms
        call = calls.current()
        left = call.remaining_ms() if call is not None else None
        return (limit if left is None else min(limit, left)) / 1000

    def _metadata(self) -> grpc.aio.Metadata:
        metadata = grpc.aio.Metadata()
        token = self._token()
        if token is not None:
            metadata.add("authorization", f"Bearer {token}")
        call = calls.current()
        if call is not None:
            metadata.add("x-request-id", call.request_id)
        header = traces.header()
        if header is not None:
            metadata.add(traces.HEADER, header)
        return metadata


class ServiceClient(Client):
    """A service's client to another: a refused service token is our fault, not our caller's."""

    async def call(
        self,
        method: Callable[..., grpc.aio.UnaryUnaryCall[Q, R]],
        request: Q,
        timeout_ms: int | None = None,
    ) -> R:
        """As `Client.call`; UNAUTHENTICATED and what is wrong with us become UNAVAILABLE
        PEER_FAILED."""
        try:
            return await super().call(method, request, timeout_ms)
        except Refused as refused:
            if refused.kind is Kind.UNAUTHENTICATED or refused.reason in _OUR_FAULT:
                failed = unavailable("PEER_FAILED", "the service failed")
                failed.facts["code"] = refused.kind.value
                raise failed from refused
            raise


class ServiceToken:
    """A service's own token, issued again before it expires, and when another key signs."""

    def __init__(
        self, signer: Issues, lifetime_ms: int, now: Callable[[], float] = time.time
    ) -> None:
        self._signer = signer
        self._lifetime_ms = lifetime_ms
        self._now = now
        self._token = self._key_id = ""
        self._renew_at = 0.0

    def __call__(self) -> str:
        """The token to send now."""
        now, key_id = self._now(), self._signer.key_id
        if now >= self._renew_at or key_id != self._key_id:
            self._key_id = key_id
            self._token = self._signer.issue(self._signer.issuer, self._lifetime_ms)
            self._renew_at = now + self._lifetime_ms / 1000 * 0.6
        return self._token


class Peers:
    """A service's clients to the other services, opened when first used."""

    def __init__(self, settings: Settings, signer: Issues) -> None:
        self._settings = settings
        self._token = ServiceToken(signer, settings.service_token_ms)
        self._clients: dict[str, ServiceClient] = {}

    def client(self, service: str) -> ServiceClient:
        """The client to `lobby`, `game`, `ai` or `wallet`."""
        if service not in SERVICES:
            raise ValueError(f"no service {service}")
        if service not in self._clients:
            address = self._settings.address(service)
            self._clients[service] = ServiceClient(
                address, self._settings, self._token, service=service
            )
        return self._clients[service]

    async def close(self) -> None:
        """Let every connection go."""
        for client in self._clients.values():
            await client.close()
