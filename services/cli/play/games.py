"""The three games' screens by name: modules with the same face.

Each has `heading`, `board`, `held`, `asks`, `chances`, `pressed`, `played` and `result`.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from services.cli.play.cards import Held
from services.cli.play.keys import Do
from services.cli.play.scene import Picks, Scene, name_of_game
from services.cli.play.spans import Line
from services.client.variants import Move


class GameScreen(Protocol):
    """What the screen of a game offers, all of it pure."""

    def heading(self, scene: Scene) -> tuple[Line, Line]:
        """What stands at the left and at the right of the bar."""
        ...

    def board(self, scene: Scene, columns: int) -> list[Line]:
        """The table above the hand."""
        ...

    def held(self, scene: Scene) -> Held:
        """The own hand."""
        ...

    def asks(self, scene: Scene) -> str:
        """What the player is asked, or who is waited for."""
        ...

    def chances(self, scene: Scene) -> Sequence[Do]:
        """The keys beside those of cards that do something now."""
        ...

    def pressed(self, scene: Scene, what: str) -> Picks | Move | None:
        """What a key or a click makes: another choice, a move, or nothing."""
        ...

    def played(self, scene: Scene) -> list[str]:
        """What is out of play, as text."""
        ...

    def result(self, scene: Scene) -> list[str]:
        """How the game came out."""
        ...


SCREENS: Mapping[str, GameScreen] = {
    name: importlib.import_module(f"services.cli.play.{name}") for name in ("azi", "durak", "rami")
}


def screen_of(scene: Scene) -> GameScreen:
    """The screen of the scene's game; raises KeyError for one this program does not know."""
    return SCREENS[name_of_game(scene)]
