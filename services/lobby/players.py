"""Who is who: guests, bots, secrets and refresh tokens.

Repeating a sign-up. The secret cannot be shown twice, for it is not kept. The same request id and
name within ten minutes, before the account was used, give the same player with a *new* secret and
new tokens; the earlier ones end. So a client whose answer was lost loses nothing, and whoever
repeats another's request later gets nothing. The request id of a sign-up is itself a secret until
then: it must be long, and is kept as a hash.

Refreshing. A token is spent by its first use and gives the next one of its family. Using a spent
token means that two hold it: the whole family ends, and the secret is needed to sign in again.
"""

import base64
import hashlib
import secrets
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from uuid import UUID

from sqlalchemy import delete, exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, invalid
from services.kernel.ids import RANDOM_BYTES, uuid7
from services.lobby.erasures import Step, require_staying
from services.lobby.schema import erasures, players, refresh_tokens
from services.runtime.database import database_now, read, write
from services.runtime.store.api import RequestReused

NAME_MAX = 24
"""Longest display name, in characters."""
SIGN_UP_REQUEST_MIN = 16
"""Shortest request id of a sign-up, in characters."""
SIGN_UP_REPEAT_US = 600 * 1_000_000
"""How long a sign-up may be repeated, in microseconds."""
REFRESH_US = 30 * 86_400 * 1_000_000
"""How long a refresh token can be used, in microseconds."""
SECRET_BYTES = 32
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
class Profile:
    """What is held of a player: when he signed up (database time, microseconds), and the moments at
    which his sign-ins end."""

    player: Player
    created_at: int
    sessions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refreshing:
    """A refresh token just made, and the moment it ends (database time, microseconds)."""

    token: str = field(repr=False)
    expires_at: int


@dataclass(frozen=True, slots=True)
class SignedUp:
    """A new guest with what he needs to come back."""

    player: Player
    secret: str = field(repr=False)
    refresh: Refreshing


def display_name(text: str) -> str:
    """A display name in NFC: 1 to 24 letters, digits, single blanks, `-`, `_`, `.`.

    It begins and ends with a letter, a digit or one of the signs, and has a letter or a digit.
    Raises Refused naming `display_name`.
    """
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= NAME_MAX:
        raise invalid("display_name", f"must have 1 to {NAME_MAX} characters")
    if name != " ".join(name.split()):
        raise invalid("display_name", "no blanks at the ends and no two in a row")
    if not all(_may_stand(sign) for sign in name):
        raise invalid("display_name", "letters, digits, blanks, `-`, `_` and `.` only")
    if not any(sign.isalnum() for sign in name):
        raise invalid("display_name", "needs a letter or a digit")
    return name


