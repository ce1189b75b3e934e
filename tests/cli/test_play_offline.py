"""`kozyr play --offline`: a person or a script plays whole games with no server at all."""

from pathlib import Path

import pytest

from services.cli.outcome import USAGE
from tests.cli.talking import run, talk

GAMES = {
    "azi": ("--option", "blind_bets=true", "--option", "deal_size=4", "--seats", "4"),
    "durak": ("--seats", "2"),
    "rami": ("--option", "target=1", "--bots", "2"),
}
ENDED = {"azi": "wins the bank", "durak": "Durak, bout", "rami": "wins the match"}


def first_move(line: str) -> str | None:
    """Always the first move there is; one game is enough."""
    if line.startswith("your move"):
        return "1"
    return "q" if line.startswith("Enter plays again") else None


@pytest.mark.parametrize("tty", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("game", GAMES)
def test_a_whole_game_is_played_without_a_server(game: str, tty: bool, tmp_path: Path) -> None:
    """Typing numbers plays each game to its end, through a pipe and at a terminal."""
    code, said = talk(
        *("play", game, "--offline", "--plain", "--name", "Ann", "--level", "easy", *GAMES[game]),
        given={"KOZYR_HOME": str(tmp_path)},
        reply=first_move,
        tty=tty,
    )
    assert code == 0
    assert [line for line in said if ENDED[game] in line]
    assert "Enter plays again, q ends." in said
    assert not list(tmp_path.iterdir())


def test_moves_are_typed_in_words_and_refusals_give_the_reason(tmp_path: Path) -> None:
    """Nonsense, an illegal move, help, the table and a hint are answered; then the game goes on."""
    typed = iter(["castle", "pass", "h", "t", "?", "1", "q"])
    code, said = talk(
        *("play", "durak", "--offline", "--seats", "2", "--ascii"),
        given={"KOZYR_HOME": str(tmp_path)},
        reply=lambda line: "\n".join(typed) if line.startswith("your move") else None,
        tty=False,
    )
    text = "\n".join(said)
    assert code == 0
    assert "'castle' is no move" in text
    assert "refused: " in text
    assert "A bot would " in text
    assert "You have left the game." in said
    assert text.isascii()


def test_the_moves_are_shown_again_after_what_was_none(tmp_path: Path) -> None:
    """At a terminal nonsense, refusals, help and an empty line leave the moves in sight."""
    typed = iter(["castle", "beat 2S", "take nothing", "", "h", "q"])
    code, said = talk(
        *("play", "durak", "--offline", "--plain", "--seats", "2"),
        given={"KOZYR_HOME": str(tmp_path)},
        reply=lambda line: next(typed) if line.startswith("your move") else None,
        tty=True,
    )
    assert code == 0
    assert said[0].startswith("h tells what can be typed")
    assert "? durak is played without the 2S" in said
    assert len([line for line in said if line.startswith("your move")]) == 6


def test_the_end_of_the_input_leaves_the_game(tmp_path: Path) -> None:
    """A script that ends in mid-game leaves it, and the command ends well."""
    done = run("play", "rami", "--offline", given={"KOZYR_HOME": str(tmp_path)}, stdin="1\n")
    assert done.returncode == 0
    assert done.stdout.endswith("You have left the game.\n")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("durak", "--seats", "7"), "durak has 2 to 6 seats, not 7"),
        (("rami", "--bots", "0", "--seats", "1"), "rami has 2 to 4 seats, not 1"),
        (("azi", "--bots", "3", "--seats", "3"), "--bots: 0 to 2"),
        (("azi", "--option", "deal_size=5"), "deal_size: must be one of 3, 4"),
        (("rami", "--option", "target=much"), "target: must be a whole number"),
        (("rami", "--option", "jokers=2"), "jokers: no such option"),
        (("rami", "--option", "jokers=2"), "there are"),
        (("rami", "--option", "target"), "'target' is not NAME=VALUE"),
        (("durak", "--seats", "0"), "durak has 2 to 6 seats, not 0"),
        (("durak", "--bots", "0"), "all other seats are bots'"),
        (("durak", "--seconds", "0"), "--seconds: must be at least 1"),
        (("--plain",), "name a game: azi, durak, rami"),
    ],
)
def test_what_cannot_be_played_is_a_usage_error(
    typed: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Impossible seats and options end in one line and exit code 2."""
    done = run("play", *typed, "--offline", given={"KOZYR_HOME": str(tmp_path)})
    assert done.returncode == USAGE
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
