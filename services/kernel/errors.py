"""Refusals: the one exception that carries an answer to a caller.

Anything else that escapes a service is a fault of ours and reaches the caller as INTERNAL with
nothing but a request id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from engines.api import InvalidOption, RuleViolation


class Kind(Enum):
    """What sort of refusal; each stands for one gRPC status code."""

    INVALID = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    EXISTS = "ALREADY_EXISTS"
    PRECONDITION = "FAILED_PRECONDITION"
    CONFLICT = "ABORTED"
    EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"
    EXPIRED = "DEADLINE_EXCEEDED"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A request field (dotted path, `move.bid.amount`) and what is wrong with it."""

    field: str
    problem: str


class Refused(Exception):
    """A request the service will not carry out; nothing was changed.

    `reason` is an UPPER_SNAKE word clients may rely on; `message` a sentence for people; `facts`
    short strings (rule number, bounds); `fields` the request fields at fault; `retry_after_ms`
    when the same request may succeed later, always there where that passes by itself.
    """

    def __init__(
        self,
        kind: Kind,
        reason: str,
        message: str,
        *,
        facts: Mapping[str, str] | None = None,
        fields: tuple[FieldProblem, ...] = (),
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(reason, message)
        self.kind = kind
        self.reason = reason
        self.message = message
        self.facts = dict(facts or {})
        self.fields = fields
        self.retry_after_ms = retry_after_ms


def invalid(field: str, problem: str, reason: str = "INVALID_FIELD") -> Refused:
    """A request field is missing, malformed or out of range."""
    return Refused(
        Kind.INVALID, reason, f"{field}: {problem}", fields=(FieldProblem(field, problem),)
    )


def precondition(reason: str, message: str, **facts: str) -> Refused:
    """The request is well formed, but not possible in the present state."""
    return Refused(Kind.PRECONDITION, reason, message, facts=facts)


def not_yet(reason: str, message: str, retry_after_ms: int = 1_000) -> Refused:
    """The request is well formed, and will be possible soon by itself."""
    return Refused(Kind.PRECONDITION, reason, message, retry_after_ms=retry_after_ms)


def not_found(reason: str, message: str) -> Refused:
    """No such thing, or the caller may not know that it exists."""
    return Refused(Kind.NOT_FOUND, reason, message)


def denied(reason: str, message: str) -> Refused:
    """The caller is known and may not do this."""
    return Refused(Kind.DENIED, reason, message)


def unavailable(reason: str, message: str, retry_after_ms: int = 1_000) -> Refused:
    """A part this request needs is down; the same request may succeed later."""
    return Refused(Kind.UNAVAILABLE, reason, message, retry_after_ms=retry_after_ms)


def from_rules(violation: RuleViolation) -> Refused:
    """A move the rules refuse: the reason, the rule's number and the facts."""
    facts = {k: str(v) for k, v in violation.facts.items()} | {"rule": violation.rule}
    if violation.reason == "MALFORMED":
        problem = FieldProblem(
            str(violation.facts.get("field", "move")), "is not a move of this game"
        )
        message = "not a move of this game"
        return Refused(Kind.INVALID, "MALFORMED", message, facts=facts, fields=(problem,))
    return precondition(violation.reason, f"the rules refuse it: {violation}", **facts)


def from_option(problem: InvalidOption, path: str = "options") -> Refused:
    """A table option that is unknown or out of bounds; `path` is the field of the options."""
    return invalid(f"{path}.{problem.option}", problem.problem, "INVALID_OPTION")
