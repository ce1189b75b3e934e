"""Traces of one process: which calls have one, what a span says, and a collector that fails."""

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import run
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.rpc.error_details_pb2 import RequestInfo
from hypothesis import given as drawn
from hypothesis import settings as examples
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

from services.kernel.envelope import Claimed, Due
from services.kernel.errors import unavailable
from services.runtime import spans, traces
from services.runtime.sender import Sender
from services.runtime.settings import Settings
from services.runtime.spans import FACTS, HOPS_MAX, STEPS, Tracing, read_header
from tests.collector import collector
from tests.logs import logged
from tests.runtime.echo import SECRET, Caller, Echo, refused, serving, settings, token
from tests.runtime.series import moved, series
from tests.sent import Ended

STREAM = UUID("01890a5d-ac96-774b-bcce-000000000001")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ABOVE = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{ABOVE}-01"
METHOD = "kozyr.test.v1.EchoService/Mine"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    """All spans that end here."""
    kept = Ended()
    monkeypatch.setattr(spans, "open_sender", lambda settings: kept)
    return kept


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged."""
    with logged(io.StringIO(), "wallet", "debug") as written:
        yield written


def traced(folder: Path, ratio: float = 1.0, **changes: Any) -> Settings:
    """Settings with traces on."""
    return settings(folder, otlp_endpoint="http://127.0.0.1:1", trace_ratio=ratio, **changes)


async def call(caller: Caller, name: str, header: str | None = None) -> grpc.StatusCode:
    """Call with a `traceparent`; how the call ended."""
    metadata = [("authorization", f"Bearer {caller.client._token()}")]
    metadata += [] if header is None else [("traceparent", header)]
    code: grpc.StatusCode = await caller.method(name)(
        RequestInfo(request_id="r-1"), metadata=metadata
    ).code()
    return code


async def test_a_player_begins_a_trace_of_our_own_choosing(tmp_path: Path, ended: Ended) -> None:
    """What he says about traces is not believed: neither which it is, nor that there be one."""
    for ratio, many in ((1.0, 2), (0.0, 0)):
        given = traced(tmp_path, ratio)
        held = token(given, "players", "0198c0de")
        async with serving(Echo(), given) as server, Caller(server, given, held) as caller:
            for header in (SAMPLED, None):
                assert await call(caller, "Mine", header) is grpc.StatusCode.OK
        assert len(ended.spans) == many
        assert all(span.parent is None for span in ended.spans)
        chosen = {f"{span.context.trace_id:032x}" for span in ended.spans}
        assert len(chosen - {TRACE}) == many
        ended.spans.clear()


async def test_a_service_leads_its_trace_on(tmp_path: Path, ended: Ended) -> None:
    """Where it says that what it leads to is traced, it is, and otherwise not."""
    given = traced(tmp_path, 1.0)
    held = token(given, "game", "game")
    async with serving(Echo(), given) as server, Caller(server, given, held) as caller:
        for header in (None, SAMPLED.replace("-01", "-00"), "nonsense", SAMPLED):
            assert await call(caller, "Mine", header) is grpc.StatusCode.OK
    (span,) = ended.spans
    assert span.parent is not None
    assert f"{span.context.trace_id:032x} {span.parent.span_id:016x}" == f"{TRACE} {ABOVE}"
    assert (span.name, span.kind, span.status.status_code) == (
        METHOD,
        SpanKind.SERVER,
        StatusCode.UNSET,
    )
    assert ended.facts(span) == {
        "rpc.system.name": "grpc",
        "rpc.method": METHOD,
        "rpc.response.status_code": "OK",
        "kozyr.role": "service",
        "kozyr.version": 7,  # and not its game, which has no id here
    }


async def test_how_a_call_ended_is_said_and_not_why(tmp_path: Path, ended: Ended) -> None:
    """A fault is an error of the span, without the exception's text; a refusal has its reason."""
    echo, given = Echo(), traced(tmp_path)
    async with serving(echo, given) as server, Caller(server, given) as caller:
        await refused(caller.unary("Fail"))
        await refused(caller.unary("Mine"))
        stream = caller.stream("Watch")
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined] # a generator has it
    said = {span.name.rpartition("/")[2]: ended.facts(span) for span in ended.spans}
    assert set(said) == {"Fail", "Mine", "Watch"}
    assert said["Fail"]["rpc.response.status_code"] == "INTERNAL"
    assert said["Mine"]["kozyr.reason"] == "TOKEN_MISSING"
    assert {span.name[-4:]: span.status.status_code for span in ended.spans}["Fail"] is (
        StatusCode.ERROR
    )
    assert not any(span.events or span.status.description for span in ended.spans)
    assert SECRET not in str([span.to_json() for span in ended.spans])


