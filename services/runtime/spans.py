"""Spans as OpenTelemetry has them: where a trace begins, what is said of it, how it is sent.

Whether there is a trace is drawn where it begins: at a call from outside, or at due work that
nothing traced asked for. What follows is traced because its cause is, in other services too: they
are told by `traceparent`, which is believed of our own services alone, so that no player chooses
what is traced. Due work continues the trace of the append that asked for it where the same process
takes it up; that is kept in memory and stored nowhere. After `HOPS_MAX` works in a row, as in a
game of bots, another trace begins, with a link to where it comes from.

What a span may say is a closed list of plain facts (`FACTS`), ids of games and tables among them.
Nothing else gets in: no card, seed, token or text, no name or id of a person, no error's words.
"""

import asyncio
import random
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from secrets import token_hex
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as Recorded

from services.kernel.envelope import Claimed, Due
from services.kernel.errors import Refused
from services.runtime.access import ACCESS
from services.runtime.auth import Role
from services.runtime.call import Call
from services.runtime.release import release
from services.runtime.sender import Sender
from services.runtime.settings import Settings
from services.runtime.traces import CURRENT, NOTHING, Traced

STEPS = frozenset({"decide", "append", "think"})
"""What a step may be called."""
OTHER = "other"
"""A step that has no such name."""
RPC = "grpc"
HOPS_MAX = 8
"""So many due works in a row continue a trace."""
CAUSES_MAX = 10_000
"""Of so much work that is due the cause is kept in mind."""
FAULTS = frozenset({
    *("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
})  # fmt: skip
"""Codes that are an error of the service; others are its caller's affair."""

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_METHOD = re.compile(r"[A-Za-z0-9_.]{1,96}/[A-Za-z0-9_]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,19}")

FACTS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "system": ("rpc.system.name", _WORD),
    "method": ("rpc.method", _METHOD),
    "code": ("rpc.response.status_code", _WORD),
    "error": ("error.type", _WORD),
    "reason": ("kozyr.reason", _WORD),
    "role": ("kozyr.role", _WORD),
    "kind": ("kozyr.due.kind", _WORD),
    "attempts": ("kozyr.due.attempts", _NUMBER),
    "stream": ("kozyr.stream", _ID),
    "game": ("kozyr.game", _ID),
    "table": ("kozyr.table", _ID),
    "version": ("kozyr.version", _NUMBER),
}
"""All that a span may say beside its name, by what it is called here: the attribute, and how its
value must read. A new one is a decision: it must never carry a secret or lead to a person."""

_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_EMPTY = Context()


def _called(path: str) -> tuple[str, str]:
    service, _, name = path[1:].partition("/")
    return f"{service.rpartition('.')[0]}.{name}Request", path[1:]


METHODS: Mapping[str, str] = dict(_called(path) for path in ACCESS)
"""The method that takes a message, by the message's full name."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Where due work comes from: the span that asked for it, and how many works in a row it is."""

    context: SpanContext
    hops: int


class Span:
    """Something while it lasts, a part of a trace. Within `with`, it is what code works for."""

    __slots__ = ("_recorded", "_token", "_tracing", "ended", "hops")

    def __init__(self, tracing: "Tracing", recorded: Recorded, hops: int) -> None:
        self._tracing = tracing
        self._recorded = recorded
        self._token: Token[Span | None] | None = None
        self.hops = hops
        self.ended = False

    @property
    def context(self) -> SpanContext:
        """Which span of which trace it is."""
        return self._recorded.get_span_context()

    @property
    def trace_id(self) -> str:
        """Its trace, 32 hexadecimal digits."""
        return f"{self.context.trace_id:032x}"

    @property
    def header(self) -> str:
        """`traceparent` for what it leads to elsewhere."""
        context = self.context
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"

    def note(self, /, **facts: object) -> None:
        """Say what is in `FACTS` and reads as it must; anything else is left out."""
        for name, value in facts.items():
            if value is None:
                continue
            attribute, form = FACTS.get(name, ("", None))
            text = str(value)
            if form is not None and form.fullmatch(text):
                self._recorded.set_attribute(attribute, value if isinstance(value, int) else text)

    def step(self, name: str) -> "Span":
        """A step of it, to be entered."""
        return self._child(name if name in STEPS else OTHER, SpanKind.INTERNAL)

    def calling(self, request: Any) -> "Span":
        """A call that it makes to another service, to be entered."""
        kind = request.DESCRIPTOR.full_name
        method = METHODS.get(kind, OTHER)
        child = self._child(method, SpanKind.CLIENT)
        child.note(system=RPC, method=method)
        return child

    def served(self, call: Call, code: str) -> None:
        """The call that it stands for has been answered."""
        self.note(
            code=code,
            reason=call.reason,
            role=call.caller.role.value,
            game=call.game,
            table=call.table,
            version=call.version,
        )
        self.end(failed=code in FAULTS)

    def end(self, *, failed: bool = False) -> None:
        """It is over, and nothing comes below it any more."""
        if failed:
            self._recorded.set_status(Status(StatusCode.ERROR))
        self.ended = True
        self._recorded.end()

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
        match error:
            case None:
                pass
            case Refused():
                self.note(code=error.kind.value, reason=error.reason)
            case asyncio.CancelledError():
                self.note(code="CANCELLED")
            case _:
                self.note(error=type(error).__name__)
        self.end(failed=isinstance(error, Exception))

    def _child(self, name: str, kind: SpanKind) -> "Span":
        recorded = self._tracing.begin(name, kind, self.context)
        return Span(self._tracing, recorded, self.hops)


