"""Refusals on the wire and back: nothing is lost, nothing is added, nothing crashes."""

from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from services.kernel.errors import FieldProblem, Kind, Refused
from services.runtime.status import CODES, DETAILS_KEY, FACT_MAX, from_rpc_error, to_answer
from services.runtime.store.api import RequestReused

words = st.text(max_size=30)
problems = st.lists(st.builds(FieldProblem, words, words), max_size=3).map(tuple)


def error(code: grpc.StatusCode, details: str, octets: bytes | None) -> grpc.aio.AioRpcError:
    """An error as a client's call raises it."""
    none = grpc.aio.Metadata()
    trailing = none if octets is None else grpc.aio.Metadata((DETAILS_KEY, octets))
    return grpc.aio.AioRpcError(code, none, trailing, details)


@given(
    kind=st.sampled_from(Kind),
    reason=words,
    message=words,
    facts=st.dictionaries(words, words, max_size=3),
    fields=problems,
    retry_ms=st.none() | st.integers(0, 10**9),
)
def test_a_refusal_comes_back_as_it_was(
    kind: Kind,
    reason: str,
    message: str,
    facts: dict[str, str],
    fields: tuple[FieldProblem, ...],
    retry_ms: int | None,
) -> None:
    """Kind, reason, message, facts, fields and retry time; the request id is added."""
    sent = Refused(kind, reason, message, facts=facts, fields=fields, retry_after_ms=retry_ms)
    answer = to_answer(sent, "id-1")
    got = from_rpc_error(error(answer.code, answer.message, answer.details))
    assert (got.kind, got.reason, got.message) == (kind, reason, message)
    assert got.facts == facts | {"request_id": "id-1"}
    assert (got.fields, got.retry_after_ms) == (fields, retry_ms)


def test_equal_refusals_are_equal_octets() -> None:
    """The order in which facts were put together tells nothing."""
    one = Refused(Kind.INVALID, "R", "m", facts={"a": "1", "b": "2", "c": "3"})
    other = Refused(Kind.INVALID, "R", "m", facts={"c": "3", "b": "2", "a": "1"})
    assert to_answer(one, "i") == to_answer(other, "i")


def test_long_facts_are_cut() -> None:
    """Details must fit into the headers of an answer."""
    answer = to_answer(Refused(Kind.INVALID, "R", "m", facts={"a": "x" * 5000}), "i")
    assert len(answer.details) < FACT_MAX + 300


def test_a_request_id_used_twice_names_the_field() -> None:
    """The client sees that it is its own mistake."""
    got = from_rpc_error(_sent(RequestReused()))
    assert (got.kind, got.reason) == (Kind.INVALID, "REQUEST_ID_REUSED")
    assert got.fields[0].field == "request_id"


@pytest.mark.parametrize("code", [c for c in grpc.StatusCode if c is not grpc.StatusCode.OK])
@pytest.mark.parametrize("octets", [None, b"", b"\xff\xff", Status(code=3).SerializeToString()])
def test_errors_without_details_are_understood(code: grpc.StatusCode, octets: bytes | None) -> None:
    """Errors of the transport and of proxies, and damaged details, become refusals too."""
    got = from_rpc_error(error(code, "text", octets))
    if code in CODES.values():
        assert CODES[got.kind] is code
    else:
        assert (got.kind, got.reason) == (Kind.UNAVAILABLE, "PEER_FAILED")
        assert got.facts["code"] == code.name


def test_an_internal_error_keeps_its_request_id() -> None:
    """So that whoever sees it can be helped."""
    got = from_rpc_error(_sent(ZeroDivisionError("secret")))
    assert got.facts == {"request_id": "id-1", "code": "INTERNAL"}
    assert "secret" not in f"{got} {got.facts}"


def _sent(raised: Exception) -> Any:
    answer = to_answer(raised, "id-1")
    return error(answer.code, answer.message, answer.details)
