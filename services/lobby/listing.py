"""Listing tables, page by page."""

from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2 as pb

from services.lobby.directory import Directory
from services.lobby.filters import candidates, fits, wanted
from services.lobby.tables import Tables
from services.runtime import validate
from services.runtime.seal import open_page, seal_page

PAGE_DEFAULT = 20
PAGE_MAX = 100
LOOKED_MAX = 2_000
"""The most tables that are looked at for one page."""


async def list_tables(
    tables: Tables,
    directory: Directory,
    seal_key: bytes,
    request: pb.ListTablesRequest,
    viewer: UUID | None,
) -> pb.ListTablesResponse:
    """Open tables that fit the request, newest first.

    A page looks at `LOOKED_MAX` tables at most, so it may hold fewer than asked for and still name
    a next page. Raises Refused.
    """
    size = validate.page_size(request.page_size, default=PAGE_DEFAULT, high=PAGE_MAX)
    asked = wanted(request, viewer)
    bound = (str(viewer), *(str(getattr(asked, name)) for name in asked.__slots__))
    token = open_page(seal_key, "tables", bound, request.page_token)
    before = UUID(str(token[0])) if token else None
    await directory.fresh()
    found, more = [], None
    for looked, (table_id, table) in enumerate(candidates(directory, asked, before), 1):
        if fits(table, asked):
            found.append((table_id, table))
        if len(found) == size or looked == LOOKED_MAX:
            more = table_id
            break
    page = pb.ListTablesResponse(
        tables=[await tables.show(table_id, table, viewer) for table_id, table in found]
    )
    if more is not None:
        page.next_page_token = seal_page(seal_key, "tables", bound, (str(more),))
    return page
