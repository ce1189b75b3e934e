"""The laws of the house: what holds for every file, whoever writes it."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES_MAX = 450
FORBIDDEN_NAMES = {
    *("base", "common", "container", "helper", "helpers", "impl", "manager", "misc", "mocks"),
    *("util", "utils"),
}
BINARY = {".bin", ".binpb", ".db", ".gz", ".png", ".sqlite"}
SERVICE_MODULES = {"server.py", "servicer.py"}
CALLED_BY_NAME = {"intercept_service", "on_end", "redirect_request", "render_line"} | {
    *("on_canvas_picked", "on_click", "on_key", "on_mouse_scroll_down", "on_mouse_scroll_up"),
    *("on_paste", "on_resize", "on_screen_resume"),
}
"""What a library calls of ours by its name."""
SELF = "tests/test_tidy.py"


def tracked() -> list[str]:
    """Every file of the repository, generated code aside: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    paths = listed.stdout.decode().split("\0")
    return [p for p in paths if p and not p.startswith("proto/gen/") and (ROOT / p).is_file()]


FILES = tracked()
PYTHON = [p for p in FILES if p.endswith(".py")]
TEXT = {
    p: (ROOT / p).read_text("utf-8") for p in FILES if Path(p).suffix not in BINARY and p != SELF
}


def found(pattern: str, paths: list[str] | None = None) -> list[str]:
    """Where a pattern occurs, as `path:line: text`."""
    wanted = re.compile(pattern)
    return [
        f"{path}:{number}: {line.strip()}"
        for path in (TEXT if paths is None else paths)
        if path in TEXT
        for number, line in enumerate(TEXT[path].splitlines(), start=1)
        if wanted.search(line)
    ]


def test_the_laws_see_the_repository() -> None:
    """A law over no files would hold whatever they say."""
    assert {"Makefile", "README.md", "engines/api.py", "services/__init__.py"} <= TEXT.keys()


def test_a_module_can_be_read_in_one_sitting() -> None:
    """No Python file has more than 450 lines."""
    lines = {p: len((ROOT / p).read_text("utf-8").splitlines()) for p in PYTHON}
    assert {p: n for p, n in lines.items() if n > LINES_MAX} == {}


def test_a_module_is_named_by_what_it_is_about() -> None:
    """No module or folder bears a name that would take anything."""
    vague = [
        path
        for path in PYTHON
        if {w for part in Path(path).with_suffix("").parts for w in part.split("_")}
        & FORBIDDEN_NAMES
    ]
    assert vague == []


def test_nothing_is_left_for_later() -> None:
    """No note says that something is still to be done."""
    assert found(r"\b(TODO|FIXME|XXX|HACK)\b") == []


def test_no_test_is_left_out() -> None:
    """No test is skipped or expected to fail."""
    tests = [p for p in PYTHON if p.startswith("tests/")]
    assert found(r"\bskip(if|test)?\b\s*\(|mark\.skip|xfail\b|importorskip", tests) == []


def test_a_log_that_a_test_sets_up_is_put_back() -> None:
    """A test's log is set up at one place, which puts it back: it would say things to tests after
    it. What is a process of its own does as it likes."""
    tests = [p for p in PYTHON if p.startswith("tests/") and not p.endswith("__main__.py")]
    assert found(r"\blog\.configure\(", [p for p in tests if p != "tests/logs.py"]) == []


def test_locks_hold_names_versions_and_hashes_only() -> None:
    """Every line of a lock is a pinned name or a hash: no address, no option, no remark."""
    pinned = re.compile(r"[a-z0-9][a-z0-9-]*==[A-Za-z0-9.+!]+( ; [a-z_ '!=<>.0-9A-Z()]+)? \\")
    hashed = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    for lock in (path for path in TEXT if path.startswith("requirements")):
        strange = [
            line
            for line in TEXT[lock].splitlines()
            if not (pinned.fullmatch(line) or hashed.fullmatch(line))
        ]
        assert strange == [], lock


def test_what_runs_is_what_is_tested() -> None:
    """The lock for running is part of the lock for development, to the version."""
    pins = re.compile(r"^(\S+==\S+)", re.MULTILINE)
    run, dev = (set(pins.findall(TEXT[f])) for f in ("requirements.txt", "requirements-dev.txt"))
    assert run
    assert run - dev == set()


def test_the_text_speaks_of_the_product_only() -> None:
    """No file names a place outside the repository or where it was written."""
    assert found(r"\.\./shared|/work/|/root/") == []


@pytest.mark.parametrize(
    ("package", "known"), [("engines", {"engines"}), ("verifier", {"engines", "verifier"})]
)
def test_what_runs_alone_needs_the_standard_library_only(package: str, known: set[str]) -> None:
    """An engine imports nothing else but engines, the verifier of receipts these and itself."""
    foreign = []
    for path in (p for p in PYTHON if p.startswith(f"{package}/")):
        for node in ast.walk(ast.parse(TEXT[path])):
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom():
                    names = [node.module or ""]
                case _:
                    continue
            roots = {name.split(".")[0] for name in names}
            foreign += [f"{path}: {r}" for r in roots - sys.stdlib_module_names - known]
    assert foreign == []


def test_a_service_has_the_shape_of_a_service() -> None:
    """A service with a servicer has a server, and a server has a servicer."""
    packages = {str(Path(p).parent) for p in PYTHON if re.fullmatch(r"services/\w+/\w+\.py", p)}
    others = {f"services/{name}" for name in ("kernel", "runtime", "cli", "client")}
    for package in packages - others:
        modules = {Path(p).name for p in PYTHON if str(Path(p).parent) == package}
        assert modules & SERVICE_MODULES in (set(), SERVICE_MODULES), package


def test_every_test_says_what_it_tests() -> None:
    """Each test function has a docstring that states the behaviour."""
    silent = [
        f"{path}: {node.name}"
        for path in PYTHON
        if path.startswith("tests/") and path in TEXT
        for node in ast.walk(ast.parse(TEXT[path]))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_make_does_what_the_texts_say() -> None:
    """Every target that a text or the CI names exists, and every target explains itself."""
    targets = set(re.findall(r"^([a-z-]+):", TEXT["Makefile"], re.MULTILINE))
    explained = set(re.findall(r"^([a-z-]+):.*## \S", TEXT["Makefile"], re.MULTILINE))
    assert targets == explained
    texts = [p for p in TEXT if p.endswith(".md") or p == ".ci/run"]
    named = {
        target
        for line in found(r"(^ {4}|`)make [a-z]|^make ", texts)
        for target in re.findall(r"\bmake (?:--\S+ )*([a-z-]+)", line)
    }
    assert {"test", "demo"} <= named
    assert named - targets == set()


def test_what_services_offer_is_used() -> None:
    """No function, class or property of a service is there for tests alone: each is named once more
    somewhere in what runs, or in the programs that docs/clients.md shows. What a framework finds by
    its decorator or name is not looked at."""
    running = [p for p in PYTHON if p.startswith(("engines/", "services/", "verifier/"))]
    naming = [*running, "docs/clients.md"]
    words = Counter(word for path in naming for word in re.findall(r"\w+", TEXT[path]))
    unused = [
        f"{path}: {node.name}"
        for path in running
        if not path.startswith("engines/")
        for node in ast.walk(ast.parse(TEXT[path]))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and words[node.name] == 1
        and {ast.unparse(each) for each in node.decorator_list} <= {"property", "staticmethod"}
        and node.name not in CALLED_BY_NAME
        and not node.name.startswith("__")
    ]
    assert unused == []
