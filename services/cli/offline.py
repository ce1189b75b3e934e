"""A table without any server: engine, shuffle and bots in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from engines.api import Act, Chance, Leave, Start
from services.cli import pictures
from services.cli.pictures.look import Look
from services.cli.sitting import Moment
from services.cli.variants import opening
from services.client.variants import Move, View, engine

Choose = Callable[[View, Sequence[object]], tuple[Move, str]]
"""A bot: from a seat's view and history to a move and its reason."""


class OfflineTable:
    """One game between a person and bots; `sitting.Table`.

    The person sits on seat 0, `choose` plays all others and gives hints.
    """

    def __init__(
        self, game: str, look: Look, chance: Chance, choose: Choose, options: Any = None
    ) -> None:
        self.game = game
        self.look = look
        self.seat = 0
        self._engine = engine(game)
        self._chance = chance
        self._choose = choose
        self._state: Any = opening(game, len(look.names), options)
        self._events: list[object] = []
        self._moments: asyncio.Queue[Moment] = asyncio.Queue()

    async def moments(self) -> AsyncIterator[Moment]:
        """Everything that happens, in order."""
        self._apply(Start())
        await self._bots()
        while True:
            moment = await self._moments.get()
            yield moment
            if moment.over:
                return

    async def submit(self, view: View, move: Move) -> None:
        """Make the person's move, and the bots' until it is the person's turn again."""
        self._apply(Act(self.seat, move))
        await self._bots()

    async def leave(self) -> None:
        """Leave: the game ends here, as nobody is left to watch it."""
        self._apply(Leave(self.seat))

    async def hint(self, view: View) -> str:
        """What a bot of the table's level would do."""
        move, reason = self._choice(self.seat)
        return f"A bot would {pictures.move(self.game, move, self.look)}. {reason}"

    async def _bots(self) -> None:
        while not self._engine.is_over(self._state):
            waiting = [seat for seat in self._engine.to_act(self._state) if seat != self.seat]
            if not waiting:
                return
            move, _ = self._choice(waiting[0])
            self._apply(Act(waiting[0], move))
            await asyncio.sleep(0)

    def _choice(self, seat: int) -> tuple[Move, str]:
        view = self._engine.view(self._state, seat)
        return self._choose(view, self._engine.history(self._events, seat))

    def _apply(self, command: Any) -> None:
        events = self._engine.decide(self._state, command, self._chance)
        for event in events:
            self._state = self._engine.evolve(self._state, event)
        self._events += events
        told = tuple(
            pictures.told(self.game, shown, self.look)
            for event in events
            if (shown := self._engine.show(event, self.seat)) is not None
        )
        over = self._engine.is_over(self._state)
        view = self._engine.view(self._state, self.seat)
        self._moments.put_nowait(Moment(told, view, over=over))
