"""Players who sign in by an external issuer: the issuer's subject is a player, for good.

A subject that comes by itself is made a player; a player who is there already may link one. The id
token for that was asked for with a challenge for this player alone, so that nobody's sign-in can be
made to link him to somebody else's account.
"""

import hashlib
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import and_, exc, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from engines.shuffle import framed
from services.kernel.errors import Kind, Refused, precondition
from services.lobby.challenges import Challenges
from services.lobby.oidc import Claims, ExternalIssuer
from services.lobby.players import Player, Players, display_name
from services.lobby.schema import externals, players
from services.lobby.sessions import Beginning, Means, Refreshing, hold_player
from services.runtime.database import read, write

BOUND, LINK = "external", "link"
"""What challenges are for: to sign in, and to link a subject to the player they also name."""


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

    async def link(self, player: UUID, session: str, id_token: str) -> Known:
        """Let an id token's subject sign in to a player's account; one that does already stays.

        Raises what `ExternalIssuer` and `Challenges` raise, Refused SIGN_IN_NOT_FRESH,
        EXTERNAL_TAKEN, EXTERNAL_LINKED, BEING_ERASED.
        """
        claims = await self._issuer.read(id_token)
        self._challenges.check(claims.nonce, LINK, str(player), field="id_token")
        try:
            return await self._link(player, session, claims)
        except exc.IntegrityError:  # the same subject came in at the same moment
            return await self._link(player, session, claims)

    async def _link(self, player: UUID, session: str, claims: Claims) -> Known:
        async with write(self._engine) as connection:
            await hold_player(connection, player)
            await self._players.sessions.require_fresh(connection, player, session)
            mine = externals.c.player_id == player, externals.c.issuer == claims.issuer
            one = externals.c.identity == identity(claims)
            for row in await connection.execute(select(externals).where(one | and_(*mine))):
                if row.player_id != player:
                    raise Refused(
                        Kind.EXISTS, "EXTERNAL_TAKEN", "this identity signs in to another account"
                    )
                if row.identity != identity(claims):
                    raise precondition(
                        "EXTERNAL_LINKED", "this account has another identity of the issuer"
                    )
                return Known(row.issuer, row.created_at)
            await self._challenges.spend(connection, claims.nonce)
            return await self._bind(connection, player, claims)

    async def _bind(self, connection: AsyncConnection, player: UUID, claims: Claims) -> Known:
        """From now on the subject is this player."""
        known = Known(claims.issuer, await self._players.now(connection))
        await connection.execute(
            insert(externals).values(
                identity=identity(claims),
                player_id=player,
                issuer=known.issuer,
                created_at=known.created_at,
            )
        )
        return known

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
        await self._bind(connection, player.player, claims)
        return player


def identity(claims: Claims) -> bytes:
    """What is kept of an issuer and its subject."""
    made_of = framed(b"kozyr external 1", claims.issuer.encode(), claims.subject.encode())
    return hashlib.sha256(made_of).digest()
