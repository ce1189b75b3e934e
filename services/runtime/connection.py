"""A channel that is exchanged for a fresh one when whoever it leads to no longer answers.

A frozen process keeps its connections: they look sound until a ping has gone unanswered, and a
round robin goes on choosing them meanwhile. A fresh channel leaves it out, because a connection
counts only once the other side has said something. What goes on over the old channel goes on.
"""

import asyncio
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from services.runtime.settings import Settings

SERVICE_CONFIG = Path(__file__).with_name("service_config.json")
"""How calls are balanced and which are repeated; any client of ours may take it as it is."""
RENEWAL_SECONDS = 3.0
"""A channel is given at least so long before it is doubted: who is slow is not asked to shake
hands with everybody again and again."""

Channel = grpc.aio.Channel


def open_channel(address: str, settings: Settings) -> Channel:
    """A channel with keepalive, round robin over healthy replicas, and retries."""
    options = [
        ("grpc.service_config", SERVICE_CONFIG.read_text("utf-8")),
        ("grpc.enable_retries", 1),
        # A connection of its own: where channels share one, the death of a health-checked peer
        # crashes this process (grpcio 1.78).
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        # Without it an unanswered ping is noticed after a minute only (grpcio 1.78).
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_receive_message_length", settings.message_max_bytes),
        ("grpc.max_send_message_length", settings.message_max_bytes),
    ]
    return grpc.aio.insecure_channel(address, options=options)


class Connection:
    """What a stub takes for a channel. Its calls go over the channel of the moment."""

    def __init__(self, open_one: Callable[[], Channel]) -> None:
        self._open = open_one
        self.channel = open_one()
        self._opened_at = time.monotonic()
        self._calls: weakref.WeakSet[Any] = weakref.WeakSet()
        self._leaving: dict[asyncio.Task[None], Channel] = {}

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As of a channel."""
        return self._method("unary_unary", args, kwargs)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As of a channel."""
        return self._method("unary_stream", args, kwargs)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As of a channel."""
        return self._method("stream_stream", args, kwargs)

    def doubt(self, channel: Channel) -> bool:
        """No answer came over this channel; whether there is another one now."""
        now = time.monotonic()
        if channel is not self.channel:
            return True
        if now - self._opened_at < RENEWAL_SECONDS:
            return False
        task = asyncio.create_task(_leave(channel, list(self._calls)))
        self._leaving[task] = channel
        task.add_done_callback(self._leaving.pop)
        self.channel, self._opened_at, self._calls = self._open(), now, weakref.WeakSet()
        return True

    async def close(self) -> None:
        """Let go of everything."""
        for task in list(self._leaving):
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self.channel.close()

    def _method(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        over, made = self.channel, getattr(self.channel, kind)(*args, **kwargs)

        def call(*given: Any, **named: Any) -> Any:
            nonlocal over, made
            if over is not self.channel:
                over, made = self.channel, getattr(self.channel, kind)(*args, **kwargs)
            begun = made(*given, **named)
            self._calls.add(begun)
            return begun

        return call


async def _leave(channel: Channel, calls: list[Any]) -> None:
    """Close a channel when the last of its calls has ended."""
    try:
        await asyncio.gather(*(call.code() for call in calls), return_exceptions=True)
    finally:
        await channel.close()
