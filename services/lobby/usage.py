"""What players have used of their limits, from the games that ended and those that run."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.kernel.errors import Refused
from services.lobby.limits import (
    Ask,
    Exclusion,
    Limit,
    LimitKind,
    Loosening,
    Restraint,
    Usage,
    played_ms,
    refusal,
)
from services.lobby.periods import Period, begun
from services.lobby.schema import exclusions, limits, player_games, stakes
from services.runtime import turns

PERIODS = (Period.DAY, Period.WEEK, Period.MONTH)


async def take_turns(connection: AsyncConnection, players: Iterable[UUID]) -> None:
    """Wait until no other transaction counts or limits what these players play."""
    await turns.take_turns(connection, (b"plays" + player.bytes for player in players))


async def restraints(connection: AsyncConnection, players: Iterable[UUID]) -> dict[UUID, Restraint]:
    """What limits those of these players who are limited in any way."""
    wanted = list(players)
    given: dict[UUID, dict[LimitKind, Limit]] = {}
    for row in await connection.execute(select(limits).where(limits.c.player_id.in_(wanted))):
        given.setdefault(row.player_id, {})[LimitKind(row.kind)] = _limit(row)
    asked = select(exclusions).where(exclusions.c.player_id.in_(wanted))
    out = {
        row.player_id: Exclusion(row.own_until, row.house_until)
        for row in await connection.execute(asked)
    }
    return {
        player: Restraint(given.get(player, {}), out.get(player, Exclusion()))
        for player in given.keys() | out.keys()
    }


async def usage(connection: AsyncConnection, player: UUID, now: int) -> Usage:
    """What a player has used up by now."""
    today = begun(Period.DAY, now)
    mine, row = player_games.c.player_id == player, player_games.c
    ended = await connection.execute(
        select(row.begun_at, row.ended_at, row.fresh).where(mine, row.ended_at >= today)
    )
    spans, brought = [], 0
    for begun_at, ended_at, fresh in ended:
        spans.append((begun_at, ended_at))
        brought += fresh if begun_at >= today else 0
    running = await connection.execute(select(stakes).where(stakes.c.player_id == player))
    at_risk = 0
    for stake in running:
        spans.append((stake.begun_at, now))
        brought += stake.fresh if stake.begun_at >= today else 0
        at_risk += stake.chips
    lost = {}
    for period in PERIODS:
        net = select(func.coalesce(func.sum(row.chips_in - row.chips_out), 0))
        since = begun(period, now)
        lost[period] = int(
            (await connection.execute(net.where(mine, row.ended_at >= since))).scalar_one()
        )
    return Usage(lost, at_risk, brought, played_ms(spans, now))


async def refused(
    connection: AsyncConnection, player: UUID, restraint: Restraint, ask: Ask, now: int
) -> Refused | None:
    """Why a player may not begin such a game now."""
    if not any(limit.amount(now) is not None for limit in restraint.limits.values()):
        return refusal(restraint, Usage(), ask, now)
    return refusal(restraint, await usage(connection, player, now), ask, now)


def _limit(row: Any) -> Limit:
    loosening = None
    if row.loosens_at is not None:
        loosening = Loosening(row.loosened, row.loosens_at)
    return Limit(row.own, loosening, row.house)
