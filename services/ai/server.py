"""The bots' process: its workers, its servicer."""

import sys

from kozyr.ai.v1 import ai_pb2
from kozyr.ai.v1.ai_pb2_grpc import add_AiServiceServicer_to_server

from services.ai.minds import Minds
from services.ai.servicer import AiServicer
from services.ai.workers import Workers
from services.runtime.server import Process, Service, run
from services.runtime.settings import Settings

NAME = "ai"


async def compose(process: Process) -> Service:
    """Start the workers; they are warm before the first call comes."""
    workers = Workers(process.settings.ai_workers, process.settings.ai_queue_max)
    await workers.start()
    servicer = AiServicer(Minds(workers))
    return Service(
        add=lambda server: add_AiServiceServicer_to_server(servicer, server),
        files=(ai_pb2.DESCRIPTOR,),
        checks={"workers": workers.check},
        close=workers.close,
    )


def main(settings: Settings | None = None) -> int:
    """Serve bots until a signal; the exit code."""
    return run(NAME, compose, settings)


if __name__ == "__main__":
    sys.exit(main())
