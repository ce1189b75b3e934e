"""`kozyr play` at a real pseudo-terminal: colours, signs, how much it writes, how it ends."""

import os
import re
import signal
from pathlib import Path

from tests.cli.playing import asked
from tests.cli.terminal import Terminal, terminal

OFFLINE = ("play", "durak", "--offline", "--seats", "2", "--name", "Ann", "--level", "easy")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
END_KEY = "\x1b[F"
PAINTED_MAX = 1_500
MOUSE_ON, MOUSE_OFF = "\x1b[?1000h", "\x1b[?1000l"
CURSOR_OFF, CURSOR_BACK = "\x1b[?25l", "\x1b[?25h"


def home(tmp_path: Path, **given: str) -> dict[str, str]:
    """A home of one's own, and bots that do not wait."""
    return {"KOZYR_HOME": str(tmp_path), "KOZYR_BOT_DELAY_MS": "0", **given}


def test_a_terminal_is_given_a_screen_and_gets_its_modes_back(tmp_path: Path) -> None:
    """`q` and `y` leave a game, `q` the lobby; the terminal is as it was.

    What a key changes is painted, not the whole screen: it is played over slow lines, too.
    """
    with terminal(*OFFLINE, given=home(tmp_path)) as at:
        at.until(asked)
        assert COLOUR.search(at.glass.written)
        whole = len(at.glass.written)
        at.press(END_KEY)
        at.until(lambda _: len(at.glass.written) > whole)
        assert len(at.glass.written) - whole < PAINTED_MAX
        at.press("q")
        at.until(lambda seen: "Leave the game?" in seen)
        at.press("y")
        at.until(lambda seen: "without a server" in seen)
        at.press("q")
        assert at.ended() == 0
        assert at.modes() == at.before
        shown = at.glass.written
        assert shown.rindex(MOUSE_OFF) > shown.rindex(MOUSE_ON)
        assert shown.rindex(CURSOR_BACK) > shown.rindex(CURSOR_OFF)
    assert not list(tmp_path.iterdir())


def test_no_colour_means_none_at_all(tmp_path: Path) -> None:
    """With NO_COLOR not one sequence sets a colour, and suits are told by signs."""
    with terminal(*OFFLINE, given=home(tmp_path, NO_COLOR="1")) as at:
        seen = at.until(asked)
        assert COLOUR.search(at.glass.written) is None
        assert re.search("[6-9TJQKA][♠♥♦♣]", seen)


def test_a_locale_without_the_signs_gets_letters(tmp_path: Path) -> None:
    """In a locale that is not UTF-8 all that is written is ASCII."""
    given = home(tmp_path, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    with terminal(*OFFLINE, given=given) as at:
        seen = at.until(asked)
        assert at.glass.written.isascii()
        assert re.search(r"\|[6-9TJQKA][SHDC]\|", seen)
        assert "+--+" in seen


def test_a_signal_ends_it_in_good_order(tmp_path: Path) -> None:
    """The terminal gets its modes back, and the exit code says that nothing went wrong."""
    with terminal(*OFFLINE, given=home(tmp_path)) as at:
        at.until(asked)
        at.process.terminate()
        assert at.ended() == 0
        assert at.modes() == at.before
        assert "Traceback" not in at.glass.written


def test_a_terminal_that_goes_away_ends_it(tmp_path: Path) -> None:
    """A cut connection leaves no process behind."""
    with terminal(*OFFLINE, given=home(tmp_path)) as at:
        at.until(asked)
        hung_up(at)
        assert at.process.wait(20) == 0


def hung_up(at: Terminal) -> None:
    """What the kernel does to who holds a terminal that is closed."""
    at.close()
    os.kill(at.process.pid, signal.SIGHUP)
