"""Which tables a caller wants to be shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.errors import invalid
from services.lobby.directory import Directory
from services.lobby.hosting import BUY_IN_MAX
from services.lobby.model import Phase, Table, Variant
from services.runtime import validate

FREE_SEATS_MAX = 6
"""A table has no more seats than this."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Open tables: listed ones, or with `mine` those where the viewer sits, with `invited` those
    that he may come to by invitation. Fees and chips are bounds, in chips."""

    viewer: UUID | None
    variant: Variant | None
    mine: bool
    invited: bool
    free_seats: int
    fee_min: int
    fee_max: int
    chips: int | None


def wanted(request: pb.ListTablesRequest | pb.WatchTablesRequest, viewer: UUID | None) -> Wanted:
    """What a request asks for; raises Refused naming the field."""
    for field in ("mine", "invited"):
        if getattr(request, field) and viewer is None:
            raise invalid(field, "for players only")
    free = validate.number("free_seats", request.free_seats, low=0, high=FREE_SEATS_MAX)
    fee_min = validate.number("entry_fee_min", request.entry_fee_min, low=0, high=BUY_IN_MAX)
    fee_max = BUY_IN_MAX
    if request.HasField("entry_fee_max"):
        fee_max = validate.number(
            "entry_fee_max", request.entry_fee_max, low=fee_min, high=BUY_IN_MAX
        )
    return Wanted(
        viewer=viewer,
        variant=Variant(request.variant) if request.variant else None,
        mine=request.mine,
        invited=request.invited,
        free_seats=max(free, int(request.free_seat)),
        fee_min=fee_min,
        fee_max=fee_max,
        chips=validate.number("chips", request.chips, low=0, high=BUY_IN_MAX) or None,
    )


def candidates(
    directory: Directory, asked: Wanted, before: UUID | None = None
) -> Iterator[tuple[UUID, Table]]:
    """The tables among which those wanted are, newest first, below `before`."""
    if asked.viewer is not None and (asked.mine or asked.invited):
        return directory.of(asked.viewer, before)
    return directory.newest(before, asked.variant, free=asked.free_seats > 0)


def fits(table: Table, asked: Wanted) -> bool:
    """Whether the table is one of those wanted."""
    rules = table.rules
    if rules is None or table.phase is Phase.CLOSED or not _shown(table, asked):
        return False
    if asked.variant is not None and rules.variant is not asked.variant:
        return False
    if not asked.fee_min <= rules.entry_fee <= asked.fee_max:
        return False
    if asked.chips is not None and rules.buy_in_min > asked.chips:
        return False
    return not asked.free_seats or len(table.free()) >= asked.free_seats


def _shown(table: Table, asked: Wanted) -> bool:
    """Whether the table may be listed for the viewer at all, for the reason he names."""
    if table.rules is None:
        return False
    if asked.viewer is None or not (asked.mine or asked.invited):
        return table.rules.listed
    sits = table.seat_of(asked.viewer) is not None
    return (not asked.mine or sits) and (not asked.invited or asked.viewer in table.rules.invited)
