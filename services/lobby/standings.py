"""How players stand, as it is kept: a row a player and game, and sums of them.

The sums follow from the rows and are written with them, in one transaction in which nobody else
counts for these players (`take_turns`). The same end counted twice is counted once.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, bindparam, delete, insert, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.lobby.erasures import Step, require_staying
from services.lobby.model import Variant
from services.lobby.periods import Period, begun
from services.lobby.schema import erasures, listings, player_games, stakes, standings
from services.lobby.standing import (
    LISTED,
    Measures,
    Numbers,
    PlayerGame,
    Span,
    counted,
    is_ranked,
    joined,
    measures,
)
from services.lobby.usage import take_turns
from services.runtime.database import database_now, read, write

KEYS = tuple(standings.primary_key.columns)
KEY_NAMES = {column.name for column in KEYS}
NUMBERS = ("games", "firsts", "duraks", "nulls", "points", "chips_in", "chips_out")
"""The columns of Numbers, in the order of its fields."""
UPDATE = (
    update(standings)
    .where(*(column == bindparam(f"of_{column.name}") for column in KEYS))
    .values({c.name: bindparam(c.name) for c in standings.columns if c.name not in KEY_NAMES})
)
"""Writes a row anew."""
LINES_AT_ONCE = 100
"""How many games are added up in one go; others are served before the next."""


@dataclass(frozen=True, slots=True)
class SeatEnd:
    """How a game came out for a player who is no bot."""

    player: UUID
    place: int
    points: int
    first: bool
    durak: bool
    chips_in: int
    chips_out: int


@dataclass(frozen=True, slots=True)
class GameEnd:
    """A game that ended: `seats` of its persons, none where it was cancelled; `people` when no bot
    sat in it. `begun_at` and `ended_at` where they are known from elsewhere."""

    game: UUID
    table_id: UUID
    variant: Variant
    finished: bool
    people: bool
    nulled: bool
    seats: tuple[SeatEnd, ...]
    begun_at: int | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """A player on a leaderboard; `measures` are what he is ranked by."""

    player: UUID
    measures: Measures
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Statistics:
    """A player's numbers of all time in a game."""

    variant: Variant
    listed: bool
    people: Numbers
    with_bots: Numbers


