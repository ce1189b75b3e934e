"""Tables that are played at as long as the drill lasts: people, bots, and others who look on."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.client.tables import Tables, game_options
from services.kernel.errors import Kind, Refused
from tests.drill.witness import Record, Witness

STACK = 100
TURN_MS = 12_000
SLEEPS = 0.02
"""How often a sleeper lets his time run out."""
OPTIONS: Mapping[str, Mapping[str, str]] = {"azi": {}, "durak": {}, "rami": {"target": "10"}}
RETRY_SECONDS = 0.5
THINK_SECONDS = (0.02, 0.1)
"""Before a move: the shortest and the longest."""


@dataclass(slots=True)
class Party:
    """People who play one kind of game again and again, each time at a new table.

    `people` sit down, `bots` seats are filled; everybody watches twice, if `twice`, and `guests`
    look on. The last of the people sleeps now and then, if `sleeps`.
    """

    kind: str
    people: list[Witness]
    guests: list[Witness]
    bots: int
    turn_ms: int
    sleeps: bool
    rng: random.Random
    record: Record
    think: tuple[float, float] = THINK_SECONDS
    twice: bool = True
    running: dict[str, str] = field(default_factory=dict)
    starts_failed: int = 0
    finished: int = 0

    async def play(self, over: asyncio.Event) -> None:
        """Play until `over`, and the game under way to its end."""
        while not over.is_set():
            table = await self._table()
            game_id = await self._start(table, over)
            if game_id:
                await self._game(game_id, over)
                await Tables(self.people[0]).settled(table, 1)
                self.finished += 1
            for person in self.people:
                await self._leave(person, table)

    async def _table(self) -> str:
        host, *others = self.people
        stack = STACK if self.kind == "azi" else 0
        rules = lobby_pb2.TableRules(
            options=game_options(self.kind, OPTIONS[self.kind]),
            seats=len(self.people) + self.bots,
            turn_ms=self.turn_ms,
            spectators=True,
            absent_policy=self.rng.choice(
                (variant_pb2.ABSENT_POLICY_EXPIRE, variant_pb2.ABSENT_POLICY_BOT)
            ),
        )
        table = (await Tables(host).create(rules, stack)).table_id
        for person in others:
            await Tables(person).sit(table, buy_in=stack)
        for _ in range(self.bots):
            await Tables(host).add_bot(table, variant_pb2.BOT_LEVEL_EASY, stack)
        return table

    async def _start(self, table: str, over: asyncio.Event) -> str:
        """Say ready until a game starts; its id, or nothing when it is too late for one."""
        while not over.is_set():
            try:
                for person in self.people:
                    await Tables(person).ready(table)
                game_id = await Tables(self.people[0]).started(table)
            except Refused as refused:
                if refused.kind is not Kind.PRECONDITION:
                    raise
                self.starts_failed += refused.reason == "START_FAILED"
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.record.games.add(game_id)
                return game_id
        return ""

    async def _game(self, game_id: str, over: asyncio.Event) -> None:
        self.running[game_id] = self.kind
        async with asyncio.TaskGroup() as together:
            for number, person in enumerate(self.people):
                sleeps = SLEEPS if self.sleeps and number == len(self.people) - 1 else 0.0
                together.create_task(self._sit(person, game_id, sleeps, over))
                if self.twice:
                    together.create_task(_look_on(person, game_id))
            for guest in self.guests:
                together.create_task(_look_on(guest, game_id))
        del self.running[game_id]

    async def _sit(self, person: Witness, game_id: str, sleeps: float, over: asyncio.Event) -> None:
        """Play one seat: a random legal move after a moment's thought. Nobody sleeps once it is
        over: what has to end in time is a matter of the services alone then."""
        answered = -1
        async for update in person.follow(game_id):
            view = update.view
            if view.version < answered or not update.mine:
                continue
            if self.rng.random() < sleeps and not over.is_set():
                self.record.slept.add((game_id, view.seat, view.turn))
                continue
            await asyncio.sleep(self.rng.uniform(*self.think))
            try:
                after = await person.submit(view, self._choice(view))
            except Refused as refused:
                if refused.kind not in (Kind.CONFLICT, Kind.PRECONDITION):
                    raise
                self.record.refused[refused.reason] += 1
                continue
            answered = after.version

    def _choice(self, view: view_pb2.GameView) -> variant_pb2.Move:
        which = view.WhichOneof("table") or ""
        move = variant_pb2.Move()
        getattr(move, which).CopyFrom(self.rng.choice(getattr(view, which).legal))
        return move

    async def _leave(self, person: Witness, table: str) -> None:
        try:
            await Tables(person).leave(table)
        except Refused as refused:
            if refused.kind not in (Kind.PRECONDITION, Kind.CONFLICT, Kind.NOT_FOUND):
                raise


async def _look_on(person: Witness, game_id: str) -> None:
    async for _ in person.follow(game_id):
        pass
