"""Sessions: a sign-in and the refresh tokens traded since.

Refreshing. A token is spent by its first use and gives the next one of its family. Using a spent
token means that two hold it: the whole family ends, and one has to sign in again.

A client whose answer was lost must be told from a thief, and is, by the name of his try: he alone
knows it. A try that is named gives a token that follows from the token before, the name and a key
of the service. So the same try again, for a minute and until the new token is used, gives the same
new token and makes no second one; whoever has the old token alone ends the family as ever.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from uuid import UUID

from sqlalchemy import and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from engines.shuffle import framed
from services.kernel.errors import Kind, Refused, precondition
from services.kernel.ids import parse_uuid
from services.lobby.erasures import lock_player, require_staying
from services.lobby.schema import players, refresh_tokens, sessions
from services.runtime import log
from services.runtime.database import database_now, read, write

REFRESH_US = 30 * 86_400 * 1_000_000
"""How long a refresh token can be used, in microseconds."""
AGAIN_US = 60 * 1_000_000
"""How long a try to refresh may be repeated, in microseconds."""
FRESH_US = 600 * 1_000_000
"""How long after a session's begin it may change how its player signs in, in microseconds."""
SESSIONS_MAX = 50
"""Most sessions of a player; another one ends the one that was renewed longest ago."""
SECRET_BYTES = 32

Now = Callable[[AsyncConnection], Awaitable[int]]
"""The moment, Unix microseconds."""


class Means(IntEnum):
    """How a session begins; the numbers are those of `SignInMeans`."""

    UNKNOWN = 0
    SIGN_UP = 1
    SECRET = 2
    PASSWORD = 3
    KEY = 4
    EXTERNAL = 5


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a session begins, what it is called, and by which device's key."""

    means: Means
    device_name: str = ""
    device: UUID | None = None


@dataclass(frozen=True, slots=True)
class Refreshing:
    """A refresh token just made, the moment it ends (database time, microseconds), its session."""

    token: str = field(repr=False)
    expires_at: int
    session: UUID


@dataclass(frozen=True, slots=True)
class Session:
    """A session as its player sees it; moments are database time in microseconds."""

    session: UUID
    expires_at: int
    means: Means
    device_name: str
    started_at: int | None
    renewed_at: int | None


