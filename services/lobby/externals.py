"""Players who sign in by an external issuer: the issuer's subject is a player, for good."""

import hashlib
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import exc, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from engines.shuffle import framed
from services.lobby.challenges import Challenges
from services.lobby.oidc import Claims, ExternalIssuer
from services.lobby.players import Player, Players, display_name
from services.lobby.schema import externals, players
from services.lobby.sessions import Beginning, Means, Refreshing, hold_player
from services.runtime.database import read, write

BOUND = "external"


@dataclass(frozen=True, slots=True)
class Known:
    """An issuer who knows a player, and since when (database time, microseconds)."""

    issuer: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Entered:
    """Who came in by an external issuer, and whether he was new."""

    player: Player
    refresh: Refreshing
    created: bool


class Externals:
    """The external identities of one database; raises StoreUnavailable when it is gone."""

    def __init__(
        self,
        engine: AsyncEngine,
        players: Players,
        challenges: Challenges,
        issuer: ExternalIssuer,
    ) -> None:
        self._engine = engine
        self._players = players
        self._challenges = challenges
        self._issuer = issuer

    async def of_player(self, player: UUID) -> list[Known]:
        """Whom a player signs in by."""
        query = select(externals).where(externals.c.player_id == player)
        async with read(self._engine) as connection:
            rows = await connection.execute(query.order_by(externals.c.created_at))
            return [Known(row.issuer, row.created_at) for row in rows]

    async def sign_in(self, id_token: str, name: str, device_name: str) -> Entered:
        """Begin a session by an id token, with a new player for a subject that has none.

        Raises what `ExternalIssuer` and `Challenges` raise, Refused INVALID_FIELD for a new
        player's name, BEING_ERASED.
        """
        claims = await self._issuer.read(id_token)
        self._challenges.check(claims.nonce, BOUND, field="id_token")
        try:
            return await self._enter(claims, name, device_name)
        except exc.IntegrityError:  # the same subject came in at the same moment
            return await self._enter(claims, name, device_name)

    async def _enter(self, claims: Claims, name: str, device_name: str) -> Entered:
        beginning = Beginning(Means.EXTERNAL, device_name)
        async with write(self._engine) as connection:
            await self._challenges.spend(connection, claims.nonce)
            player = await self._known(connection, claims)
            created = player is None
            if player is None:
                player = await self._make(connection, claims, name)
            await hold_player(connection, player.player)
            refresh = await self._players.sessions.begin(connection, player.player, beginning)
        return Entered(player, refresh, created)

    async def _known(self, connection: AsyncConnection, claims: Claims) -> Player | None:
        query = (
            select(players)
            .join(externals, externals.c.player_id == players.c.player_id)
            .where(externals.c.identity == identity(claims))
        )
        row = (await connection.execute(query)).one_or_none()
        return None if row is None else Player(row.player_id, row.display_name, row.bot)

    async def _make(self, connection: AsyncConnection, claims: Claims, name: str) -> Player:
        player = await self._players.make(connection, display_name(name))
        await connection.execute(
            insert(externals).values(
                identity=identity(claims),
                player_id=player.player,
                issuer=claims.issuer,
                created_at=await self._players.now(connection),
            )
        )
        return player


def identity(claims: Claims) -> bytes:
    """What is kept of an issuer and its subject."""
    made_of = framed(b"kozyr external 1", claims.issuer.encode(), claims.subject.encode())
    return hashlib.sha256(made_of).digest()
