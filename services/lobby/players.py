"""Who is who: guests, bots, and the secrets that sign-ups give.

Repeating a sign-up. The secret cannot be shown twice, for it is not kept. The same request id and
name within ten minutes, before the account was used, give the same player with a *new* secret and
new tokens; the earlier ones end. So a client whose answer was lost loses nothing, and whoever
repeats another's request later gets nothing. The request id of a sign-up is itself a secret until
then: it must be long, and is kept as a hash.

A display name stays as it was chosen. Names are not unique, and everybody at a table goes by them:
who could change his would shed what others know of him, or take another's, in one call.
"""

import secrets
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from uuid import UUID

from sqlalchemy import exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, invalid
from services.kernel.ids import RANDOM_BYTES, uuid7
from services.lobby.erasures import Step, require_staying
from services.lobby.schema import erasures, players
from services.lobby.sessions import (
    REFRESH_US,
    SECRET_BYTES,
    Beginning,
    Means,
    Refreshing,
    Sessions,
    digest,
    end_others,
    end_where,
    hold_player,
    mark_used,
    new_secret,
    now_by,
)
from services.runtime.database import read, write
from services.runtime.store.api import RequestReused

NAME_MAX = 24
"""Longest display name, in characters."""
SIGN_UP_REQUEST_MIN = 16
"""Shortest request id of a sign-up, in characters."""
SIGN_UP_REPEAT_US = 600 * 1_000_000
"""How long a sign-up may be repeated, in microseconds."""
NAMES_CACHED = 20_000
FORMER = "former player"
"""What a player who was erased is called."""


@dataclass(frozen=True, slots=True)
class Player:
    """A player as others see him."""

    player: UUID
    name: str
    bot: bool
    erased: bool = False


@dataclass(frozen=True, slots=True)
class SignedUp:
    """A new guest with what he needs to come back."""

    player: Player
    secret: str = field(repr=False)
    refresh: Refreshing


def display_name(text: str, field: str = "display_name") -> str:
    """A display name in NFC: 1 to 24 letters, digits, single blanks, `-`, `_`, `.`.

    It begins and ends with a letter, a digit or one of the signs, and has a letter or a digit.
    Raises Refused naming `field`.
    """
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= NAME_MAX:
        raise invalid(field, f"must have 1 to {NAME_MAX} characters")
    if name != " ".join(name.split()):
        raise invalid(field, "no blanks at the ends and no two in a row")
    if not all(_may_stand(sign) for sign in name):
        raise invalid(field, "letters, digits, blanks, `-`, `_` and `.` only")
    if not any(sign.isalnum() for sign in name):
        raise invalid(field, "needs a letter or a digit")
    return name