async def test_probes_are_not_traced(tmp_path: Path, ended: Ended) -> None:
    """Nor is anything else that must always be answered."""
    given = traced(tmp_path)
    async with serving(Echo(), given) as server, Caller(server, given) as caller:
        probe: Any = caller.client.channel.unary_unary("/grpc.health.v1.Health/Check")
        await probe(b"")
    assert ended.spans == []


def test_nothing_is_imported_where_traces_are_off() -> None:
    """Nor made: a process without a collector does not know OpenTelemetry."""
    code = "import sys, services.runtime.server; print(sorted(sys.modules))"
    found = run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "services.runtime.traces" in found.stdout
    assert "opentelemetry" not in found.stdout
    assert traces.start("game", Settings()) is None
    assert traces.step("append") is traces.calling(RequestInfo()) is traces.NOTHING
    assert traces.header() is None


def begun(tracing: Tracing, kind: str = "bot") -> spans.Span:
    """Due work that begins a trace."""
    found = tracing.working(claimed(kind))
    assert isinstance(found, spans.Span)
    return found


def claimed(kind: str, key: str = "0.1") -> Claimed:
    """A due row."""
    return Claimed(STREAM, kind, key, 7, 0, 1)


async def test_what_follows_from_an_append_is_below_it() -> None:
    """Due work is of the trace in which it was asked for, in whatever task it is done."""
    tracing = Tracing("game", 1.0, ended := Ended())
    with begun(tracing), traces.step("append"):
        tracing.expect(STREAM, [Due("end", "", 0)])

    async def work() -> None:
        assert traces.current() is None
        with tracing.working(claimed("end", "")):
            pass

    await asyncio.create_task(work())
    append, bot, end = ended.spans
    assert end.parent == append.context
    assert append.parent == bot.context
    assert (bot.kind, end.kind) == (SpanKind.CONSUMER, SpanKind.CONSUMER)
    assert ended.facts(end) == {
        "kozyr.due.kind": "end",
        "kozyr.due.attempts": 1,
        "kozyr.stream": str(STREAM),
        "kozyr.version": 7,
    }


def test_a_game_of_bots_is_no_endless_trace() -> None:
    """After so many works in a row a new trace begins, which says where it comes from."""
    tracing = Tracing("game", 1.0, ended := Ended())
    for _ in range(3 * HOPS_MAX):
        with tracing.working(claimed("bot")):
            tracing.expect(STREAM, [Due("bot", "0.1", 0)])
    sizes = [0]
    for before, span in zip([None, *ended.spans], ended.spans, strict=False):
        sizes[-1 if span.parent else len(sizes) :] = [1 if not span.parent else sizes[-1] + 1]
        if before is not None:
            above = span.parent or span.links[0].context
            assert above == before.context
    assert max(sizes) == HOPS_MAX + 1


def test_work_that_is_done_is_forgotten() -> None:
    """And what never comes is, when there is too much of it."""
    tracing = Tracing("game", 1.0, Ended())
    with begun(tracing):
        tracing.expect(STREAM, [Due("turn", str(n), 0) for n in range(spans.CAUSES_MAX + 10)])
    assert len(tracing._causes) == spans.CAUSES_MAX
    tracing.worked(claimed("turn", str(spans.CAUSES_MAX)))
    tracing.worked(claimed("turn", "unknown"))
    assert len(tracing._causes) == spans.CAUSES_MAX - 1


