"""`kozyr rules`: the rules at the terminal."""

from pathlib import Path

import pytest

from services.cli.main import main
from services.cli.outcome import USAGE
from services.cli.rules import WIDTH
from services.client.variants import GAMES

GOLDEN = Path(__file__).parent / "golden/rules_durak_pt.txt"


def test_rules_are_printed_in_the_language_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Durak in Portuguese, to the letter."""
    assert main(["rules", "durak", "--language", "pt-BR"]) == 0
    assert capsys.readouterr().out == GOLDEN.read_text("utf-8")


def test_a_second_choice_is_taken_and_else_english(capsys: pytest.CaptureFixture[str]) -> None:
    """Tags are tried in the order given."""
    main(["rules", "rami", "--language", "de", "--language", "ka"])
    assert capsys.readouterr().out.startswith("რამი · rami 1.1.0 · 2–4\n")
    main(["rules", "rami", "--language", "de"])
    assert capsys.readouterr().out.startswith("Rami · rami 1.1.0 · 2–4\n\nGoal\n")


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("language", ["en", "pt", "ka"])
def test_no_line_is_wider_than_a_terminal(
    game: str, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """78 columns; an option and its default are not parted."""
    main(["rules", game, "--language", language])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= WIDTH
    assert "\xa0" not in said
    assert [line for line in said.splitlines() if line.endswith((" =", "(", "="))] == []


def test_a_game_there_is_not_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the games that there are."""
    with pytest.raises(SystemExit) as ended:
        main(["rules", "poker"])
    assert ended.value.code == USAGE
    assert "azi" in capsys.readouterr().err
