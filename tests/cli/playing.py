"""`kozyr play` in tests: the app under the toolkit's pilot, its screen as text, games by keys."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2, talk_pb2
from textual.pilot import Pilot

from engines.api import Act
from services.cli.pictures.look import Look
from services.cli.play.alone import Alone
from services.cli.play.app import PlayApp, Wishes
from services.cli.play.dealt import PERSON, Dealt
from services.cli.play.session import NOT_SHOWN_YET, Moment, Opening, Running, Session
from services.client.tables import game_options
from services.kernel.errors import Refused, not_yet
from services.kernel.seats import BotLevel

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


class Elsewhere(Alone):
    """A session that says of itself that it has a server, with a game that goes on there."""

    alone = False

    def __init__(self) -> None:
        super().__init__("Ann", pause=0.0, seed=bytes(32), rng=Random(1))
        self.left = 0
        self.done: list[str] = []
        self.lines: asyncio.Queue[talk_pb2.TalkLine] = asyncio.Queue()

    async def running(self) -> Running | None:
        """The game that was begun elsewhere."""
        await self.open(opening("durak", 2))
        await self.start("alone")
        return Running(self._table.game_id, "alone", "durak")

    async def leave(self, view: object) -> None:
        """Count it."""
        self.left += 1

    async def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """What was put there to be said."""
        while True:
            yield await self.lines.get()

    async def say(self, table_id: str, text: str) -> None:
        """Hear oneself."""
        self.lines.put_nowait(talk_pb2.TalkLine(display_name="Ann", text=text))

    async def show(self, table_id: str, emote: talk_pb2.Emote.ValueType) -> None:
        """See it oneself."""
        self.lines.put_nowait(talk_pb2.TalkLine(display_name="Ann", emote=emote))

    async def mute(self, player_id: str, *, muted: bool) -> None:
        """Note it."""
        self.done.append(f"{'mute' if muted else 'unmute'} {player_id}")

    async def kick(self, table_id: str, player_id: str) -> None:
        """Note it."""
        self.done.append(f"kick {player_id}")


class Onlooker(Alone):
    """Bob, who has no seat, where Ann plays with bots at the table that is listed first; at the
    other one nobody may watch. What is done at the tables is noted in `done`."""

    alone = False

    def __init__(self, game: str = "durak", seats: int = 3) -> None:
        super().__init__("Bob", pause=0.0, seed=SEED, rng=Random(1))
        self.player_id = "bob"
        self._asked = opening(game, seats)
        self._asked.rules.spectators = True
        self.done: list[str] = []
        self.gone: lobby_pb2.Table | Refused | None = None
        """How the table is shown to somebody who sits down there, or that it is not."""
        self.early = 0
        """How often the game is refused as one that is shown later."""
        self.lines: asyncio.Queue[talk_pb2.TalkLine] = asyncio.Queue()

    async def tables(self) -> AsyncIterator[Sequence[lobby_pb2.Table]]:
        """Ann's table, and one of somebody else."""
        table = await self.open(self._asked)
        table.seats[PERSON].display_name = "Ann"
        closed = lobby_pb2.Table(table_id="closed", rules=opening("rami", 2).rules)
        closed.seats.add(player_id="eka", display_name="Eka")
        closed.seats.add(seat=1)
        closed.host_id, closed.state = "eka", lobby_pb2.TABLE_STATE_WAITING
        yield [table, closed]
        await asyncio.Event().wait()

    async def look(self, view: view_pb2.GameView) -> Look:
        """The names at the table."""
        look = await super().look(view)
        return replace(look, names=("Ann", *look.names[1:]))

    async def move(self) -> None:
        """Let Ann move, if she is asked."""
        running = self._running()
        if PERSON in running.engine.to_act(running.state):
            choice = self._choice(running, PERSON, BotLevel.EASY)
            self._apply(running, Act(PERSON, choice.move))

    async def play(self, game_id: str) -> AsyncIterator[Moment]:
        """The game, once it is shown."""
        if self.early:
            self.early -= 1
            await asyncio.sleep(0.01)
            raise not_yet(NOT_SHOWN_YET, "this game is shown after some more decisions")
        async for moment in super().play(game_id):
            yield moment

    async def sit(self, table_id: str, code: str = "") -> lobby_pb2.Table:
        """Sit down at Ann's table."""
        return self._table

    async def ready(self, table_id: str, *, ready: bool) -> None:
        """Nothing begins."""

    async def table(self, table_id: str) -> AsyncIterator[lobby_pb2.Table]:
        """The table, as long as there is one for Bob."""
        async for table in super().table(table_id):
            if isinstance(self.gone, Refused):
                raise self.gone
            yield table if self.gone is None else self.gone

    async def close_table(self) -> None:
        """Let the table close."""
        self._table.state = lobby_pb2.TABLE_STATE_CLOSED
        self._tell()

    def _apply(self, dealt: Dealt, command: Any) -> None:
        """Carry it out, seen with eyes that see no hand."""
        dealt.viewer = None
        super()._apply(dealt, command)

    async def stand_up(self, table_id: str) -> None:
        """Note it."""
        self.done.append("stand up")

    async def leave(self, view: view_pb2.GameView) -> None:
        """Note it."""
        self.done.append("leave")

    async def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """What was put there to be said."""
        while True:
            yield await self.lines.get()


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


async def looked_on(session: Onlooker, pilot: Play, wanted: Callable[[str], bool]) -> str:
    """Let Ann play while one looks on, until it is her turn and the screen is as wanted."""
    for _ in range(TRIES):
        seen = await until(pilot, lambda now: " ▶ Ann" in now or "── result ──" in now)
        if wanted(seen):
            return seen
        await session.move()
        await until(pilot, lambda now, before=seen: now != before)  # type: ignore[misc]
    raise AssertionError(f"the game never came to it:\n{screen(pilot)}")
