"""Challenges: what a client signs, or has signed, to sign in once.

A challenge says itself what it is for and until when, under the service's seal: nothing is stored
for whoever asks. One that served is stored until it has expired, and serves no second time, on no
replica.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable

from sqlalchemy import delete, exc, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, invalid
from services.lobby.schema import challenges
from services.lobby.sessions import Now
from services.runtime.database import write
from services.runtime.seal import open_token, seal_token

LIVES_MS = 300_000
"""How long a challenge can be used."""
NONCE_BYTES = 16
PURPOSE = "challenge"


class Challenges:
    """Makes challenges and takes them back. `clock` gives Unix seconds."""

    def __init__(
        self, engine: AsyncEngine, key: bytes, now: Now, clock: Callable[[], float] = time.time
    ) -> None:
        self._engine = engine
        self._key = key
        self._now = now
        self._clock = clock

    def make(self, *bound: str) -> tuple[str, int]:
        """A challenge that is good for `bound` alone, and when it ends (Unix microseconds)."""
        ends_ms = int(self._clock() * 1_000) + LIVES_MS
        fields = (ends_ms, secrets.token_hex(NONCE_BYTES))
        sealed = seal_token(self._key, PURPOSE, bound, fields)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("="), ends_ms * 1_000

    def check(self, text: str, *bound: str, field: str = "challenge") -> None:
        """Raise Refused INVALID_ARGUMENT BAD_TOKEN, or UNAUTHENTICATED CHALLENGE_EXPIRED."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        except ValueError:
            raise invalid(field, "is not a token for this request", "BAD_TOKEN") from None
        ends_ms, _ = open_token(self._key, PURPOSE, bound, sealed, field)
        if int(ends_ms or 0) <= self._clock() * 1_000:
            raise Refused(Kind.UNAUTHENTICATED, "CHALLENGE_EXPIRED", "ask for another challenge")

    async def spend(self, connection: AsyncConnection, text: str) -> None:
        """The challenge has served; raises Refused CHALLENGE_USED where it had before."""
        ends_at = await self._now(connection) + 2 * LIVES_MS * 1_000
        row = {"challenge": hashlib.sha256(text.encode()).digest(), "expires_at": ends_at}
        try:
            await connection.execute(insert(challenges).values(row))
        except exc.IntegrityError:
            raise Refused(
                Kind.UNAUTHENTICATED, "CHALLENGE_USED", "this challenge has served already"
            ) from None

    async def sweep(self) -> None:
        """Remove those that have expired."""
        async with write(self._engine) as connection:
            now = await self._now(connection)
            await connection.execute(delete(challenges).where(challenges.c.expires_at < now))
