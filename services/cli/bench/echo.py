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
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.runtime.access import ACCESS
from services.runtime.auth import Access, allow
from services.runtime.server import Process, Service, run

NAME = "kozyr.bench.v1.EchoService"
ECHO = f"/{NAME}/Echo"
STREAM = f"/{NAME}/Stream"
ROWS: Mapping[str, Access] = {**ACCESS, ECHO: allow("player"), STREAM: allow("player", cost=2)}


async def echo(request: RequestInfo, _context: Any) -> RequestInfo:
    """The request back."""
    return request


async def stream(request: RequestInfo, _context: Any) -> AsyncIterator[DebugInfo]:
    """Messages of as many octets as `serving_data` says, until nobody wants more."""
    message = DebugInfo(detail="x" * max(0, int(request.serving_data) - 3))
    while True:
        yield message


class Lobby(lobby_pb2_grpc.LobbyServiceServicer):
    """A lobby that has heard of every table."""

    async def ReportGame(self, request: Any, context: Any) -> lobby_pb2.ReportGameResponse:  # noqa: N802
        """Nothing more is to be done."""
        return lobby_pb2.ReportGameResponse()


class Wallet(wallet_pb2_grpc.WalletServiceServicer):
    """A wallet that has paid."""

    async def Settle(self, request: Any, context: Any) -> wallet_pb2.SettleResponse:  # noqa: N802
        """Nothing more is to be done."""
        return wallet_pb2.SettleResponse()


async def compose(_process: Process) -> Service:
    """What the process serves."""

    def add(server: grpc.aio.Server) -> None:
        handlers: Any = {
            "Echo": grpc.unary_unary_rpc_method_handler(
                echo, RequestInfo.FromString, RequestInfo.SerializeToString
            ),
            "Stream": grpc.unary_stream_rpc_method_handler(
                stream, RequestInfo.FromString, DebugInfo.SerializeToString
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))
        lobby_pb2_grpc.add_LobbyServiceServicer_to_server(Lobby(), server)
        wallet_pb2_grpc.add_WalletServiceServicer_to_server(Wallet(), server)

    return Service(add=add, files=(lobby_pb2.DESCRIPTOR, wallet_pb2.DESCRIPTOR))


def _stop_at_eof() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_eof, daemon=True).start()
    raise SystemExit(run("game", compose, access=ROWS))
