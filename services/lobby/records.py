"""What tables' logs hold of a player: the events he made, and those that are about him."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from kozyr.lobby.events.v1 import table_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.envelope import Recorded
from services.lobby import codec
from services.lobby.evolve import tag_of_invited, tag_of_player
from services.lobby.model import (
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    SeatLeft,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    TableClosed,
    TableOpened,
    ToppedUp,
)
from services.runtime import validate
from services.runtime.moments import timestamp
from services.runtime.seal import Field, open_page, seal_page
from services.runtime.store.api import Damaged, Store
from services.runtime.streams import refusals

PAGE_DEFAULT = 200
PAGE_MAX = 500
ROWS_MAX = 2_000
"""The most rows looked at for one page."""
STEP = 500


@dataclass(frozen=True, slots=True)
class Told:
    """A row of a table's log, and the player's seat before and after it."""

    row: Recorded
    event: Event
    seat: int | None
    seat_after: int | None


async def table_events(
    store: Store, seal_key: bytes, request: pb.ListTableEventsRequest, player: UUID
) -> pb.ListTableEventsResponse:
    """A page of a player's events, the newest tables first. Rows that cannot be read are left out.

    Raises Refused.
    """
    size = validate.page_size(request.page_size, default=PAGE_DEFAULT, high=PAGE_MAX)
    bound = (str(player),)
    place = open_page(seal_key, "table events", bound, request.page_token)
    page, looked = pb.ListTableEventsResponse(), 0
    async for told in _told(store, player, place):
        looked += 1
        own = told.row.metadata == f"player:{player}".encode()
        if own or concerns(told.event, player, told.seat):
            page.events.append(_shown(told.row, player, own=own))
        if len(page.events) == size or looked == ROWS_MAX:
            mark = (str(told.row.stream), told.row.version, told.seat_after)
            page.next_page_token = seal_page(seal_key, "table events", bound, mark)
            break
    return page


def concerns(event: Event, player: UUID, seat: int | None) -> bool:
    """Whether an event names the player, or the seat he has."""
    match event:
        case TableOpened(host, rules):
            return player == host or player in rules.invited
        case HostChanged(host):
            return host == player
        case SeatTaken() | PlayerInvited() | PlayerUninvited():
            return event.player == player
        case SeatLeft() | ReadySet() | ToppedUp():
            return event.seat == seat
        case StartBegun(_, seats) | StartAbandoned(_, _, seats):
            return seat in seats
        case GameEnded():
            return event.winner == player or seat in [each.seat for each in event.outcomes]
        case StartFailed() | GameStarted() | TableClosed():
            return False
        case _:
            assert_never(event)


async def _told(store: Store, player: UUID, place: tuple[Field, ...]) -> AsyncIterator[Told]:
    """What the logs of the player's tables tell, the newest table first, after a place."""
    if place:
        table, version, seat = UUID(str(place[0])), int(place[1] or 0), place[2]
        async for told in _of_table(store, table, player, version, _seat(seat)):
            yield told
    before = UUID(str(place[0])) if place else None
    while True:
        tables = await _tables_of(store, player, before)
        for table in tables:
            async for told in _of_table(store, table, player, 0, None):
                yield told
        if len(tables) < STEP:
            return
        before = tables[-1]


async def _tables_of(store: Store, player: UUID, before: UUID | None) -> list[UUID]:
    """The newest tables where the player sits, sat or is or was invited, `STEP` at most."""
    with refusals():
        sat = await store.tagged(tag_of_player(player), before, STEP)
        invited = await store.tagged(tag_of_invited(player), before, STEP)
    return sorted({head.stream for head in (*sat, *invited)}, reverse=True)[:STEP]


async def _of_table(
    store: Store, table: UUID, player: UUID, after: int, seat: int | None
) -> AsyncIterator[Told]:
    while True:
        with refusals():
            rows = await store.read(table, after, STEP)
        for row in rows:
            try:
                event = codec.decode(row)
            except Damaged:
                continue
            before, seat = seat, _moved(event, player, seat)
            yield Told(row, event, before, seat)
        if len(rows) < STEP:
            return
        after = rows[-1].version


def _moved(event: Event, player: UUID, seat: int | None) -> int | None:
    """The player's seat after an event."""
    match event:
        case SeatTaken() if event.player == player:
            return event.seat
        case SeatLeft(number) if number == seat:
            return None
        case _:
            return seat


def _seat(field: Field) -> int | None:
    return None if field is None else int(field)


def _shown(row: Recorded, player: UUID, *, own: bool) -> pb.TableEvent:
    """A row as the player may have it: who opened a table to others named them, he did not."""
    message = codec.READERS[row.name][0].FromString(row.payload)
    if isinstance(message, table_pb2.TableOpened) and not own:
        message.invite_code = ""
        del message.invited_ids[:]
        message.invited_ids.append(str(player))
    content = MessageToDict(message, preserving_proto_field_name=True)
    return pb.TableEvent(
        table_id=str(row.stream),
        version=row.version,
        recorded_time=timestamp(row.recorded_at),
        name=row.name,
        own=own,
        content=json.dumps(content, ensure_ascii=False),
    )
