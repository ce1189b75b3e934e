"""`kozyr play` in tests: the app under the toolkit's pilot, its screen as text, games by keys."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2
from textual.pilot import Pilot

from services.cli.play.alone import Alone
from services.cli.play.app import PlayApp, Wishes
from services.cli.play.session import Opening, Session
from services.client.tables import game_options

SIZE = (80, 24)
SEED = bytes(range(32))
TRIES = 1_000
"""How often a screen is looked at before it is said never to come."""
POINTERS = (" ▶ ", " > ")
"""Before a seat that is to move, and before what the person is asked."""
CARD_KEY = re.compile(r"[0-9A-Z]")
FOOT = (
    *(("s", "stock"), ("d", "discard"), ("l", "level"), ("a", "all in"), ("t", "take")),
    *(("p", "pass"), ("f", "fold"), ("n", "stay out"), ("k", "look")),
)
"""What goes on with a game where no card is to be played, in this order."""

Play = Pilot[None]


def opening(game: str, seats: int, **options: str) -> Opening:
    """A table of easy bots."""
    rules = lobby_pb2.TableRules(options=game_options(game, options), seats=seats)
    return Opening(rules, seats - 1, variant_pb2.BOT_LEVEL_EASY)


def alone(seed: bytes = SEED) -> Alone:
    """A session without a server whose games are the same every time."""
    return Alone("Ann", pause=0.0, seed=seed, rng=Random(1))


@asynccontextmanager
async def shown(
    session: Session, wishes: Wishes | None = None, size: tuple[int, int] = SIZE
) -> AsyncIterator[Play]:
    """The app on a screen of this size, ended in the end."""
    app = PlayApp(session, wishes or Wishes())
    async with app.run_test(size=size) as pilot:
        yield pilot
    await session.close()


def screen(pilot: Play) -> str:
    """What stands on the screen, without blanks at the ends of lines."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(piece.text for piece in strip).rstrip() for strip in strips) + "\n"


async def until(pilot: Play, wanted: Callable[[str], bool]) -> str:
    """Wait until the screen is as wanted; the screen."""
    for _ in range(TRIES):
        await pilot.pause()
        if wanted(seen := screen(pilot)):
            return seen
        await asyncio.sleep(0.001)
    raise AssertionError(f"the screen never came to it:\n{screen(pilot)}")


def prompt(seen: str) -> str:
    """The line that says what is asked."""
    return seen.splitlines()[-2]


def foot(seen: str) -> str:
    """The line of keys."""
    return seen.splitlines()[-1]


def asked(seen: str) -> bool:
    """Whether the person is to move, and nobody else."""
    to_act = [line for line in seen.splitlines() if line.startswith(POINTERS)]
    return len(to_act) == 2 and prompt(seen).startswith(POINTERS) and " hint" in foot(seen)


def over(seen: str) -> bool:
    """Whether the game has ended."""
    return "r play again" in foot(seen)


def next_key(seen: str) -> str:
    """A key that goes on with any game: a card that can be played, else what the foot offers."""
    if "Enter bids" in prompt(seen):
        return "l" if "l level" in foot(seen) else "enter"
    drawing = "s stock" in foot(seen) or "d discard" in foot(seen)
    if not drawing and (card := CARD_KEY.search(seen.splitlines()[-3])):
        return card[0]
    found = [key for key, label in FOOT if f"{key} {label}" in foot(seen)]
    assert found, f"nothing to press:\n{seen}"
    return found[0]


async def reached(pilot: Play, wanted: Callable[[str], bool]) -> str:
    """Play by keys, game after game, until the screen is as wanted; the screen."""
    for _ in range(TRIES):
        seen = await until(pilot, lambda now: asked(now) or over(now))
        if wanted(seen):
            return seen
        await pilot.press("r" if over(seen) else next_key(seen))
        await until(pilot, lambda now, before=seen: now != before)  # type: ignore[misc]
    raise AssertionError(f"no game ever came to it:\n{screen(pilot)}")
