"""The gate before every call, over real loopback gRPC: who gets in and what comes back."""

import asyncio
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status

from engines.api import InvalidOption, RuleViolation
from services.kernel.errors import FieldProblem, Kind, Refused, precondition
from services.runtime.store.api import StoreUnavailable
from tests.logs import logged
from tests.runtime.echo import NAME, SECRET, Caller, Echo, refused, serving, settings, setup, token

REQUEST = RequestInfo(request_id="r-1")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged, as JSON lines."""
    with logged(io.StringIO(), "wallet", "debug") as written:
        yield written


def rpcs(written: io.StringIO) -> list[dict[str, Any]]:
    """The log lines of calls to the test service."""
    every = [json.loads(line) for line in written.getvalue().splitlines()]
    return [e for e in every if e["event"] == "rpc" and "health" not in e["method"]]


async def failed(call: Any) -> grpc.aio.AioRpcError:
    """The bare error a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def details(error: grpc.aio.AioRpcError) -> list[AnyMessage]:
    """The details of a rich error."""
    (found,) = [v for k, v in error.trailing_metadata() or () if k == "grpc-status-details-bin"]
    assert isinstance(found, bytes)
    status = Status.FromString(found)
    code: Any = error.code().value
    assert (status.code, status.message) == (code[0], error.details())
    return list(status.details)


async def test_an_anonymous_caller_reaches_a_public_call(tmp_path: Path) -> None:
    """No token is needed where the row says public."""
    async with setup(tmp_path) as (_, caller, _given):
        answer = await caller.unary("Echo")
        assert answer.request_id == "r-1"
        assert answer.serving_data.startswith("public: ")


@pytest.mark.parametrize(
    ("issuer", "subject", "role"),
    [
        ("players", "0198c0de", "player"),
        ("operators", "olga", "operator"),
        ("game", "game", "service"),
    ],
)
async def test_a_listed_role_gets_in(tmp_path: Path, issuer: str, subject: str, role: str) -> None:
    """Each role of the row is let in and the handler knows who it is."""
    async with setup(tmp_path, (issuer, subject)) as (_, caller, _given):
        answer = await caller.unary("Mine")
        assert answer.serving_data.startswith(f"{role}:{subject} ")


async def test_a_service_that_is_not_listed_is_denied(tmp_path: Path) -> None:
    """Rows name services one by one; before the request is even read."""
    async with setup(tmp_path, ("ai", "ai")) as (echo, caller, _given):
        error = await failed(caller.raw("Mine")(b"\xff", metadata=caller.client._metadata()))
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert echo.calls == 0


@pytest.mark.parametrize("given", ["", "nonsense", "x" * 3000, "a.b.c", "a.b.c.d"])
async def test_a_forged_token_is_refused_with_a_reason(tmp_path: Path, given: str) -> None:
    """Garbage of every size is UNAUTHENTICATED TOKEN_INVALID."""
    async with setup(tmp_path) as (echo, caller, _given):
        metadata = (("authorization", f"Bearer {given}"),)
        call = caller.method("Mine")(REQUEST, metadata=metadata)
        error = await failed(call)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        (info,) = details(error)
        assert ErrorInfo.FromString(info.value).reason == "TOKEN_INVALID"
        assert echo.calls == 0


async def test_a_missing_token_is_told_apart(tmp_path: Path) -> None:
    """TOKEN_MISSING, so that a client knows to sign in."""
    async with setup(tmp_path) as (_, caller, _given):
        error = await refused(caller.unary("Mine"))
        assert (error.kind, error.reason) == (Kind.UNAUTHENTICATED, "TOKEN_MISSING")