class Sessions:
    """The sessions of one database; every method raises StoreUnavailable when it is gone.

    Tokens that follow from a try follow from `key`. A spent one is known for `spent_keep_ms`.
    """

    def __init__(
        self, engine: AsyncEngine, key: bytes, now: Now, spent_keep_ms: int = REFRESH_US // 1_000
    ) -> None:
        self._engine = engine
        self._key = key
        self._now = now
        self._spent_keep_us = spent_keep_ms * 1_000

    async def begin(
        self, connection: AsyncConnection, player: UUID, beginning: Beginning
    ) -> Refreshing:
        """A new session of a player whose row is held; raises Refused BEING_ERASED."""
        session = UUID(bytes=secrets.token_bytes(16))
        refresh = await self._issue(connection, player, session, new_secret())
        await self._end_surplus(connection, player)
        await connection.execute(
            insert(sessions).values(
                session_id=session,
                player_id=player,
                means=beginning.means,
                device_name=beginning.device_name,
                device_id=beginning.device,
                started_at=await self._now(connection),
            )
        )
        return refresh

    async def refresh(self, token: str, attempt: str = "") -> tuple[UUID, Refreshing]:
        """Trade a refresh token for the next of its family.

        Raises Refused UNAUTHENTICATED: REFRESH_TOKEN_INVALID, REFRESH_TOKEN_EXPIRED, or
        REFRESH_TOKEN_REUSED, which ends the family; and BEING_ERASED.
        """
        async with write(self._engine) as connection:
            outcome = await self._trade(connection, token, attempt)
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    async def of_player(self, player: UUID) -> tuple[Session, ...]:
        """A player's sessions, the one that ends first before others."""
        async with read(self._engine) as connection:
            now = await self._now(connection)
            rows = await connection.execute(
                select(refresh_tokens.c.family, refresh_tokens.c.expires_at, sessions)
                .outerjoin(sessions, sessions.c.session_id == refresh_tokens.c.family)
                .where(
                    refresh_tokens.c.player_id == player,
                    ~refresh_tokens.c.spent,
                    refresh_tokens.c.expires_at > now,
                )
                .order_by(refresh_tokens.c.expires_at, refresh_tokens.c.family)
            )
            return tuple(
                Session(
                    session=row.family,
                    expires_at=row.expires_at,
                    means=Means(row.means or 0),
                    device_name=row.device_name or "",
                    started_at=row.started_at,
                    renewed_at=row.renewed_at,
                )
                for row in rows
            )

    async def end(self, player: UUID, session: UUID | None = None) -> None:
        """End one session of a player, or all of them; one that is not there has ended."""
        async with write(self._engine) as connection:
            await lock_player(connection, player)
            chosen = [] if session is None else [refresh_tokens.c.family == session]
            await end_where(connection, player, *chosen)

    async def sweep(self) -> None:
        """Remove tokens that have expired, spent ones that were kept for long enough, and what is
        known of sessions that have none left; whoever they belong to, and whether he comes back."""
        row, families = refresh_tokens.c, select(refresh_tokens.c.family)
        async with write(self._engine) as connection:
            now = await self._now(connection)
            old = (row.expires_at <= now) | (row.spent_at <= now - self._spent_keep_us)
            await connection.execute(delete(refresh_tokens).where(old))
            ended = families.where(row.family == sessions.c.session_id).exists()
            await connection.execute(delete(sessions).where(~ended))

    async def require_fresh(self, connection: AsyncConnection, player: UUID, session: str) -> None:
        """Raise Refused SIGN_IN_NOT_FRESH unless this session of his began a short while ago and
        goes on: release 0.1.0 ends the tokens of one alone."""
        query = (
            select(sessions.c.session_id)
            .join(refresh_tokens, refresh_tokens.c.family == sessions.c.session_id)
            .where(
                sessions.c.player_id == player,
                sessions.c.started_at > await self._now(connection) - FRESH_US,
            )
            .distinct()
        )
        if session not in {str(found) for found in (await connection.execute(query)).scalars()}:
            raise precondition(
                "SIGN_IN_NOT_FRESH",
                "sign in again before you change how you sign in",
                within_ms=str(FRESH_US // 1_000),
            )

    async def _trade(
        self, connection: AsyncConnection, token: str, attempt: str
    ) -> tuple[UUID, Refreshing] | Refused:
        """The next token, or the refusal to give once what it changed is committed."""
        mine = refresh_tokens.c.hash == digest(token)
        whose = select(refresh_tokens.c.player_id).where(mine)
        player = (await connection.execute(whose)).scalar_one_or_none()
        if player is not None:
            await lock_player(connection, player)
        row = (await connection.execute(select(refresh_tokens).where(mine))).one_or_none()
        if row is None:
            return _no_token("REFRESH_TOKEN_INVALID", "the refresh token is not valid")
        now, following = await self._now(connection), self._following(token, attempt)
        if row.spent:
            again = await self._again(connection, row, attempt, following, now)
            if again is not None:
                return row.player_id, again
            await end_where(connection, row.player_id, refresh_tokens.c.family == row.family)
            log.get().warning("refresh_token_reused", account=row.player_id, session=row.family)
            return _no_token("REFRESH_TOKEN_REUSED", "a spent token was used; sign in again")
        if row.expires_at <= now:
            return _no_token("REFRESH_TOKEN_EXPIRED", "the refresh token has expired")
        named = digest(attempt) if attempt else None
        spent = {"spent": True, "attempt": named, "spent_at": now}
        await connection.execute(update(refresh_tokens).where(mine).values(spent))
        await mark_used(connection, row.player_id)
        await connection.execute(
            update(sessions).where(sessions.c.session_id == row.family).values(renewed_at=now)
        )
        return row.player_id, await self._issue(connection, row.player_id, row.family, following)

    async def _again(
        self, connection: AsyncConnection, row: Any, attempt: str, following: str, now: int
    ) -> Refreshing | None:
        """What the try that spent a token gave, if this is that try and it may be repeated."""
        named = digest(attempt)
        if not attempt or row.attempt is None or not hmac.compare_digest(row.attempt, named):
            return None
        if row.spent_at is None or row.spent_at <= now - AGAIN_US:
            return None
        query = select(refresh_tokens.c.expires_at).where(
            refresh_tokens.c.hash == digest(following), ~refresh_tokens.c.spent
        )
        expires_at = (await connection.execute(query)).scalar_one_or_none()
        if expires_at is None:
            return None
        await require_staying(connection, row.player_id)
        return Refreshing(following, expires_at, row.family)

    def _following(self, token: str, attempt: str) -> str:
        if not attempt:
            return new_secret()
        made_of = framed(b"kozyr refresh 1", token.encode(), attempt.encode())
        return _text(hmac.digest(self._key, made_of, "sha256"))

    async def _issue(
        self, connection: AsyncConnection, player: UUID, family: UUID, token: str
    ) -> Refreshing:
        await require_staying(connection, player)
        now = await self._now(connection)
        await connection.execute(
            delete(refresh_tokens).where(
                refresh_tokens.c.player_id == player, refresh_tokens.c.expires_at <= now
            )
        )
        await connection.execute(
            insert(refresh_tokens).values(
                hash=digest(token),
                family=family,
                player_id=player,
                expires_at=now + REFRESH_US,
                spent=False,
            )
        )
        return Refreshing(token, now + REFRESH_US, family)

    async def _end_surplus(self, connection: AsyncConnection, player: UUID) -> None:
        """End sessions beyond the most there may be, and forget those that ran out."""
        family, renewed = refresh_tokens.c.family, func.max(refresh_tokens.c.expires_at)
        mine = select(family).where(refresh_tokens.c.player_id == player)
        kept = mine.group_by(family).order_by(renewed.desc(), family).limit(SESSIONS_MAX)
        families = (await connection.execute(kept)).scalars().all()
        if len(families) == SESSIONS_MAX:
            await end_where(connection, player, family.not_in(families))
        await connection.execute(
            delete(sessions).where(
                sessions.c.player_id == player, sessions.c.session_id.not_in(families)
            )
        )


def now_by(clock: Callable[[], int] | None) -> Now:
    """The database's clock, or one that stands in for it (Unix microseconds)."""
    if clock is None:
        return database_now

    async def now(_connection: AsyncConnection) -> int:
        return clock()

    return now


async def end_where(connection: AsyncConnection, player: UUID, *chosen: Any) -> None:
    """End the sessions of a player whose row is held and whose refresh tokens are chosen."""
    families = select(refresh_tokens.c.family).where(refresh_tokens.c.player_id == player, *chosen)
    await end_sessions(
        connection, player, (await connection.execute(families.distinct())).scalars().all()
    )


async def end_others(connection: AsyncConnection, player: UUID, session: str) -> None:
    """End all sessions but this one of a player whose row is held."""
    kept = parse_uuid(session)
    others = [] if kept is None else [refresh_tokens.c.family != kept]
    await end_where(connection, player, *others)


async def end_sessions(connection: AsyncConnection, player: UUID, ended: Sequence[UUID]) -> None:
    """End these sessions of a player whose row is held."""
    for table, column in ((refresh_tokens, "family"), (sessions, "session_id")):
        await connection.execute(
            delete(table).where(and_(table.c.player_id == player, table.c[column].in_(ended)))
        )


async def hold_player(connection: AsyncConnection, player: UUID) -> None:
    """Hold the row of a player who is about to change how he signs in.

    From then on a repeated sign-up gives nobody his account. Raises Refused BEING_ERASED.
    """
    await lock_player(connection, player)
    await require_staying(connection, player)
    await mark_used(connection, player)


async def mark_used(connection: AsyncConnection, player: UUID) -> None:
    """The account was used: its sign-up cannot be repeated any more."""
    await connection.execute(
        update(players).where(players.c.player_id == player, ~players.c.used).values(used=True)
    )


def new_secret() -> str:
    """A secret nobody can guess, 43 characters."""
    return _text(secrets.token_bytes(SECRET_BYTES))


def digest(text: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(text.encode()).digest()


def _text(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _no_token(reason: str, message: str) -> Refused:
    return Refused(Kind.UNAUTHENTICATED, reason, message)
