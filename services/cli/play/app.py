"""The app of `kozyr play`: its screens, its colours, and how it ends."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.style import Style
from textual.app import App

from services.cli.play.ink import Theme, next_theme, styles
from services.cli.play.lobby_screen import LobbyScreen
from services.cli.play.session import Opening, Session
from services.cli.play.spans import Role
from services.cli.play.table_screen import TableScreen

LEAVING_SECONDS = 3.0
"""How long leaving a game may take when the terminal goes away."""
WhenCut = Literal["keep", "leave"]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asked for: colours, signs, what to begin with.

    `opening` is a table to open at once, `table_id` one to sit down at. `when_cut` says what
    becomes of the seat when the terminal goes away.
    """

    theme: Theme = "dark"
    ascii_only: bool = False
    language: str = "en"
    opening: Opening | None = None
    table_id: str = ""
    when_cut: WhenCut = "keep"


class PlayApp(App[None], inherit_bindings=False):
    """`kozyr play` at a terminal."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kozyr play"
    CSS = "Canvas { width: 1fr; height: 1fr; }"

    def __init__(self, session: Session, wishes: Wishes) -> None:
        super().__init__(ansi_color=True)
        self.session = session
        self.wishes = wishes
        self.colours: Theme = wishes.theme
        self.inks: Mapping[Role, Style] = styles(wishes.theme)
        self.ascii_only = wishes.ascii_only
        self.seat_kept = False
        """Whether a game goes on in which the player keeps a seat."""

    def on_mount(self) -> None:
        """Begin in the lobby."""
        self.push_screen(LobbyScreen(self.session, self.wishes.opening, self.wishes.table_id))

    def next_colours(self) -> None:
        """Dark, light, none."""
        self.colours = next_theme(self.colours)
        self.inks = styles(self.colours)

    async def cut(self) -> None:
        """The terminal goes away, or the process is to end: leave the seat as was asked for."""
        tables = [screen for screen in self.screen_stack if isinstance(screen, TableScreen)]
        for table in tables:
            if table.playing and self.wishes.when_cut == "keep":
                self.seat_kept = True
            elif table.playing:
                async with asyncio.timeout(LEAVING_SECONDS):
                    await table.give_up()
        self.exit()