async def test_two_authorizations_are_refused(tmp_path: Path) -> None:
    """Which one counts must not be a matter of luck."""
    async with setup(tmp_path) as (_, caller, given):
        header = ("authorization", f"Bearer {token(given, 'players', 'p')}")
        error = await failed(caller.method("Mine")(REQUEST, metadata=(header, header)))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_an_unlisted_or_unknown_method_is_unimplemented(tmp_path: Path) -> None:
    """A handler without a row cannot be reached; nor can what does not exist."""
    async with setup(tmp_path) as (echo, caller, _given):
        for name in ("Unlisted", "Nothing"):
            error = await failed(caller.method(name)(REQUEST))
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED
            assert ErrorInfo.FromString(details(error)[0].value).reason == "METHOD_UNKNOWN"
        assert echo.calls == 0


async def test_an_unexpected_exception_leaks_nothing(tmp_path: Path, lines: io.StringIO) -> None:
    """INTERNAL and a request id; the text of the exception neither leaves nor is logged."""
    async with setup(tmp_path) as (_, caller, _given):
        error = await failed(caller.method("Fail")(REQUEST, metadata=(("x-request-id", "abc-1"),)))
        assert error.code() is grpc.StatusCode.INTERNAL
        (info,) = details(error)
        assert ErrorInfo.FromString(info.value) == ErrorInfo(
            reason="INTERNAL", domain="kozyr", metadata={"request_id": "abc-1"}
        )
        assert SECRET not in repr(error)
    assert SECRET not in lines.getvalue()
    assert '"error":"RuntimeError"' in lines.getvalue()
    assert "echo.py" in lines.getvalue()


async def test_an_exception_in_a_stream_leaks_nothing(tmp_path: Path) -> None:
    """The same after the first message of a stream."""
    async with setup(tmp_path) as (echo, caller, _given):
        stream = caller.stream("Stubborn")
        assert (await anext(stream)).detail == "begin"
        echo.go_on.set()
        error = await refused(anext(stream))
        assert (error.reason, error.facts["code"]) == ("PEER_FAILED", "INTERNAL")
        assert SECRET not in str(error)


@pytest.mark.parametrize(
    ("raised", "code", "reason"),
    [
        (precondition("NOT_YOUR_TURN", "not you", seat="2"), "FAILED_PRECONDITION", None),
        (Refused(Kind.CONFLICT, "STALE_TURN", "late"), "ABORTED", None),
        (RuleViolation("MUST_BEAT", "AZI-12", card="TS"), "FAILED_PRECONDITION", "MUST_BEAT"),
        (RuleViolation("MALFORMED", "AZI-1"), "INVALID_ARGUMENT", "MALFORMED"),
        (InvalidOption("ace_high", "no"), "INVALID_ARGUMENT", "INVALID_OPTION"),
    ],
)
async def test_a_refusal_keeps_its_code_and_reason(
    tmp_path: Path, raised: Exception, code: str, reason: str | None
) -> None:
    """What a handler raises is what the client's `Refused` says, with exactly one ErrorInfo."""
    async with setup(tmp_path) as (echo, caller, _given):
        echo.failure = raised
        error = await failed(caller.method("Fail")(REQUEST))
        assert error.code().name == code
        infos = [d for d in details(error) if d.TypeName() == "google.rpc.ErrorInfo"]
        assert len(infos) == 1
        info = ErrorInfo.FromString(infos[0].value)
        assert info.domain == "kozyr"
        assert info.reason == reason or info.reason == getattr(raised, "reason", None)
        if isinstance(raised, RuleViolation):
            assert info.metadata["rule"] == raised.rule
        bad = [d for d in details(error) if d.TypeName() == "google.rpc.BadRequest"]
        assert bool(bad) == (code == "INVALID_ARGUMENT")


async def test_a_handler_may_end_its_call_itself(tmp_path: Path, lines: io.StringIO) -> None:
    """What a handler says through its context is neither replaced nor called a failure."""
    async with setup(tmp_path) as (_, caller, _given):
        error = await failed(caller.method("Abort")(REQUEST))
        assert (error.code(), error.details()) == (grpc.StatusCode.DATA_LOSS, "gone")
    assert [line["code"] for line in rpcs(lines)] == ["DATA_LOSS"]
    assert "call_failed" not in lines.getvalue()


