"""Those who watch a game in one process share its steps: every one in order, read and made once."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import game_pb2, view_pb2

from services.game import codec, domain, views
from services.game.delays import Delays
from services.game.games import Games, decider
from services.game.model import State
from services.game.outages import Outages
from services.game.pacing import AT_ONCE
from services.game.rulebook import engine_for
from services.game.server import FOLDERS
from services.game.steps import LINKED_MAX, Course, Step, Steps, Watcher
from services.game.watching import Watching
from services.kernel.envelope import Recorded
from services.runtime.drain import Drain
from services.runtime.eventstore import open_store
from services.runtime.feed import Feed
from services.runtime.keys import ensure_keys
from services.runtime.moments import new_id
from services.runtime.settings import Settings
from services.runtime.store.api import Damaged
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Loaded
from tests.services.game import worlds
from tests.services.game.logs import GAME_ID, opening
from tests.services.game.stopped import still
from tests.sim.clockwork import Clockwork

REQUESTS = itertools.count(1)
PLAYER = stored.Metadata(actor="player")


class Counted:
    """A store that counts the reads of one replica."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.reads = 0
        self.faulty: UUID | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, stream: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """A counted read."""
        self.reads += 1
        return await self._store.read(stream, after, limit)

    async def read_each(self, after: Mapping[UUID, int]) -> dict[UUID, list[Recorded]]:
        """Streams read at once are counted as one read."""
        self.reads += 1
        if self.faulty is not None and self.faulty in after:
            raise Damaged(self.faulty, 1, "it is said to be")
        return await self._store.read_each(after)


@dataclass
class Replica:
    """One process's games and its watchers."""

    store: Counted
    games: Games
    steps: Steps
    watching: Watching

    async def play(self, rng: Random) -> State:
        """A random legal move, made by this replica."""
        state = (await self.games.load(GAME_ID)).state
        seat = rng.choice(engine_for(state.rules).to_act(state.engine))
        move = rng.choice(engine_for(state.rules).legal(state.engine, seat))
        return await self.act(domain.Play(seat, state.turn, move))

    async def act(self, command: domain.GameCommand, game_id: UUID = GAME_ID) -> State:
        """Carry a command out."""
        request_id = f"request {next(REQUESTS)}"
        outcome = await self.games.act(game_id, command, request_id=request_id, metadata=PLAYER)
        return outcome.state

    async def watch(
        self, viewer: int | None, game_id: UUID = GAME_ID
    ) -> AsyncIterator[game_pb2.WatchGameResponse]:
        """What a viewer is sent, from now on."""
        async for octets in self.watching.follow(game_id, f"player:{viewer}", viewer, None):
            yield game_pb2.WatchGameResponse.FromString(octets)


@asynccontextmanager
async def replicas(folder: Path, count: int) -> AsyncIterator[list[Replica]]:
    """So many replicas at one database; none hears of another unless a test tells it."""
    settings = Settings(data_folder=folder)
    ensure_keys(settings.keys())
    engine, store = await open_store(settings, "game", FOLDERS, secrets=True)
    made = []
    for _ in range(count):
        counted: Any = Counted(store)
        games = Games(counted, decider(AT_ONCE), Feed(counted), Outages(engine, 3_000))
        steps = Steps(games)
        watching = Watching(games, steps, Delays(games), Drain(), bytes(32))
        made.append(Replica(counted, games, steps, watching))
    try:
        yield made
    finally:
        await store.close()


async def dealt(replica: Replica) -> State:
    """A game of Rami for two, its cards dealt."""
    state = await replica.act(opening("rami", spectators=True))
    while state.engine is None:
        state = await replica.act(domain.CloseSeeds(state.stage))
    return state


async def taken(stream: AsyncIterator[Any], version: int) -> list[game_pb2.WatchGameResponse]:
    """Messages until the viewer has seen a version."""
    found: list[game_pb2.WatchGameResponse] = []
    async with asyncio.timeout(30):
        while not found or seen(found[-1]).version < version:
            found.append(await anext(stream))
    return found


def seen(message: game_pb2.WatchGameResponse) -> view_pb2.GameView:
    """The view of a snapshot or a step."""
    return message.snapshot.view if message.HasField("snapshot") else message.step.view


async def expected(replica: Replica, viewer: int | None) -> dict[int, view_pb2.GameView]:
    """What a viewer sees after each append, made for him alone from what is stored."""
    rows = await replica.store.read(GAME_ID)
    changes = replica.games._streams.changes(replica.games._streams.nothing, rows)
    return {
        change.after.version: still(views.game_view(change.after.state, viewer, change.after.hash))
        for change in changes
    }


