"""Lines and mutes as they are kept: flood limits, order, retention, erasure; on both databases."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Kind, Refused
from services.lobby.commands import Close, Open
from services.lobby.domain import decide
from services.lobby.evolve import after_events
from services.lobby.listening import Listening
from services.lobby.model import Table
from services.lobby.mutes import Mutes
from services.lobby.mutes import mutes as mutes_table
from services.lobby.players import Players
from services.lobby.server import FOLDERS
from services.lobby.tables import DECIDER
from services.lobby.talk import BACKLOG, Flood, Line, Said, Talk, talk_rooms
from services.lobby.talk import talk as talk_table
from services.runtime.database import close_engine, open_engine, write
from services.runtime.drain import Drain
from services.runtime.feed import Feed
from services.runtime.store.api import RequestReused
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests import postgres
from tests.services.lobby.tables import durak_rules, player

SEED = 11
KEEP_MS = 60_000
TABLE, OTHER = UUID(int=0x7AB1E), UUID(int=0x7AB1F)
OF_PLAYER, OF_TABLE = Flood("talk_player", 3, 1_000), Flood("talk_table", 5, 1_000)


class Clock:
    """A clock that is turned, Unix microseconds."""

    now = 1_700_000_000_000_000

    def __call__(self) -> int:
        """The time it shows."""
        return self.now


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A migrated PostgreSQL database for all of these tests, as the service's role."""
    made = postgres.create_database()
    yield postgres.in_own_loop(postgres.migrated(made, FOLDERS))
    postgres.drop_database(made)


