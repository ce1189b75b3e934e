"""Time banks by the clock of a real database of either kind, under two replicas."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import game_pb2
from sqlalchemy import insert

from services.game import audit, domain, outages
from services.game.games import Games, decider
from services.game.model import State
from services.game.outages import Outages
from services.game.pacing import AT_ONCE
from services.game.reactions import Reactions
from services.game.rulebook import engine_for
from services.game.work import deadline_key
from services.kernel.envelope import Claimed
from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from services.runtime.database import open_engine, write
from services.runtime.feed import Feed
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore
from tests.services.game.databases import ENGINES, templates
from tests.services.game.logs import GAME_ID, opening

MASTER = MasterKeys("1", {"1": bytes(32)})
PLAYER = stored.Metadata(actor="player")
LONG_MS = 3_600_000


@dataclass(frozen=True)
class Two:
    """Two replicas at one database, and the store of both."""

    games: tuple[Games, Games]
    store: SqlStore

    async def open(self, **changes: Any) -> State:
        """A game of Durak, dealt by the first replica."""
        command = opening("durak", 2, **changes)
        request = game_pb2.CreateGameRequest(request_id="r")
        await self.games[0].change(GAME_ID, command, request, scope="lobby")
        while (state := await self.state()).engine is None:
            await self.act(0, domain.CloseSeeds(state.stage), f"{state.stage}")
        return state

    async def act(self, replica: int, command: domain.GameCommand, request_id: str) -> State:
        """Carry a command out at a replica."""
        games = self.games[replica]
        return (await games.act(GAME_ID, command, request_id=request_id, metadata=PLAYER)).state

    async def state(self, replica: int = 0) -> State:
        """The game now, as a replica reads it."""
        return (await self.games[replica].load(GAME_ID)).state

    async def after(self, moment: int | None) -> None:
        """Wait until the database's clock has passed a moment."""
        while await self.store.now() <= (moment or 0):
            await asyncio.sleep(0.001)

    async def faults(self) -> list[str]:
        """What an audit finds in the log."""
        rows = await self.store.read(GAME_ID)
        head = await self.store.head(GAME_ID)
        return [fault.kind for fault in audit.verify_log(GAME_ID, rows, head)]


def move(state: State) -> domain.Play:
    """The first move of the seat that is asked."""
    engine = engine_for(state.rules)
    (seat,) = engine.to_act(state.engine)
    return domain.Play(seat, state.turn, engine.legal(state.engine, seat)[0])


@pytest.fixture(params=ENGINES)
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Two]:
    """The replicas."""
    with templates(request.param, tmp_path) as made, made.copies() as urls:
        engine = open_engine(urls["game"])
        store = SqlStore(engine, MASTER)
        replicas = [
            Games(store, decider(AT_ONCE), Feed(store), Outages(engine, 60_000)) for _ in range(2)
        ]
        yield Two((replicas[0], replicas[1]), store)
        await store.close()


async def test_a_move_after_the_turn_time_is_taken_and_paid_by_the_bank(two: Two) -> None:
    """By exactly what the log's times say, whichever replica took it; a replay says the same."""
    state = await two.open(turn_ms=1, time_bank_ms=LONG_MS)
    for number in range(4):
        command = move(state)
        await two.after(state.deadline)
        after = await two.act(number % 2, command, f"move {number}")
        over = after.recorded_at - (state.deadline or 0)
        assert state.banks[command.seat] - after.banks[command.seat] == over > 0
        assert after.banks[1 - command.seat] == state.banks[1 - command.seat]
        assert after == await two.state(1 - number % 2)
        state = after
    assert await two.faults() == []


async def test_nobody_is_late_while_his_bank_lasts_or_moves_when_it_is_empty(two: Two) -> None:
    """The move is refused with its reason, the row of the deadline moves for him, and his bank is
    empty; the next time he has the turn time alone."""
    state = await two.open(turn_ms=1, time_bank_ms=1)
    command = move(state)
    deadline = state.deadline_of(command.seat)
    assert deadline == (state.deadline or 0) + 1_000
    await two.after(deadline)
    with pytest.raises(Refused, match="DEADLINE_PASSED"):
        await two.act(1, command, "late")
    row = Claimed(GAME_ID, "turn", deadline_key(state, command.seat), state.version, 0, 1)
    for games in two.games:  # both replicas had taken it
        await Reactions(games, cast(Any, None), cast(Any, None), AT_ONCE).handle("turn", row)
    after = await two.state()
    assert after.version > state.version
    assert after.seats[command.seat].missed == 1
    assert after.banks[command.seat] == 0
    assert after.deadline_of(command.seat) == after.deadline
    assert await two.faults() == []


async def test_an_outage_is_found_before_a_bank_is_drawn_on(two: Two) -> None:
    """A move that its bank would pay for first has its clock credited what an outage took."""
    state = await two.open(turn_ms=1, time_bank_ms=LONG_MS)
    command = move(state)
    await two.after((state.deadline or 0) + 20_000)
    now = await two.store.now()
    async with write(two.games[0]._outages.engine) as connection:
        gap = {"began_at": state.turn_at, "ended_at": now}
        await connection.execute(insert(outages.outages).values(gap))
    after = await two.act(1, command, "move")
    credited = (now - state.turn_at) // 1_000
    over = after.recorded_at - (state.deadline or 0) - credited * 1_000
    assert state.banks[command.seat] - after.banks[command.seat] == max(0, over)
    assert await two.faults() == []


async def test_of_a_bot_and_its_player_who_is_back_one_moves(two: Two) -> None:
    """Whoever is first at the database; the bot's move that comes second is not needed."""
    state = await two.open(turn_ms=1, absent_policy=AbsentPolicy.BOT, bot_after=1)
    seat = move(state).seat
    while not (state := await two.state()).seats[seat].bot_plays or move(state).seat != seat:
        mover = move(state).seat
        await two.after(state.deadline)
        await two.act(0, domain.Expire(mover, state.turn), f"expire {state.turn}")
    late = move(state)
    await two.act(0, domain.Return(seat), "back")
    bot = domain.Play(seat, state.turn, late.move, by_bot=True)
    with pytest.raises(domain.Moot):
        await two.act(1, bot, "bot")
    assert await two.faults() == []
