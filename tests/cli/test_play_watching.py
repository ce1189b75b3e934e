"""`kozyr play` for somebody without a seat, and for everybody at a table that is no more."""

import pytest
from kozyr.lobby.v1 import lobby_pb2, talk_pb2

from services.cli.play.app import PlayApp
from services.kernel.errors import Kind, Refused
from tests.cli.playing import SIZE, Onlooker, Play, foot, looked_on, screen, shown, until
from tests.cli.screens import GOLDEN, WATCHED, lobby_of_tables, watched

CLOSED = lobby_pb2.TABLE_STATE_CLOSED


@pytest.mark.parametrize("game", WATCHED)
async def test_a_watched_game_is_as_it_was_kept(game: str) -> None:
    """The table, what happens, who is waited for; no hand, and no key to play with."""
    assert await watched(game) == (GOLDEN / f"watch_{game}.txt").read_text("utf-8")


async def test_the_lobby_is_as_it_was_kept() -> None:
    """With a key to watch where that is allowed."""
    assert await lobby_of_tables() == (GOLDEN / "lobby.txt").read_text("utf-8")


def in_lobby(seen: str) -> bool:
    """Whether the lobby is shown."""
    return seen.startswith(" Kozyr · Bob")


async def come_to_watch(pilot: Play) -> None:
    """From the lobby to Ann's table."""
    await until(pilot, lambda now: "w watch" in foot(now))
    await pilot.press("w")
    await until(pilot, lambda now: "You watch this table" in now)


async def test_who_watches_touches_nothing_and_leaves_nothing_behind() -> None:
    """Keys and clicks of players do nothing, between games and in one; what is said is heard, and
    nothing can be said. `q` leads back to the lobby, and no seat is left for it."""
    session = Onlooker()
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        await pilot.press(*"rbxksuce")
        await session.start("alone")
        seen = await until(pilot, lambda now: " ▶ Ann" in now)
        await pilot.press(*"ceiotp1A", "enter", "left", "escape")
        await pilot.click(offset=(2, 20))
        assert await until(pilot, lambda now: " ▶ Ann" in now) == seen
        session.lines.put_nowait(talk_pb2.TalkLine(display_name="Ann", text="Who looks on?"))
        await until(pilot, lambda now: "Ann: Who looks on?" in now)
        await pilot.press("v")
        await until(pilot, lambda now: now.startswith(" Played"))
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda now: now.startswith(" Keys"))
        await pilot.press("escape", "q")
        await until(pilot, in_lobby)
        assert session.done == []


async def test_a_game_that_is_shown_later_is_waited_for() -> None:
    """Where those who watch are kept behind: that is said until there is something to see."""
    session = Onlooker()
    session.early = 5
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        await session.start("alone")
        await until(pilot, lambda now: "it is about to be shown" in now)
        seen = await until(pilot, lambda now: " ▶ Ann" in now)
        assert "does not answer" not in seen


async def test_one_game_after_the_other_is_watched() -> None:
    """The result stays until the next one begins."""
    session = Onlooker(seats=2)
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        await session.start("alone")
        seen = await looked_on(session, pilot, lambda now: "── result ──" in now)
        assert "(you)" not in seen
        assert foot(seen).split() == ["?", "help", "q", "leave"]
        await session.start("alone")
        await until(pilot, lambda now: " ▶ " in now and "── result ──" not in now)


async def test_where_nobody_may_watch_that_is_said() -> None:
    """The key is not offered there."""
    async with shown(Onlooker()) as pilot:
        await until(pilot, lambda now: "w watch" in foot(now))
        await pilot.press("down")
        assert "w watch" not in foot(await until(pilot, lambda now: "  ▶ Rami" in now))
        await pilot.press("w")
        await until(pilot, lambda now: "Nobody may watch at this table." in now)


async def test_the_terminal_of_one_who_watches_goes_and_nothing_is_given_up() -> None:
    """Not even where it was asked for."""
    session = Onlooker()
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        await session.start("alone")
        await until(pilot, lambda now: " ▶ Ann" in now)
        app = pilot.app
        assert isinstance(app, PlayApp)
        await app.cut()
        assert not app.seat_kept
    assert session.done == []


@pytest.mark.parametrize("reading", [False, True])
async def test_a_table_that_closes_leads_back_with_one_line(reading: bool) -> None:
    """At once, or from the page that is being read; the next key takes the line away."""
    session = Onlooker()
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        if reading:
            await pilot.press("question_mark")
            await until(pilot, lambda now: now.startswith(" Keys"))
        await session.close_table()
        if reading:
            await pilot.pause(0.05)
            assert screen(pilot).startswith(" Keys")
            await pilot.press("escape")
        seen = await until(pilot, in_lobby)
        assert len([line for line in seen.splitlines() if "The table is closed." in line]) == 1
        await pilot.press("down")
        await until(pilot, lambda now: in_lobby(now) and "closed" not in now)


@pytest.mark.parametrize("key", ["q", "r", "enter"])
async def test_a_result_can_be_read_though_the_table_has_closed(key: str) -> None:
    """The line stands below it, and any way on leads to the lobby, where it is said again."""
    session = Onlooker(seats=2)
    async with shown(session) as pilot:
        await come_to_watch(pilot)
        await session.start("alone")
        await looked_on(session, pilot, lambda now: "── result ──" in now)
        await session.close_table()
        await until(pilot, lambda now: "── result ──" in now and "The table is closed." in now)
        await pilot.press("question_mark", "escape", key)
        assert "The table is closed." in await until(pilot, in_lobby)
        assert session.done == []


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (lobby_pb2.Table(table_id="alone", kicked=lobby_pb2.KICK_REASON_OTHER), "sent you away"),
        (Refused(Kind.NOT_FOUND, "TABLE_NOT_FOUND", ""), "There is no such table"),
        (Refused(Kind.DENIED, "KICKED", "the host has sent the player away"), "sent you away"),
    ],
)
async def test_who_may_not_know_of_the_table_any_more_is_told_so_in_the_lobby(
    gone: lobby_pb2.Table | Refused, said: str
) -> None:
    """Sent away, or at a table that is not public and goes on without him."""
    session = Onlooker()

    async with shown(session, size=SIZE) as pilot:
        await until(pilot, lambda now: "w watch" in foot(now))
        session.gone = gone
        await pilot.press("enter")
        assert said in await until(pilot, lambda now: in_lobby(now) and said in now)
