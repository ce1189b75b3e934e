"""Every reason with which services and rules refuse, found in the code: `docs/reasons.md`.

`python -m tests.reasons` writes the document anew. A reason is found where a refusal is made: the
code it has, and the first sentence that goes with it.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from services.kernel.errors import Kind

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reasons.md"
MADE = {
    "precondition": Kind.PRECONDITION.value,
    "not_yet": Kind.PRECONDITION.value,
    "not_found": Kind.NOT_FOUND.value,
    "denied": Kind.DENIED.value,
    "unavailable": Kind.UNAVAILABLE.value,
    "invalid": Kind.INVALID.value,
    "RuleViolation": Kind.PRECONDITION.value,
    "_no_token": Kind.UNAUTHENTICATED.value,
    "fault": "",
}
"""What makes a refusal, and its code."""
RULE = r"[A-Z]+-\d+"
REASON = re.compile(r"[A-Z][A-Z0-9]+(_[A-Z0-9]+)*")
FIELD = ("INVALID_ARGUMENT", "INVALID_FIELD", "a field is missing, malformed or out of range")
PREFACE = (
    "# Reasons\n\n"
    "Why a call was refused: the `reason` of its `google.rpc.ErrorInfo` (domain `kozyr`), the gRPC "
    "code it comes with, and what people are told; `…` stands for what differs. A reason keeps its "
    "meaning; new ones may come, so go by the code where you do not know one (`clients.md`). A "
    "number such as `AZI-12` is the rule that refuses a move, by the game's `RULES.md`; it also "
    "comes with the error as `rule`.\n\n"
    "| reason | code | what it says |\n"
    "|---|---|---|\n"
)


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """A reason with its code and what is said."""

    name: str
    code: str
    said: str


@cache
def reasons() -> list[Reason]:
    """All of them, by name; one that comes with several codes several times."""
    found: dict[tuple[str, str], set[str]] = {("INVALID_FIELD", FIELD[0]): {FIELD[2]}}
    trees = [
        ast.parse(path.read_text("utf-8"))
        for package in ("engines", "services")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.parts[len(ROOT.parts) + 1] != "cli"
    ]
    named = {name: value for tree in trees for name, value in _constants(tree)}
    for tree in trees:
        for name, code, said in _made_in(tree, named):
            # A move that is none of the game's is a field that makes no sense.
            told = Kind.INVALID.value if name == "MALFORMED" else code
            found.setdefault((name, told), set()).update(re.findall(RULE, said) or [said])
    return sorted(Reason(name, code, _joined(said)) for (name, code), said in found.items())


def _joined(said: set[str]) -> str:
    rules = {each for each in said if re.fullmatch(RULE, each)}
    if not rules:
        return min(said - {""}, default="")
    ordered = sorted(rules, key=lambda each: (each.split("-")[0], int(each.split("-")[1])))
    return ", ".join([*ordered, *sorted(said - rules - {""})[:1]])


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Reasons that have a name in their module."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))):
                if REASON.fullmatch(value):
                    yield name, value


def _made_in(tree: ast.Module, named: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        texts = [
            named.get(argument.id) if isinstance(argument, ast.Name) else _text(argument)
            for argument in node.args
        ]
        kinds = [code for argument in node.args if (code := _code(argument))]
        if name not in MADE and not (name == "Refused" and kinds):
            continue
        at = next((i for i, text in enumerate(texts) if text and REASON.fullmatch(text)), None)
        if at is None:
            continue
        said = texts[at + 1] if at + 1 < len(texts) else texts[1]
        yield str(texts[at]), kinds[0] if kinds else MADE[name], said or ""


def _code(node: ast.expr) -> str:
    """`Kind.NAME` or `StatusCode.NAME` as the code's name."""
    match node:
        case ast.Attribute(value=ast.Name(id="Kind"), attr=name) if name in Kind.__members__:
            return Kind[name].value
        case ast.Attribute(value=ast.Attribute(attr="StatusCode"), attr=name):
            return name
        case _:
            return ""


def _text(node: ast.expr) -> str | None:
    """A text in the code, `…` where something is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_text(orelse)}, {_text(body)}"
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "…" for part in parts)
        case _:
            return None


def document() -> str:
    """The document as it has to be."""
    rows = [
        f"| `{reason.name}` | `{reason.code}` | {reason.said.replace('|', '/')} |"
        for reason in reasons()
        if reason.code
    ]
    return PREFACE + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), "utf-8")
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)}: {len(reasons())} reasons\n")