class Tracing:
    """What traces one process. `ratio` is the share of what may begin a trace that does."""

    def __init__(self, service: str, ratio: float, sender: SpanProcessor) -> None:
        self._ratio = ratio
        self._sender = sender
        self._causes: OrderedDict[tuple[UUID, str, str], Cause] = OrderedDict()
        provider = TracerProvider(
            sampler=ALWAYS_ON,  # what is not to be sampled never becomes a span
            resource=_resource(service),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attributes=len(FACTS), max_links=1),
        )
        provider.add_span_processor(sender)
        self._tracer = provider.get_tracer("kozyr", release())

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: SpanContext | None = None,
        links: Sequence[Link] = (),
        started: int | None = None,
    ) -> Recorded:
        """A span of the SDK, below another or at the top; `started` in nanoseconds since 1970."""
        above = _EMPTY if parent is None else set_span_in_context(NonRecordingSpan(parent), _EMPTY)
        return self._tracer.start_span(name, above, kind, links=links, start_time=started)

    def serving(self, call: Call, header: str | None) -> Span | None:
        """The span of a call whose caller is known by now; from here on its code works for it."""
        parent = None
        if call.caller.role is Role.SERVICE:
            parent = read_header(header)
            if parent is None:
                return None
        elif not self._drawn():
            return None
        method = call.method[1:]
        started = time.time_ns() - int((time.monotonic() - call.started) * 1e9)
        span = Span(self, self.begin(method, SpanKind.SERVER, parent, started=started), 0)
        span.note(system=RPC, method=method)
        CURRENT.set(span)
        return span

    def expect(self, stream: UUID, due: Iterable[Due]) -> None:
        """What is traced now has asked for work on a stream."""
        span = CURRENT.get()
        if span is None:
            return
        for work in due:
            self._causes[stream, work.kind, work.key] = Cause(span.context, span.hops)
        while len(self._causes) > CAUSES_MAX:
            self._causes.popitem(last=False)

    def working(self, claimed: Claimed) -> Traced:
        """Due work that is taken up, to be entered."""
        cause = self._causes.get((claimed.stream, claimed.kind, claimed.key))
        if cause is not None and cause.hops < HOPS_MAX:
            span = self._due(claimed, cause.hops + 1, parent=cause.context)
        elif self._drawn():
            span = self._due(claimed, 0, links=() if cause is None else (Link(cause.context),))
        else:
            return NOTHING
        span.note(
            kind=claimed.kind,
            stream=claimed.stream,
            version=claimed.version,
            attempts=claimed.attempts,
        )
        return span

    def worked(self, claimed: Claimed) -> None:
        """The work is done and does not come again."""
        self._causes.pop((claimed.stream, claimed.kind, claimed.key), None)

    async def close(self) -> None:
        """Send what waits, within the time that the settings give; then send no more."""
        await asyncio.to_thread(self._sender.shutdown)

    def _due(
        self,
        claimed: Claimed,
        hops: int,
        parent: SpanContext | None = None,
        links: Sequence[Link] = (),
    ) -> Span:
        name = f"due {claimed.kind}" if _WORD.fullmatch(claimed.kind) else OTHER
        return Span(self, self.begin(name, SpanKind.CONSUMER, parent, links), hops)

    def _drawn(self) -> bool:
        return random.random() < self._ratio  # noqa: S311 - no secret hangs on it


def _resource(service: str) -> Resource:
    """The process, as a collector knows it."""
    said = {"namespace": "kozyr", "name": service, "version": release()}
    said["instance.id"] = token_hex(8)
    return Resource({f"service.{name}": value for name, value in said.items()})


def read_header(text: str | None) -> SpanContext | None:
    """The span that a `traceparent` names, where what it leads to is to be traced."""
    found = _PARENT.fullmatch(text or "")
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid and context.trace_flags.sampled else None


def open_sender(settings: Settings) -> Sender:
    """What sends spans to the collector that the settings name."""
    exporter = OTLPSpanExporter(
        endpoint=settings.otlp_endpoint, timeout=settings.trace_timeout_ms / 1000
    )
    return Sender(
        exporter,
        queue_max=settings.trace_queue_max,
        batch_max=settings.trace_batch_max,
        interval_s=settings.trace_interval_ms / 1000,
        flush_s=settings.trace_flush_ms / 1000,
    )