class Standings:
    """How players stand in one database; methods raise StoreUnavailable when it is gone.

    `clock` (Unix microseconds) stands in for the database's in tests.
    """

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None = None) -> None:
        self._engine = engine
        self._clock = clock

    async def record(self, end: GameEnd) -> bool:
        """Count a game once, and let go of what was at stake in it; whether it was news."""
        async with write(self._engine) as connection:
            held = await _stakes_of(connection, end.game)
            given = {seat.player for seat in end.seats} or held.keys()
            await take_turns(connection, given)
            held = await _stakes_of(connection, end.game)
            await connection.execute(delete(stakes).where(stakes.c.game_id == end.game))
            if await _is_counted(connection, end.game):
                return False
            now = await self._now(connection)
            gone = await _gone(connection, given)
            lines = [line for line in _lines(end, held, now) if line.player not in gone]
            if lines:
                await connection.execute(insert(player_games), [_row(line) for line in lines])
                await _add(connection, end.variant, lines)
        return bool(lines)

    async def statistics(self, player: UUID) -> list[Statistics]:
        """A player's numbers of all time, one of each game."""
        query = select(standings).where(
            standings.c.player_id == player, standings.c.period == Period.ALL
        )
        async with read(self._engine) as connection:
            rows = {(r.variant, r.people): r for r in await connection.execute(query)}
            said = (await _listed(connection, [player]))[player]
        return [
            Statistics(
                variant,
                said[variant],
                _numbers(rows.get((variant, True))),
                _numbers(rows.get((variant, False))),
            )
            for variant in Variant
        ]

    async def games(
        self, player: UUID, variant: Variant | None, before: tuple[int, UUID] | None, limit: int
    ) -> list[PlayerGame]:
        """A player's games that ended before one, named by its end and id; the latest first."""
        row = player_games.c
        query = select(player_games).where(row.player_id == player)
        if variant is not None:
            query = query.where(row.variant == variant)
        if before is not None:
            at, game = before
            query = query.where(
                or_(row.ended_at < at, and_(row.ended_at == at, row.game_id < game))
            )
        query = query.order_by(row.ended_at.desc(), row.game_id.desc()).limit(limit)
        async with read(self._engine) as connection:
            return [_line(each) for each in await connection.execute(query)]

    async def lines(self, games: Sequence[UUID]) -> list[PlayerGame]:
        """What these games were to their players."""
        query = select(player_games).where(player_games.c.game_id.in_(games))
        async with read(self._engine) as connection:
            return [_line(each) for each in await connection.execute(query)]

    async def leaders(
        self, variant: Variant, period: Period, after: Leader | None, limit: int
    ) -> tuple[int, list[Leader]]:
        """When the present period began (0: all time), and the players after one, best first."""
        async with read(self._engine) as connection:
            since = begun(period, await self._now(connection))
            rows = await connection.execute(board(variant, period, since, after).limit(limit))
            return since, [_leader(each) for each in rows]

    async def set_listed(self, player: UUID, variant: Variant, *, listed: bool) -> None:
        """Put a player on a leaderboard, or take him off; raises Refused BEING_ERASED."""
        said = {"player_id": player, "variant": variant, "listed": listed}
        same = (listings.c.player_id == player, listings.c.variant == variant)
        async with write(self._engine) as connection:
            await take_turns(connection, [player])
            await require_staying(connection, player)
            found = await connection.execute(update(listings).where(*same).values(listed=listed))
            if not found.rowcount:
                await connection.execute(insert(listings).values(said))
            row = standings.c
            mine = select(standings).where(row.player_id == player, row.variant == variant)
            rows = await connection.execute(mine)
            sums = [_sum_row(player, _span(each), _numbers(each), listed) for each in rows]
            if sums:
                await connection.execute(UPDATE, [_named(each) for each in sums])

    async def strike(self, game: UUID, *, struck: bool) -> int:
        """Let a game count for nobody, or again; how many lines that changed."""
        mine = player_games.c.game_id == game
        async with write(self._engine) as connection:
            query = select(player_games.c.player_id).where(mine)
            players = list((await connection.execute(query)).scalars())
            await take_turns(connection, players)
            others = update(player_games).where(mine, player_games.c.struck != struck)
            changed = await connection.execute(others.values(struck=struck))
            for player in players:
                await _recount(connection, player)
        return changed.rowcount

    async def counted_players(self, after: UUID | None, limit: int) -> list[UUID]:
        """Players of whom anything is counted, in the order of their ids."""
        found: set[UUID] = set()
        async with read(self._engine) as connection:
            for column in (player_games.c.player_id, standings.c.player_id):
                query = select(column).distinct().order_by(column).limit(limit)
                if after is not None:
                    query = query.where(column > after)
                found.update((await connection.execute(query)).scalars())
        return sorted(found)[:limit]

    async def verify(self, player: UUID, *, repair: bool) -> bool:
        """Whether what is counted of a player is what his games give; if not it may be repaired."""
        async with write(self._engine) as connection:
            await take_turns(connection, [player])
            return await _recount(connection, player, repair=repair)

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()


def board(variant: Variant, period: Period, since: int, after: Leader | None) -> Select[Any]:
    """The rows of a leaderboard after a player, in the order of the index `standings_ranked`."""
    row = standings.c
    place = tuple_(row.measure, row.measure_next, row.measure_last, row.player_id)
    query = select(standings).where(
        row.ranked, row.variant == variant, row.period == period, row.begun_at == since
    )
    if after is not None:
        last = zip((*after.measures, after.player), place.clauses, strict=True)
        bound = (bindparam(None, value, type_=column.type) for value, column in last)
        query = query.where(place < tuple_(*bound))
    return query.order_by(*(column.desc() for column in place.clauses))


async def _stakes_of(connection: AsyncConnection, game: UUID) -> Mapping[UUID, Any]:
    rows = await connection.execute(select(stakes).where(stakes.c.game_id == game))
    return {row.player_id: row for row in rows}


async def _is_counted(connection: AsyncConnection, game: UUID) -> bool:
    query = select(player_games.c.game_id).where(player_games.c.game_id == game).limit(1)
    return await connection.scalar(query) is not None


async def _gone(connection: AsyncConnection, players: Iterable[UUID]) -> set[UUID]:
    """Those of these players whose erasure can no longer be refused."""
    query = select(erasures.c.player_id).where(
        erasures.c.player_id.in_(list(players)), erasures.c.step >= Step.EMPTIED
    )
    return set((await connection.execute(query)).scalars())


