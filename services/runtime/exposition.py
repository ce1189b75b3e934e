"""The page of metrics: an HTTP listener of its own, for Prometheus alone.

It answers `GET /metrics` and nothing else, one request a connection. What is read from a database
for it is read when it is asked for; the text is made beside the event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.runtime import log
from services.runtime.metrics import REGISTRY

Reading = Callable[[], Awaitable[None]]
"""Brings gauges up to date; what it raises is logged, and they stay as they were."""
PATH = "/metrics"
REQUEST_S = 5.0
"""A request has come in, and its answer gone out, within so long."""
READING_S = 2.0
REQUEST_MAX = 8_192
CONNECTIONS_MAX = 16


class Exposition:
    """The listener of one process."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        self._server: asyncio.Server | None = None
        self._open = 0
        self._failing = False

    async def start(self, address: str) -> int:
        """Listen at `host:port`; returns the port. Raises OSError when it is taken."""
        host, _, port = address.rpartition(":")
        self._server = await asyncio.start_server(
            self._serve, host.strip("[]"), int(port), limit=REQUEST_MAX
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def page(self) -> bytes:
        """All series as text."""
        failed = False
        for reading in self._readings:
            try:
                async with asyncio.timeout(READING_S):
                    await reading()
            except Exception as error:  # noqa: BLE001 - the other series are wanted all the more
                if not self._failing:
                    log.get().warning("metrics_not_read", **log.failure(error))
                failed = True
        self._failing = failed
        return await asyncio.to_thread(generate_latest, REGISTRY)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_S):
                    await self._answer(reader, writer)
        except TimeoutError:
            writer.transport.abort()  # closing would wait for whoever does not read
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # who asks amiss or goes away gets nothing
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return
        method, target, *_ = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if target.partition("?")[0] != PATH:
            status, kind, body = "404 Not Found", "text/plain", b""
        elif method != "GET":
            status, kind, body = "405 Method Not Allowed", "text/plain", b""
        else:
            status, kind, body = "200 OK", CONTENT_TYPE_LATEST, await self.page()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
