"""Passwords: what one may be, and Argon2id (RFC 9106) off the event loop, few at a time.

A hash takes memory and a core for a moment. Only so many are made at once, and only so many wait;
whoever comes beyond that is refused at once and told when to come back. A hash that was made with
other parameters verifies, and is made anew by whoever signs in with it.
"""

import asyncio
import secrets
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from services.kernel.errors import Kind, Refused, invalid
from services.runtime.settings import Settings

PASSWORD_MIN = 10
"""Shortest password, in characters."""
PASSWORD_MAX = 128
"""Longest password, in characters."""
LANES = 1
HASH_BYTES = 32
SALT_BYTES = 16
BUSY_MS = 1_000
"""When whoever found too many waiting may come back."""

R = TypeVar("R")


class Passwords:
    """Hashes and verifies passwords with the settings' parameters."""

    def __init__(self, settings: Settings) -> None:
        self._hasher = PasswordHasher(
            time_cost=settings.password_passes,
            memory_cost=settings.password_memory_kib,
            parallelism=LANES,
            hash_len=HASH_BYTES,
            salt_len=SALT_BYTES,
            type=Type.ID,
        )
        self._threads = ThreadPoolExecutor(settings.password_hashes_at_once, "argon2")
        self._most = settings.password_hashes_at_once + settings.password_hashes_waiting_max
        self._under_way = 0
        self.decoy = self._hasher.hash(secrets.token_urlsafe())
        """The hash of a password nobody knows."""

    async def hash(self, password: str) -> str:
        """The hash of a password, in the PHC string format; raises Refused SIGN_IN_BUSY."""
        return await self._work(lambda: self._hasher.hash(password))

    async def matches(self, encoded: str, password: str) -> bool:
        """Whether it is the password of a hash; raises Refused SIGN_IN_BUSY."""
        return await self._work(lambda: self._matches(encoded, password))

    def outdated(self, encoded: str) -> bool:
        """Whether a hash was made with other parameters than these."""
        return self._hasher.check_needs_rehash(encoded)

    def close(self) -> None:
        """Begin no further hash."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _matches(self, encoded: str, password: str) -> bool:
        try:
            return self._hasher.verify(encoded, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _work(self, work: Callable[[], R]) -> R:
        if self._under_way >= self._most:
            raise Refused(
                Kind.EXHAUSTED,
                "SIGN_IN_BUSY",
                "too many passwords are being looked at",
                facts={"limit": "password_hashes"},
                retry_after_ms=BUSY_MS,
            )
        self._under_way += 1
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done.add_done_callback(self._ended)
        return await asyncio.shield(done)  # who is cancelled leaves a thread that works on

    def _ended(self, _done: object) -> None:
        self._under_way -= 1


def acceptable(field: str, text: str) -> str:
    """A new password in NFC; raises Refused naming the field, never its content."""
    password = spelt(text)
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise invalid(field, f"must have {PASSWORD_MIN} to {PASSWORD_MAX} characters")
    if len(set(password)) <= PASSWORD_MIN // 3:
        raise invalid(field, "must have more different characters")
    return password


def spelt(text: str) -> str:
    """A password in the one form it is compared in."""
    return unicodedata.normalize("NFC", text)
