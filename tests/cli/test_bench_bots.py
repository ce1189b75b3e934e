"""`kozyr bench bots`: what a match says, and what it refuses."""

import json

import pytest

from services.cli import main


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code, and what is written."""
    code = main.main(["bench", "bots", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("game", ["azi", "durak", "rami"])
def test_a_match_says_who_played_what_came_of_it_and_how_long_was_thought(
    game: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same seed gives the same score, another one others."""
    words = ("--game", game, "--a", "normal", "--b", "easy", "--deals", "6", "--json")
    code, out, _ = told(capsys, *words, "--seed", "3")
    result = json.loads(out)
    assert code == 0
    assert (result["game"], result["a"], result["b"]) == (game, "normal", "easy")
    assert (result["seats"], result["deals"], result["seed"]) == (2, 6, 3)
    low, high = result["ci95"]
    assert low <= result["score"] <= high
    assert 0 < result["ms_p50"] <= result["ms_p99"]
    again = json.loads(told(capsys, *words, "--seed", "3")[1])
    assert (again["score"], again["ci95"]) == (result["score"], result["ci95"])


def test_two_equal_levels_share_a_duplicate_match_evenly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each deal is played from both seats, and the same bots play it the same way."""
    words = ("--game", "durak", "--a", "easy", "--b", "easy", "--deals", "8", "--json")
    result = json.loads(told(capsys, *words)[1])
    assert result["score"] == 0.5
    assert result["ci95"] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--a", "easy", "--b", "easy"), "--game"),
        (("--game", "durak", "--b", "easy"), "--a"),
        (("--game", "rami", "--a", "easy", "--b", "easy", "--seats", "5"), "--seats"),
        (("--game", "azi", "--a", "easy", "--b", "easy", "--deals", "0"), "--deals"),
        (("--game", "azi", "--a", "hard", "--b", "easy", "--worlds", "0"), "--worlds"),
        (("--game", "azi", "--a", "hard", "--b", "easy", "--cpu-ms", "-1"), "--cpu-ms"),
    ],
)
def test_what_makes_no_match_is_refused_by_name(
    words: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and the argument's name."""
    code, _, err = told(capsys, *words)
    assert code == 2
    assert named in err