class Players:
    """The players of one database; every method raises StoreUnavailable when it is gone.

    `clock` (Unix microseconds) stands in for the database's in tests; `key` is the one by which
    repeated tries to refresh are answered, the same in all replicas; spent refresh tokens are known
    for `spent_keep_ms`.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        clock: Callable[[], int] | None = None,
        key: bytes | None = None,
        spent_keep_ms: int = REFRESH_US // 1_000,
    ) -> None:
        self._engine = engine
        self.now = now_by(clock)
        key = key or secrets.token_bytes(SECRET_BYTES)
        self.sessions = Sessions(engine, key, self.now, spent_keep_ms)
        self._known: OrderedDict[UUID, Player] = OrderedDict()

    async def sign_up(self, name: str, request_id: str, device_name: str = "") -> SignedUp:
        """Make a guest, or repeat it (see above).

        Raises RequestReused for another name, Refused ALREADY_SIGNED_UP when it is too late.
        """
        try:
            return await self._sign_up(name, request_id, device_name)
        except exc.IntegrityError:  # the same request won in between
            return await self._sign_up(name, request_id, device_name)

    async def sign_in(
        self, player: UUID, secret: str, device_name: str = ""
    ) -> tuple[Player, Refreshing]:
        """Begin a session by the account's secret; raises Refused SIGN_IN_REFUSED, BEING_ERASED."""
        async with write(self._engine) as connection:
            query = select(players).where(players.c.player_id == player)
            row = (await connection.execute(query.with_for_update())).one_or_none()
            held = row.secret if row is not None and row.secret is not None else bytes(32)
            if not compare_digest(held, digest(secret)) or row is None:
                raise Refused(
                    Kind.UNAUTHENTICATED, "SIGN_IN_REFUSED", "no such player, or another secret"
                )
            await mark_used(connection, player)
            beginning = Beginning(Means.SECRET, device_name)
            refresh = await self.sessions.begin(connection, player, beginning)
            return Player(row.player_id, row.display_name, row.bot), refresh

    async def renew_secret(self, player: UUID, session: str) -> str:
        """Another secret in the place of a player's, whose other sessions end; raises Refused
        SIGN_IN_NOT_FRESH, BEING_ERASED."""
        secret = new_secret()
        async with write(self._engine) as connection:
            await hold_player(connection, player)
            await self.sessions.require_fresh(connection, player, session)
            mine = update(players).where(players.c.player_id == player)
            await connection.execute(mine.values(secret=digest(secret)))
            await end_others(connection, player, session)
        return secret

    async def find(self, ids: Iterable[UUID]) -> dict[UUID, Player]:
        """Those of these players that exist, or did and were erased."""
        wanted = set(ids)
        missing = [player for player in wanted if player not in self._known]
        if missing:
            async with read(self._engine) as connection:
                query = select(players.c.player_id, players.c.display_name, players.c.bot)
                rows = await connection.execute(query.where(players.c.player_id.in_(missing)))
                for row in rows:
                    self._remember(Player(row.player_id, row.display_name, row.bot))
                gone = select(erasures.c.player_id).where(
                    erasures.c.player_id.in_(missing), erasures.c.step >= Step.ERASED
                )
                for player in (await connection.execute(gone)).scalars():
                    self._remember(Player(player, FORMER, bot=False, erased=True))
        found = {player: self._known[player] for player in wanted if player in self._known}
        while len(self._known) > NAMES_CACHED:
            self._known.popitem(last=False)
        return found

    def forget(self, ids: Iterable[UUID]) -> None:
        """Look these players' names up again when they are asked for."""
        for player in ids:
            self._known.pop(player, None)

    async def signed_up(self, player: UUID) -> tuple[Player, int] | None:
        """A player and when he signed up (database time, microseconds); None if there is no such
        player, or no longer."""
        async with read(self._engine) as connection:
            who = select(players).where(players.c.player_id == player)
            row = (await connection.execute(who)).one_or_none()
        if row is None:
            return None
        return Player(row.player_id, row.display_name, row.bot), row.created_at

    async def require_staying(self, player: UUID) -> None:
        """Raise Refused BEING_ERASED for a player who is being erased, or was."""
        async with read(self._engine) as connection:
            await require_staying(connection, player)

    async def leaving(self, ids: Iterable[UUID]) -> set[UUID]:
        """Those of these players who are being erased, or were."""
        async with read(self._engine) as connection:
            query = select(erasures.c.player_id).where(erasures.c.player_id.in_(list(ids)))
            return set((await connection.execute(query)).scalars())

    async def add_bots(self, bots: Sequence[Player]) -> None:
        """Make bot players; one that exists stays as it is."""
        for bot in bots:
            if await self.find([bot.player]):
                continue
            try:
                async with write(self._engine) as connection:
                    await self._insert(connection, bot, None, None)
            except exc.IntegrityError:
                continue

    async def without_account(self, limit: int = 50) -> list[UUID]:
        """Players whose wallet account is still to be opened, the longest waiting first."""
        async with read(self._engine) as connection:
            rows = await connection.execute(
                select(players.c.player_id)
                .where(players.c.account_due)
                .order_by(players.c.created_at)
                .limit(limit)
            )
            return list(rows.scalars())

    async def account_opened(self, player: UUID) -> None:
        """The wallet has opened the player's account."""
        async with write(self._engine) as connection:
            await connection.execute(
                update(players).where(players.c.player_id == player).values(account_due=False)
            )

    async def _sign_up(self, name: str, request_id: str, device_name: str) -> SignedUp:
        secret, request = new_secret(), digest(request_id)
        async with write(self._engine) as connection:
            query = select(players).where(players.c.sign_up == request)
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                player = await self.make(connection, name, request, digest(secret))
            else:
                player = Player(row.player_id, row.display_name, bot=False)
                if row.display_name != name:
                    raise RequestReused
                await self._renew(connection, player.player, digest(secret))
            beginning = Beginning(Means.SIGN_UP, device_name)
            refresh = await self.sessions.begin(connection, player.player, beginning)
        return SignedUp(player, secret, refresh)

    async def _renew(self, connection: AsyncConnection, player: UUID, secret: bytes) -> None:
        since = await self.now(connection) - SIGN_UP_REPEAT_US
        renewed = await connection.execute(
            update(players)
            .where(players.c.player_id == player, ~players.c.used, players.c.created_at > since)
            .values(secret=secret)
        )
        if renewed.rowcount != 1:
            raise Refused(
                Kind.EXISTS, "ALREADY_SIGNED_UP", "this request has made an account already"
            )
        await end_where(connection, player)

    async def make(
        self,
        connection: AsyncConnection,
        name: str,
        sign_up: bytes | None = None,
        secret: bytes | None = None,
    ) -> Player:
        """A new player; his wallet account is due."""
        now = await self.now(connection)
        identity = uuid7(now // 1000, secrets.token_bytes(RANDOM_BYTES))
        player = Player(identity, name, bot=False)
        await self._insert(connection, player, sign_up, secret)
        return player

    async def _insert(
        self,
        connection: AsyncConnection,
        player: Player,
        sign_up: bytes | None,
        secret: bytes | None,
    ) -> None:
        await connection.execute(
            insert(players).values(
                player_id=player.player,
                display_name=player.name,
                bot=player.bot,
                sign_up=sign_up,
                secret=secret,
                used=False,
                created_at=await self.now(connection),
                account_due=not player.bot,
            )
        )

    def _remember(self, player: Player) -> None:
        self._known[player.player] = player
        self._known.move_to_end(player.player)


def _may_stand(sign: str) -> bool:
    return sign in " -_." or unicodedata.category(sign) in {"Lu", "Ll", "Lt", "Lo", "Lm", "Nd"}
