"""`kozyr play` under the toolkit's pilot: kept screens, whole games by keys, every way around."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from kozyr.lobby.v1 import lobby_pb2, talk_pb2

from engines.api import InvalidOption, RuleViolation
from services.cli.play import keys, talking
from services.cli.play.app import Wishes
from services.cli.play.friendly import friendly
from services.cli.play.hall import Hall
from services.cli.play.hall import drawn as hall_drawn
from services.cli.play.ink import THEMES
from services.cli.play.keys import Do
from services.cli.play.spans import text
from services.cli.play.table_screen import TableScreen
from services.client.variants import GAMES
from services.kernel.errors import Kind, Refused
from tests.cli.playing import (
    SIZE,
    Elsewhere,
    alone,
    asked,
    foot,
    opening,
    over,
    reached,
    shown,
    until,
)
from tests.cli.screens import (
    DRAWN,
    GOLDEN,
    PICTURES,
    SCREENS,
    THEMED,
    WIDE,
    as_ansi,
    as_picture,
    as_text,
    reach,
    wishes,
)

SEATS = {"azi": 3, "durak": 3, "rami": 2}


@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_is_as_it_was_kept(name: str) -> None:
    """To the character; `make pictures` keeps them anew."""
    assert await as_text(SCREENS[name]) == (GOLDEN / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("theme", THEMES)
async def test_a_theme_is_as_it_was_kept(theme: str) -> None:
    """One screen with its colours, and without any."""
    kept = (GOLDEN / f"{THEMED}.{theme}.ansi").read_text("utf-8")
    assert await as_ansi(theme) == kept  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DRAWN)
async def test_the_pictures_of_the_docs_are_the_screens(name: str) -> None:
    """A picture shows what the program shows today, and needs nothing from elsewhere."""
    kept = (PICTURES / f"{name}.svg").read_text("utf-8")
    assert await as_picture(DRAWN[name]) == kept
    assert set(re.findall(r"https?://[^\s\"']+", kept)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    }


@pytest.mark.parametrize("game", GAMES)
async def test_a_whole_game_is_played_by_keys_and_the_next_one_too(game: str) -> None:
    """From the command line's table to the result, and on with `r`."""
    options = {"target": "20"} if game == "rami" else {}
    asked_for = Wishes(opening=opening(game, SEATS[game], **options))
    async with shown(alone(), asked_for) as pilot:
        seen = await reached(pilot, over)
        assert "── result ──" in seen
        assert "(you)" in seen
        await pilot.press("r")
        await until(pilot, asked)


@pytest.mark.parametrize("name", ["azi_bidding", "durak_defence", "rami_draw"])
async def test_every_key_at_the_foot_does_something(name: str) -> None:
    """No dead keys: each one that is offered changes the screen."""
    kept = SCREENS[name]
    async with shown(alone(), wishes(kept)) as pilot:
        offered = re.findall(r"(\S+) [a-z ]+?(?:  |$)", foot(await reach(pilot, kept)))
    assert {"?", "q"} <= set(offered)
    for key in offered:
        async with shown(alone(), wishes(kept)) as pilot:
            before = await reach(pilot, kept)
            await pilot.press("question_mark" if key == "?" else key)
            await until(pilot, lambda seen, was=before: seen != was)  # type: ignore[misc]


async def test_cards_are_played_by_the_mouse() -> None:
    """A click on a card that can be played plays it; a click on a key is that key."""
    kept = SCREENS["durak_attack"]
    async with shown(alone(), wishes(kept)) as pilot:
        seen = await reach(pilot, kept)
        row, column = _place(seen, re.compile(r"│(..)│"))
        card = seen.splitlines()[row][column + 1 : column + 3]
        await pilot.click(offset=(column + 1, row))
        seen = await until(pilot, lambda now: f"Ann attacks with {card}" in now)
        row, column = _place(seen, re.compile(r"\? help"))
        await pilot.click(offset=(column + 3, row))
        await until(pilot, lambda now: now.startswith(" Keys"))


def _place(seen: str, wanted: re.Pattern[str]) -> tuple[int, int]:
    """The row and column of it, in the last row that has it."""
    rows = [(row, wanted.search(said)) for row, said in enumerate(seen.splitlines())]
    places = [(row, found.start()) for row, found in rows if found]
    return places[-1]


