"""Spans that have ended in this process, for tests without a collector."""

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor


class Ended(SpanProcessor):
    """Keeps what ends, in order."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.spans.append(span)

    def facts(self, span: ReadableSpan) -> dict[str, object]:
        """What a span says beside its name."""
        return dict(span.attributes or {})
