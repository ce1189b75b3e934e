"""The lobby: tables as they come and go, a seat by a key, a new table, the way back to a game."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from kozyr.lobby.v1 import lobby_pb2

from services.cli.play import hall
from services.cli.play.canvas_screen import Answer, CanvasScreen, Question
from services.cli.play.entry import Entry
from services.cli.play.form_screen import FormScreen
from services.cli.play.friendly import friendly
from services.cli.play.hall import Hall, game_name, seated
from services.cli.play.keys import EVERYWHERE, LOBBY, MOVING, Do, found
from services.cli.play.pages import help_page
from services.cli.play.reader_screen import ReaderScreen
from services.cli.play.rules import read_rules
from services.cli.play.session import Opening, Running, Session
from services.cli.play.spans import Line, Role
from services.cli.play.table_screen import TableScreen
from services.kernel.errors import Refused

WAITS = (
    ("enter", "Enter", "people if they come within 20 s, else bots", 20),
    ("b", "b", "bots at once", 0),
    ("p", "p", "people; bots after five minutes", 300),
)
"""The choices of quick play, by key, and how many seconds people are waited for."""


class LobbyScreen(CanvasScreen):
    """All tables; at the start the table that was asked for, or the game that still goes on."""

    def __init__(self, session: Session, opening: Opening | None, table_id: str) -> None:
        super().__init__()
        self._session = session
        self._opening = opening
        self._table_id = table_id
        self.hall = Hall(session.name, alone=session.alone)

    def on_mount(self) -> None:
        """Follow the tables, and look what there is to begin with."""
        self.run_worker(self._follow())
        self.act(self._begin())

    def drawn(self, columns: int, rows: int) -> list[Line]:
        """The lobby."""
        return hall.drawn(replace(self.hall, notice=self.notice), columns, rows)

    async def pressed(self, key: str, character: str | None) -> None:
        """Do what a key means in the lobby."""
        match found(key, LOBBY, EVERYWHERE, MOVING):
            case Do.UP:
                self.hall = self.hall.moved(-1)
            case Do.DOWN:
                self.hall = self.hall.moved(1)
            case Do.FIRST:
                self.hall = self.hall.moved(-len(self.hall.tables))
            case Do.LAST:
                self.hall = self.hall.moved(len(self.hall.tables))
            case Do.NEXT:
                self.hall = self.hall.next_game()
            case Do.FREE:
                self.hall = replace(self.hall, free=not self.hall.free, at=0)
            case Do.ENTER:
                self._sit_down()
            case Do.WATCH:
                self._watch()
            case Do.NEW:
                self.act(self._new())
            case Do.QUICK:
                self._ask_quick()
            case Do.JOIN:
                self.type_in(Entry("Table and code"), self._by_code)
            case Do.RULES:
                self.act(read_rules(self, self._session, self._game()))
            case Do.HELP:
                self.app.push_screen(ReaderScreen("Keys", lambda _: help_page("")))
            case Do.THEME:
                self.play.next_colours()
            case Do.QUIT:
                self.app.exit()

    async def picked(self, spot: str) -> None:
        """A click chooses a table, a second one sits down there."""
        kind, _, what = spot.partition(":")
        if kind == "game":
            self.hall = replace(self.hall, game=what, at=0)
        elif kind == "table" and int(what) == self.hall.at:
            self._sit_down()
        elif kind == "table":
            self.hall = replace(self.hall, at=int(what))

    async def _follow(self) -> None:
        try:
            async for tables in self._session.tables():
                self.hall = replace(self.hall, tables=tuple(tables), known=True)
                self.redraw()
        except Refused as refused:
            self.say(friendly(refused), Role.BAD)

    async def _begin(self) -> None:
        running = await self._session.running()
        if running is not None:
            self._ask_back(running)
        elif self._table_id:
            await self._enter(await self._session.sit(self._table_id))
        elif self._opening is not None:
            await self._enter(await self._session.open(self._opening))

    def _ask_back(self, running: Running) -> None:
        async def back() -> None:
            self.app.push_screen(TableScreen(self._session, running.table_id, running.game_id))

        async def give_up() -> None:
            self.act(self._give_up(running))

        self.ask(
            Question(
                f"You are playing {running.game.capitalize()}. Come back?",
                (
                    Answer("enter", "Enter", "come back to the game", back),
                    Answer("g", "g", "give the game up for good", give_up),
                ),
            )
        )

    async def _give_up(self, running: Running) -> None:
        async for moment in self._session.play(running.game_id):
            await self._session.leave(moment.view)
            break
        self.say("You have left the game.")

    def _sit_down(self) -> None:
        table = self.hall.chosen
        if table is None:
            return
        if seated(table, self._session.player_id):
            self.app.push_screen(TableScreen(self._session, table.table_id))
        else:
            self.act(self._sit(table))

    def _watch(self) -> None:
        """Look at a table without sitting down there."""
        table = self.hall.chosen
        if table is None:
            return
        if seated(table, self._session.player_id):
            self._sit_down()
        elif table.rules.spectators:
            self.app.push_screen(TableScreen(self._session, table.table_id, watch=True))
        else:
            self.say("Nobody may watch at this table.", Role.BAD)

    async def _sit(self, table: lobby_pb2.Table) -> None:
        await self._enter(await self._session.sit(table.table_id))

    def _ask_quick(self) -> None:
        """How long people are waited for before bots sit down."""

        def playing(seconds: int) -> Callable[[], Awaitable[None]]:
            async def play() -> None:
                self.act(self._quick(seconds))

            return play

        answers = (Answer(key, shown, says, playing(wait)) for key, shown, says, wait in WAITS)
        self.ask(Question(f"{self._game().capitalize()} with", tuple(answers)))

    async def _quick(self, wait_seconds: int) -> None:
        await self._enter(await self._session.quick(self._game(), wait_seconds))

    async def _by_code(self, text: str) -> None:
        table_id, _, code = text.partition(" ")

        async def sit() -> None:
            await self._enter(await self._session.sit(table_id, code.strip()))

        self.act(sit())

    async def _new(self) -> None:
        variants = (await self._session.variants(self.play.wishes.language)).variants
        if self.in_front:
            form = FormScreen(self._session, self._game(), variants, self._enter)
            self.app.push_screen(form)

    async def _enter(self, table: lobby_pb2.Table) -> None:
        if self.in_front:
            self.app.push_screen(TableScreen(self._session, table.table_id, begin=True))

    def _game(self) -> str:
        """The game that is meant: the one the list is narrowed to, else that at the cursor."""
        chosen = self.hall.chosen
        return self.hall.game or (game_name(chosen) if chosen is not None else "") or "durak"
