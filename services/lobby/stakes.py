"""Who plays in which game at the moment, and with how many chips: counted where a game begins.

A game begins for its persons all at once, each within his limits, or for none. The row that says
so is there from before the game is created until its end is counted, so that games which run beside
each other are counted together, on whichever replica they were begun.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import and_, delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Refused, precondition
from services.lobby.limits import Ask
from services.lobby.schema import player_games, stakes
from services.lobby.usage import refused, restraints, take_turns
from services.runtime.database import database_now, read, write

GAMES_PER_PLAYER = 16
STALE_US = 600 * 1_000_000
"""A game that has begun longer ago is looked at by the sweep: whether it still runs."""


@dataclass(frozen=True, slots=True)
class Stake:
    """A person at the table seat `seat` who is to play with a stack of `chips`, `fresh` of them not
    from an earlier game at the table."""

    seat: int
    player: UUID
    chips: int
    fresh: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A game that has begun at a table, and when (database time, microseconds)."""

    game: UUID
    table_id: UUID
    at: int


class Stakes:
    """The games that have begun, in one database; methods raise StoreUnavailable.

    A player is in `most` of them at once. `clock` (Unix microseconds) stands in for the database's
    in tests.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        clock: Callable[[], int] | None = None,
        most: int = GAMES_PER_PLAYER,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._most = most

    async def require_room(self, player: UUID) -> None:
        """Raise Refused TOO_MANY_GAMES unless the player may begin one game more.

        Nothing is put aside for him: only `hold` does that.
        """
        async with read(self._engine) as connection:
            crowded = await self._crowded(connection, [player])
        if crowded:
            raise too_many_games(self._most)

    async def hold(self, game: UUID, table_id: UUID, given: Sequence[Stake]) -> tuple[int, ...]:
        """Let a game begin for these persons; done again it is done once.

        The seats of those who play as many games as one may already, or whose limits do not allow
        it: then it has begun for nobody.
        """
        if not given:
            return ()
        async with write(self._engine) as connection:
            await take_turns(connection, (stake.player for stake in given))
            if await _known(connection, game):
                return ()
            now = await database_now(connection) if self._clock is None else self._clock()
            crowded = await self._crowded(connection, [stake.player for stake in given])
            over = await _over(connection, given, crowded, now)
            if not over:
                values = [
                    {
                        "game_id": game,
                        "player_id": stake.player,
                        "table_id": table_id,
                        "chips": stake.chips,
                        "fresh": stake.fresh,
                        "begun_at": now,
                    }
                    for stake in given
                ]
                await connection.execute(insert(stakes), values)
        return over

    async def release(self, game: UUID) -> None:
        """The game will not be played, or was counted."""
        async with write(self._engine) as connection:
            await connection.execute(delete(stakes).where(stakes.c.game_id == game))

    async def stale(self, after: Begun | None, limit: int) -> list[Begun]:
        """Games that began long ago, oldest first, after one of them."""
        at, game = stakes.c.begun_at, stakes.c.game_id
        query = select(game, stakes.c.table_id, at).distinct().order_by(at, game).limit(limit)
        if after is not None:
            query = query.where(or_(at > after.at, and_(at == after.at, game > after.game)))
        async with read(self._engine) as connection:
            now = await database_now(connection) if self._clock is None else self._clock()
            rows = await connection.execute(query.where(at < now - STALE_US))
            return [Begun(*row) for row in rows]

    async def _crowded(self, connection: AsyncConnection, ids: Sequence[UUID]) -> set[UUID]:
        """Those of these players who play as many games as one may."""
        row = stakes.c
        query = select(row.player_id).where(row.player_id.in_(ids)).group_by(row.player_id)
        return set((await connection.execute(query.having(func.count() >= self._most))).scalars())


def too_many_games(most: int) -> Refused:
    """A player begins no other game until one of his has ended."""
    return precondition(
        "TOO_MANY_GAMES",
        f"a player has {most} games at most that have not ended",
        limit="games",
        most=str(most),
    )


async def _known(connection: AsyncConnection, game: UUID) -> bool:
    """Whether the game has begun, or was played already."""
    for table in (stakes, player_games):
        if await connection.scalar(select(table.c.game_id).where(table.c.game_id == game).limit(1)):
            return True
    return False


async def _over(
    connection: AsyncConnection, given: Sequence[Stake], crowded: set[UUID], now: int
) -> tuple[int, ...]:
    found = await restraints(connection, (stake.player for stake in given))
    over = []
    for stake in given:
        restraint, ask = found.get(stake.player), Ask(stake.chips, stake.fresh)
        if stake.player in crowded or (
            restraint is not None
            and await refused(connection, stake.player, restraint, ask, now) is not None
        ):
            over.append(stake.seat)
    return tuple(over)