async def test_fields_and_retry_times_travel(tmp_path: Path) -> None:
    """BadRequest and RetryInfo reach the client as fields and milliseconds."""
    problem = FieldProblem("move.bid.amount", "must be positive")
    sent = Refused(
        Kind.EXHAUSTED, "FULL", "full", facts={"seat": "1"}, fields=(problem,), retry_after_ms=1500
    )
    async with setup(tmp_path) as (echo, caller, _given):
        echo.failure = sent
        error = await refused(caller.unary("Fail"))
        assert (error.kind, error.reason, error.message) == (sent.kind, "FULL", "full")
        assert error.facts["seat"] == "1"
        assert (error.fields, error.retry_after_ms) == ((problem,), 1500)


async def test_a_lost_database_is_unavailable_and_retried(tmp_path: Path) -> None:
    """UNAVAILABLE is repeated by the channel until the store is back."""
    async with setup(tmp_path) as (echo, caller, _given):
        echo.failure, echo.failures_left = StoreUnavailable("db at 10.0.0.1"), 2
        assert (await caller.unary("Fail")).request_id == "at last"
        assert echo.calls == 3


async def test_a_lost_database_is_named_without_details(tmp_path: Path) -> None:
    """STORE_UNAVAILABLE says when to come back and nothing about the database."""
    async with setup(tmp_path) as (echo, caller, _given):
        echo.failure = StoreUnavailable("db at 10.0.0.1")
        error = await refused(caller.unary("Fail"))
        assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "STORE_UNAVAILABLE")
        assert error.retry_after_ms == 1000
        assert "10.0.0.1" not in str(error)


async def test_malformed_and_oversized_requests_are_refused(tmp_path: Path) -> None:
    """Neither bytes that are no message nor too many of them reach the handler."""
    async with setup(tmp_path, request_max_bytes=2048) as (echo, caller, _given):
        for raw, reason in (
            (b"\xff\xff\xff", "MALFORMED_REQUEST"),
            (b"\x0a\x02\xc3\x28", "MALFORMED_REQUEST"),  # a string that is not UTF-8
            (b"\x0a" + b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "MALFORMED_REQUEST"),
            (b"x" * 2049, "REQUEST_TOO_LARGE"),
        ):
            error = await failed(caller.raw("Echo")(raw))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert ErrorInfo.FromString(details(error)[0].value).reason == reason
        assert echo.calls == 0


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (RequestInfo(), "request_id"),
        (RequestInfo(request_id="x" * 65), "request_id"),
        (RequestInfo(request_id="ä"), "request_id"),
        (RequestInfo(request_id="a\x00b"), "request_id"),
        (RequestInfo(request_id="a", serving_data="line\nbreak"), "serving_data"),
        (RequestInfo(request_id="a", serving_data="x" * 1025), "serving_data"),
    ],
)
async def test_field_checks_name_the_field(
    tmp_path: Path, request_: RequestInfo, field: str
) -> None:
    """BadRequest names the field at fault; the handler is not reached."""
    async with setup(tmp_path) as (echo, caller, _given):
        error = await refused(caller.unary("Echo", request_))
        assert (error.kind, error.reason) == (Kind.INVALID, "INVALID_FIELD")
        assert [f.field for f in error.fields] == [field]
        assert echo.calls == 0


async def test_a_call_without_a_deadline_is_ended(tmp_path: Path) -> None:
    """The default deadline ends a handler that hangs, and tells it so by cancelling it."""
    async with setup(tmp_path, deadline_default_ms=50) as (echo, caller, _given):
        error = await failed(caller.method("Sleep")(REQUEST))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert ErrorInfo.FromString(details(error)[0].value).reason == "DEADLINE_EXCEEDED"
        assert echo.cancelled.is_set()


