"""What docs/clients.md shows: every program runs as it stands there, every table is true."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from services.cli.stack import Stack
from services.runtime.connection import SERVICE_CONFIG
from services.runtime.settings import Settings
from tests import reasons
from tests.e2e.house import FAST
from tests.verifier.node import NODE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "clients.md").read_text("utf-8")
BOUND_SECONDS = 120.0
LINES_MAX = 30
ENDED = r"STAGE_FINISHED at version \d+\n"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def shown(language: str) -> list[str]:
    """The document's blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A running system for all programs."""
    folder = tmp_path_factory.mktemp("clients")
    async with Stack(folder / "data", environment=FAST) as running:
        yield running


async def run(stack: Stack, folder: Path, *command: str | Path) -> str:
    """What a program says that runs against the system; fails unless it ends well."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), str(NODE.parent)))
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "proto" / "gen"))),
        "KOZYR_HOME": str(folder),
        "KOZYR_CONTRACT": str(folder / "kozyr.json"),
        "KOZYR_KEY_FOLDER": str(stack.settings.keys()),
        "KOZYR_LOBBY_ADDRESS": stack.address("lobby"),
        "KOZYR_GAME_ADDRESS": stack.address("game"),
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(BOUND_SECONDS):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert not errors, errors.decode()
    return out.decode()


async def test_a_bot_in_thirty_lines_plays_a_game(stack: Stack, tmp_path: Path) -> None:
    """The program in Python signs up, sits down and plays to the end; the lines that count."""
    (program,) = shown("python")
    said = [line for line in program.splitlines() if line.strip()]
    assert len(said) <= LINES_MAX
    assert re.fullmatch(ENDED, await run(stack, tmp_path, sys.executable, "-c", program))


async def test_the_same_in_javascript(stack: Stack, tmp_path: Path) -> None:
    """With nothing but Node, and the contract that buf writes down."""
    script = shown("sh")[0].replace("kozyr.json", f"{tmp_path}/kozyr.json")
    assert re.fullmatch(ENDED, await run(stack, tmp_path, "bash", "-euc", script))


async def test_the_same_by_hand(stack: Stack, tmp_path: Path) -> None:
    """With buf curl: signed up, sat down, a move made, the stream looked at."""
    script = shown("sh")[1].replace("view.json", f"{tmp_path}/view.json")
    said = await run(stack, tmp_path, "bash", "-uc", script)
    assert '"turn"' in said
    assert '"snapshot"' in said


async def test_the_service_config_is_shown_as_it_is() -> None:
    """The document's copy is the file."""
    assert shown("json") == [SERVICE_CONFIG.read_text("utf-8")]


async def test_the_reasons_are_those_of_the_code() -> None:
    """docs/reasons.md is what `python -m tests.reasons` writes; what clients.md names is there."""
    assert reasons.DOCUMENT.read_text("utf-8") == reasons.document(), "run: python -m tests.reasons"
    known = {reason.name for reason in reasons.reasons()}
    codes = {reason.code for reason in reasons.reasons()}
    assert {"STALE_TURN", "MUST_FOLLOW_SUIT", "UNKNOWN_RULES", "STREAM_GAP"} <= known
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", TEXT))
    others = {name for name in named if name.startswith(("STAGE_", "KOZYR_"))}
    assert named - others <= known | codes
    table = TEXT[TEXT.index("| code |") : TEXT.index("All reasons there are")]
    assert codes <= set(re.findall(r"`([A-Z_]+)`", table))


async def test_the_limits_are_those_of_the_settings() -> None:
    """Each with its default."""
    rows = re.findall(r"^\| `KOZYR_(\w+)` \| (\S+) \|", TEXT, re.MULTILINE)
    assert len(rows) > 3
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    assert [row for row in rows if float(row[1]) != defaults[row[0].lower()]] == []