class Players:
    """The players of one database; every method raises StoreUnavailable when it is gone.

    `clock` (Unix microseconds) stands in for the database's in tests.
    """

    def __init__(self, engine: AsyncEngine, clock: Callable[[], int] | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._known: OrderedDict[UUID, Player] = OrderedDict()

    async def sign_up(self, name: str, request_id: str) -> SignedUp:
        """Make a guest, or repeat it (see above).

        Raises RequestReused for another name, Refused ALREADY_SIGNED_UP when it is too late.
        """
        try:
            return await self._sign_up(name, request_id)
        except exc.IntegrityError:  # the same request won in between
            return await self._sign_up(name, request_id)

    async def sign_in(self, player: UUID, secret: str) -> tuple[Player, Refreshing]:
        """Begin a new family of refresh tokens; raises Refused SIGN_IN_REFUSED, BEING_ERASED."""
        async with write(self._engine) as connection:
            query = select(players).where(players.c.player_id == player)
            row = (await connection.execute(query.with_for_update())).one_or_none()
            held = row.secret if row is not None and row.secret is not None else bytes(32)
            if not compare_digest(held, _hash(secret)) or row is None:
                raise Refused(
                    Kind.UNAUTHENTICATED, "SIGN_IN_REFUSED", "no such player, or another secret"
                )
            await self._mark_used(connection, player)
            refresh = await self._issue(connection, player, UUID(bytes=secrets.token_bytes(16)))
            return Player(row.player_id, row.display_name, row.bot), refresh

    async def refresh(self, token: str) -> tuple[UUID, Refreshing]:
        """Trade a refresh token for the next of its family.

        Raises Refused UNAUTHENTICATED: REFRESH_TOKEN_INVALID, REFRESH_TOKEN_EXPIRED, or
        REFRESH_TOKEN_REUSED, which ends the family; and BEING_ERASED.
        """
        async with write(self._engine) as connection:
            outcome = await self._trade(connection, _hash(token))
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

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

    async def profile(self, player: UUID) -> Profile | None:
        """What is held of a player; None if there is no such player, or no longer."""
        mine = refresh_tokens.c.player_id == player
        async with read(self._engine) as connection:
            who = select(players).where(players.c.player_id == player)
            row = (await connection.execute(who)).one_or_none()
            now = await self._now(connection)
            ends = await connection.execute(
                select(refresh_tokens.c.expires_at)
                .where(mine, ~refresh_tokens.c.spent, refresh_tokens.c.expires_at > now)
                .order_by(refresh_tokens.c.expires_at)
            )
            sessions = tuple(ends.scalars())
        if row is None:
            return None
        shown = Player(row.player_id, row.display_name, row.bot)
        return Profile(shown, row.created_at, sessions)

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

    async def _sign_up(self, name: str, request_id: str) -> SignedUp:
        secret, request = _new_secret(), _hash(request_id)
        async with write(self._engine) as connection:
            query = select(players).where(players.c.sign_up == request)
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                now = await self._now(connection)
                identity = uuid7(now // 1000, secrets.token_bytes(RANDOM_BYTES))
                player = Player(identity, name, bot=False)
                await self._insert(connection, player, request, _hash(secret))
            else:
                player = Player(row.player_id, row.display_name, bot=False)
                if row.display_name != name:
                    raise RequestReused
                await self._renew(connection, player.player, _hash(secret))
            family = UUID(bytes=secrets.token_bytes(16))
            refresh = await self._issue(connection, player.player, family)
        return SignedUp(player, secret, refresh)

    async def _renew(self, connection: AsyncConnection, player: UUID, secret: bytes) -> None:
        since = await self._now(connection) - SIGN_UP_REPEAT_US
        renewed = await connection.execute(
            update(players)
            .where(players.c.player_id == player, ~players.c.used, players.c.created_at > since)
            .values(secret=secret)
        )
        if renewed.rowcount != 1:
            raise Refused(
                Kind.EXISTS, "ALREADY_SIGNED_UP", "this request has made an account already"
            )
        await connection.execute(delete(refresh_tokens).where(refresh_tokens.c.player_id == player))

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
                created_at=await self._now(connection),
                account_due=not player.bot,
            )
        )

    async def _trade(
        self, connection: AsyncConnection, token: bytes
    ) -> tuple[UUID, Refreshing] | Refused:
        """The next token, or the refusal to give once what it changed is committed."""
        query = select(refresh_tokens).where(refresh_tokens.c.hash == token)
        row = (await connection.execute(query.with_for_update())).one_or_none()
        if row is None:
            return _no_token("REFRESH_TOKEN_INVALID", "the refresh token is not valid")
        if row.spent:
            await connection.execute(
                delete(refresh_tokens).where(refresh_tokens.c.family == row.family)
            )
            return _no_token("REFRESH_TOKEN_REUSED", "a spent token was used; sign in again")
        if row.expires_at <= await self._now(connection):
            return _no_token("REFRESH_TOKEN_EXPIRED", "the refresh token has expired")
        await connection.execute(
            update(refresh_tokens).where(refresh_tokens.c.hash == token).values(spent=True)
        )
        await self._mark_used(connection, row.player_id)
        return row.player_id, await self._issue(connection, row.player_id, row.family)

    async def _issue(self, connection: AsyncConnection, player: UUID, family: UUID) -> Refreshing:
        await require_staying(connection, player)
        token, now = _new_secret(), await self._now(connection)
        await connection.execute(
            delete(refresh_tokens).where(
                refresh_tokens.c.player_id == player, refresh_tokens.c.expires_at <= now
            )
        )
        await connection.execute(
            insert(refresh_tokens).values(
                hash=_hash(token),
                family=family,
                player_id=player,
                expires_at=now + REFRESH_US,
                spent=False,
            )
        )
        return Refreshing(token, now + REFRESH_US)

    async def _mark_used(self, connection: AsyncConnection, player: UUID) -> None:
        await connection.execute(
            update(players).where(players.c.player_id == player, ~players.c.used).values(used=True)
        )

    async def _now(self, connection: AsyncConnection) -> int:
        return await database_now(connection) if self._clock is None else self._clock()

    def _remember(self, player: Player) -> None:
        self._known[player.player] = player
        self._known.move_to_end(player.player)


def _may_stand(sign: str) -> bool:
    return sign in " -_." or unicodedata.category(sign) in {"Lu", "Ll", "Lt", "Lo", "Lm", "Nd"}


def _new_secret() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _no_token(reason: str, message: str) -> Refused:
    return Refused(Kind.UNAUTHENTICATED, reason, message)