def _lines(end: GameEnd, held: Mapping[UUID, Any], now: int) -> list[PlayerGame]:
    """The rows of a game; of a cancelled one for those who had begun it."""
    ended_at = now if end.ended_at is None else end.ended_at
    given = _made_at(end.game) if end.begun_at is None else end.begun_at
    seats = end.seats or tuple(SeatEnd(each, 0, 0, False, False, 0, 0) for each in held)
    lines = []
    for seat in seats:
        stake = held.get(seat.player)
        lines.append(
            PlayerGame(
                player=seat.player,
                game=end.game,
                table_id=end.table_id,
                variant=end.variant,
                begun_at=min(given if stake is None else stake.begun_at, ended_at),
                ended_at=ended_at,
                finished=end.finished,
                struck=False,
                people=end.people,
                place=seat.place,
                points=seat.points,
                first=seat.first,
                durak=seat.durak,
                nulled=end.nulled,
                chips_in=seat.chips_in,
                chips_out=seat.chips_out,
                fresh=stake.fresh if stake is not None and end.finished else 0,
            )
        )
    return lines


def _made_at(game: UUID) -> int:
    """When a game's id was made: a UUIDv7 begins with its milliseconds."""
    return (game.int >> 80) * 1_000


async def _add(connection: AsyncConnection, variant: Variant, lines: Sequence[PlayerGame]) -> None:
    """Count a game for its players."""
    added = {
        (line.player, span): numbers for line in lines for span, numbers in counted([line]).items()
    }
    row, players = standings.c, {line.player for line in lines}
    since = {span.begun_at for _, span in added}
    query = select(standings).where(
        row.player_id.in_(players), row.variant == variant, row.begun_at.in_(since)
    )
    known = {(each.player_id, _span(each)): each for each in await connection.execute(query)}
    listed = await _listed(connection, players)
    changed: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    for (player, span), numbers in added.items():
        before = known.get((player, span))
        sums = _sum_row(player, span, _numbers(before).plus(numbers), listed[player][variant])
        (new if before is None else changed).append(sums)
    if changed:
        await connection.execute(UPDATE, [_named(sums) for sums in changed])
    if new:
        await connection.execute(insert(standings), new)


async def _recount(connection: AsyncConnection, player: UUID, *, repair: bool = True) -> bool:
    """Whether a player's sums are what his games give, and with `repair` make them so."""
    mine = select(player_games).where(player_games.c.player_id == player)
    sums: dict[Span, Numbers] = {}
    rows_at_once = (await connection.execute(mine)).partitions(LINES_AT_ONCE)
    for some in rows_at_once:
        sums = joined(sums, counted(_line(row) for row in some))
        await asyncio.sleep(0)
    said = (await _listed(connection, [player]))[player]
    rows = [_sum_row(player, span, sums[span], said[span.variant]) for span in sorted(sums)]
    stored = select(standings).where(standings.c.player_id == player).order_by(*KEYS)
    found = [dict(row._mapping) for row in await connection.execute(stored)]  # noqa: SLF001
    if found == rows:
        return True
    if repair:
        await connection.execute(delete(standings).where(standings.c.player_id == player))
        if rows:
            await connection.execute(insert(standings), rows)
    return False


async def _listed(
    connection: AsyncConnection, players: Iterable[UUID]
) -> dict[UUID, dict[Variant, bool]]:
    """Whether these players are on leaderboards, by game."""
    said = {player: dict(LISTED) for player in players}
    query = select(listings).where(listings.c.player_id.in_(list(said)))
    for row in await connection.execute(query):
        said[row.player_id][Variant(row.variant)] = row.listed
    return said


def _span(row: Any) -> Span:
    return Span(Variant(row.variant), Period(row.period), row.begun_at, row.people)


def _named(sums: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `UPDATE`."""
    keys = {f"of_{column.name}": sums[column.name] for column in KEYS}
    return keys | {name: value for name, value in sums.items() if f"of_{name}" not in keys}


def _sum_row(player: UUID, span: Span, numbers: Numbers, listed: bool) -> dict[str, Any]:
    measure, following, last = measures(span.variant, numbers)
    return {
        "player_id": player,
        "variant": span.variant.value,
        "period": span.period.value,
        "begun_at": span.begun_at,
        "people": span.people,
        **dict(zip(NUMBERS, astuple(numbers), strict=True)),
        "listed": listed,
        "ranked": is_ranked(span, numbers, listed=listed),
        "measure": measure,
        "measure_next": following,
        "measure_last": last,
    }


def _row(line: PlayerGame) -> dict[str, Any]:
    names = (column.name for column in player_games.columns)
    return dict(zip(names, astuple(line), strict=True))


def _line(row: Any) -> PlayerGame:
    made = PlayerGame(*row)
    return replace(made, variant=Variant(made.variant))


def _numbers(row: Any) -> Numbers:
    return Numbers() if row is None else Numbers(*(getattr(row, name) for name in NUMBERS))


def _leader(row: Any) -> Leader:
    found = (row.measure, row.measure_next, row.measure_last)
    return Leader(row.player_id, found, _numbers(row))
