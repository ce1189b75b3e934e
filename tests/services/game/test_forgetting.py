"""What stands against an erasure, and what goes by one: over gRPC, with a wallet."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2
from sqlalchemy import select

from services.game import texts
from services.game.connections import ROWS_MAX, Connections, connections
from services.game.server import FOLDERS
from services.kernel.errors import Refused
from services.kernel.ids import uuid7
from services.runtime.database import close_engine, open_engine, read
from services.runtime.keys import OPERATORS
from services.runtime.migrate import migrate_engine
from tests import postgres
from tests.services.game.court import Court
from tests.services.game.system import Seat, System, new_id, setup, system
from tests.services.game.test_service import dealt, settled

WORDS = "Zurab's bank, and no other's: §77"
STREAMS = 2
"""A player's streams of one game: until it is dealt, and again after its end."""
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


@asynccontextmanager
async def house_on(folder: Path, database: str, **given: Any) -> AsyncIterator[System]:
    """The services, the game's tables in one of the databases, reached by the service's role."""
    if database == "sqlite":
        async with system(folder, **given) as house:
            yield house
        return
    owner = postgres.create_database()
    try:
        url = await postgres.migrated(owner, FOLDERS)
        async with system(folder, game_database_url=url, **given) as house:
            yield house
    finally:
        postgres.drop_database(owner)


async def finished(house: System, *players: str) -> Court:
    """A court about a game of Azi of two persons and a bot, both of whom have left."""
    request = setup(variant="azi", people=2, bots=1)
    for seat, player in zip(request.seats, players, strict=False):
        seat.player_id = player
    games = len(house.table.reports)
    await house.open(request)
    for seat in request.seats[:2]:
        mine = house.game(seat.player_id)
        await dealt(mine, request.game_id)
        leave = game_pb2.LeaveGameRequest(request_id=new_id(), game_id=request.game_id)
        await mine.call(mine.games.LeaveGame, leave)
    await settled(house, games + 1)
    people = [seat.player_id for seat in request.seats]
    olga, omar = (Seat(house.client("game", OPERATORS, name)) for name in ("olga", "omar"))
    return Court(house, request.game_id, people, {}, olga, omar)


async def check(house: System, player: str, *, leave_claims: bool = False) -> None:
    """Ask as the lobby whether a player may be erased."""
    request = audit_pb2.CheckErasureRequest(player_id=player, leave_claims=leave_claims)
    await house.lobby.call(house.lobby.audits.CheckErasure, request)


async def refused(house: System, player: str) -> Refused:
    """How that is refused."""
    with pytest.raises(Refused) as caught:
        await check(house, player)
    return caught.value


async def erase(house: System, player: str) -> tuple[int, int]:
    """Erase as the lobby: how many texts and how many connections went."""
    request = audit_pb2.ErasePlayerRequest(request_id=new_id(), player_id=player)
    reply = await house.lobby.call(house.lobby.audits.ErasePlayer, request)
    return reply.texts, reply.connections


async def stored(house: System) -> tuple[list[str], list[tuple[str, int]]]:
    """The texts there are, and whose connections."""
    engine = open_engine(house.settings.database_url("game"))
    try:
        async with read(engine) as connection:
            words = (await connection.execute(select(texts.dispute_texts.c.words))).scalars().all()
            rows = await connection.execute(select(connections.c.game, connections.c.seat))
            return list(words), sorted({(str(game), seat) for game, seat in rows})
    finally:
        await close_engine(engine)


def octets(folder: Path) -> bytes:
    """What lies in the game's embedded database, if that is where it is."""
    return b"".join(file.read_bytes() for file in folder.glob("game.db*"))


async def watched(house: System, game_id: str, *players: str) -> None:
    """Have players watch a game to its end, and wait until that is written down."""
    for player in players:
        async for _ in house.game(player).watch(game_id):
            pass
    async with asyncio.timeout(10):
        for player in players:
            mine = house.game(player)
            request = audit_pb2.GetTracesRequest(game_id=game_id)
            while len((await mine.call(mine.audits.GetTraces, request)).connections) < STREAMS * 2:
                await asyncio.sleep(0.05)


