"""A service as its own process: ready line, signals, exit codes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.runtime.keys import ensure_keys
from tests.runtime.echo import SECRET

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from services.runtime.server import run
from tests.runtime.echo import Echo, dying
echo = Echo()
if sys.argv[1:] == ["dying"]:
    echo.tasks["worker"] = dying
sys.exit(run("wallet", echo.compose))
"""


@contextmanager
def process(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The test service in a process of its own, with `KOZYR_` variables; killed at the end."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KOZYR_")}
    given = {"DATA_FOLDER": str(folder), "WALLET_LISTEN": "127.0.0.1:0"} | variables
    environment = kept | {f"KOZYR_{name}": value for name, value in given.items()}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'proto' / 'gen'}"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_says_where_it_listens_and_stops_on_a_signal(
    tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    """One JSON line on standard output when ready; exit code 0 after SIGTERM or SIGINT."""
    ensure_keys(tmp_path / "keys")
    with process(tmp_path, EVENT_LOOP=loop) as started:
        assert started.stdout is not None
        ready = json.loads(started.stdout.readline())
        assert (ready["event"], ready["service"], ready["pid"]) == ("ready", "wallet", started.pid)
        assert int(ready["address"].removeprefix("127.0.0.1:")) > 0
        started.send_signal(number)
        out, err = started.communicate(timeout=20)
    assert (started.returncode, out) == (0, "")
    assert [json.loads(line)["event"] for line in err.splitlines()][-1] == "stopped"


def test_a_dead_task_ends_the_process_with_an_error(tmp_path: Path) -> None:
    """Exit code 1; the log names the task and not the error's text."""
    ensure_keys(tmp_path / "keys")
    with process(tmp_path, "dying") as started:
        _, err = started.communicate(timeout=20)
    assert started.returncode == 1
    assert '"task":"worker"' in err
    assert SECRET not in err


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    """Exit code 1 and a hint for whoever runs it."""
    with process(tmp_path) as started:
        out, err = started.communicate(timeout=20)
    assert (started.returncode, out) == (1, "")
    assert "no public keys" in json.loads(err.splitlines()[-1])["hint"]


def test_wrong_settings_are_named_without_their_values(tmp_path: Path) -> None:
    """Exit code 2 and a line a setting."""
    with process(tmp_path, LOG_LEVEL="loud", WALLET_LISTEN=SECRET) as started:
        _, err = started.communicate(timeout=20)
    assert started.returncode == 2
    assert "KOZYR_LOG_LEVEL: " in err
    assert "KOZYR_WALLET_LISTEN: " in err
    assert SECRET not in err


def test_a_service_can_be_ended_before_it_listens() -> None:
    """SIGTERM has a handler from the first line of `kozyr serve`: as process 1 of a container it
    would otherwise be ignored until the service is up."""
    program = (
        "import os, signal, sys\n"
        "from services.cli import serve\n"
        "class Late:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'services.runtime.server':\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sys.meta_path.insert(0, Late())\n"
        "serve.run(serve.parser().parse_args(['wallet']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'proto' / 'gen'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
