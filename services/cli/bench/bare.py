"""The least a call can cost: gRPC's own server with nothing before its handlers.

It gives a request back, as `echo.py` does, with the same event loop and the same collector of
garbage; and it takes traces, which it throws away. A process of its own that is mounted nowhere.
"""

import asyncio
import gc
import json
import os
import sys
from typing import Any

import grpc
from google.rpc.error_details_pb2 import RequestInfo

from services.cli.bench import echo
from services.runtime.server import COLLECTED_AFTER, loop_factory
from services.runtime.settings import EventLoop

TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"


async def take(_request: bytes, _context: Any) -> bytes:
    """What a collector answers."""
    return b""


async def serve() -> None:
    """Serve until standard input ends."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handlers = {
        echo.NAME: {"Echo": echo.unary(echo.echo, RequestInfo, RequestInfo)},
        TRACES: {"Export": grpc.unary_unary_rpc_method_handler(take)},
    }
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(*each) for each in handlers.items())
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
    ready = {"event": "ready", "address": f"127.0.0.1:{port}", "pid": os.getpid()}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    await server.stop(None)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(EventLoop.AUTO)) as runner:
        runner.run(serve())