async def test_a_running_game_stands_against_it(tmp_path: Path) -> None:
    """It is named; a game he never sat in does not matter."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        found = await refused(house, request.seats[0].player_id)
        assert (found.reason, found.facts["game_id"]) == ("GAME_RUNNING", request.game_id)
        await check(house, new_id())


async def test_an_open_dispute_stands_against_it_whoever_opened_it(tmp_path: Path) -> None:
    """For all who sat in the game, until it is closed; for others it does not."""
    async with system(tmp_path) as house:
        here = await finished(house)
        one, two = here.players[:2]
        opened = await here.open(one)
        for player in (one, two):
            found = await refused(house, player)
            assert (found.reason, found.facts) == (
                "DISPUTE_OPEN",
                {**found.facts, "dispute_id": opened.dispute_id, "game_id": here.game_id},
            )
        await check(house, new_id())
        await here.rule(opened)
        await check(house, one)
        await check(house, two)


async def test_an_open_claim_stands_against_it_unless_it_is_left(tmp_path: Path) -> None:
    """An operator may leave it uncollected; once it is collected there is none."""
    async with system(tmp_path, due_lease_ms=1_000) as house:
        here = await finished(house)
        rich, poor = here.players[:2]
        await here.fund(1_000)
        await here.spend(poor, await here.balance(poor) - 40)
        opened = await here.open(rich)
        await here.rule(opened, audit_pb2.REMEDY_CORRECTION, p0=100, p1=-100)
        await here.until(opened, audit_pb2.DISPUTE_STATE_CLOSED)
        found = await refused(house, poor)
        assert (found.reason, found.facts["chips"]) == ("CLAIM_OPEN", "60")
        assert found.facts["dispute_id"] == opened.dispute_id
        await check(house, poor, leave_claims=True)
        await check(house, rich)
        await here.grant(poor, 60)
        await here.collect(opened, poor)
        await here.collected(opened, 60)
        await check(house, poor)


@BOTH
async def test_texts_and_connections_go_and_the_rest_stays_sound(
    tmp_path: Path, database: str
) -> None:
    """His in all his games, nobody else's; log, tree and rulings are audited as before."""
    async with house_on(tmp_path, database) as house:
        here = await finished(house)
        gone, other = here.players[:2]
        second = await finished(house, other, gone)
        for court in (here, second):
            await court.rule(await court.open(gone, WORDS))
            await court.rule(await court.open(other, "Mine."))
            await watched(house, court.game_id, gone, other)
        assert await erase(house, gone) == (4, 2 * STREAMS * 2)
        assert await erase(house, gone) == (0, 0)
        words, rows = await stored(house)
        assert sorted(words) == ["It was so.", "It was so.", "Mine.", "Mine."]
        assert set(rows) == {(here.game_id, 1), (second.game_id, 0)}
        for court in (here, second):
            assert await court.faults() == []
            disputes = await court.ask(
                court.seat(gone), "ListDisputes", audit_pb2.ListDisputesRequest()
            )
            assert [d.complaint_erased for d in disputes.disputes] == [True, True]
            view = await court.seat(other).view(court.game_id)
            assert gone in [seat.player_id for seat in view.seats]
        assert WORDS.encode() not in octets(tmp_path)


async def test_what_is_not_yet_written_down_goes_as_well(tmp_path: Path) -> None:
    """Streams that have just closed are in memory only; nothing is written of them afterwards."""
    async with system(tmp_path) as house:
        here = await finished(house)
        gone, other = here.players[:2]
        async for _ in here.seat(other).watch(here.game_id):
            pass
        async for _ in here.seat(gone).watch(here.game_id):
            pass
        await erase(house, gone)
    _, rows = await stored(house)
    assert set(rows) == {(here.game_id, 1)}