def test_what_has_ended_has_no_more_parts() -> None:
    """A task that outlives its call is no part of it."""
    tracing = Tracing("game", 1.0, ended := Ended())
    with begun(tracing) as span:
        span.end()
        assert traces.current() is None
        assert traces.step("append") is traces.NOTHING
        assert traces.header() is None
    assert len(ended.spans) == 1


def test_a_failure_is_told_by_its_kind() -> None:
    """A refusal by code and reason, anything else by the name of its type."""
    tracing = Tracing("game", 1.0, ended := Ended())
    failures: list[BaseException] = [
        unavailable("STORE_UNAVAILABLE", SECRET),
        ValueError(SECRET),
        asyncio.CancelledError(),
    ]
    for failure in failures:
        with pytest.raises(type(failure)), begun(tracing):
            raise failure
    facts = [ended.facts(span) for span in ended.spans]
    assert facts[0]["kozyr.reason"] == "STORE_UNAVAILABLE"
    assert facts[1]["error.type"] == "ValueError"
    assert facts[2]["rpc.response.status_code"] == "CANCELLED"
    failed = [span.status.status_code is StatusCode.ERROR for span in ended.spans]
    assert failed == [True, True, False]
    assert SECRET not in str([span.to_json() for span in ended.spans])


ANYTHING = st.one_of(st.text(), st.integers(), st.binary(), st.none(), st.floats(), st.uuids())


@examples(max_examples=40)
@drawn(st.dictionaries(st.one_of(st.sampled_from(sorted(FACTS)), st.text()), ANYTHING))
def test_a_span_says_what_is_on_the_list(facts: dict[str, Any]) -> None:
    """Whatever is said: attributes that are declared, whose values read as they must."""
    tracing = Tracing("game", 1.0, ended := Ended())
    with begun(tracing) as span:
        span.note(**facts)
    known = dict(FACTS.values())
    said = ended.facts(ended.spans[0])
    assert set(said) <= set(known)
    assert all(known[key].fullmatch(str(value)) for key, value in said.items())


@examples(max_examples=40)
@drawn(st.text())
def test_a_step_has_a_name_from_the_list(name: str) -> None:
    """So that nothing can be told by names."""
    tracing = Tracing("game", 1.0, ended := Ended())
    with begun(tracing), traces.step(name):
        pass
    assert ended.spans[0].name in STEPS | {spans.OTHER}
    assert spans.OTHER not in STEPS


@pytest.mark.parametrize(
    "header",
    [
        "",
        "01" + SAMPLED[2:],
        SAMPLED.upper(),
        SAMPLED + "-more",
        SAMPLED + "\n",
        SAMPLED.replace(TRACE, "0" * 32),
        SAMPLED.replace(ABOVE, "0" * 16),
        SAMPLED.replace(TRACE, TRACE[:-1]),
    ],
)
def test_a_header_that_is_none_is_not_followed(header: str) -> None:
    """As W3C Trace Context has it, version 00."""
    assert read_header(header) is None


def test_a_header_is_read_as_it_was_written() -> None:
    """By the next service, whether or not more flags are set."""
    tracing = Tracing("game", 1.0, Ended())
    with begun(tracing) as span:
        found = read_header(span.header)
        assert found is not None
        assert (found.trace_id, found.span_id) == (span.context.trace_id, span.context.span_id)
    assert read_header(SAMPLED[:-1] + "3") is not None


class Exporter(SpanExporter):
    """A collector's stand-in, that can fail, raise, or not answer until it is let go."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.failing: SpanExportResult | Exception = SpanExportResult.SUCCESS
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take a batch, or not."""
        self.asked.set()
        self.answers.wait()
        if isinstance(self.failing, Exception):
            raise self.failing
        if self.failing is SpanExportResult.SUCCESS:
            self.batches.append(len(spans))
        return self.failing

    def shutdown(self) -> None:
        """Answer at last."""
        self.answers.set()


