"""LimitService: one method an RPC."""

from typing import Any
from uuid import UUID

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.lobby.v1 import limits_pb2 as pb
from kozyr.lobby.v1.limits_pb2_grpc import LimitServiceServicer

from services.kernel.errors import invalid
from services.lobby.limitbook import Action, Change, Held, LimitBook, Noted
from services.lobby.limits import CHIPS_MAX, DAY_MS, FOR_GOOD, LOSSES, PERIODS, LimitKind
from services.lobby.periods import renewed
from services.lobby.tables import Tables, request_of
from services.runtime import call, validate
from services.runtime.auth import Role
from services.runtime.moments import timestamp
from services.runtime.seal import open_page, seal_page

REASON_MAX = 200
"""Longest reason of an operator, in characters."""
YEARS_US = 100 * 365 * 86_400 * 1_000_000
"""The longest exclusion that ends."""
SECONDS_MAX = 253_402_300_800
"""Moments lie before the year 10000, in Unix seconds."""

Context = grpc.aio.ServicerContext[Any, Any]


class PlayLimits(LimitServiceServicer):
    """One method an RPC; who may call it is decided before, by the access table."""

    def __init__(self, book: LimitBook, tables: Tables, seal_key: bytes) -> None:
        self._book = book
        self._tables = tables
        self._seal_key = seal_key

    async def GetLimits(
        self, request: pb.GetLimitsRequest, context: Context
    ) -> pb.GetLimitsResponse:
        """A player's limits."""
        held = await self._book.look(call.whose(request.player_id))
        return pb.GetLimitsResponse(limits=limits_view(held))

    async def SetLimit(self, request: pb.SetLimitRequest, context: Context) -> pb.SetLimitResponse:
        """Set or lift a limit of one's own."""
        kind, amount = _kind(request.kind), _amount(request)
        change = _asked(request, call.player(), Action.SET, kind=kind, amount=amount)
        return pb.SetLimitResponse(limits=limits_view(await self._book.change(change)))

    async def WithdrawLimitChange(
        self, request: pb.WithdrawLimitChangeRequest, context: Context
    ) -> pb.WithdrawLimitChangeResponse:
        """Take a loosening back."""
        kind = _kind(request.kind)
        change = _asked(request, call.player(), Action.WITHDRAWN, kind=kind)
        return pb.WithdrawLimitChangeResponse(limits=limits_view(await self._book.change(change)))

    async def ExcludeMyself(
        self, request: pb.ExcludeMyselfRequest, context: Context
    ) -> pb.ExcludeMyselfResponse:
        """Exclude oneself; seats at tables that wait are left."""
        player, until = call.player(), _until(request)
        if until is None:
            raise invalid("end_time", "is required unless it is for good")
        change = _asked(request, player, Action.EXCLUDED, until=until)
        held = await self._book.look(player)
        sound = until == FOR_GOOD or held.now < until <= held.now + YEARS_US
        if not sound and not await self._book.made(change):
            raise invalid("end_time", "must be in the future, within a hundred years")
        held = await self._book.change(change)
        if until > held.now:
            await self._tables.stand_up(player, f"excluded:{change.request.hex()[:32]}")
        return pb.ExcludeMyselfResponse(limits=limits_view(held))

    async def ListLimitChanges(
        self, request: pb.ListLimitChangesRequest, context: Context
    ) -> pb.ListLimitChangesResponse:
        """A page of changes."""
        player, size = call.whose(request.player_id), validate.page_size(request.page_size)
        bound = (str(player),)
        fields = open_page(self._seal_key, "limit changes", bound, request.page_token)
        before = int(fields[0] or 0) if fields else None
        found = await self._book.changes(player, before, size + 1)
        operator = call.caller().role is Role.OPERATOR
        page = pb.ListLimitChangesResponse(
            changes=[_record(noted, operator=operator) for noted in found[:size]]
        )
        if len(found) > size:
            last = (found[size - 1].number,)
            page.next_page_token = seal_page(self._seal_key, "limit changes", bound, last)
        return page

    async def SetHouseLimit(
        self, request: pb.SetHouseLimitRequest, context: Context
    ) -> pb.SetHouseLimitResponse:
        """Set or lift the house's limit for a player."""
        player = validate.uuid("player_id", request.player_id)
        kind, amount, reason = _kind(request.kind), _amount(request), _reason(request.reason)
        change = _asked(
            request, player, Action.SET_BY_HOUSE, kind=kind, amount=amount, reason=reason
        )
        return pb.SetHouseLimitResponse(limits=limits_view(await self._book.change(change)))

    async def ExcludePlayer(
        self, request: pb.ExcludePlayerRequest, context: Context
    ) -> pb.ExcludePlayerResponse:
        """Exclude a player, or no longer; seats at tables that wait are left."""
        player = validate.uuid("player_id", request.player_id)
        until, reason = _until(request) or 0, _reason(request.reason)
        change = _asked(request, player, Action.EXCLUDED_BY_HOUSE, until=until, reason=reason)
        held = await self._book.change(change)
        if until > held.now:
            await self._tables.stand_up(player, f"excluded:{change.request.hex()[:32]}")
        return pb.ExcludePlayerResponse(limits=limits_view(held))