async def test_who_comes_and_goes_without_end_hides_nobody_else(tmp_path: Path) -> None:
    """A seat has so many rows of a game; the others' are written as ever, and at once."""
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'game.db'}")
    try:
        await migrate_engine(engine, FOLDERS)
        kept, game = Connections(engine), uuid7(1_800_000_000_000, bytes(10))
        for _ in range(2):
            for _ in range(ROWS_MAX):
                with kept.open(game, 0):
                    pass
            await kept.flush()
        with kept.open(game, 1):
            pass
        await asyncio.gather(*(kept.flush() for _ in range(3)))
        seats = Counter(each.seat for each in await kept.of_game(game))
        assert seats == {0: ROWS_MAX, 1: 2}
    finally:
        await close_engine(engine)


async def test_traces_are_shown_to_whom_they_are_about(tmp_path: Path) -> None:
    """One's own connections and operators' looks; another player's connections to no player."""
    async with system(tmp_path) as house:
        here = await finished(house)
        one, two = here.players[:2]
        await watched(house, here.game_id, one, two)
        await here.olga.view(here.game_id)
        request = audit_pb2.GetTracesRequest(game_id=here.game_id)
        mine = await here.ask(here.seat(one), "GetTraces", request)
        assert sorted(c.opened for c in mine.connections) == [False] * STREAMS + [True] * STREAMS
        assert len({c.connection_id for c in mine.connections}) == STREAMS
        assert [look.action for look in mine.looks] == ["GetGame"]
        other = audit_pb2.GetTracesRequest(game_id=here.game_id, player_id=two)
        assert await here.refused(here.seat(one), "GetTraces", other) == "NOT_YOURS"
        theirs = await here.ask(here.olga, "GetTraces", other)
        assert not {c.connection_id for c in theirs.connections} & {
            c.connection_id for c in mine.connections
        }
        for player in ("", new_id()):
            request.player_id = player
            reason = await here.refused(here.olga, "GetTraces", request)
            assert reason == ("GAME_NOT_FOUND" if player else "INVALID_FIELD")
        stranger = audit_pb2.GetTracesRequest(game_id=here.game_id)
        assert await here.refused(house.game(new_id()), "GetTraces", stranger) == "GAME_NOT_FOUND"


async def test_nobody_is_told_that_he_is_looked_at_while_he_plays(tmp_path: Path) -> None:
    """An operator's look at a running game is no trace before its end."""
    async with system(tmp_path) as house:
        request = await house.open(people=2, bots=0)
        mine = house.game(request.seats[0].player_id)
        await house.operator.view(request.game_id)
        asked = audit_pb2.GetTracesRequest(game_id=request.game_id)
        assert list((await mine.call(mine.audits.GetTraces, asked)).looks) == []


async def test_only_the_lobby_erases(tmp_path: Path) -> None:
    """Neither the player himself nor an operator, nor another service."""
    async with system(tmp_path) as house:
        player = new_id()
        callers = (house.game(player), house.operator, Seat(house.client("game", "ai", "ai")))
        for caller in callers:
            for method, request in (
                (caller.audits.CheckErasure, audit_pb2.CheckErasureRequest(player_id=player)),
                (
                    caller.audits.ErasePlayer,
                    audit_pb2.ErasePlayerRequest(request_id="r", player_id=player),
                ),
            ):
                with pytest.raises(Refused, match="ROLE_NOT_ALLOWED"):
                    await caller.call(method, request)
        lobby = house.lobby
        for bad in ("", "x"):
            with pytest.raises(Refused, match="player_id"):
                await check(house, bad)
            erasing = audit_pb2.ErasePlayerRequest(request_id="r", player_id=bad)
            with pytest.raises(Refused, match="player_id"):
                await lobby.call(lobby.audits.ErasePlayer, erasing)
