"""What breaks a frozen contract is caught: in what is stored as in what is spoken.

A message that would be read as another one later is changed in a copy of the contract, which is
then compared with each frozen release by the command of `make check`.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

ROOT = Path(__file__).parents[2]
IMAGES = sorted((ROOT / "tests" / "fixtures").glob("*/contract.binpb"))
COMMAND = "buf breaking --against"
FIELD = re.compile(r"^  (?P<type>(?:repeated |optional )?[\w.]+) (?P<name>\w+) = (?P<number>\d+);$")
MEMBER = re.compile(r"^  (?P<name>[A-Z_0-9]+) = (?P<number>[1-9]\d*);$")


def frozen(image: Path) -> list[str]:
    """The files of a frozen contract."""
    files = FileDescriptorSet.FromString(image.read_bytes()).file
    return sorted(file.name for file in files if file.name.startswith("kozyr/"))


def renumbered(line: re.Match[str]) -> str:
    """The field under another number."""
    return line[0].replace(f"= {line['number']};", "= 777;")


def retyped(line: re.Match[str]) -> str:
    """The field as one of another type."""
    other = "string" if line["type"] == "bytes" else "bytes"
    return line[0].replace(line["type"], other, 1)


def removed(line: re.Match[str]) -> str:
    """No such field, and its number free for another."""
    return ""


BREAKS: dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = {
    "field renumbered": (FIELD, renumbered),
    "field retyped": (FIELD, retyped),
    "field removed": (FIELD, removed),
    "member renumbered": (MEMBER, renumbered),
    "member removed": (MEMBER, removed),
}


def broken(text: str, name: str) -> str:
    """The text of a file with the first thing in it broken that can be; the same if none can."""
    pattern, change = BREAKS[name]
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines) if pattern.fullmatch(line)), None)
    if at is not None:
        found = pattern.fullmatch(lines[at])
        lines[at] = "" if found is None else change(found)
    return "\n".join(lines) + "\n"


def cases() -> list[tuple[Path, str, str]]:
    """Every frozen file with a way to break it; those of stored events with every one there is."""
    found = []
    for image in IMAGES:
        for file in frozen(image):
            ways = [name for name in BREAKS if broken(source(file), name) != source(file)]
            found += [(image, file, name) for name in (ways if "/events/" in file else ways[:1])]
    return found


def source(file: str) -> str:
    """A file of the contract as it is now."""
    return (ROOT / "proto" / file).read_text("utf-8")


def compared(folder: Path, image: Path) -> tuple[int, str]:
    """What the check says of the contract in a folder: exit code and output."""
    buf, *arguments = COMMAND.split()
    done = subprocess.run(
        [Path(sys.executable).parent / buf, *arguments, image],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the contract and of how it is checked."""
    shutil.copytree(ROOT / "proto" / "kozyr", tmp_path / "proto" / "kozyr")
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def test_the_check_is_the_one_of_make() -> None:
    """`make check` compares with every release that was frozen, by this command."""
    assert IMAGES
    line = f"for image in tests/fixtures/*/contract.binpb; do $(BIN)/{COMMAND} $$image"
    assert line in (ROOT / "Makefile").read_text("utf-8")


def test_stored_events_are_part_of_what_is_compared() -> None:
    """Each file of events there is has its place among the cases, and so has each frozen file."""
    stored = {
        str(path.relative_to(ROOT / "proto")) for path in ROOT.glob("proto/kozyr/*/events/*/*")
    }
    assert stored
    for image in IMAGES:
        seeded = {file for given, file, _ in cases() if given == image}
        assert seeded == set(frozen(image))
        assert stored <= seeded


@pytest.mark.parametrize("image", IMAGES, ids=[image.parent.name for image in IMAGES])
def test_the_contract_as_it_is_breaks_nothing(copied: Path, image: Path) -> None:
    """What the following cases change is the only difference that is complained about."""
    assert compared(copied, image) == (0, "")


@pytest.mark.parametrize(
    ("image", "file", "name"),
    cases(),
    ids=[f"{i.parent.name} {f.removeprefix('kozyr/')} {n}" for i, f, n in cases()],
)
def test_a_break_is_caught(copied: Path, image: Path, file: str, name: str) -> None:
    """In any file: a number or a type changed, something removed. The check names the file."""
    (copied / "proto" / file).write_text(broken(source(file), name), "utf-8")
    code, said = compared(copied, image)
    assert code
    assert f"proto/{file}:" in said
