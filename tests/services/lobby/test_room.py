"""At how many tables a player may sit at once."""

import asyncio

from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.errors import Refused
from tests.services.lobby.hall import Hall, durak


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
