"""At how many tables a player may sit at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Refused
from services.lobby import seatings
from services.lobby.server import FOLDERS
from services.runtime.database import close_engine, open_engine, read, write
from tests import postgres
from tests.services.lobby.hall import Hall, durak, two_lobbies


async def test_a_player_sits_at_eight_tables_at_most(hall: Hall) -> None:
    """Opening and sitting down count; leaving makes room."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    other = (await dato.call(pb.CreateTableRequest(rules=durak(3)))).table
    made = [(await nino.call(pb.CreateTableRequest(rules=durak(3)))).table for _ in range(8)]
    for request in (
        pb.CreateTableRequest(rules=durak(3)),
        pb.TakeSeatRequest(table_id=other.table_id),
        pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI),
    ):
        assert (await nino.refused(request)).reason == "TOO_MANY_TABLES"
    await nino.call(pb.LeaveSeatRequest(table_id=made[0].table_id))
    assert await nino.call(pb.TakeSeatRequest(table_id=other.table_id))


async def test_a_repeated_request_is_answered_though_there_is_no_room_any_more(hall: Hall) -> None:
    """It sat him down, he has left since, and sits at as many tables as he may."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    other = (await dato.call(pb.CreateTableRequest(rules=durak(3)))).table
    take = pb.TakeSeatRequest(request_id="sit down once", table_id=other.table_id)
    first = await nino.call(take)
    await nino.call(pb.LeaveSeatRequest(table_id=other.table_id))
    for _ in range(8):
        await nino.call(pb.CreateTableRequest(rules=durak(3)))
    assert await nino.call(take) == first
    anew = pb.TakeSeatRequest(table_id=other.table_id)
    assert (await nino.refused(anew)).reason == "TOO_MANY_TABLES"


async def test_tables_taken_at_once_are_counted_as_well(hall: Hall) -> None:
    """However many calls come at the same moment, and whichever they are."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    others = [(await dato.call(pb.CreateTableRequest(rules=durak(3)))).table for _ in range(6)]
    asked = [
        *(pb.CreateTableRequest(rules=durak(3)) for _ in range(6)),
        *(pb.TakeSeatRequest(table_id=table.table_id) for table in others),
        *(pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI) for _ in range(6)),
    ]
    answers = await asyncio.gather(*map(nino.call, asked), return_exceptions=True)
    refused = [each.reason for each in answers if isinstance(each, Refused)]
    assert set(refused) == {"TOO_MANY_TABLES"}
    mine = (await nino.call(pb.ListTablesRequest(mine=True, page_size=100))).tables
    assert len(mine) == 8


async def test_tables_taken_at_two_replicas_are_counted_together(
    tmp_path: Path, postgres_url: str
) -> None:
    """At the same moment, in any way of sitting down; who is told to come back does."""
    url = await postgres.migrated(postgres_url, FOLDERS)
    async with two_lobbies(tmp_path, url, tables_per_player_max=3) as halls:
        nino, dato = await halls[0].guest("Nino"), await halls[0].guest("Dato")
        here_and_there = [hall.caller(hall.token("players", nino.player_id)) for hall in halls]
        others = [(await dato.call(pb.CreateTableRequest(rules=durak(3)))).table for _ in range(3)]

        async def sit(number: int) -> str:
            who = here_and_there[number % 2]
            request = (
                pb.CreateTableRequest(rules=durak(3))
                if number % 3
                else pb.TakeSeatRequest(table_id=others[number // 3].table_id)
            )
            while True:
                try:
                    await who.call(request)
                except Refused as refused:
                    if refused.reason != "SEATING_UNDER_WAY":
                        return refused.reason
                else:
                    return ""

        outcomes = await asyncio.gather(*map(sit, range(8)))
        assert sorted(outcomes) == [""] * 3 + ["TOO_MANY_TABLES"] * 5
        mine = (await nino.call(pb.ListTablesRequest(mine=True))).tables
        assert len(mine) == 3


async def test_one_player_has_one_seat_whatever_he_calls_from(
    tmp_path: Path, postgres_url: str
) -> None:
    """Two devices at two replicas sit down at one table at the same moment: one seat is taken."""
    url = await postgres.migrated(postgres_url, FOLDERS)
    async with two_lobbies(tmp_path, url) as halls:
        nino, dato = await halls[0].guest("Nino"), await halls[0].guest("Dato")
        table = (await dato.call(pb.CreateTableRequest(rules=durak(6)))).table
        devices = [hall.caller(hall.token("players", nino.player_id)) for hall in (*halls, *halls)]
        answers = await asyncio.gather(
            *(each.call(pb.TakeSeatRequest(table_id=table.table_id)) for each in devices),
            return_exceptions=True,
        )
        refused = [each.reason for each in answers if isinstance(each, Refused)]
        assert set(refused) <= {"ALREADY_SEATED", "SEATING_UNDER_WAY"}
        assert len(refused) == len(devices) - 1
        after = (await dato.call(pb.GetTableRequest(table_id=table.table_id))).table
        seats = [seat.player_id for seat in after.seats if seat.player_id]
        assert sorted(seats) == sorted([nino.player_id, dato.player_id])


async def test_a_call_that_ends_as_its_turn_comes_holds_nobody_up(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller gave up at that very moment: the next call need not wait for the lease."""
    engine = open_engine(await postgres.migrated(postgres_url, FOLDERS))
    held: list[str] = []

    @asynccontextmanager
    async def given_up(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        async with write(engine) as connection:
            yield connection
        held.append("")
        if len(held) == 1:
            raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(seatings, "write", given_up)
        with pytest.raises(asyncio.CancelledError):
            async with seatings.Seatings(engine).of(UUID(int=1)):
                raise AssertionError
    async with read(engine) as connection:
        assert (await connection.execute(select(seatings.seatings))).all() == []
    await close_engine(engine)
