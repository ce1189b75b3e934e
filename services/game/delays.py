"""What is shown of a running game to those without a seat where its table keeps them behind.

They see the game as it was so many decisions ago: the latest state after which as many decisions
were asked. Before the first deal there is nothing to hide, and when the game has ended everything
is open. A game that was dealt as it was opened is not shown until as many decisions were asked.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from services.game.games import Games
from services.game.model import State
from services.kernel.errors import Refused, not_yet
from services.runtime.streams import Change, Loaded

LOG_DAMAGED = "LOG_DAMAGED"
RETRY_MS = 2_000
"""When to ask again for a game that is not shown yet: decisions take their time."""
SHOWN_KEPT = 1_000
"""Of how many games it is kept in memory what was shown last."""


@dataclass(frozen=True, slots=True)
class Past:
    """A game as it is shown, and the appends since that are not."""

    shown: Loaded[State]
    later: Sequence[Change[State]] = ()


def asks(change: Change[State]) -> bool:
    """Whether a new decision was asked by this append."""
    return change.after.state.turn != change.before.state.turn


def delay_of(state: State, viewer: int | None) -> int:
    """How many decisions behind a viewer is; 0: he sees the game live."""
    return state.spectator_delay if viewer is None and not state.ended else 0


@dataclass(slots=True)
class Delays:
    """The pasts of games that are shown."""

    games: Games
    _shown: OrderedDict[UUID, Loaded[State]] = field(default_factory=OrderedDict)

    async def seen(self, loaded: Loaded[State], viewer: int | None) -> Loaded[State]:
        """The game as far as a viewer may see it; raises Refused NOT_SHOWN_YET."""
        delay = delay_of(loaded.state, viewer)
        if not delay:
            return loaded
        shown = (await self.past(loaded, delay)).shown
        if not shown.version:
            raise not_shown_yet()
        return shown

    async def past(self, loaded: Loaded[State], delay: int) -> Past:
        """The game so many decisions ago, of version 0 where that is before it was opened.

        What was shown last is remembered, so that of a long game no more is read than what came
        after it.
        """
        game_id = loaded.state.game_id
        before = self._shown.get(game_id) or self.games.nothing
        if before.version > loaded.version:  # others, who loaded the game later, were faster
            return Past(before)
        try:
            changes = await self.games.appends(game_id, before, loaded.version)
        except Refused as refused:
            if not before.version or refused.reason != LOG_DAMAGED:
                raise
            # what is remembered may be what a database lost when it failed over
            del self._shown[game_id]
            return await self.past(loaded, delay)
        old = _old_enough(changes, delay)
        shown = changes[old - 1].after if old else before
        self._keep(game_id, shown)
        return Past(shown, changes[old:])

    def _keep(self, game_id: UUID, shown: Loaded[State]) -> None:
        kept = self._shown.get(game_id)
        if kept is None or kept.version < shown.version:
            self._shown[game_id] = shown
        self._shown.move_to_end(game_id)
        if len(self._shown) > SHOWN_KEPT:
            self._shown.popitem(last=False)


def not_shown_yet() -> Refused:
    """The game is too young for those who are kept behind."""
    return not_yet("NOT_SHOWN_YET", "this game is shown after some more decisions", RETRY_MS)


def _old_enough(changes: Sequence[Change[State]], delay: int) -> int:
    """How many of the latest appends are shown."""
    later = 0
    for number in range(len(changes), 0, -1):
        change = changes[number - 1]
        if later >= delay or change.after.state.engine is None:
            return number
        later += asks(change)
    return 0
