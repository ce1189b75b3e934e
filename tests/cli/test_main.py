"""The command line as a whole: what it prints, and how it ends."""

import subprocess
import sys

import pytest

from services.cli import bench
from services.cli.main import COMMANDS, main
from services.cli.outcome import UNREACHABLE, USAGE, WRONG, Failure
from services.kernel.errors import invalid, unavailable


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--help` of every command says what it does and shows one example of it."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    example = said.split("example:")[1]
    assert f"kozyr {command}" in example


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`kozyr --help` has a line for each command."""
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert [c for c in COMMANDS if f"\n  {c} " not in said] == []


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`kozyr` alone shows what there is and exits 2, and so does a command there is not."""
    assert main([]) == USAGE
    assert main(["shuffle"]) == USAGE
    assert "no command 'shuffle'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (Failure("no\nsuch file"), WRONG, "kozyr bench: no such file\n"),
        (invalid("turn", "must not be negative"), WRONG, "INVALID_FIELD: turn: must not"),
        (unavailable("PEER_UNAVAILABLE", "it cannot be reached"), UNREACHABLE, "PEER_UNAVAILABLE"),
    ],
)
def test_a_failure_is_one_line_with_its_reason(
    raised: Exception,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What goes wrong is one line on standard error and an exit code that tells what kind."""

    def broken(_: object) -> int:
        raise raised

    monkeypatch.setattr(bench, "run", broken)
    assert main(["bench"]) == code
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """`kozyr … | head -1` ends quietly."""
    typed = [sys.executable, "-m", "services.cli.main", "bench", "--seconds", "0.01", "--json"]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert "Traceback" not in said
    assert "Exception" not in said
