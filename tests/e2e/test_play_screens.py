"""`kozyr play` on screens against the four services: whole games by keys, and coming back."""

import signal
from collections.abc import Iterator

import pytest

from services.cli.outcome import FINE
from tests.cli.playing import asked, next_key, over
from tests.cli.terminal import Terminal, terminal
from tests.e2e.test_command_line import House

GAMES = {"azi": "2", "durak": "2", "rami": "2"}
OPTIONS = {"rami": ("--option", "target=1")}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running system for the module."""
    up = House(tmp_path_factory.mktemp("screens"))
    try:
        yield up
    finally:
        up.kill()


def go_home(at: Terminal) -> None:
    """From a game that has ended, or was left, through the lobby and out."""
    at.until(lambda now: now.startswith(" Kozyr · Ann"))
    at.press("q")
    assert at.ended() == FINE, at.glass.screen


@pytest.mark.parametrize("game", GAMES)
def test_a_whole_game_is_played_on_screens_by_keys(game: str, house: House) -> None:
    """From the command line to the result at a real terminal, and `q` leads to the lobby."""
    typed = ("play", game, "--seats", GAMES[game], "--level", "easy", "--name", "Ann")
    with terminal(*typed, *OPTIONS.get(game, ()), given=house.given) as at:
        while not over(seen := at.until(lambda now: asked(now) or over(now))):
            at.press(next_key(seen))
            at.until(lambda now, before=seen: now != before)  # type: ignore[misc]
        assert "(you)" in seen
        at.press("q")
        go_home(at)


def test_a_game_that_was_cut_off_is_come_back_to(house: House) -> None:
    """The seat is kept; the next `kozyr play` asks, shows what had happened, and goes on. What is
    said at the table is heard there, also by somebody who has come to watch, and who is led back
    when nobody is left there."""
    with terminal("play", "durak", "--seats", "2", "--name", "Ann", given=house.given) as at:
        at.until(asked)
        at.process.send_signal(signal.SIGHUP)
        assert at.ended() == FINE
        assert "Your seat stays yours" in at.glass.screen
    typed = ("play", "--name", "Bob", "--profile", "bob")
    with (
        terminal("play", given=house.given) as at,
        terminal(*typed, given=house.given) as bobs,
    ):
        bobs.until(lambda now: "w watch" in now)
        bobs.press("w")
        bobs.until(lambda now: "You watch this game." in now)
        at.until(lambda now: "You are playing Durak. Come back?" in now)
        at.press("enter")
        assert "The cards are dealt" in at.until(asked)
        at.press("chello\r")
        at.until(lambda now: "Ann: hello" in now)
        bobs.until(lambda now: "Ann: hello" in now)
        at.press("q")
        at.until(lambda now: "give the game up for good" in now)
        at.press("g")
        go_home(at)
        bobs.until(lambda now: "── result ──" in now and "The table is closed." in now)
        bobs.press("q")
        bobs.until(lambda now: now.startswith(" Kozyr · Bob") and "The table is closed." in now)
        bobs.press("q")
        assert bobs.ended() == FINE