async def test_every_step_comes_once_and_in_order_whoever_made_it(tmp_path: Path) -> None:
    """Moves of this replica and of another alternate; each viewer sees what is his, no more."""
    async with replicas(tmp_path, 2) as (here, there):
        first = await dealt(here)
        viewers = (0, 1, None, None)
        streams = [here.watch(viewer) for viewer in viewers]
        for stream in streams:
            assert (await anext(stream)).snapshot.view.version == first.version
        rng, state = Random(5), first
        for number in range(40):
            replica = rng.choice((here, there))
            state = await replica.play(rng)
            if replica is there and number % 3:
                here.games.feed.published(GAME_ID, state.version)
        here.games.feed.published(GAME_ID, state.version)
        for viewer, stream in zip(viewers, streams, strict=True):
            messages = await taken(stream, state.version)
            alone = await expected(here, viewer)
            last = first.version
            for message in messages:
                assert message.step.from_version == last + 1
                last = message.step.to_version
                assert still(message.step.view) == alone[last]
                assert [h.version for h in message.step.happenings] == sorted(
                    {h.version for h in message.step.happenings}
                )
            assert last == state.version


async def test_happenings_are_those_of_the_history(tmp_path: Path) -> None:
    """What a watcher was told step by step is what he may read up afterwards."""
    async with replicas(tmp_path, 1) as (here,):
        first = await dealt(here)
        streams = {viewer: here.watch(viewer) for viewer in (0, 1, None)}
        for stream in streams.values():
            await anext(stream)
        rng, state = Random(9), first
        for _ in range(12):
            state = await here.play(rng)
        for viewer, stream in streams.items():
            told = [h for m in await taken(stream, state.version) for h in m.step.happenings]
            assert told == await here.games.history(state, viewer, first.version)


async def test_a_step_is_read_and_decoded_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of appends made here nothing is read, of another's each once, however many watch."""
    async with replicas(tmp_path, 2) as (here, there):
        state = await dealt(here)
        streams = [here.watch(viewer) for viewer in (0, 1, *[None] * 20)]
        for stream in streams:
            await anext(stream)
        rng = Random(3)
        await here.play(rng)
        reads = here.store.reads
        state = (await here.games.load(GAME_ID, known=1)).state
        seat = engine_for(state.rules).to_act(state.engine)[0]
        move = engine_for(state.rules).legal(state.engine, seat)[0]
        state = await here.act(domain.Play(seat, state.turn, move))
        await asyncio.gather(*(taken(stream, state.version) for stream in streams))
        assert here.store.reads == reads
        for _ in range(3):
            state = await there.play(rng)
            waiting = asyncio.gather(*(taken(stream, state.version) for stream in streams))
            await asyncio.sleep(0)
            here.games.feed.published(GAME_ID, state.version)
            await waiting
        assert here.store.reads == reads + 3
        rendered: list[int | None] = []
        octets = views.view_octets

        def counting(shared: views.Shared, state: State, viewer: int | None) -> bytes:
            rendered.append(viewer)
            return octets(shared, state, viewer)

        monkeypatch.setattr(views, "view_octets", counting)
        state = await here.play(rng)
        await asyncio.gather(*(taken(stream, state.version) for stream in streams))
        assert sorted(rendered, key=str) == [0, 1, None]


async def test_games_that_news_names_together_are_read_at_once(tmp_path: Path) -> None:
    """One read serves the watchers of all; a game that cannot be read holds no other one up."""
    async with replicas(tmp_path, 2) as (here, there):
        games = [new_id() for _ in range(3)]
        streams, versions = {}, {}
        for game_id in games:
            await there.act(opening("rami", spectators=True, game_id=game_id), game_id)
            streams[game_id] = here.watch(None, game_id)
            await anext(streams[game_id])
        for faulty in (None, games[1]):
            reads, here.store.faulty = here.store.reads, faulty
            waiting = [asyncio.ensure_future(anext(streams[game_id])) for game_id in games]
            await asyncio.sleep(0)
            for game_id in games:
                state = (await there.games.load(game_id)).state
                closed = await there.act(domain.CloseSeeds(state.stage), game_id)
                versions[game_id] = closed.version
            for game_id in games:
                here.games.feed.published(game_id, versions[game_id])
            for game_id, one in zip(games, waiting, strict=True):
                if game_id == faulty:
                    with pytest.raises(Exception, match="LOG_DAMAGED"):
                        await one
                else:
                    assert seen(await one).version == versions[game_id]
            assert faulty or here.store.reads == reads + 1


async def test_who_falls_behind_gets_a_snapshot_and_holds_nothing_up(tmp_path: Path) -> None:
    """A watcher that takes nothing keeps few steps in memory; it is told what it has missed."""
    async with replicas(tmp_path, 1) as (here,):
        first = await dealt(here)
        slow, quick = here.watch(0), here.watch(1)
        await anext(slow)
        await anext(quick)
        rng, state = Random(7), first
        while len([*(await expected(here, 0))]) < LINKED_MAX + 10:
            state = await here.play(rng)
            await taken(quick, state.version)
        ((course,),) = here.steps._courses.values()
        assert len(course.recent) <= LINKED_MAX
        message = await anext(slow)
        assert message.snapshot.from_version == first.version + 1
        assert still(message.snapshot.view) == (await expected(here, 0))[state.version]
        assert sum(step() is not None for step in course.recent) <= 1, "told and yet kept"
        state = await here.play(rng)
        (message,) = await taken(slow, state.version)
        assert message.step.to_version == state.version


