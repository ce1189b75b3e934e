"""The screens of `kozyr play` that are kept: as text for the tests, as pictures for the docs.

`make pictures` draws all of them anew.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.play.app import Wishes
from services.cli.play.ink import THEMES, Theme
from tests.cli.playing import (
    SIZE,
    Onlooker,
    Play,
    alone,
    looked_on,
    opening,
    over,
    prompt,
    reached,
    shown,
    until,
)

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "cli" / "golden" / "play"
PICTURES = ROOT / "docs" / "pictures"
WIDE = (124, 36)
FONT_FACES = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
TEXT = re.compile(
    r'<text class="(?P<of>[^"]+)" x="(?P<x>[0-9.]+)" y="(?P<y>[0-9.]+)" '
    r'textLength="(?P<long>[0-9.]+)"(?P<clip>[^>]*)>(?P<said>.*?)</text>'
)
COLUMN = 12.2
BLANK = "&#160;"


@dataclass(frozen=True, slots=True)
class Kept:
    """A screen that is kept: a game played by keys until it is wanted, then these keys."""

    game: str
    seats: int
    wanted: Callable[[str], bool]
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    theme: Theme = "dark"
    size: tuple[int, int] = SIZE
    ascii_only: bool = False


def asks(pattern: str) -> Callable[[str], bool]:
    """Wanted: a game that asks this."""
    return lambda seen: bool(re.search(pattern, prompt(seen)))


def says(pattern: str) -> Callable[[str], bool]:
    """Wanted: a screen on which this stands."""
    return lambda seen: bool(re.search(pattern, seen))


def second_trick(seen: str) -> bool:
    """Wanted: a trick of Azi after another one."""
    return " 1. " in seen and bool(re.search("Follow|throw away|play a trump", prompt(seen)))


BLIND = {"blind_bets": "true", "deal_size": "4"}
SHORT = {"target": "40"}
SCREENS: Mapping[str, Kept] = {
    "azi_bidding": Kept("azi", 5, asks("Raise to.*level")),
    "azi_typed_bid": Kept("azi", 5, asks("Raise to"), keys=("1", "5")),
    "azi_tricks": Kept("azi", 4, second_trick),
    "azi_closed_hand": Kept("azi", 3, says("closed: blind"), BLIND),
    "azi_drop": Kept("azi", 3, asks("Drop one"), {"deal_size": "4"}),
    "azi_over": Kept("azi", 5, over),
    "durak_attack": Kept("durak", 4, asks("Attack")),
    "durak_defence": Kept("durak", 4, says("last bout(.*\n)*.*Beat ")),
    "durak_add": Kept("durak", 4, asks("Add another")),
    "durak_give": Kept("durak", 4, asks("takes; give")),
    "durak_over": Kept("durak", 4, over),
    "durak_order": Kept("durak", 4, says("last bout(.*\n)*.*Beat "), keys=("o",)),
    "durak_leave": Kept("durak", 4, asks("Beat"), keys=("q",)),
    "durak_help": Kept("durak", 4, asks("Beat"), keys=("question_mark",)),
    "durak_played": Kept("durak", 3, says("discarded 1[0-9]"), keys=("v",)),
    "durak_refused": Kept("durak", 4, asks("Beat"), keys=("p",)),
    "durak_ascii": Kept("durak", 4, asks("Beat"), ascii_only=True),
    "durak_wide": Kept("durak", 6, asks("Beat"), size=WIDE),
    "rami_draw": Kept("rami", 3, says("m1 (.*\n)*.*Draw from"), SHORT),
    "rami_marked": Kept("rami", 3, says("[0-9A]\\+"), SHORT, ("tab",)),
    "rami_over": Kept("rami", 3, over, SHORT),
}
WATCHED: Mapping[str, str] = {"azi": " 1. ", "durak": "last bout", "rami": "m1 "}
"""What stands on the screen of a game that is watched when it is kept: `watch_…`."""
THEMED = "durak_defence"
"""The screen that is kept in every theme, with its colours."""
DRAWN = {
    "azi": Kept("azi", 5, second_trick),
    "durak": Kept("durak", 4, says("╮ ╭──╮\n(.*\n)*.*last bout(.*\n)*.*Beat ")),
    "rami": Kept("rami", 3, says("[0-9A]\\+"), SHORT, ("tab",), theme="light"),
}
"""The pictures of the docs."""


async def reach(pilot: Play, kept: Kept) -> str:
    """Bring the app to a kept screen; the screen as text."""
    seen = await reached(pilot, kept.wanted)
    for key in kept.keys:
        await pilot.press(key)
        seen = await until(pilot, lambda now, before=seen: now != before)  # type: ignore[misc]
    return seen


def wishes(kept: Kept) -> Wishes:
    """What the app is asked for to show a kept screen."""
    table = opening(kept.game, kept.seats, **kept.options)
    return Wishes(theme=kept.theme, ascii_only=kept.ascii_only, opening=table)


async def as_text(kept: Kept) -> str:
    """A kept screen as text."""
    session = alone()
    session.ascii_only = kept.ascii_only
    async with shown(session, wishes(kept), kept.size) as pilot:
        return await reach(pilot, kept)


async def watched(game: str) -> str:
    """A game on the screen of somebody who came to watch, after some moves; as text."""
    session = Onlooker(game, 2)
    async with shown(session) as pilot:
        await until(pilot, lambda now: "w watch" in now)
        await pilot.press("w")
        await until(pilot, lambda now: "You watch this table" in now)
        await session.start("alone")
        return await looked_on(session, pilot, lambda now: WATCHED[game] in now)


async def lobby_of_tables() -> str:
    """The lobby where tables wait and are played at; as text."""
    async with shown(Onlooker()) as pilot:
        return await until(pilot, lambda now: "w watch" in now)


async def as_ansi(theme: Theme) -> str:
    """The themed screen with its colours, as a terminal with all of them is told."""
    kept = SCREENS[THEMED]
    async with shown(alone(), wishes(kept), kept.size) as pilot:
        await reach(pilot, kept)
        for _ in range(THEMES.index(theme)):
            await pilot.press("f2")
        strips = pilot.app.screen._compositor.render_strips()
        return "\n".join(strip.render(pilot.app.console) for strip in strips) + "\n"


async def as_picture(kept: Kept) -> str:
    """A kept screen as SVG that needs nothing from elsewhere."""
    async with shown(alone(), wishes(kept), kept.size) as pilot:
        await reach(pilot, kept)
        return plain_svg(pilot.app.export_screenshot(title=f"kozyr play {kept.game}"))


def plain_svg(svg: str) -> str:
    """Without fonts from other places, and with blanks as gaps, which every program draws alike."""
    made = TEXT.sub(_placed, FONT_FACES.sub("", svg))
    return "\n".join(line.rstrip() for line in made.splitlines() if line.strip()) + "\n"


def _placed(found: re.Match[str]) -> str:
    said = found["said"]
    before = _blanks(said)
    if before * len(BLANK) == len(said):
        return ""
    after = _blanks(said[::-1], BLANK[::-1])
    inside = said[before * len(BLANK) : len(said) - after * len(BLANK)]
    x = float(found["x"]) + before * COLUMN
    long = float(found["long"]) - (before + after) * COLUMN
    return (
        f'<text class="{found["of"]}" x="{x:.1f}" y="{found["y"]}" '
        f'textLength="{long:.1f}"{found["clip"]}>{inside}</text>'
    )


def _blanks(said: str, blank: str = BLANK) -> int:
    count = 0
    while said.startswith(blank, count * len(blank)):
        count += 1
    return count


async def draw_all() -> None:
    """Write every kept screen and every picture anew."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, kept in SCREENS.items():
        (GOLDEN / f"{name}.txt").write_text(await as_text(kept), "utf-8")
    for game in WATCHED:
        (GOLDEN / f"watch_{game}.txt").write_text(await watched(game), "utf-8")
    (GOLDEN / "lobby.txt").write_text(await lobby_of_tables(), "utf-8")
    for theme in THEMES:
        (GOLDEN / f"{THEMED}.{theme}.ansi").write_text(await as_ansi(theme), "utf-8")
    for name, kept in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(await as_picture(kept), "utf-8")


if __name__ == "__main__":
    asyncio.run(draw_all())
