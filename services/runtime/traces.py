"""Traces: what one call leads to in all services, as spans, each with its cause and its time.

Here is what everybody uses, and it costs next to nothing where nothing is traced: the span that a
task works for, and steps within it. What spans are made of, and how they are sent, is in
`spans.py`, which is imported only where `KOZYR_OTLP_ENDPOINT` switches traces on.

    with traces.step("append"):
        ...
"""

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from services.runtime.settings import Settings

if TYPE_CHECKING:
    from services.runtime.spans import Span, Tracing

HEADER = "traceparent"
"""The metadata that leads a trace from one service to the next, as W3C Trace Context has it."""

CURRENT: ContextVar["Span | None"] = ContextVar("span", default=None)

Traced: TypeAlias = "AbstractContextManager[Span | None]"

NOTHING: Traced = nullcontext()
"""What is entered where nothing is traced."""


def start(service: str, settings: Settings) -> "Tracing | None":
    """What traces this process; None where traces are off."""
    if settings.otlp_endpoint is None:
        return None
    from services.runtime.spans import Tracing, open_sender

    return Tracing(service, settings.trace_ratio, open_sender(settings))


def current() -> "Span | None":
    """The span this code works for; None where nothing is traced, or what was has ended."""
    span = CURRENT.get()
    return None if span is None or span.ended else span


def step(name: str) -> Traced:
    """A step of what is traced, to be entered; names are those of `spans.STEPS`."""
    span = current()
    return NOTHING if span is None else span.step(name)


def calling(request: Any) -> Traced:
    """A call to another service with this message, to be entered."""
    span = current()
    return NOTHING if span is None else span.calling(request)


def header() -> str | None:
    """The value of `HEADER` for a call that is made now; None for none."""
    span = current()
    return None if span is None else span.header
