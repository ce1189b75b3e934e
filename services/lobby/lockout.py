"""Failed sign-ins by password: after some, waits that grow, for a login name and for an address.

A try is counted before its password is looked at, and the count is taken back when it was right:
so many tries at once are as many tries. While a wait lasts nothing is looked at and nothing
counted, so it cannot be drawn out. A name that does not exist is counted like any other. The counts
lie in the database, for all replicas and over restarts, under a keyed hash: neither a name nor an
address stands there. Only passwords are counted, for secrets and keys cannot be guessed: so whoever
keeps a name locked keeps nobody out who has his account's secret or a device's key.
"""

import hmac
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from engines.shuffle import framed
from services.kernel.errors import Kind, Refused
from services.lobby.schema import failures
from services.lobby.sessions import Now
from services.runtime.database import write
from services.runtime.settings import Settings

FIRST_WAIT_US = 2 * 1_000_000
"""The first wait, in microseconds; each further failure doubles it."""
FORGET_US = 3_600 * 1_000_000
"""Failures are forgotten when none has followed for this long (microseconds) and no wait lasts."""
TRIES = 5
ACCOUNT = "account_failures"
ADDRESS = "address_failures"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that was counted: for which name and which address, as they are stored."""

    account: bytes
    address: bytes


class Lockout:
    """The counts of one database; every method raises StoreUnavailable when it is gone."""

    def __init__(self, engine: AsyncEngine, key: bytes, now: Now, settings: Settings) -> None:
        self._engine = engine
        self._key = key
        self._now = now
        self._free = {
            ACCOUNT: settings.sign_in_failures_max,
            ADDRESS: settings.sign_in_address_failures_max,
        }
        self._wait_max_us = settings.sign_in_wait_max_ms * 1_000

    async def attempt(self, login_name: str, address: str) -> Attempt:
        """Count a try; raises Refused SIGN_IN_LOCKED with the limit and when to come back."""
        for left in reversed(range(TRIES)):
            try:
                return await self._attempt(login_name, address)
            except exc.IntegrityError:  # another was the first to fail at the same moment
                if not left:
                    raise
        raise AssertionError

    async def succeeded(self, attempt: Attempt) -> None:
        """The password was right: the name begins anew, the address has one failure less."""
        async with write(self._engine) as connection:
            gone = delete(failures).where(failures.c.subject == attempt.account)
            await connection.execute(gone)
            await self._take_back(connection, ADDRESS, attempt.address)

    async def forgive(self, attempt: Attempt) -> None:
        """The password was not looked at."""
        async with write(self._engine) as connection:
            for limit, subject in sorted(self._counted(attempt), key=lambda each: each[1]):
                await self._take_back(connection, limit, subject)

    async def sweep(self) -> None:
        """Remove what is forgotten."""
        async with write(self._engine) as connection:
            now = await self._now(connection)
            over = (failures.c.last_at < now - FORGET_US, failures.c.until_at <= now)
            await connection.execute(delete(failures).where(*over))

    async def _attempt(self, login_name: str, address: str) -> Attempt:
        attempt = Attempt(self._subject(ACCOUNT, login_name), self._subject(ADDRESS, address))
        counted = self._counted(attempt)
        async with write(self._engine) as connection:
            now = await self._now(connection)
            rows = await _hold(connection, [subject for _, subject in counted])
            waits = [(rows[s].until_at - now, limit) for limit, s in counted if s in rows]
            wait_us, limit = max(waits, default=(0, ""))
            if wait_us > 0:
                raise _locked(limit, wait_us)
            for limit, subject in sorted(counted, key=lambda each: each[1]):
                row = rows.get(subject)
                kept = row.count if row is not None and row.last_at > now - FORGET_US else 0
                values = self._values(limit, kept + 1, now)
                where = failures.c.subject == subject
                if row is None:
                    await connection.execute(insert(failures).values(subject=subject, **values))
                else:
                    await connection.execute(update(failures).where(where).values(**values))
        return attempt

    async def _take_back(self, connection: AsyncConnection, limit: str, subject: bytes) -> None:
        row = (await _hold(connection, [subject])).get(subject)
        if row is None:
            return
        where = failures.c.subject == subject
        if row.count <= 1:
            await connection.execute(delete(failures).where(where))
            return
        values = self._values(limit, row.count - 1, row.last_at)
        await connection.execute(update(failures).where(where).values(**values))

    def _values(self, limit: str, count: int, now: int) -> dict[str, int]:
        beyond = min(count - self._free[limit], 40)
        wait = 0 if beyond < 0 else min(FIRST_WAIT_US << beyond, self._wait_max_us)
        return {"count": count, "last_at": now, "until_at": now + wait}

    def _subject(self, limit: str, text: str) -> bytes:
        made_of = framed(b"kozyr failures 1", limit.encode(), text.encode())
        return hmac.digest(self._key, made_of, "sha256")

    def _counted(self, attempt: Attempt) -> tuple[tuple[str, bytes], ...]:
        return (ACCOUNT, attempt.account), (ADDRESS, attempt.address)


async def _hold(connection: AsyncConnection, subjects: list[bytes]) -> dict[bytes, Any]:
    """The rows of these subjects, held in one order by all."""
    query = select(failures).where(failures.c.subject.in_(subjects))
    found = await connection.execute(query.order_by(failures.c.subject).with_for_update())
    return {row.subject: row for row in found}


def _locked(limit: str, wait_us: int) -> Refused:
    return Refused(
        Kind.EXHAUSTED,
        "SIGN_IN_LOCKED",
        "too many failed sign-ins; the account's secret and devices' keys still serve",
        facts={"limit": limit},
        retry_after_ms=wait_us // 1_000 + 1,
    )
