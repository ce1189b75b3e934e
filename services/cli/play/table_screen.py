"""A table: who sits there, the games played at it, and what comes after each."""

import time
from dataclasses import replace
from functools import partial

from kozyr.lobby.v1 import lobby_pb2
from textual import events

from engines.api import CHIPS_MAX
from services.cli import pictures
from services.cli.pictures.look import Look
from services.cli.play import clock, drawing, waiting
from services.cli.play.canvas_screen import Answer, Question
from services.cli.play.cards import KEYS
from services.cli.play.entry import Entry
from services.cli.play.friendly import friendly
from services.cli.play.games import screen_of
from services.cli.play.hall import game_name
from services.cli.play.keys import (
    BETWEEN,
    EVERYWHERE,
    MOVING,
    OF_GAMES,
    PLAYING,
    TALKING,
    Do,
    found,
)
from services.cli.play.pages import help_page
from services.cli.play.picking import at_a_legal_card, kept, moved
from services.cli.play.reader_screen import ReaderScreen
from services.cli.play.rules import read_rules
from services.cli.play.scene import (
    Memory,
    Picks,
    Scene,
    Told,
    in_signs,
    name_of_game,
    remembered,
    say,
    scene_of,
)
from services.cli.play.session import NOT_SHOWN_YET, Moment, Session
from services.cli.play.spans import Line, Role, Span
from services.cli.play.talk_screen import TalkScreen
from services.cli.play.waiting import Waiting
from services.cli.shown import LEVELS
from services.client.variants import Move
from services.kernel.errors import Kind, Refused

TICK_SECONDS = 1.0
AWAY = Told("The server does not answer; trying goes on.", Role.BAD)
NOT_SHOWN = "A game is played that is shown to its players alone; you are in the next one."
NO_TABLE = (Kind.NOT_FOUND, Kind.DENIED, Kind.PRECONDITION)
"""Refusals that say that there is no such table any more, for this person at least."""
SAID_KEPT = 5
"""How many lines of talk go on into the next game."""


