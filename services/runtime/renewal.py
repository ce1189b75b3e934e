"""A channel whose certificate is renewed while calls go on.

grpc's credentials of a client never change. So when other certificates lie there, the next call
goes over a channel of its own, and the one before stays, untouched, until the last call on it has
ended and a minute more: a channel that is closed under its calls can take the process down
(grpcio 1.78).
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import grpc

from services.runtime.certificates import Certificates, Credentials

GRACE_S = 60.0
"""A channel that was replaced is closed so long after the last call on it has ended."""

Open = Callable[[Credentials], grpc.aio.Channel]


class _Generation:
    """A channel with one set of certificates, and the calls on it.

    They are not told apart by their ends: a callback would keep each of them until the collector of
    cycles comes round, and the closed channel's connection with it.
    """

    def __init__(self, shown: Credentials, channel: grpc.aio.Channel) -> None:
        self.shown = shown
        self.channel = channel
        self.calls: WeakSet[Any] = WeakSet()

    def is_used(self) -> bool:
        """Whether a call on it has not ended."""
        return any(not call.done() for call in self.calls)


class _Method:
    """A method on whatever channel is the present one when it is called."""

    def __init__(self, owner: "RenewedChannel", make: Callable[[grpc.aio.Channel], Any]) -> None:
        self._owner = owner
        self._make = make
        self._generation: _Generation | None = None
        self._method: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        present = self._owner.present()
        if present is not self._generation:
            self._generation, self._method = present, self._make(present.channel)
        call = self._method(*arguments, **named)
        present.calls.add(call)
        return call


class RenewedChannel(grpc.aio.Channel):
    """A channel by the certificates that lie there; `opened` makes one by those it is given."""

    def __init__(self, certificates: Certificates, opened: Open) -> None:
        self._certificates = certificates
        self._open = opened
        shown = certificates.current()
        self._present = _Generation(shown, opened(shown))
        self._closed = False
        self._before: dict[_Generation, asyncio.TimerHandle | asyncio.Task[None]] = {}

    def present(self) -> _Generation:
        """What a call that begins now goes over."""
        shown = self._certificates.current()
        if shown is not self._present.shown and not self._closed:
            self._retire(self._present)
            self._present = _Generation(shown, self._open(shown))
        return self._present

    def _retire(self, old: _Generation) -> None:
        """Close it later: at the first look that finds no call on it."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if old.is_used():
                self._retire(old)
            else:
                self._before[old] = loop.create_task(self._end(old))

        self._before[old] = loop.call_later(GRACE_S, look)

    async def _end(self, old: _Generation) -> None:
        await old.channel.close()
        self._before.pop(old, None)

    async def close(self, grace: float | None = None) -> None:
        """Close all, running calls too."""
        self._closed = True
        before, self._before = self._before, {}
        for waiting in before.values():
            waiting.cancel()
        for each in (*before, self._present):
            await each.channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Of the present one."""
        return self.present().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Of the present one."""
        await self.present().channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until the present one is connected."""
        await self.present().channel.channel_ready()

    def unary_unary(self, method: str, *more: Any, **named: Any) -> Any:
        """As on any channel."""
        return _Method(self, lambda channel: channel.unary_unary(method, *more, **named))

    def unary_stream(self, method: str, *more: Any, **named: Any) -> Any:
        """As on any channel."""
        return _Method(self, lambda channel: channel.unary_stream(method, *more, **named))

    def stream_unary(self, method: str, *more: Any, **named: Any) -> Any:
        """As on any channel."""
        return _Method(self, lambda channel: channel.stream_unary(method, *more, **named))

    def stream_stream(self, method: str, *more: Any, **named: Any) -> Any:
        """As on any channel."""
        return _Method(self, lambda channel: channel.stream_stream(method, *more, **named))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()
