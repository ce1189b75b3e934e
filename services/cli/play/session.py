"""What the screens ask of wherever games are played: services, or this process alone.

Tables and games come as the messages of the services' contract, so the screens know no difference.
Every failure is Refused or RuleViolation.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2, talk_pb2

from services.cli.pictures.look import Look
from services.client.variants import Move

Level: TypeAlias = variant_pb2.BotLevel.ValueType
Emote: TypeAlias = talk_pb2.Emote.ValueType
NOT_SHOWN_YET = "NOT_SHOWN_YET"
"""Why a game is refused that those without a seat see some decisions later."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A game after something has happened; `late` says that it was a while ago."""

    view: view_pb2.GameView
    happenings: tuple[view_pb2.Happening, ...] = ()
    late: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A game that goes on and in which the player has a seat."""

    game_id: str
    table_id: str
    game: str


@dataclass(frozen=True, slots=True)
class Opening:
    """A table to open: its rules, how many bots of which level, the own stack (0: the least)."""

    rules: lobby_pb2.TableRules
    bots: int = 0
    level: Level = variant_pb2.BOT_LEVEL_NORMAL
    buy_in: int = 0


@dataclass(frozen=True, slots=True)
class Hint:
    """What a bot would do, and why."""

    move: Move
    reason: str


class Session(Protocol):
    """A player who has come in."""

    name: str
    player_id: str
    alone: bool
    """Whether there is no server: all others are bots, and a game ends when it is left."""

    @property
    def lost(self) -> bool:
        """Whether the server does not answer at present, and is tried again."""
        ...

    async def variants(self, language: str) -> lobby_pb2.ListVariantsResponse:
        """The games with their options and rules, in the language of a BCP 47 tag."""
        ...

    def tables(self) -> AsyncIterator[Sequence[lobby_pb2.Table]]:
        """The tables one may sit down at, again whenever one changes."""
        ...

    async def running(self) -> Running | None:
        """A game the player has left for a while."""
        ...

    async def open(self, opening: Opening) -> lobby_pb2.Table:
        """Open a table and sit down at it."""
        ...

    async def quick(self, game: str, wait_seconds: int) -> lobby_pb2.Table:
        """A seat at once, at a table that waits or at a new one; bots come after so long."""
        ...

    async def sit(self, table_id: str, code: str = "") -> lobby_pb2.Table:
        """Take a free seat."""
        ...

    def table(self, table_id: str) -> AsyncIterator[lobby_pb2.Table]:
        """A table, again whenever it changes."""
        ...

    async def ready(self, table_id: str, *, ready: bool) -> None:
        """Say that one is ready, or not."""
        ...

    async def add_bot(self, table_id: str, level: Level) -> None:
        """Put a bot on a free seat."""
        ...

    async def remove_bot(self, table_id: str, seat: int) -> None:
        """Take a bot away."""
        ...

    async def start(self, table_id: str) -> None:
        """Start with the seats that are taken."""
        ...

    async def again(self, table_id: str) -> None:
        """Want another game with those of the last one."""
        ...

    async def kick(self, table_id: str, player_id: str) -> None:
        """Send a person away from one's table."""
        ...

    async def top_up(self, table_id: str, chips: int) -> None:
        """Add chips to the own stack."""
        ...

    async def stand_up(self, table_id: str) -> None:
        """Leave the table between games."""
        ...

    def talk(self, table_id: str) -> AsyncIterator[talk_pb2.TalkLine]:
        """What was said at a table of late, and what is said from now on."""
        ...

    async def say(self, table_id: str, text: str) -> None:
        """Say something to a table."""
        ...

    async def show(self, table_id: str, emote: Emote) -> None:
        """Show an emote to a table."""
        ...

    async def mute(self, player_id: str, *, muted: bool) -> None:
        """Hear a player no more, or again."""
        ...

    def play(self, game_id: str) -> AsyncIterator[Moment]:
        """Everything that happens in a game, in order, across lost connections."""
        ...

    async def look(self, view: view_pb2.GameView) -> Look:
        """The names of a game's seats."""
        ...

    async def submit(self, view: view_pb2.GameView, move: Move) -> None:
        """Make a move in the decision that the view shows."""
        ...

    async def leave(self, view: view_pb2.GameView) -> None:
        """Leave the game for good."""
        ...

    async def back(self, view: view_pb2.GameView) -> None:
        """Play for oneself again, after a bot has."""
        ...

    async def hint(self, view: view_pb2.GameView) -> Hint:
        """What a strong bot would do with what this seat sees."""
        ...

    async def close(self) -> None:
        """Let everything go."""
        ...