async def test_the_way_through_the_lobby_without_a_server() -> None:
    """Three tables wait; Enter sits down, `q` and `y` lead back, `n` opens one of one's own."""
    async with shown(alone()) as pilot:
        seen = await until(pilot, lambda now: "without a server" in now and "Durak" in now)
        assert all(game.capitalize() in seen for game in GAMES)
        await pilot.press("down", "enter")
        assert "Durak · bout" in await until(pilot, asked)
        await pilot.press("q", "y")
        await until(pilot, lambda now: "without a server" in now)
        await pilot.press("n")
        await until(pilot, lambda now: now.startswith(" New table"))
        await pilot.press("down", "3", "down", "right", "enter")
        seen = await until(pilot, lambda now: "Durak · bout" in now)
        assert "(hard bot)" in seen
        assert "Davit" not in seen


async def test_the_form_follows_the_game_and_keeps_to_its_bounds() -> None:
    """Another game brings its own options; numbers typed too large are brought back."""
    async with shown(alone()) as pilot:
        await until(pilot, lambda now: "Durak" in now)
        await pilot.press("n")
        seen = await until(pilot, lambda now: now.startswith(" New table"))
        assert "Blind" in seen
        await pilot.press("left")
        seen = await until(pilot, lambda now: "← Rami →" in now)
        assert "Blind" not in seen
        await pilot.press("down", "9", "9", "up")
        seen = await until(pilot, lambda now: "← Rami →" in now)
        assert re.search(r"Seats +4$", seen, re.MULTILINE)
        await pilot.press("escape")
        await until(pilot, lambda now: "without a server" in now)


@pytest.mark.parametrize(
    ("language", "said"), [("pt-BR", "Objetivo"), ("ka", "მიზანი"), ("de", "Goal")]
)
async def test_the_rules_are_read_in_ones_language(language: str, said: str) -> None:
    """What ListVariants tells, page by page; Esc leads back."""
    async with shown(alone(), Wishes(language=language)) as pilot:
        await until(pilot, lambda now: "Durak" in now)
        await pilot.press("down", "g")
        first = await until(pilot, lambda now: said in now)
        await pilot.press("space")
        await until(pilot, lambda now: now != first)
        await pilot.press("end", "escape")
        await until(pilot, lambda now: "without a server" in now)


async def test_the_help_names_every_key_there_is() -> None:
    """All of a game's keys, those of every game and those of everywhere."""
    for game in GAMES:
        async with shown(alone(), Wishes(opening=opening(game, 2)), (80, 60)) as pilot:
            await until(pilot, asked)
            await pilot.press("question_mark")
            seen = await until(pilot, lambda now: now.startswith(" Keys"))
            for key in (*keys.OF_GAMES[game], *keys.PLAYING, *keys.TALKING, *keys.EVERYWHERE):
                assert key.means in seen


def test_no_key_means_two_things_at_once() -> None:
    """In each place every key leads to one thing."""
    for game in GAMES:
        for tables in (
            (keys.OF_GAMES[game], keys.PLAYING, keys.TALKING, keys.EVERYWHERE, keys.MOVING),
            (keys.BETWEEN, keys.TALKING, keys.EVERYWHERE),
            (keys.LOBBY, keys.EVERYWHERE),
        ):
            names = [name for table in tables for key in table for name in key.names]
            doubled = {name for name in names if names.count(name) > 1}
            assert doubled <= {"enter", "tab"}, (game, doubled)


