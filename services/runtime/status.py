"""Refusals on the wire: `google.rpc.Status` with exactly one `ErrorInfo`, and back again.

Server side: `to_status` turns whatever a handler raised into code, text and details; what is not a
refusal becomes INTERNAL with a request id and nothing else. Client side: `from_rpc_error` gives the
`Refused` a peer meant.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from engines.api import InvalidOption, RuleViolation
from services.kernel.errors import (
    FieldProblem,
    Kind,
    Refused,
    from_option,
    from_rules,
    invalid,
    precondition,
    unavailable,
)
from services.runtime.store.api import Archived, Damaged, RequestReused, StoreUnavailable
from services.runtime.store.sealing import KeyUnknown

DOMAIN = "kozyr"
DETAILS_KEY = "grpc-status-details-bin"
REQUEST_ID_FACT = "request_id"
ARCHIVED = "GAME_ARCHIVED"
FACT_MAX = 200
"""Longest fact of an answer, in characters."""

CODES: dict[Kind, grpc.StatusCode] = {kind: grpc.StatusCode[kind.value] for kind in Kind}
KINDS: dict[grpc.StatusCode, Kind] = {code: kind for kind, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ends badly: status code, reason, text for people, and the details for programs."""

    code: grpc.StatusCode
    reason: str
    message: str
    details: bytes

    @property
    def metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Trailing metadata that carries the details."""
        return ((DETAILS_KEY, self.details),)


def refusal(error: Exception) -> Refused | None:
    """The refusal an exception stands for; None if it is a fault of ours."""
    match error:
        case Refused():
            return error
        case RuleViolation():
            return from_rules(error)
        case InvalidOption():
            return from_option(error)
        case StoreUnavailable():
            return unavailable("STORE_UNAVAILABLE", "the database does not answer")
        case RequestReused():
            return invalid("request_id", "was used before for another request", "REQUEST_ID_REUSED")
        case Damaged():
            return damaged(error)
        case KeyUnknown():
            return sealed(error)
        case Archived():
            return archived(error)
        case _:
            return None


def damaged(error: Damaged) -> Refused:
    """What a caller is told of a record that is not what was stored."""
    return precondition(
        "LOG_DAMAGED",
        "The stored record of this game is damaged; an operator has to look at it.",
        version=str(error.version),
    )


def archived(error: Archived) -> Refused:
    """What a caller is told of every id of a month that has left, whether it was one or not."""
    moment = datetime.fromtimestamp(error.archived_at / 1_000_000, UTC)
    on = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return Refused(
        Kind.NOT_FOUND,
        ARCHIVED,
        f"the games of {error.month} were archived on {on}; operators have the files",
        facts={"month": error.month, "archived_time": on},
    )


def sealed(error: KeyUnknown) -> Refused:
    """What a caller is told of a record whose master key this process was not given."""
    return precondition(
        "LOG_SEALED",
        "The stored record of this game is sealed with a key that is missing here; an operator "
        "has to give it back.",
        key=error.key_id,
    )


def to_answer(error: Exception, request_id: str) -> Answer:
    """The answer for anything a handler raised; never the text of an unexpected exception."""
    refused = refusal(error)
    if refused is None:
        return fault(grpc.StatusCode.INTERNAL, "INTERNAL", "internal error", request_id)
    facts = {k: v[:FACT_MAX] for k, v in refused.facts.items()} | {REQUEST_ID_FACT: request_id}
    details: list[Message] = [ErrorInfo(reason=refused.reason, domain=DOMAIN, metadata=facts)]
    if refused.fields:
        violations = [
            BadRequest.FieldViolation(field=f.field, description=f.problem) for f in refused.fields
        ]
        details.append(BadRequest(field_violations=violations))
    if refused.retry_after_ms is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(refused.retry_after_ms)
        details.append(retry)
    return _answer(CODES[refused.kind], refused.reason, refused.message, details)


def fault(code: grpc.StatusCode, reason: str, message: str, request_id: str) -> Answer:
    """An answer with a code that is not a refusal: INTERNAL, UNIMPLEMENTED."""
    info = ErrorInfo(reason=reason, domain=DOMAIN, metadata={REQUEST_ID_FACT: request_id})
    return _answer(code, reason, message, [info])


def from_rpc_error(error: grpc.aio.AioRpcError) -> Refused:
    """What the other side meant.

    A failure that is not a refusal becomes UNAVAILABLE `PEER_FAILED` (with the code and, where
    known, the request id as facts); a peer that cannot be reached `PEER_UNAVAILABLE`.
    """
    code = error.code()
    try:
        info, fields, retry_ms = _unpack(_details(error))
    except DecodeError:
        info, fields, retry_ms = None, (), None
    kind = KINDS.get(code)
    if kind is None:
        refused = unavailable("PEER_FAILED", "the service failed")
        refused.facts |= {**(info.metadata if info is not None else {}), "code": code.name}
        return refused
    if info is None:
        return _without_details(code, kind, error.details() or "")
    return Refused(
        kind,
        info.reason,
        error.details() or "",
        facts=dict(info.metadata),
        fields=fields,
        retry_after_ms=retry_ms,
    )


def _answer(code: grpc.StatusCode, reason: str, message: str, details: list[Message]) -> Answer:
    status = Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail, deterministic=True)
        status.details.append(packed)
    return Answer(code, reason, message, status.SerializeToString(deterministic=True))


def _details(error: grpc.aio.AioRpcError) -> Status:
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return Status.FromString(value)
    return Status()


def _unpack(status: Status) -> tuple[ErrorInfo | None, tuple[FieldProblem, ...], int | None]:
    info: ErrorInfo | None = None
    fields: tuple[FieldProblem, ...] = ()
    retry_ms: int | None = None
    for detail in status.details:
        match detail.TypeName():
            case "google.rpc.ErrorInfo":
                info = ErrorInfo.FromString(detail.value)
            case "google.rpc.BadRequest":
                bad = BadRequest.FromString(detail.value)
                fields = tuple(FieldProblem(v.field, v.description) for v in bad.field_violations)
            case "google.rpc.RetryInfo":
                retry_ms = RetryInfo.FromString(detail.value).retry_delay.ToMilliseconds()
            case _:
                pass
    return info, fields, retry_ms


def _without_details(code: grpc.StatusCode, kind: Kind, message: str) -> Refused:
    match kind:
        case Kind.UNAVAILABLE:
            return _unreached(message)
        case Kind.EXPIRED:
            return Refused(kind, "DEADLINE_EXCEEDED", "no answer in time")
        case _:
            return Refused(kind, code.name, message)


_HUNG_UP = ("Socket closed", "reset by peer", "Broken pipe", "Endpoint closing")


def _unreached(message: str) -> Refused:
    """Why a service cannot be reached, in words; grpc tells it in a text alone."""
    if "handshake failed" in message or "verification" in message.lower():
        why = "it shows no certificate of its name that is believed here (KOZYR_TLS_CA_FILE)"
    elif "connect" in message and any(word in message for word in _HUNG_UP):
        why = (
            "it hung up at once: it may speak TLS, to those alone who show a certificate that it "
            "believes (KOZYR_TLS_CA_FILE, KOZYR_TLS_CERT_FILE, KOZYR_TLS_KEY_FILE)"
        )
    else:
        return unavailable("PEER_UNAVAILABLE", "the service cannot be reached")
    return unavailable("PEER_UNAVAILABLE", f"the service cannot be reached: {why}")
