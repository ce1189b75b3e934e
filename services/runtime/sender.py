"""Sending spans: a queue with an end, and a thread that empties it.

Whoever ends a span puts it in the queue and goes on. What finds the queue full is dropped, what the
collector does not take is given up; both are counted, and a collector that is away is worth one
line in the log, and another when it is back.
"""

import logging
import threading
from collections import deque

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from services.runtime import log, metrics

LIBRARY = "opentelemetry.exporter"
"""Whose own log is left out: it would say at every try what is said here once."""


class Sender(SpanProcessor):
    """Sends what ends, `batch_max` spans at once, every `interval_s` seconds; `queue_max` may wait.

    At the end it has `flush_s` seconds for what waits, and none where the last try failed.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        queue_max: int,
        batch_max: int,
        interval_s: float,
        flush_s: float,
    ) -> None:
        logging.getLogger(LIBRARY).setLevel(logging.CRITICAL + 1)
        self._exporter = exporter
        self._queue_max = queue_max
        self._batch_max = batch_max
        self._interval_s = interval_s
        self._flush_s = flush_s
        self._waiting: deque[ReadableSpan] = deque()
        self._failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Have it sent, or drop it."""
        if len(self._waiting) >= self._queue_max or self._closing.is_set():
            metrics.SPANS.of("dropped").inc()
        else:
            self._waiting.append(span)

    def shutdown(self) -> None:
        """Send what waits, and end; what has not been sent by then is dropped."""
        self._closing.set()
        self._thread.join(0 if self._failing else self._flush_s)
        self._exporter.shutdown()  # ends a try that is under way
        metrics.SPANS.of("dropped").inc(len(self._waiting))

    def _run(self) -> None:
        ending = False
        while not ending:
            ending = self._closing.wait(self._interval_s)
            while self._waiting and self._send():
                pass

    def _send(self) -> bool:
        """Send one batch; whether the collector took it."""
        many = min(len(self._waiting), self._batch_max)
        batch = [self._waiting.popleft() for _ in range(many)]
        problem = self._export(batch)
        metrics.SPANS.of("failed" if problem else "sent").inc(many)
        if problem and not self._failing:
            log.get().warning("traces_not_sent", problem=problem)
        elif self._failing and not problem:
            log.get().info("traces_sent_again")
        self._failing = bool(problem)
        return not problem

    def _export(self, batch: list[ReadableSpan]) -> str:
        """What stood in the way; empty for nothing."""
        try:
            result = self._exporter.export(batch)
        except Exception as error:  # noqa: BLE001 - traces must not end what they trace
            return type(error).__qualname__
        return "" if result is SpanExportResult.SUCCESS else "the collector did not take them"