async def test_a_deadline_beyond_the_maximum_is_cut(tmp_path: Path) -> None:
    """No client may hold a handler for longer than the setting."""
    changes: dict[str, Any] = {"deadline_default_ms": 50, "deadline_max_ms": 80}
    async with setup(tmp_path, **changes) as (echo, caller, _given):
        error = await failed(caller.method("Sleep")(REQUEST, timeout=3600))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert echo.cancelled.is_set()


async def test_a_client_that_goes_away_cancels_its_handler(
    tmp_path: Path, lines: io.StringIO
) -> None:
    """Unary and stream handlers are told; the log line says CANCELLED, of a stream that was asked
    for with a deadline too."""
    async with setup(tmp_path) as (echo, caller, _given):
        call = caller.method("Sleep")(REQUEST)
        await echo.entered.wait()
        call.cancel()
        await asyncio.wait_for(echo.cancelled.wait(), 5)
        echo.entered.clear()
        echo.cancelled.clear()
        stream: Any = caller.stream("Watch")
        await anext(stream)
        await echo.entered.wait()
        await stream.aclose()
        await asyncio.wait_for(echo.cancelled.wait(), 5)
        echo.cancelled.clear()
        limited: Any = caller.client.channel.unary_stream(f"/{NAME}/Watch")
        call = limited(b"", timeout=0.2)
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.wait_for(echo.cancelled.wait(), 5)
    assert [line["code"] for line in rpcs(lines)] == ["CANCELLED"] * 3


async def test_calls_beyond_the_rate_say_which_limit_and_when(tmp_path: Path) -> None:
    """RESOURCE_EXHAUSTED with the limit's name and a RetryInfo; other callers are not touched."""
    changes: dict[str, Any] = {"rate_per_second": 0.01, "rate_burst": 3}
    async with setup(tmp_path, ("players", "p-1"), **changes) as (echo, caller, given):
        for _ in range(3):
            await caller.unary("Mine")
        error = await refused(caller.unary("Mine"))
        assert (error.kind, error.reason) == (Kind.EXHAUSTED, "RATE_LIMITED")
        assert error.facts["limit"] == "caller"
        assert error.retry_after_ms is not None
        assert 50_000 < error.retry_after_ms <= 100_001
        other = (("authorization", f"Bearer {token(given, 'players', 'p-2')}"),)
        await caller.method("Mine")(REQUEST, metadata=other)
        assert echo.calls == 4


async def test_operators_may_call_more_often(tmp_path: Path) -> None:
    """Ten times as often as a player, and not more."""
    changes: dict[str, Any] = {"rate_per_second": 0.01, "rate_burst": 2}
    async with setup(tmp_path, ("operators", "olga"), **changes) as (_, caller, _given):
        for _ in range(20):
            await caller.unary("Mine")
        assert (await refused(caller.unary("Mine"))).reason == "RATE_LIMITED"


async def test_services_are_not_rate_limited(tmp_path: Path) -> None:
    """What one service asks of another has its own measures."""
    changes: dict[str, Any] = {"rate_per_second": 0.01, "rate_burst": 1}
    async with setup(tmp_path, ("game", "game"), **changes) as (echo, caller, _given):
        for _ in range(5):
            await caller.unary("Mine")
        assert echo.calls == 5


async def test_anonymous_calls_are_limited_by_address_and_cost(tmp_path: Path) -> None:
    """A dear call takes more of the bucket."""
    changes: dict[str, Any] = {"peer_rate_per_second": 0.01, "peer_rate_burst": 60}
    async with setup(tmp_path, **changes) as (_, caller, _given):
        await caller.unary("Dear")
        assert (await refused(caller.unary("Dear"))).facts["limit"] == "address"
        await caller.unary("Echo")