@pytest.fixture(params=["sqlite", "postgresql"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A lobby's database on each engine in which nobody has said anything."""
    if request.param == "postgresql":
        opened = open_engine(request.getfixturevalue("url"))
    else:
        url = f"sqlite+aiosqlite:///{tmp_path}/lobby.db"
        opened = open_engine(await postgres.migrated(url, FOLDERS))
    yield opened
    async with write(opened) as connection:
        for table in (talk_table, talk_rooms, mutes_table):
            await connection.execute(delete(table))
    await close_engine(opened)


@pytest.fixture
def clock() -> Clock:
    """The clock that stands in for the database's."""
    return Clock()


@pytest.fixture
def talk(engine: AsyncEngine, clock: Clock) -> Talk:
    """The talk of an empty database."""
    return Talk(engine, KEEP_MS, OF_PLAYER, OF_TABLE, clock)


def said(request: object, who: int = 0, table: UUID = TABLE, words: str = "Hm.") -> Said:
    """Something to say, by a request of this name."""
    key = hashlib.sha256(repr(request).encode()).digest()
    return Said(table, player(who), 0, words, key, hashlib.sha256(words.encode()).digest())


async def tried(talk: Talk, line: Said) -> Line | Refused:
    """The line as it was said, or how it was refused."""
    try:
        return await talk.say(line)
    except Refused as refused:
        return refused


async def test_no_schedule_gets_more_said_than_the_limits_allow(talk: Talk, clock: Clock) -> None:
    """Players who talk at random, by any pauses: in no span more than the limit's lines of a player
    or of the table; and whoever waits as long as he is told is heard, unless others were faster."""
    chance, lines, refused = random.Random(SEED), [], Counter[str]()
    for number in range(150):
        clock.now += chance.choice((0, 0, 1, 1_000, 90_000, 400_000, 1_100_000))
        who = chance.randrange(4)
        outcome = await tried(talk, said(number, who))
        if isinstance(outcome, Refused):
            refused[outcome.facts["limit"]] += 1
            assert (outcome.kind, outcome.reason) == (Kind.EXHAUSTED, "RATE_LIMITED")
            assert outcome.retry_after_ms
            if chance.random() < 0.3:
                clock.now += outcome.retry_after_ms * 1_000
                again = await tried(talk, said((number, "again"), who))
                if isinstance(again, Refused):  # his own span is over, the table's is not
                    limits = (outcome.facts["limit"], again.facts["limit"])
                    assert limits == ("talk_player", "talk_table")
                else:
                    lines.append(again)
        else:
            lines.append(outcome)
    assert len(lines) > 40
    assert set(refused) == {"talk_player", "talk_table"}
    for flood, mine in (
        (OF_TABLE, lines),
        *((OF_PLAYER, [each for each in lines if each.player == player(n)]) for n in range(4)),
    ):
        moments = [line.said_at for line in mine]
        for first, beyond in zip(moments, moments[flood.most :], strict=False):
            assert beyond - first >= flood.span_ms * 1_000, flood


async def test_lines_that_come_at_once_are_limited_as_well(talk: Talk) -> None:
    """By several replicas: exactly as many as may be said, numbered apart, once each."""
    outcomes = await asyncio.gather(
        *(talk.say(said(number)) for number in range(8)), return_exceptions=True
    )
    lines = [each for each in outcomes if isinstance(each, Line)]
    assert len(lines) == OF_PLAYER.most == len({line.number for line in lines})
    assert all(isinstance(each, Line | Refused) for each in outcomes)
    assert sorted(lines, key=lambda line: line.number) == await talk.recent(TABLE)


async def test_the_same_request_is_said_once(talk: Talk) -> None:
    """However often and fast it comes, and though the limit is reached; with another content or at
    another table it is refused."""
    line = await talk.say(said("a"))
    again = await asyncio.gather(*(talk.say(said("a")) for _ in range(4)))
    for number in range(OF_PLAYER.most - 1):
        await talk.say(said(number))
    assert {*again, await talk.say(said("a"))} == {line}
    for other in (said("a", words="Else."), said("a", table=OTHER)):
        with pytest.raises(RequestReused):
            await talk.say(other)
    assert len(await talk.recent(TABLE)) == OF_PLAYER.most


async def test_numbers_grow_though_the_clock_stands_or_goes_back(talk: Talk, clock: Clock) -> None:
    """Whoever has read up to a number misses nothing that is said later."""
    numbers = [(await talk.say(said("a"))).number]
    for step in (0, -5_000_000, 2_000_000, 20_000_000):
        clock.now += step
        numbers.append((await talk.say(said(("b", step), who=step % 7))).number)
    assert numbers == sorted(set(numbers))
    assert [line.number for line in await talk.after(TABLE, numbers[0])] == numbers[1:]
    assert (await talk.heads([TABLE, OTHER]))[TABLE].version == numbers[-1]


async def test_lines_are_kept_for_their_time_and_no_longer(talk: Talk, clock: Clock) -> None:
    """Not shown from the moment on, and gone with the next sweep; a later line is numbered on."""
    first = await talk.say(said("a"))
    clock.now += KEEP_MS * 1_000 - 1
    assert await talk.recent(TABLE) == [first]
    clock.now += 1
    assert await talk.recent(TABLE) == await talk.of(player(0), None, 9) == []
    await talk.sweep()
    clock.now -= KEEP_MS * 1_000
    assert await talk.recent(TABLE) == []
    assert (await talk.say(said("a"))).number > first.number


async def test_a_closed_table_takes_its_talk_along(
    talk: Talk, engine: AsyncEngine, clock: Clock
) -> None:
    """Lines and silences go with the sweep; those of an open table stay."""
    store, mutes = SqlStore(engine, None, clock=clock), Mutes(engine, clock)
    streams = Streams(store, DECIDER, clock=clock)
    for table in (TABLE, OTHER):
        opened = Open(player(0), durak_rules(2), 0, UUID(int=1))
        await streams.transact(table, opened, request_id="open", body_hash=bytes(32))
        await talk.say(said("a" if table == TABLE else "b", table=table))
        await mutes.add(table, player(1))
    await mutes.add(player(0), player(1))
    closing = Close(player(0))
    await streams.transact(TABLE, closing, request_id="close", body_hash=bytes(32))
    await talk.sweep()
    await mutes.sweep()
    assert [line.table for line in await talk.of(player(0), None, 9)] == [OTHER]
    assert await mutes.of(TABLE) == []
    assert await mutes.of(OTHER) == await mutes.of(player(0)) == [player(1)]
    assert await mutes.silenced_at(player(1)) == [OTHER]


async def test_pages_of_ones_own_lines_hold_each_once(talk: Talk, clock: Clock) -> None:
    """Over all tables, newest first, whatever the size of a page."""
    for number in range(7):
        clock.now += 400_000
        await talk.say(said(number, number % 2, (TABLE, OTHER)[number % 3 % 2]))
    mine = await talk.of(player(0), None, 99)
    assert len(mine) == 4
    assert mine == sorted(mine, key=lambda line: -line.number)
    for size in (1, 2, 3):
        read: list[Line] = []
        while page := await talk.of(
            player(0), (read[-1].number, read[-1].table) if read else None, size
        ):
            read += page
        assert read == mine


async def test_a_backlog_is_bounded(talk: Talk, clock: Clock) -> None:
    """The newest lines, in order."""
    for number in range(BACKLOG + 3):
        clock.now += 400_000
        await talk.say(said(number))
    recent = await talk.recent(TABLE)
    assert len(recent) == BACKLOG
    assert recent[-1].said_at == clock.now
    assert len(await talk.after(TABLE, 0)) == BACKLOG


async def test_an_erased_player_has_said_nothing(talk: Talk, engine: AsyncEngine) -> None:
    """His lines go, his list and himself from the lists of others; theirs stay. Twice is once."""
    mutes = Mutes(engine)
    for who in (0, 1):
        await talk.say(said(who, who))
    for of, who in ((0, 1), (1, 0), (1, 2), (2, 1)):
        await mutes.add(player(of), player(who))
    await mutes.add(TABLE, player(0))
    for gone in (1, 0):
        assert await talk.erase(player(0)) == gone
        await mutes.erase(player(0))
    assert [line.player for line in await talk.recent(TABLE)] == [player(1)]
    assert [await mutes.of(player(n)) for n in range(3)] == [[], [player(2)], [player(1)]]
    assert await mutes.of(TABLE) == []


async def test_a_list_of_mutes_is_a_set_of_bounded_size(engine: AsyncEngine) -> None:
    """The same twice, or at once, is one; one more than the limit is refused by name."""
    most = 4
    mutes = Mutes(engine, most=most)
    await asyncio.gather(*(mutes.add(TABLE, player(0)) for _ in range(5)))
    assert await mutes.of(TABLE) == [player(0)]
    for number in range(1, most):
        await mutes.add(TABLE, player(number))
    with pytest.raises(Refused) as caught:
        await mutes.add(TABLE, player(most))
    assert (caught.value.reason, caught.value.facts["limit"]) == ("TOO_MANY_MUTES", "mutes")
    await mutes.add(TABLE, player(2))
    await mutes.drop(TABLE, player(2))
    await mutes.drop(TABLE, player(2))
    await mutes.add(TABLE, player(most))
    assert len(await mutes.of(TABLE)) == most


async def test_mutes_asked_for_at_once_are_counted_together(engine: AsyncEngine) -> None:
    """At several replicas, for one list; another list is not touched by it."""
    most = 3
    replicas = [Mutes(engine, most=most) for _ in range(2)]
    asked = [replicas[n % 2].add(of, player(n)) for n in range(12) for of in (TABLE, OTHER)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in outcomes if each is not None]
    assert {str(each) for each in refused} == {str(refused[0])}
    assert "TOO_MANY_MUTES" in str(refused[0])
    assert [len(await replicas[0].of(of)) for of in (TABLE, OTHER)] == [most, most]


@dataclass
class Hall:
    """Whoever asks for it is shown one table, and that is counted."""

    table: Table
    shown: int = 0

    async def see(self, _table_id: UUID, _viewer: UUID | None, _code: str = "") -> Table:
        """The table."""
        self.shown += 1
        return self.table


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("lost", [False, True])
async def test_news_of_what_is_there_no_more_is_news_once(
    talk: Talk, engine: AsyncEngine, clock: Clock, resumed: bool, lost: bool
) -> None:
    """The last line was its player's who has been erased, or the database lost what the table had
    come to when it failed over: who listens waits for the next line, not for nothing."""
    hall = Hall(after_events(Table(), decide(Table(), Open(player(0), durak_rules(2), 0, TABLE))))
    of_tables, of_talk = Feed(SqlStore(engine, None)), Feed(talk)
    first, last = await talk.say(said("a")), await talk.say(said("b", 1))
    of_talk.published(TABLE, last.number)
    of_tables.published(TABLE, hall.table.version + (5 if lost else 0))
    await talk.erase(player(1))
    tables: Any = hall
    mutes, players = Mutes(engine), Players(engine)
    listening = Listening(
        tables, talk, mutes, players, of_tables, of_talk, Drain(), bytes(32), heartbeat_ms=200
    )
    heard = listening.follow(TABLE, player(0), "", first.number if resumed else None)
    assert [line.number for line in (await anext(heard)).lines] == [first.number] * (not resumed)
    assert not (await anext(heard)).lines
    assert hall.shown <= 5
    clock.now += 10_000_000
    following = await talk.say(said("c"))
    of_talk.published(TABLE, following.number)
    assert [line.number for line in (await anext(heard)).lines] == [following.number]
