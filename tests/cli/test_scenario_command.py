"""`kozyr scenario` from the outside: output and exit codes."""

import json
from pathlib import Path

import pytest

from services.cli.main import main
from services.cli.outcome import FINE, USAGE, WRONG

CASES = sorted((Path(__file__).parents[1] / "engines/cases").glob("*.jsonl"))

REFUSED = {
    "id": "beat with nothing to beat",
    "game": "durak",
    "setup": {"hands": [["7S"], ["8S"]], "talon": [], "trump": "H", "attacker": 0, "out": []},
    "moves": [[1, "beat", "8S"]],
    "expect": {"refused": [0, "WRONG_PHASE"]},
}


def written(folder: Path, *scenarios: object) -> str:
    """A file of these scenarios."""
    file = folder / "cases.jsonl"
    file.write_text("// a remark\n" + "\n".join(json.dumps(s) for s in scenarios) + "\n", "utf-8")
    return str(file)


def test_the_games_own_cases_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """All cases of the three games pass, and the command says how many they were."""
    assert len(CASES) >= 3
    assert main(["scenario", *map(str, CASES)]) == FINE
    assert capsys.readouterr().out.endswith(" scenarios, 0 failed\n")


def test_a_scenario_that_fails_says_expected_and_actual(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong expectation prints its name, what was expected and what came, and exits 1."""
    wrong = {**REFUSED, "expect": {"refused": [0, "MUST_ATTACK"]}}
    assert main(["scenario", written(tmp_path, REFUSED, wrong)]) == WRONG
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "MUST_ATTACK" in lines[0]
    assert "WRONG_PHASE" in lines[0]
    assert lines[1] == "2 scenarios, 1 failed"


def test_json_prints_what_each_came_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints one object a scenario and judges nothing."""
    wrong = {**REFUSED, "expect": {"refused": []}}
    assert main(["scenario", "--json", written(tmp_path, wrong)]) == FINE
    came = json.loads(capsys.readouterr().out)
    assert came["refused"] == [[0, "WRONG_PHASE"]]
    assert {"id", "events", "legal", "hands", "attacker"} <= came.keys()


@pytest.mark.parametrize("text", ["{", "[]", '{"id": "x", "game": "whist"}'])
def test_a_file_that_makes_no_sense_is_a_usage_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken files are named in one line, with exit code 2."""
    file = tmp_path / "bad.jsonl"
    file.write_text(text, "utf-8")
    assert main(["scenario", str(file)]) == USAGE
    assert "bad.jsonl" in capsys.readouterr().err


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is named, with exit code 2."""
    assert main(["scenario", "nowhere.jsonl"]) == USAGE
    assert "nowhere.jsonl: No such file" in capsys.readouterr().err


def test_one_senseless_scenario_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is judged all the same; the exit code says that a scenario made no sense."""
    senseless = {**REFUSED, "id": "odd", "moves": [[1, "beet", "8S"]]}
    wrong = {**REFUSED, "id": "wrong", "expect": {}}
    assert main(["scenario", written(tmp_path, senseless, wrong)]) == USAGE
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("wrong: refused: expected []")
    assert "odd: moves[0]" in said.err
