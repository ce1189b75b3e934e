"""Listing tables, page by page."""

from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2 as pb

from services.lobby.evolve import TAG_OPEN, tag_of_player, tag_of_variant
from services.lobby.model import Phase, Table, Variant
from services.lobby.tables import SCAN_MAX, Tables
from services.runtime import validate
from services.runtime.seal import open_page, seal_page

PAGE_DEFAULT = 20
PAGE_MAX = 100


async def list_tables(
    tables: Tables, seal_key: bytes, request: pb.ListTablesRequest, viewer: UUID | None
) -> pb.ListTablesResponse:
    """Open tables newest first: listed ones, or with `mine` those where the viewer sits.

    A page looks at `SCAN_MAX` tables at most, so it may hold fewer tables than asked for and still
    name a next page.
    """
    size = validate.page_size(request.page_size, default=PAGE_DEFAULT, high=PAGE_MAX)
    bound = (str(viewer), request.variant, request.free_seat, request.mine)
    token = open_page(seal_key, "tables", bound, request.page_token)
    before = UUID(str(token[0])) if token else None
    page, looked, last = pb.ListTablesResponse(), 0, before
    async for found in tables.scan(_tag(request, viewer), before):
        looked, last = looked + 1, found.table_id
        if _wanted(found.table, request, viewer):
            page.tables.append(await tables.show(found.table_id, found.table, viewer))
        if len(page.tables) == size or looked == SCAN_MAX:
            page.next_page_token = seal_page(seal_key, "tables", bound, (str(last),))
            break
    return page


def _tag(request: pb.ListTablesRequest, viewer: UUID | None) -> str:
    if request.mine and viewer is not None:
        return tag_of_player(viewer)
    return tag_of_variant(Variant(request.variant).name) if request.variant else TAG_OPEN


def _wanted(table: Table, request: pb.ListTablesRequest, viewer: UUID | None) -> bool:
    if table.rules is None or table.phase is Phase.CLOSED:
        return False
    if request.mine and (viewer is None or table.seat_of(viewer) is None):
        return False
    if request.variant and table.rules.variant.value != int(request.variant):
        return False
    return bool(table.free()) or not request.free_seat
