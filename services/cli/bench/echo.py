"""The bare service the gRPC numbers are measured against: an echo and a stream of equal messages.

It runs in a process of its own on the server every service runs on, with the same interceptor,
tokens, settings and log, and is mounted nowhere else. So that games may end as they do in
play, it also takes what a game tells the lobby and the wallet then.
"""

import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from google.rpc.error_details_pb2 import DebugInfo, RequestInfo
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.runtime import metrics
from services.runtime.access import ACCESS
from services.runtime.auth import Access, allow
from services.runtime.server import Process, Service, run

NAME = "kozyr.bench.v1.EchoService"
ECHO = f"/{NAME}/Echo"
STREAM = f"/{NAME}/Stream"
NO_METRICS = "--no-metrics"
"""Nothing is counted, to find out what counting costs."""
ROWS: Mapping[str, Access] = {**ACCESS, ECHO: allow("player"), STREAM: allow("player", cost=2)}


async def echo(request: RequestInfo, _context: Any) -> RequestInfo:
    """The request back."""
    return request


async def stream(request: RequestInfo, _context: Any) -> AsyncIterator[DebugInfo]:
    """Messages of as many octets as `serving_data` says, until nobody wants more."""
    message = DebugInfo(detail="x" * max(0, int(request.serving_data) - 3))
    while True:
        yield message


async def reported(_request: Any, _context: Any) -> lobby_pb2.ReportGameResponse:
    """What a lobby answers that has heard of every table."""
    return lobby_pb2.ReportGameResponse()


async def settled(_request: Any, _context: Any) -> wallet_pb2.SettleResponse:
    """What a wallet answers that has paid."""
    return wallet_pb2.SettleResponse()


def unary(behaviour: Any, request: Any, response: Any) -> Any:
    """A handler of one message for one."""
    return grpc.unary_unary_rpc_method_handler(
        behaviour, request.FromString, response.SerializeToString
    )


async def compose(_process: Process) -> Service:
    """What the process serves."""
    services: Mapping[str, Any] = {
        NAME: {
            "Echo": unary(echo, RequestInfo, RequestInfo),
            "Stream": grpc.unary_stream_rpc_method_handler(
                stream, RequestInfo.FromString, DebugInfo.SerializeToString
            ),
        },
        "kozyr.lobby.v1.LobbyService": {
            "ReportGame": unary(
                reported, lobby_pb2.ReportGameRequest, lobby_pb2.ReportGameResponse
            ),
        },
        "kozyr.wallet.v1.WalletService": {
            "Settle": unary(settled, wallet_pb2.SettleRequest, wallet_pb2.SettleResponse),
        },
    }

    def add(server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers(
            tuple(grpc.method_handlers_generic_handler(*each) for each in services.items())
        )

    return Service(add=add, files=())


class Uncounted:
    """Stands for a family of metrics and all its series."""

    def of(self, *_values: str) -> "Uncounted":
        """A series."""
        return self

    def inc(self, _by: float = 1) -> None:
        """Nothing."""

    observe = dec = inc


def _stop_at_eof() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def declare() -> None:
    """Make the echo's methods values of their label, as those of services are."""
    for family in (metrics.CALLS, metrics.CALL_SECONDS, metrics.STREAMS):
        labels: Any = family.labels
        labels["method"] |= {ECHO, STREAM}


if __name__ == "__main__":
    declare()
    if NO_METRICS in sys.argv:
        nothing: Any = Uncounted()
        metrics.CALLS = metrics.CALL_SECONDS = nothing
    threading.Thread(target=_stop_at_eof, daemon=True).start()
    raise SystemExit(run("game", compose, access=ROWS))