def sender(exporter: Exporter, **changes: Any) -> Sender:
    """One that sends when it ends."""
    given = {"queue_max": 10, "batch_max": 4, "interval_s": 60.0, "flush_s": 20.0}
    return Sender(exporter, **(given | changes))


def end(tracing: Tracing, many: int) -> None:
    """So many spans end."""
    for _ in range(many):
        with begun(tracing):
            pass


def counted(before: Any) -> dict[str, float]:
    """What became of spans since."""
    return {
        key[1][0][1]: value
        for key, value in moved(before).items()
        if key[0] == "kozyr_traces_spans_total"
    }


async def test_the_last_spans_are_sent_at_the_end() -> None:
    """In batches of the size that was set, and none twice."""
    before, exporter = series(), Exporter()
    tracing = Tracing("game", 1.0, sender(exporter))
    end(tracing, 10)
    await tracing.close()
    assert exporter.batches == [4, 4, 2]
    assert counted(before) == {"sent": 10}


async def test_a_full_queue_drops_and_counts() -> None:
    """Nobody waits for a collector that does not answer, neither at work nor at the end."""
    before, exporter = series(), Exporter()
    exporter.answers.clear()
    tracing = Tracing("game", 1.0, sender(exporter, interval_s=0.01, flush_s=0.01))
    end(tracing, 1)
    assert await asyncio.to_thread(exporter.asked.wait, 20)
    end(tracing, 13)
    await tracing.close()
    end(tracing, 1)
    assert counted(before)["dropped"] >= 4
    assert sum(counted(before).values()) >= 14


@pytest.mark.parametrize("failing", [SpanExportResult.FAILURE, RuntimeError(SECRET)])
async def test_a_collector_that_fails_is_one_line(
    failing: Any, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it fails, and another when it takes spans again."""
    before, exporter = series(), Exporter()
    exporter.failing = failing
    sends = sender(exporter, interval_s=0.002)
    tracing = Tracing("game", 1.0, sends)

    async def until(outcome: str, many: int) -> None:
        async with asyncio.timeout(20):
            while counted(before).get(outcome, 0) < many:
                end(tracing, 1)
                await asyncio.sleep(0.002)

    await until("failed", 5)
    exporter.failing = SpanExportResult.SUCCESS
    await until("sent", 5)
    await tracing.close()
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [each["event"] for each in said] == ["traces_not_sent", "traces_sent_again"]
    assert SECRET not in lines.getvalue()


async def test_calls_go_on_while_the_collector_is_away(
    tmp_path: Path, lines: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real exporter, real collector: away, there, and away again at the end; calls notice none."""
    before = series()
    async with collector() as kept:
        address = kept.address
    given = settings(
        tmp_path,
        otlp_endpoint=f"http://{address}",
        trace_ratio=1.0,
        trace_interval_ms=10,
        trace_timeout_ms=200,
        trace_flush_ms=0,
    )
    async with serving(Echo(), given) as server, Caller(server, given) as caller:

        async def until(outcome: str) -> None:
            async with asyncio.timeout(30):
                while outcome not in counted(before):
                    await caller.unary("Echo")

        await until("failed")
        async with collector(int(address.rpartition(":")[2])) as kept:
            await until("sent")
    assert {each.span.name for each in kept.kept} == {"kozyr.test.v1.EchoService/Echo"}
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    about = [each for each in told if each["event"] not in ("rpc", "check_failed")]
    assert [each["event"] for each in about][:2] == ["traces_not_sent", "traces_sent_again"]
    assert {each["event"] for each in about} <= {"traces_not_sent", "traces_sent_again"}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "endpoint",
    [
        "collector:4317",
        "grpc://c:4317",
        "http://c",
        "http://u:p@c:4317",
        "http://c:1/x",
        "http://c:x",
    ],
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    """By its name, and without its value, which may hold a password."""
    with pytest.raises(ValueError, match="otlp_endpoint") as caught:
        Settings(otlp_endpoint=endpoint)
    assert endpoint not in str(caught.value)
