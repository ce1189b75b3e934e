"""A collector of traces for tests: takes spans by OTLP over gRPC and keeps them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent

KINDS = {1: "internal", 2: "server", 3: "client", 5: "consumer"}


@dataclass(frozen=True, slots=True)
class Kept:
    """A span that was sent: by which service, and what it says."""

    service: str
    span: Sent

    @property
    def name(self) -> str:
        """`game server kozyr.game.v1.GameService/SubmitMove`, without the package."""
        return f"{self.service} {KINDS[self.span.kind]} {self.span.name.rpartition('.')[2]}"

    @property
    def facts(self) -> dict[str, str | int]:
        """Its attributes."""
        found: dict[str, str | int] = {}
        for each in self.span.attributes:
            value = each.value
            text = value.HasField("string_value")
            found[each.key] = value.string_value if text else value.int_value
        return found


@dataclass
class Collector(TraceServiceServicer):
    """All that was sent, in order; `address` is where it listens."""

    kept: list[Kept] = field(default_factory=list)
    requests: list[pb.ExportTraceServiceRequest] = field(default_factory=list)
    address: str = ""

    async def Export(
        self, request: pb.ExportTraceServiceRequest, _context: Any
    ) -> pb.ExportTraceServiceResponse:
        """Take spans."""
        self.requests.append(request)
        for whole in request.resource_spans:
            (service,) = (a.value for a in whole.resource.attributes if a.key == "service.name")
            for scope in whole.scope_spans:
                self.kept += [Kept(service.string_value, span) for span in scope.spans]
        return pb.ExportTraceServiceResponse()

    def above(self, one: Kept) -> Kept | None:
        """The span that one is below."""
        parents = (each for each in self.kept if each.span.span_id == one.span.parent_span_id)
        return next(parents, None)

    def path(self, one: Kept) -> list[str]:
        """The names from the top of its trace down to a span."""
        above = self.above(one)
        assert above is not None or not one.span.parent_span_id, "its parent was not sent"
        return [*([] if above is None else self.path(above)), one.name]

    async def found(self, name: str, fact: str = "", value: str = "") -> list[Kept]:
        """The spans of this name, of which a fact has a value; waits for one."""
        async with asyncio.timeout(20):
            while True:
                named = [each for each in self.kept if each.name == name]
                if found := [each for each in named if each.facts.get(fact, "") == value]:
                    return found
                await asyncio.sleep(0.02)


@asynccontextmanager
async def collector(port: int = 0) -> AsyncIterator[Collector]:
    """A collector that listens, meanwhile."""
    made, server = Collector(), grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_TraceServiceServicer_to_server(made, server)  # type: ignore[no-untyped-call]
    made.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)