class TableScreen(TalkScreen):
    """One table. `game_id` is a game to come back to; `begin` says that one is ready at once,
    `watch` that one came without a seat."""

    def __init__(
        self,
        session: Session,
        table_id: str,
        game_id: str = "",
        *,
        begin: bool = False,
        watch: bool = False,
    ) -> None:
        super().__init__(session, table_id)
        self._game_id = game_id
        self._begin = begin
        self._came_to_watch = watch
        self._gone: Told | None = None
        self._memory = Memory()
        self._look: Look | None = None
        self._noted: Told | None = None
        self._busy = False
        self._came_at = 0.0
        self.scene: Scene | None = None

    @property
    def playing(self) -> bool:
        """Whether a game goes on here in which one has a seat."""
        return self.scene is not None and not self.scene.over and self.scene.seat is not None

    @property
    def watches(self) -> bool:
        """Whether one came to watch, and has no seat meanwhile."""
        return self._came_to_watch and waiting.own_seat(self.table, self.session.player_id) is None

    def on_mount(self) -> None:
        """Follow the table and its talk, and the game one comes back to."""
        self.run_worker(self._follow_table())
        if not self.session.alone:
            self.run_worker(self.follow_talk())
        self.set_interval(TICK_SECONDS, self._tick)
        if self._game_id:
            self.run_worker(self._follow_game(self._game_id), group="game", exclusive=True)
        elif self._begin:
            self.act(self.session.ready(self.table_id, ready=True))

    def drawn(self, columns: int, rows: int) -> list[Line]:
        """The game, or the table while none is played."""
        if self.scene is not None:
            return drawing.drawn(self._timed(self.scene), columns, rows)
        who, said = self.session.player_id, tuple(self.said)
        fill = self.table.fill_time
        wait = round(fill.ToMicroseconds() / 1e6 - time.time()) if fill.seconds else None
        bots_in = None if wait is None else max(0, wait)
        shown = Waiting(
            self.table, who, said, self.notice, self.talks, self.watches, bots_in=bots_in
        )
        return waiting.drawn(shown, columns, rows)

    async def pressed(self, key: str, character: str | None) -> None:
        """Do what a key means at a table."""
        over = self.scene is None or self.scene.over
        if self.playing:
            await self._in_game(key)
        elif self._gone is not None and found(key, BETWEEN, EVERYWHERE) in (Do.READY, Do.QUIT):
            self.go_back(self._gone)
        elif self.watches or not over:
            self._without_a_seat(found(key, PLAYING, TALKING, EVERYWHERE))
        else:
            await self._between(key)

    async def picked(self, spot: str) -> None:
        """A click on a card, a pile or a combination."""
        if self.playing:
            self._do(spot)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Come back from another screen, to go on where the table is gone meanwhile."""
        super().on_screen_resume(event)
        self._go_if_gone()

    async def give_up(self) -> None:
        """Leave the game that goes on for good."""
        if self.scene is not None:
            await self.session.leave(self.scene.view)

    async def _follow_table(self) -> None:
        try:
            async for table in self.session.table(self.table_id):
                self.table = table
                playing = table.state == lobby_pb2.TABLE_STATE_PLAYING
                if playing and table.game_id != self._game_id:
                    self._game_id = table.game_id
                    self.run_worker(self._follow_game(table.game_id), group="game", exclusive=True)
                if table.state == lobby_pb2.TABLE_STATE_CLOSED:
                    return self._leave_gone("The table is closed.")
                if table.kicked and not self._came_to_watch:
                    return self._leave_gone("The host has sent you away from the table.")
                self.redraw()
        except Refused as refused:
            if refused.kind in NO_TABLE:
                self._leave_gone(friendly(refused))
            else:
                self.say(friendly(refused), Role.BAD)

    def _leave_gone(self, said: str) -> None:
        """Nothing happens here any more: say so in the lobby, or below a game that is looked at."""
        self._gone = self.notice = Told(said, Role.BAD)
        self._go_if_gone()
        self.redraw()

    def _go_if_gone(self) -> None:
        if self._gone is not None and self.scene is None:
            self.go_back(self._gone)

    def heard(self, said: Told) -> None:
        """Put what was said among what happened."""
        self._memory = say(self._memory, said)
        if self.scene is not None:
            self.scene = replace(self.scene, memory=self._memory)

    async def _follow_game(self, game_id: str) -> None:
        self._memory, self._look = Memory(tuple(self.said[-SAID_KEPT:])), None
        try:
            async for moment in self.session.play(game_id):
                if self._look is None:
                    self._look = await self.session.look(moment.view)
                self._see(moment, self._look)
                self.redraw()
        except Refused as refused:
            if refused.reason == NOT_SHOWN_YET:
                return await self._follow_game(game_id)
            unseen = refused.kind is Kind.NOT_FOUND
            self.say(NOT_SHOWN if unseen else friendly(refused), Role.MUTED if unseen else Role.BAD)

    def _see(self, moment: Moment, look: Look) -> None:
        """Take in what has happened; what was chosen stays, as far as it still can be."""
        self._came_at = time.monotonic()
        self._memory = remembered(self._memory, moment.happenings, look)
        before, scene = self.scene, scene_of(moment.view, look, self._memory)
        if before is not None and before.view.game_id == moment.view.game_id:
            scene = kept(before, scene)
        else:
            scene = at_a_legal_card(scene)
        anew = before is None or before.view.turn != moment.view.turn
        if scene.asked and anew and self.notice is not self._noted:
            self.notice = None
        if self._memory.noted is not None and not (moment.late or scene.over):
            self.notice = self._noted = self._memory.noted
        self._memory = replace(self._memory, noted=None)
        self.scene = scene
        if moment.late and scene.away:
            self.act(self.session.back(scene.view))

    def _without_a_seat(self, do: Do | None) -> None:
        """Do what a key means to somebody who looks on."""
        match do:
            case Do.PLAYED:
                self._show_played()
            case Do.SAY | Do.EMOTE:
                self.talk(do)
            case Do.QUIT if self.watches:
                self.go_back()
            case Do.QUIT:
                self.act(self._stand_up())
            case Do.RULES | Do.HELP | Do.THEME:
                self._everywhere(do)

    def _show_played(self) -> None:
        """What is out of play, as a page."""
        if self.scene is None or self.scene.read is None:
            return
        lines: list[Line] = [
            (Span(f" {each}"),) for each in screen_of(self.scene).played(self.scene)
        ]
        self.app.push_screen(ReaderScreen("Played", lambda _: lines))

    async def _in_game(self, key: str) -> None:
        scene = self.scene
        if scene is None:
            return
        if scene.away:
            self.act(self.session.back(scene.view))
        if key in KEYS:
            self._card_key(scene, key)
            return
        do = found(key, OF_GAMES[name_of_game(scene)], PLAYING, TALKING, EVERYWHERE, MOVING)
        match do:
            case None:
                return
            case Do.HINT if scene.asked and not scene.view.no_hints:
                self.act(self._hint(scene))
            case Do.ORDER:
                picks = replace(scene.picks, by_rank=not scene.picks.by_rank)
                self.scene = replace(scene, picks=picks)
            case Do.PLAYED:
                self._show_played()
            case Do.SAY | Do.EMOTE:
                self.talk(do)
            case Do.QUIT:
                self._ask_leave()
            case Do.RULES | Do.HELP | Do.THEME:
                self._everywhere(do)
            case Do.LEFT | Do.RIGHT | Do.FIRST | Do.LAST:
                self.scene = replace(scene, picks=moved(scene, do))
            case _:
                self._do(do)

    def _card_key(self, scene: Scene, key: str) -> None:
        """A digit of a bid, a combination's number, or the key of a card."""
        if scene.read is None or not scene.asked:
            return
        if key.isdigit() and self._do(f"digit:{key}"):
            return
        index = KEYS.index(key)
        if index < len(screen_of(scene).held(scene).cards):
            self._do(f"card:{index}")

    def _do(self, what: str) -> bool:
        """Let the game's screen say what it makes of it; whether it made anything."""
        scene = self.scene
        if scene is None or scene.read is None:
            return False
        made = screen_of(scene).pressed(scene, what)
        match made:
            case None:
                return False
            case Picks():
                self.scene = replace(scene, picks=made)
            case _ if not scene.asked:
                self.say("It is not your turn.", Role.MUTED)
            case _ if not self._busy:
                self.act(self._submit(scene, made))
        return True

    async def _submit(self, scene: Scene, move: Move) -> None:
        self._busy = True
        try:
            await self.session.submit(scene.view, move)
            if self.scene is not None:
                picks = Picks(cursor=self.scene.picks.cursor, by_rank=self.scene.picks.by_rank)
                self.scene = replace(self.scene, picks=picks, hinted=frozenset())
        finally:
            self._busy = False

    async def _hint(self, scene: Scene) -> None:
        self.say("Thinking …", Role.MUTED)
        hint = await self.session.hint(scene.view)
        if self.scene is None or self.scene.view.turn != scene.view.turn:
            return
        single = getattr(hint.move, "card", None)
        cards = getattr(hint.move, "cards", () if single is None else (single,))
        said = pictures.move(name_of_game(scene), hint.move, scene.look)
        self.scene = replace(self.scene, hinted=frozenset(cards))
        self.say(f"A bot would {said}. {in_signs(hint.reason, scene.look)}", Role.GOOD)

    async def _between(self, key: str) -> None:
        match found(key, BETWEEN, TALKING, EVERYWHERE):
            case Do.READY:
                self.act(self._ready())
            case Do.KICK:
                self._ask_whom()
            case Do.SAY | Do.EMOTE as do:
                self.talk(do)
            case Do.BOT:
                self._ask_level()
            case Do.NO_BOT:
                bots = [seat.seat for seat in self.table.seats if seat.bot_level]
                if bots:
                    self.act(self.session.remove_bot(self.table_id, bots[-1]))
            case Do.START:
                self.act(self.session.start(self.table_id))
            case Do.TOP_UP:
                self.type_in(Entry("Chips to add", most=19), self._top_up)
            case Do.QUIT:
                self.act(self._stand_up())
            case Do.RULES | Do.HELP | Do.THEME as do:
                self._everywhere(do)

    async def _ready(self) -> None:
        """Be ready, or not any more; after a game want another one with the same people."""
        own = waiting.own_seat(self.table, self.session.player_id)
        if self.scene is not None:
            self.scene = None
            await self.session.again(self.table_id)
        else:
            ready = own is None or not own.ready
            await self.session.ready(self.table_id, ready=ready)

    def _ask_level(self) -> None:
        """How well the bot is to play that the host adds."""
        add = self.session.add_bot
        levels = [(name[0], name, partial(add, self.table_id, n)) for name, n in LEVELS.items()]
        self.offer("How well is the bot to play?", levels)

    def _ask_whom(self) -> None:
        """Whom the host sends away."""
        people = waiting.others(self.table, self.session.player_id)
        kick = self.session.kick
        self.offer(
            "Whom do you send away?",
            [
                (key, seat.display_name, partial(kick, self.table_id, seat.player_id))
                for key, seat in zip(KEYS, people, strict=False)
            ],
        )

    def _everywhere(self, do: Do) -> None:
        """Help, rules, colours."""
        game = game_name(self.table) if self.scene is None else name_of_game(self.scene)
        match do:
            case Do.RULES:
                self.act(read_rules(self, self.session, game))
            case Do.HELP:
                self.app.push_screen(ReaderScreen("Keys", lambda _: help_page(game)))
            case _:
                self.play.next_colours()

    async def _top_up(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= CHIPS_MAX):
            self.say("Say how many chips, a number from 1 on.", Role.BAD)
            return
        self.act(self.session.top_up(self.table_id, int(text)))

    def _ask_leave(self) -> None:
        """How to leave a game that goes on."""

        async def keep() -> None:
            self.play.seat_kept = True
            self.app.exit()

        async def leave() -> None:
            self.act(self._leave())

        answers: tuple[Answer, ...]
        if self.session.alone:
            answers = (Answer("y", "y", "leave; the game ends here", leave),)
        else:
            answers = (
                Answer("k", "k", "keep my seat; `kozyr play` comes back to it", keep),
                Answer("g", "g", "give the game up for good", leave),
            )
        self.ask(Question("Leave the game?", answers))

    async def _leave(self) -> None:
        await self.give_up()
        await self._stand_up()

    async def _stand_up(self) -> None:
        """Leave the table; a game that still ends keeps the seat until then."""
        try:
            await self.session.stand_up(self.table_id)
        except Refused as refused:
            if refused.kind is not Kind.PRECONDITION and refused.kind is not Kind.NOT_FOUND:
                raise
        self.go_back()

    def _timed(self, scene: Scene) -> Scene:
        """The scene with its clock as it is now, and what the person is told."""
        passed_ms = 1_000 * (time.monotonic() - self._came_at)
        left = None if scene.over else clock.left(scene.view, passed_ms)
        return replace(scene, notice=self.notice, talks=self.talks, watches=self.watches, left=left)

    def _tick(self) -> None:
        """Let the clock run, and say so while the server is away."""
        if self.session.lost and self.notice is None:
            self.notice = AWAY
        elif self.notice is AWAY and not self.session.lost:
            self.notice = None
        if self.in_front:
            self.redraw()
