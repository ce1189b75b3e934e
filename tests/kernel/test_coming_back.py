"""A refusal that passes by itself says when to come back, so that nobody has to guess."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "services"
PASSING = ("UNAVAILABLE", "EXHAUSTED")
"""Kinds of refusals that always pass by themselves."""
ASKS_BACK = re.compile(r"\b(again|soon|yet|later|at the same (time|moment)|after some)\b")
SOMEBODY_ELSES = {
    "SIGN_IN_NOT_FRESH": "the player signs in first",
    "LOGIN_CHANGED": "the player looks what it is now",
    "NOT_DEALT": "the stream tells when the cards have been dealt",
}
"""Words that sound like it, and what has to happen first."""


@cache
def refusals() -> Sequence[tuple[str, ast.Call]]:
    """Where services make a refusal, clients and commands aside: the place and the call."""
    return tuple(_refusals())


def _refusals() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] in ("cli", "client", "kernel"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MAKERS:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


MAKERS = ("Refused", "precondition", "denied", "not_found", "invalid", "not_yet", "unavailable")


def says_when(call: ast.Call) -> bool:
    """Whether the refusal carries a delay."""
    named = {keyword.arg for keyword in call.keywords}
    return getattr(call.func, "id", "") in ("not_yet", "unavailable") or "retry_after_ms" in named


def texts(call: ast.Call) -> list[str]:
    """The texts in its arguments."""
    return [
        node.value
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def kind(call: ast.Call) -> str:
    """`UNAVAILABLE` of `Kind.UNAVAILABLE`; nothing where it is made otherwise."""
    first = call.args[0] if call.args else None
    return first.attr if isinstance(first, ast.Attribute) else ""


def test_what_passes_by_itself_says_when() -> None:
    """Every refusal of a kind that passes carries a delay."""
    made = [(at, call) for at, call in refusals() if kind(call) in PASSING]
    assert made
    assert [at for at, call in made if not says_when(call)] == []


def test_who_is_asked_to_come_back_is_told_when() -> None:
    """So does each whose words ask to come back, unless something else must happen first."""
    asking = [
        (at, call)
        for at, call in refusals()
        if ASKS_BACK.search(" ".join(texts(call))) and not SOMEBODY_ELSES.keys() & set(texts(call))
    ]
    assert len(asking) > 8
    assert [at for at, call in asking if not says_when(call)] == []


@pytest.mark.parametrize("reason", SOMEBODY_ELSES)
def test_no_exception_is_out_of_date(reason: str) -> None:
    """Each is still a refusal that sounds like it."""
    made = [texts(call) for _, call in refusals()]
    assert any(reason in said and ASKS_BACK.search(" ".join(said)) for said in made)