async def test_every_call_writes_one_line_without_payload(
    tmp_path: Path, lines: io.StringIO
) -> None:
    """Method, code, time, request id, subject, game, version; nothing of request or answer."""
    async with setup(tmp_path, ("players", "p-1")) as (_, caller, _given):
        header = (*caller.client._metadata(), ("x-request-id", "trace-1"))
        secret = RequestInfo(request_id="r-1", serving_data=SECRET)
        await caller.method("Mine")(secret, metadata=header)
        await refused(caller.unary("Mine", RequestInfo()))
    good, bad = rpcs(lines)
    assert good["method"] == "/kozyr.test.v1.EchoService/Mine"
    assert (good["code"], good["request_id"], good["subject"]) == ("OK", "trace-1", "p-1")
    assert (good["game"], good["version"], good["service"]) == ("g-1", 7, "wallet")
    assert good["ms"] >= 0
    assert (bad["code"], bad["reason"]) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert SECRET not in lines.getvalue()
    assert "Bearer" not in lines.getvalue()


async def test_an_insane_request_id_is_replaced(tmp_path: Path) -> None:
    """What goes into logs and answers is never whatever a client sends."""
    async with setup(tmp_path) as (_, caller, _given):
        for given in ("x" * 65, "a b", "a,b"):
            answer = await caller.method("Echo")(REQUEST, metadata=(("x-request-id", given),))
            assert given not in answer.serving_data


async def test_service_tokens_of_the_wrong_key_are_our_own_fault(tmp_path: Path) -> None:
    """A peer that refuses our token makes us unavailable, never our caller unauthenticated."""
    from services.runtime.clients import ServiceClient

    async with setup(tmp_path) as (_, caller, given):
        client = ServiceClient("unused:1", given, lambda: "forged")
        await client.channel.close()
        client.channel = caller.client.channel
        error = await refused(client.call(caller.method("Mine"), REQUEST))
        assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "PEER_FAILED")


async def test_an_unreachable_peer_is_unavailable(tmp_path: Path) -> None:
    """A service that is not there gives PEER_UNAVAILABLE with a time to retry."""
    echo, given = Echo(), settings(tmp_path)
    async with serving(echo, given) as server, Caller(server, given) as caller:
        pass
    async with Caller(server, given) as caller:
        error = await refused(caller.unary("Echo"))
        assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "PEER_UNAVAILABLE")
        assert error.retry_after_ms == 1000


def test_details_can_be_read_by_any_client() -> None:
    """Only types of google.rpc are used in details."""
    from services.runtime.status import to_answer

    problem = FieldProblem("a", "b")
    answer = to_answer(Refused(Kind.INVALID, "R", "m", fields=(problem,), retry_after_ms=1), "id")
    kinds = [d.TypeName() for d in Status.FromString(answer.details).details]
    assert kinds == [m.DESCRIPTOR.full_name for m in (ErrorInfo, BadRequest, RetryInfo)]


async def test_random_octets_are_refused_or_served(tmp_path: Path) -> None:
    """No octets crash the gate: a message, or INVALID_ARGUMENT."""
    rng = random.Random(7)
    async with setup(tmp_path, peer_rate_per_second=10**6, peer_rate_burst=10**6) as (
        _,
        caller,
        _g,
    ):
        ended: list[grpc.aio.AioRpcError] = []
        for _ in range(400):
            raw = rng.randbytes(rng.randrange(12))
            if rng.random() < 0.5:
                raw = REQUEST.SerializeToString() + raw
            try:
                await caller.raw("Echo")(raw)
            except grpc.aio.AioRpcError as error:
                ended.append(error)
        assert {error.code().name for error in ended} == {"INVALID_ARGUMENT"}
        assert all(details(error) for error in ended)
        assert 100 < len(ended) < 400


async def test_a_message_beyond_the_transport_harms_nobody(tmp_path: Path) -> None:
    """The transport refuses it before it is read; other calls go on."""
    echo, given = Echo(), settings(tmp_path, message_max_bytes=2**17)
    async with serving(echo, given) as server, Caller(server, given) as caller:
        async with grpc.aio.insecure_channel(server.address) as channel:
            method: Any = channel.unary_unary("/kozyr.test.v1.EchoService/Echo")
            error = await failed(method(b"x" * 2**18))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await caller.unary("Echo")).request_id == "r-1"
        assert echo.calls == 1