async def test_a_small_screen_and_a_changing_one_do_no_harm() -> None:
    """Whatever the size, it is drawn, down to a few characters, and back."""
    async with shown(alone(), Wishes(opening=opening("rami", 4))) as pilot:
        before = await until(pilot, asked)
        for size in ((40, 12), (10, 4), (1, 1), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert await until(pilot, asked) == before


async def test_a_hint_names_a_move_and_marks_its_cards() -> None:
    """`i` asks a strong bot, and says why in this terminal's signs."""
    async with shown(alone(), Wishes(opening=opening("azi", 2))) as pilot:
        await reached(pilot, lambda now: bool(re.search(r"lead|Follow", now.splitlines()[-2])))
        await pilot.press("i")
        seen = await until(pilot, lambda now: "A bot would play" in now)
        assert re.search(r"[0-9]?\*", seen.splitlines()[-3])


async def test_colours_can_be_changed_while_playing() -> None:
    """F2 goes through all themes and back."""
    async with shown(alone(), Wishes(theme="dark")) as pilot:
        app: object = pilot.app
        for theme in ("light", "none", "dark"):
            await pilot.press("f2")
            assert getattr(app, "colours") == theme  # noqa: B009


@pytest.mark.parametrize("answer", ["enter", "escape", "g"])
async def test_who_is_in_a_game_is_asked_back(answer: str) -> None:
    """Enter goes on with it, `g` gives it up, Esc leaves it for now."""
    session = Elsewhere()
    async with shown(session) as pilot:
        await until(pilot, lambda now: "You are playing Durak. Come back?" in now)
        await pilot.press(answer)
        wanted: dict[str, Callable[[str], bool]] = {
            "enter": asked,
            "escape": lambda now: "Come back" not in now,
            "g": lambda now: "You have left the game." in now,
        }
        await until(pilot, wanted[answer])
        assert session.left == (answer == "g")


@pytest.mark.parametrize(("when_cut", "left"), [("keep", 0), ("leave", 1)])
async def test_a_cut_connection_leaves_the_seat_as_was_asked_for(when_cut: str, left: int) -> None:
    """It is kept, or given up before the end."""
    session = Elsewhere()
    async with shown(session, Wishes(when_cut=when_cut)) as pilot:  # type: ignore[arg-type]
        await until(pilot, lambda now: "Come back?" in now)
        await pilot.press("enter")
        await until(pilot, asked)
        app: object = pilot.app
        await getattr(app, "cut")()  # noqa: B009
        assert session.left == left
        assert getattr(app, "seat_kept") == (not left)  # noqa: B009


async def test_keeping_the_seat_ends_the_program_and_giving_it_up_does_not() -> None:
    """`k` goes away with the seat kept; `g` leaves for good and leads back to the lobby."""
    session = Elsewhere()
    async with shown(session) as pilot:
        await until(pilot, lambda now: "Come back?" in now)
        await pilot.press("enter")
        await until(pilot, asked)
        await pilot.press("q", "g")
        await until(pilot, lambda now: now.startswith(" Kozyr"))
        assert session.left == 1
        assert not [s for s in pilot.app.screen_stack if isinstance(s, TableScreen)]


class Restless(Elsewhere):
    """A session from which, once it is told to, something new comes in every turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """Somebody talks without end."""
        await self.begun.wait()
        while True:
            yield talk_pb2.TalkLine(display_name="Bob", text="and another thing")
            await asyncio.sleep(0)


@pytest.mark.parametrize("keys", [("q", "g"), ("q", "k"), ("question_mark", "q")])
async def test_news_that_come_while_a_screen_goes_do_no_harm(keys: Sequence[str]) -> None:
    """Whichever way one goes: back to the lobby, out of the program, or from above the table."""
    session = Restless()
    async with shown(session) as pilot:
        await until(pilot, lambda now: "Come back?" in now)
        await pilot.press("enter")
        await until(pilot, asked)
        await pilot.press(*keys[:-1])
        session.begun.set()
        await pilot.press(keys[-1])
    assert not pilot.app.return_code


@pytest.mark.parametrize("size", [SIZE, WIDE])
async def test_people_talk_at_a_table(size: tuple[int, int]) -> None:
    """A line is typed or an emote chosen; what others say stands among what happens."""
    session = Elsewhere()
    async with shown(session, size=size) as pilot:
        await until(pilot, lambda now: "Come back?" in now)
        await pilot.press("enter")
        await until(pilot, asked)
        await pilot.press("c", *"well q?", "enter")
        await until(pilot, lambda now: "Ann: well q?" in now)
        await pilot.press("e", "4")
        await until(pilot, lambda now: "Ann: Good game!" in now)
        session.lines.put_nowait(talk_pb2.TalkLine(display_name="Bob", text="[bold]hi[/]"))
        await until(pilot, lambda now: "Bob: [bold]hi[/]" in now)
        await pilot.press("c", *"/mute Nobody", "enter")
        await until(pilot, lambda now: "Nobody here is called Nobody." in now)


async def test_a_host_sends_people_away_and_mutes_them() -> None:
    """Between games `k` asks whom; /mute names a person at the table."""
    session = Elsewhere()
    async with shown(session) as pilot:
        await until(pilot, lambda now: "Come back?" in now)
        session._table.state = lobby_pb2.TABLE_STATE_WAITING
        session._table.seats[1].CopyFrom(
            lobby_pb2.TableSeat(seat=1, player_id="bob", display_name="Bob")
        )
        pilot.app.push_screen(TableScreen(session, "alone"))
        await pilot.press("escape")
        await until(pilot, lambda now: "k send away" in now)
        await pilot.press("k")
        await until(pilot, lambda now: "Whom do you send away?" in now)
        await pilot.press("1", "c", *"/mute bob", "enter")
        await until(pilot, lambda now: "You hear Bob no more." in now)
        await pilot.press("c", *"/unmute bob", "enter")
        await until(pilot, lambda now: "You hear Bob again." in now)
        assert session.done == ["kick bob", "mute bob", "unmute bob"]


def test_every_emote_has_words_and_a_key() -> None:
    """All that the contract has can be shown and is understood."""
    emotes = set(talk_pb2.Emote.values()) - {talk_pb2.EMOTE_UNSPECIFIED}
    assert set(talking.EMOTES) == emotes
    assert len(set(talking.EMOTE_KEYS)) == len(emotes)


def test_the_lobby_lists_tables_of_a_game_and_those_with_a_free_seat() -> None:
    """Narrowed by game and by free seats, and all of it in 80 columns."""
    tables = tuple(_table(game, taken) for game in GAMES for taken in (1, 2))
    hall = Hall("Ann", tables, known=True)
    assert len(_rows(hall)) == 6
    assert len(_rows(hall.next_game())) == 2
    assert len(_rows(Hall("Ann", tables, known=True, free=True))) == 3
    assert "No table is open here." in _all(Hall("Ann", known=True))
    assert hall.moved(99).chosen == tables[-1]


def _table(game: str, taken: int) -> lobby_pb2.Table:
    seats = [
        lobby_pb2.TableSeat(seat=n, player_id=f"p{n}" if n < taken else "", display_name="Nino")
        for n in range(2)
    ]
    return lobby_pb2.Table(
        table_id=f"{game} {taken}",
        host_id="p0",
        rules=opening(game, 2).rules,
        seats=seats,
        state=lobby_pb2.TABLE_STATE_WAITING,
    )


def _all(hall: Hall) -> str:
    lines = [text(line) for line in hall_drawn(hall, 80, 24)]
    assert {len(line) for line in lines} == {80}
    return "\n".join(lines)


def _rows(hall: Hall) -> Sequence[str]:
    return [line for line in _all(hall).splitlines() if "Nino" in line]


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (RuleViolation("MUST_FOLLOW_SUIT", "AZI-27"), "Follow suit"),
        (RuleViolation("A_NEW_REASON", "AZI-9"), "A new reason."),
        (InvalidOption("min_bet", "must be at least 1"), "min bet must be at least 1."),
        (Refused(Kind.UNAVAILABLE, "DOWN", "no"), "The server does not answer"),
        (Refused(Kind.EXHAUSTED, "RATE", "too fast", retry_after_ms=2_000), "Try again in 2 s."),
        (Refused(Kind.INVALID, "X", ""), "X."),
    ],
)
def test_a_refusal_is_one_friendly_line(
    refusal: Refused | RuleViolation | InvalidOption, said: str
) -> None:
    """A sentence without codes, and when to try again."""
    line = friendly(refusal)
    assert said in line
    assert line.endswith(".")
    assert "\n" not in line


def test_every_rule_that_can_refuse_a_player_has_words() -> None:
    """Each reason an engine raises is told in words of its own."""
    from pathlib import Path

    from services.cli.play.friendly import SAID

    raised = {
        reason
        for path in Path("engines").rglob("rules.py")
        for reason in re.findall(r'RuleViolation\(\s*"([A-Z_]+)"', path.read_text("utf-8"))
    }
    assert len(raised) > 20
    assert raised - {"MALFORMED"} <= SAID.keys()


def test_what_a_key_does_is_written_once() -> None:
    """Each thing to do has a key somewhere, and a short label."""
    tables = (*keys.OF_GAMES.values(), keys.EVERYWHERE, keys.MOVING, keys.LOBBY, keys.BETWEEN)
    more = (keys.PLAYING, keys.TALKING, keys.READING, keys.FORM)
    known = {key.do for table in (*tables, *more) for key in table}
    assert known == set(Do)
