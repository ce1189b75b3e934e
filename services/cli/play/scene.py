"""What a game's screen is drawn from, and what is remembered of what has happened."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kozyr.game.v1 import view_pb2

import engines.azi
import engines.durak
import engines.rami
from engines.cards import RANKS, SUITS, Card, parse
from engines.durak import Outcome, Pair
from services.cli.pictures.look import Look
from services.cli.play.clock import Left
from services.cli.play.spans import Role
from services.cli.shown import told
from services.client.variants import View
from services.client.views import game_of, table_view
from services.runtime.wire import games as wire

TOLD_MAX = 300
"""How many sentences are kept."""
CARD = re.compile(rf"\b[{RANKS}][{SUITS}]\b")
QUIET = {"opened", "seed_committed", "commits_closed", "seed_revealed", "seeds_closed"} | {
    *("deal_seeded", "deal_revealed", "finished")
}
"""What is not told in a game: how its shuffle is made fair stands in its receipt."""
WEIGHTY = (
    *(engines.azi.TrickTaken, engines.azi.AziDeclared, engines.azi.BankPaid),
    *(engines.durak.BoutClosed, engines.durak.DurakNamed, engines.durak.DealNull),
    *(engines.rami.RoundScored, engines.rami.MatchWon),
)
"""What ends something, and is set off."""


NOTED = (engines.azi.AziDeclared, engines.rami.RoundScored)
"""After what the next deal follows at once, so that it is told until a key is pressed."""


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence of what has happened, and what it is."""

    text: str
    role: Role = Role.PLAIN


@dataclass(frozen=True, slots=True)
class LastBout:
    """A bout of Durak that has ended: its pairs, and how."""

    pairs: tuple[Pair, ...]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Memory:
    """What a player's screen remembers of a game: sentences, the last bout, and what must not be
    missed, as the next deal follows at once: the end of a round of Rami, an azi.

    `bout` are the pairs of the bout in play, from which the last one is made.
    """

    told: tuple[Told, ...] = ()
    bout: tuple[Pair, ...] = ()
    last_bout: LastBout | None = None
    noted: Told | None = None


@dataclass(frozen=True, slots=True)
class Picks:
    """What a player has chosen and not yet done.

    `cursor` counts cards as they are shown; `amount` are the digits of a bid, None for the least
    there is; `laying` while the combination to lay cards on is asked for.
    """

    cursor: int = 0
    marked: frozenset[Card] = frozenset()
    amount: str | None = None
    laying: bool = False
    by_rank: bool = False
    suggested: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """A game as its player sees it at one moment.

    `read` is the engine's view, None before the first deal; `left` the time there is for the
    present decision, None where no clock runs.
    """

    view: view_pb2.GameView
    read: View | None
    look: Look
    memory: Memory = field(default_factory=Memory)
    picks: Picks = field(default_factory=Picks)
    left: Left | None = None
    notice: Told | None = None
    hinted: frozenset[Card] = frozenset()
    talks: bool = False
    """Whether one can talk here."""
    watches: bool = False
    """Whether one came to watch, without a seat at the table."""
    over: bool = False

    @property
    def seat(self) -> int | None:
        """The player's seat; None for who only watches."""
        return self.view.seat if self.view.HasField("seat") else None

    @property
    def away(self) -> bool:
        """Whether a bot plays for this player at present."""
        return self.seat is not None and self.view.seats[self.seat].bot_plays

    @property
    def asked(self) -> bool:
        """Whether it is this player who is to move."""
        return self.read is not None and self.seat in self.view.to_act


def scene_of(view: view_pb2.GameView, look: Look, memory: Memory) -> Scene:
    """The scene of a view, with nothing chosen."""
    over = view.stage in (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED)
    return Scene(view, table_view(view), look, memory, over=over)


def remembered(memory: Memory, happenings: Iterable[view_pb2.Happening], look: Look) -> Memory:
    """The memory after these happenings."""
    for happening in happenings:
        memory = _remember(memory, happening, look)
    return memory


def _remember(memory: Memory, happening: view_pb2.Happening, look: Look) -> Memory:
    which: Any = happening.WhichOneof("happening")
    if which in QUIET:
        return memory
    if which not in wire.GAMES:
        return say(memory, Told(told(happening, look), Role.STRONG))
    event = wire.of(which).happening.from_wire(getattr(happening, which))
    memory = _kept(memory, event)
    if _is_noise(event):
        return memory
    role = Role.STRONG if isinstance(event, WEIGHTY) else Role.PLAIN
    said = Told(told(happening, look), role)
    if isinstance(event, NOTED):
        memory = replace(memory, noted=Told(said.text, Role.GOOD))
    return say(memory, said)


def say(memory: Memory, said: Told) -> Memory:
    """The memory with a sentence more."""
    return replace(memory, told=(*memory.told, said)[-TOLD_MAX:])


def _kept(memory: Memory, event: object) -> Memory:
    """What is remembered as cards and numbers."""
    match event:
        case engines.durak.HandsDealt():
            return replace(memory, bout=(), last_bout=None)
        case engines.durak.Attacked(seat, card):
            return replace(memory, bout=(*memory.bout, Pair(seat, card, None)))
        case engines.durak.Beaten(_, card, attack):
            pairs = tuple(
                replace(pair, beaten_by=card) if pair.attack == attack else pair
                for pair in memory.bout
            )
            return replace(memory, bout=pairs)
        case engines.durak.BoutClosed(_, outcome):
            return replace(memory, bout=(), last_bout=LastBout(memory.bout, outcome))
        case _:
            return memory


def _is_noise(event: object) -> bool:
    """What the table shows as well, and would crowd out what people did."""
    match event:
        case engines.azi.FeePaid() | engines.azi.BiddingOpened() | engines.durak.CardsDrawn():
            return True
        case engines.durak.Passed(_, automatic):
            return automatic
        case _:
            return False


def in_signs(text: str, look: Look) -> str:
    """A text that names cards by letters, with the signs of this terminal."""
    return CARD.sub(lambda found: look.card(parse(found[0])), text)


def name_of_game(scene: Scene) -> str:
    """`azi`, `durak` or `rami`."""
    return game_of(scene.view)