def limits_view(held: Held) -> pb.Limits:
    """A player's limits and what is left of them."""
    out, now = held.restraint.exclusion, held.now
    return pb.Limits(
        player_id=str(held.player),
        limits=[_limit(held, kind) for kind in LimitKind],
        exclusions=[
            _exclusion(until, by_house=by_house)
            for until, by_house in ((out.own, False), (out.house, True))
            if until > now
        ],
    )


def _limit(held: Held, kind: LimitKind) -> pb.Limit:
    limit, now = held.restraint.limit(kind), held.now
    view = pb.Limit(
        kind=pb.LimitKind.ValueType(kind),
        amount=limit.own_at(now),
        house_amount=limit.house,
        used=held.usage.used(kind),
        at_risk=held.usage.at_risk if kind in LOSSES else 0,
        renew_time=timestamp(renewed(PERIODS[kind], now)),
    )
    pending, amount = limit.pending(now), limit.amount(now)
    if pending is not None:
        change = pb.LimitChange(amount=pending.amount, effect_time=timestamp(pending.at))
        view.change.CopyFrom(change)
    if amount is not None:
        view.left = held.usage.left(kind, amount)
    return view


def _exclusion(until: int, *, by_house: bool) -> pb.Exclusion:
    end = None if until == FOR_GOOD else timestamp(until)
    return pb.Exclusion(for_good=until == FOR_GOOD, end_time=end, by_house=by_house)


def _record(noted: Noted, *, operator: bool) -> pb.LimitRecord:
    change = noted.change
    ends = change.until if change.until and change.until != FOR_GOOD else None
    return pb.LimitRecord(
        number=noted.number,
        change_time=timestamp(noted.changed_at),
        action=pb.LimitAction.ValueType(change.action),
        kind=pb.LimitKind.ValueType(change.kind or 0),
        amount=change.amount,
        end_time=None if ends is None else timestamp(ends),
        for_good=change.until == FOR_GOOD,
        operator=change.operator if operator else "",
        reason=change.reason,
        effect_time=timestamp(noted.effect_at),
    )


def _asked(request: Any, player: UUID, action: Action, **given: Any) -> Change:
    """The change that the caller asks for."""
    caller = call.caller()
    named = request_of(caller.key, request.request_id, request)
    by = caller.subject if caller.role is Role.OPERATOR else ""
    return Change(player, action, bytes.fromhex(named.key), named.body, operator=by, **given)


def _kind(kind: int) -> LimitKind:
    return LimitKind(validate.choice("kind", kind, tuple(LimitKind)))


def _amount(request: Any) -> int | None:
    if not request.HasField("amount"):
        return None
    high = DAY_MS if request.kind == LimitKind.TIME_DAY else CHIPS_MAX
    return validate.number("amount", request.amount, low=0, high=high)


def _until(request: Any) -> int | None:
    """The moment of a request's `end_time`, or for good; None if it names neither."""
    if request.for_good and request.HasField("end_time"):
        raise invalid("end_time", "must be absent where it is for good")
    if request.for_good:
        return FOR_GOOD
    return _moment(request.end_time) if request.HasField("end_time") else None


def _moment(at: Timestamp) -> int:
    if not 0 <= at.seconds < SECONDS_MAX or not 0 <= at.nanos < 10**9:
        raise invalid("end_time", "is no moment of our time")
    return at.seconds * 1_000_000 + at.nanos // 1_000


def _reason(text: str) -> str:
    return validate.text("reason", text, high=REASON_MAX)
