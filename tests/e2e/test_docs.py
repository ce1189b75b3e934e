"""Every command the documents show is run, and what they say of settings is what there is."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.stack import Stack
from services.runtime.settings import settings_table

ROOT = Path(__file__).parents[2]
KOZYR = [sys.executable, "-m", "services.cli.main"]
DOCUMENTS = ("README.md", "deploy/README.md")
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SHELL = (". ", "export ")
"""What only prepares a person's shell."""
SERVED = re.compile(r"^kozyr (up|serve|migrate|keygen)\b")
"""What is run by itself; every other `kozyr` command is run against one running system."""


def commands(document: str) -> list[str]:
    """The commands of a document's indented blocks, without their comments."""
    lines = (ROOT / document).read_text("utf-8").splitlines()
    shown = [line.strip().split("  #")[0].strip() for line in lines if line.startswith("    ")]
    return [line for line in shown if line.startswith(("make", "kozyr", *SHELL))]


def every(pattern: str) -> list[str]:
    """The documents' commands that begin so, each once, in order."""
    found = [c for document in DOCUMENTS for c in commands(document) if re.match(pattern, c)]
    return list(dict.fromkeys(found))


def environment(folder: Path) -> dict[str, str]:
    """A shell's environment with the product at hand."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "proto" / "gen")))
    home = {"KOZYR_HOME": str(folder / "home"), "KOZYR_DATA": str(folder / "data")}
    return {**os.environ, "PYTHONPATH": paths, "KOZYR_BOT_DELAY_MS": "0", **home}


async def run(command: str, folder: Path, typed: str = "", code: int = 0) -> str:
    """Run a command to its end; its output. Fails unless it ends well, or with that code."""
    process = await asyncio.create_subprocess_exec(
        *KOZYR,
        *shlex.split(command)[1:],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(folder),
        cwd=folder,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate(typed.encode())
    assert process.returncode == code, f"{command}: {out.decode()}"
    return out.decode()


def test_the_documents_show_commands() -> None:
    """The reading of the documents finds what a reader finds."""
    assert every("make")[:2] == ["make demo", "make test"]
    assert {"kozyr play durak", "kozyr replay last", "kozyr audit --all"} <= set(every("kozyr"))


@pytest.mark.parametrize("command", every("make"))
def test_every_make_target_exists(command: str) -> None:
    """`make -n` knows each target the documents name (what they do is run by other tests)."""
    done = subprocess.run(
        ["make", "-n", *command.split()[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_every_command_against_a_running_system(tmp_path: Path) -> None:
    """In the order they are shown, with a player who leaves his game early."""
    shown = [c for c in every("kozyr") if not SERVED.match(c)]
    quick = {"KOZYR_BOT_DELAY_MS": "0", "KOZYR_CHECKPOINT_MS": "100"}
    async with Stack(tmp_path / "data", environment=quick):
        for command in shown:
            out = await run(command, tmp_path, typed="q\n" * 3 if " play " in command else "")
            assert out.strip(), f"{command} says nothing"
            assert "Traceback" not in out


async def test_the_transcript_of_a_dispute_can_be_repeated(tmp_path: Path) -> None:
    """After a game of Azi that the player has left; the ruling takes more than a bot has."""
    text = (ROOT / "docs" / "disputes.md").read_text("utf-8")
    shown = re.findall(r"^    \$ (kozyr .*)$", text, re.MULTILINE)
    assert len(shown) > 10
    async with Stack(tmp_path / "data", environment={"KOZYR_BOT_DELAY_MS": "0"}):
        await run("kozyr play azi --seats 3", tmp_path, typed="q\n" * 3)
        async with asyncio.timeout(60):
            while not (await run("kozyr wallet statement --most 1", tmp_path)).count("settle"):
                await asyncio.sleep(0.2)
        said = ""
        for command in shown:
            code = 1 if " collect " in command else 0
            said = await run(command, tmp_path, code=code)
            assert said.strip(), f"{command} says nothing"
            if " approve " in command:
                assert "upheld, closed" in said
        assert "sound" in said
        evidence = json.loads((tmp_path / "evidence.json").read_text("utf-8"))
        named = re.findall(r"^\| (`.*`) \|", text, re.MULTILINE)
        parts = set(re.findall(r"`(\w+)`", " ".join(named)))
        assert parts == evidence.keys() - {"format"}


async def test_the_transcript_of_an_erasure_can_be_repeated(tmp_path: Path) -> None:
    """After a game of Azi that the player has left; what is said differs by ids and numbers."""
    text = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    shown = re.findall(r"^    \$ (kozyr .*)\n((?:    .+\n)+)", text, re.MULTILINE)
    assert len(shown) > 5
    (documented,) = {found for typed, _ in shown for found in re.findall(ID, typed)}
    async with Stack(tmp_path / "data", environment={"KOZYR_BOT_DELAY_MS": "0"}):
        await run("kozyr play azi --seats 3 --name Zurab", tmp_path, typed="q\n" * 3)
        async with asyncio.timeout(60):
            while not (await run("kozyr wallet statement --most 1", tmp_path)).count("settle"):
                await asyncio.sleep(0.2)
        player = (await run("kozyr me show", tmp_path)).split()[0]
        for typed, answer in shown:
            code = 1 if "CHIPS_LEFT" in answer else 0
            said = await run(typed.replace(documented, player), tmp_path, code=code)
            left_out = ("what games acknowledged to you",)
            lines = [line for line in said.splitlines() if not line.startswith(left_out)]
            assert {shape(line) for line in lines} == {
                shape(line) for line in answer.splitlines() if line.strip()
            }


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"[-\d]+", "0", re.sub(ID, "ID", " ".join(line.split())))


@pytest.mark.parametrize("command", every(SERVED.pattern))
async def test_every_command_that_serves(command: str, tmp_path: Path) -> None:
    """Each starts from an empty folder, says that it is ready, and stops when asked to."""
    await run("kozyr keygen", tmp_path)
    if not re.match("kozyr (up|serve)", command):
        await run(command, tmp_path)
        return
    settings = {f"KOZYR_{n}_LISTEN": "127.0.0.1:0" for n in ("LOBBY", "GAME", "AI", "WALLET")}
    arguments = shlex.split(command)[1:]
    if arguments[0] == "up":
        arguments.append("--free-ports")
    process = await asyncio.create_subprocess_exec(
        *KOZYR,
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path) | settings | {"KOZYR_DATA_FOLDER": str(tmp_path / "data")},
        cwd=tmp_path,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        said = b""
        while b"ready" not in said and b"Ctrl-C" not in said:
            line = await process.stdout.readline()
            assert line, f"{command} ended early: {said.decode()}"
            said += line
        process.send_signal(signal.SIGINT)
        await process.stdout.read()
        assert await process.wait() == 0


def test_the_engines_examples_run() -> None:
    """Both programs in engines/README.md play a game with the standard library alone."""
    text = (ROOT / "engines" / "README.md").read_text("utf-8")
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(found) == 2
    for program in found:
        done = subprocess.run(
            [sys.executable, "-S", "-c", program],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.startswith("durak: "), done.stderr


def test_the_operators_guide_lists_every_setting() -> None:
    """The table of settings is the one the settings themselves make."""
    assert (ROOT / "deploy" / "README.md").read_text("utf-8").endswith(settings_table())
