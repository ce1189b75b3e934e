"""Deadlines under the database's clock, where a clock was credited meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import game_pb2
from sqlalchemy import insert

from services.game import domain, outages
from services.game.games import Games, decider
from services.game.model import Stage, State
from services.game.outages import Outages
from services.game.pacing import AT_ONCE
from services.game.reactions import BOTS_AT_ONCE, ENDS_AT_ONCE, WORK_AT_ONCE, Reactions
from services.game.server import FOLDERS
from services.game.work import deadline_key
from services.kernel.envelope import Claimed
from services.kernel.errors import Refused
from services.runtime.database import open_engine, write
from services.runtime.feed import Feed
from services.runtime.migrate import migrate_engine
from services.runtime.store.sealing import MasterKeys
from services.runtime.store.sql import SqlStore
from tests.services.game.logs import GAME_ID, opening

SECOND = 1_000_000
LOST = 5 * SECOND


@dataclass
class Clock:
    """A database's clock, `ahead` of this machine's by microseconds."""

    ahead: int = 0

    def __call__(self) -> int:
        """Now, Unix microseconds."""
        return time.time_ns() // 1_000 + self.ahead


@dataclass(frozen=True)
class Hall:
    """One game of Durak for two persons, in which somebody is asked."""

    games: Games
    clock: Clock
    store: SqlStore

    async def state(self) -> State:
        """The game now."""
        return (await self.games.load(GAME_ID)).state

    async def lose(self) -> None:
        """Write down an outage of five seconds, just after the decision was asked."""
        began = (await self.state()).turn_at + SECOND
        async with write(self.games._outages.engine) as connection:
            gap = {"began_at": began, "ended_at": began + LOST}
            await connection.execute(insert(outages.outages).values(gap))

    async def expire(self, state: State) -> None:
        """Work off the deadline's row as it was made for this state."""
        seat = state.engine.attacker
        row = Claimed(GAME_ID, "turn", deadline_key(state, seat), state.version, 0, 1)
        await Reactions(self.games, cast(Any, None), cast(Any, None), AT_ONCE).handle("turn", row)


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    """The game, dealt."""
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'game.db'}")
    await migrate_engine(engine, FOLDERS)
    clock = Clock()
    store = SqlStore(engine, MasterKeys("1", {"1": bytes(32)}), clock=clock)
    games = Games(store, decider(AT_ONCE), Feed(store), Outages(engine, 60_000))
    opened = replace(opening("durak"), turn_ms=1_000)
    await games.change(GAME_ID, opened, game_pb2.CreateGameRequest(request_id="r"), scope="lobby")
    for stage in (Stage.COMMITTING, Stage.REVEALING):
        if (await games.load(GAME_ID)).state.stage is stage:
            command = domain.CloseSeeds(stage)
            meta = stored.Metadata(actor="server")
            await games.act(GAME_ID, command, request_id=f"s:{stage}", metadata=meta)
    yield Hall(games, clock, store)
    await store.close()


async def test_a_row_of_a_deadline_that_was_put_off_does_nothing(hall: Hall) -> None:
    """A worker that had claimed the row before the clock was credited expires nobody."""
    before = await hall.state()
    await hall.lose()
    hall.clock.ahead += 2 * SECOND
    assert await hall.games.credit(GAME_ID, before.turn)
    credited = await hall.state()
    assert credited.deadline == (before.deadline or 0) + LOST
    await hall.expire(before)
    assert (await hall.state()).version == credited.version


async def test_a_row_that_comes_early_waits_for_the_deadline(hall: Hall) -> None:
    """Nobody is expired before the database's clock says so, whatever made the row come."""
    state = await hall.state()
    assert state.deadline is not None
    hall.clock.ahead += state.deadline - hall.clock() - SECOND // 5
    await hall.expire(state)
    after = await hall.state()
    assert after.version > state.version
    assert after.recorded_at >= state.deadline


async def test_an_outage_is_credited_to_a_decision_once(hall: Hall) -> None:
    """Whoever asks again hears that there is nothing more to give back."""
    state = await hall.state()
    await hall.lose()
    assert await hall.games.credit(GAME_ID, state.turn)
    assert not await hall.games.credit(GAME_ID, state.turn)
    assert (await hall.state()).credit_ms == LOST // 1_000


@pytest.mark.parametrize("kind", ["bot", "end"])
async def test_services_that_hang_leave_room_for_deadlines(hall: Hall, kind: str) -> None:
    """Further bots are put off to be asked later, further games to be paid out; a seat whose time
    is up is moved for."""
    assert BOTS_AT_ONCE + ENDS_AT_ONCE < WORK_AT_ONCE
    state = await hall.state()
    full = asyncio.Semaphore(0)
    reactions = Reactions(hall.games, cast(Any, None), cast(Any, None), AT_ONCE, full, full)
    row = Claimed(GAME_ID, kind, f"{state.engine.attacker}.{state.turn}", state.version, 0, 1)
    with pytest.raises(Refused) as caught:
        await reactions.handle(kind, row)
    assert caught.value.reason == f"{kind.upper()}S_BUSY"
    hall.clock.ahead += 2 * SECOND
    key = deadline_key(state, state.engine.attacker)
    await reactions.handle("turn", replace(row, kind="turn", key=key))
    assert (await hall.state()).version > state.version