async def test_a_version_that_the_database_does_not_know_ends_the_stream(tmp_path: Path) -> None:
    """News of what is not there (a database that was set back) is an error, not a busy loop; who
    takes the stream up again is sent what happens from now on."""
    async with replicas(tmp_path, 1) as (here,):
        state = await dealt(here)
        stream = here.watch(0)
        await anext(stream)
        here.games.feed.published(GAME_ID, state.version + 5)
        with pytest.raises(Exception, match="STATE_BEHIND"):
            await anext(stream)
        assert not here.steps.watched
        again = here.watch(0)
        await anext(again)
        state = await here.play(Random(1))
        (message,) = await taken(again, state.version)
        assert message.step.to_version == state.version


async def test_what_could_not_be_read_is_read_by_who_was_busy_meanwhile(tmp_path: Path) -> None:
    """A watcher who was taking a message when the others were told of a failure looks again before
    he waits."""
    async with replicas(tmp_path, 2) as (here, there):
        state = await dealt(here)
        waiting, busy = here.watch(0), here.watch(1)
        await anext(waiting)
        await anext(busy)
        told = asyncio.ensure_future(anext(waiting))
        await asyncio.sleep(0)
        state = await there.play(Random(1))
        here.store.faulty = GAME_ID
        here.games.feed.published(GAME_ID, state.version)
        with pytest.raises(Exception, match="LOG_DAMAGED"):
            await told
        here.store.faulty = None
        (message,) = await taken(busy, state.version)
        assert message.step.to_version == state.version


def test_who_waits_is_told_when_time_is_up_and_news_begin_it_anew() -> None:
    """However often there is news, and whatever time a message takes, a wait lasts as long as it
    may and no longer; one timer at most is set for it."""
    clock = Clockwork(Random(1))

    async def life() -> list[tuple[bool, float]]:
        course = Course(Step(Loaded(State(), 1, bytes(32), 0)))
        found = []
        with Watcher(course, 10.0) as watcher:
            for news_after, busy_for in (
                (4.0, 0.0),
                (7.0, 0.0),
                (9.0, 13.0),
                (None, 0.0),
                (1.0, 0),
            ):
                began = clock.time()
                if news_after is not None:
                    clock.call_later(news_after, course.wake)
                found.append((await watcher.news(), clock.time() - began))
                assert len([one for one in clock._scheduled if not one._cancelled]) <= 1
                await asyncio.sleep(busy_for)
        assert not course.waiting
        assert not [one for one in clock._scheduled if not one._cancelled]
        return found

    waits = [(True, 4.0), (True, 7.0), (True, 9.0), (False, 10.0), (True, 1.0)]
    with closing(clock):
        assert clock.run_until_complete(life()) == waits


async def test_when_the_feed_stops_for_good_streams_end_at_once(tmp_path: Path) -> None:
    """A process that drains leaves no watcher waiting for a heartbeat."""
    async with replicas(tmp_path, 1) as (here,):
        await dealt(here)
        stream = here.watch(0)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        here.watching.drain.started.set()
        await here.games.feed.stop()
        with pytest.raises(Exception, match="DRAINING"):
            await waiting


async def test_who_stops_watching_leaves_nothing(tmp_path: Path) -> None:
    """A game that nobody watches any more is not followed."""
    async with replicas(tmp_path, 1) as (here,):
        await dealt(here)
        streams: list[Any] = [here.watch(viewer) for viewer in (0, 1, None)]
        for stream in streams:
            await anext(stream)
        assert here.steps.watched == 1
        for stream in streams:
            await stream.aclose()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not here.steps.watched


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
def test_octets_put_together_are_the_message(variant: str) -> None:
    """What is sent of a shared step reads as what would be made for each viewer alone."""
    for seed in range(5):
        rng = Random(f"octets {variant} {seed}")
        seats = rng.choice((2, 3))
        for append in worlds.run(worlds.game(variant, seats, rng, moves=30), {}):
            state, rows = append.after, append.rows
            step = Step(Loaded(state, state.version, b"h" * 32, state.recorded_at), rows)
            for viewer in rng.sample([None, *range(seats)], seats + 1):
                view = views.game_view(state, viewer, b"h" * 32)
                pairs = [(row, codec.decode(row)) for row in rows]
                alone = game_pb2.Step(
                    from_version=rows[0].version,
                    to_version=rows[-1].version,
                    happenings=views.happenings(state.rules, pairs, viewer),
                    view=view,
                )
                assert view_pb2.GameView.FromString(step.view(viewer)) == view
                assert game_pb2.WatchGameResponse.FromString(step.told(viewer)).step == alone
