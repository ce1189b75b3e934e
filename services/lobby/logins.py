"""Login names and passwords: how a guest becomes somebody who can come back from anywhere.

A login name is another than the display name: it is unique, may be changed, and nobody but its
player sees it.

What a stranger can tell. Signing in with a name that does not exist does the same as with one that
does: the same rows are counted, the same query finds the name or the next one in order, and that
one's hash is verified, whoever's it is. So neither the answer nor the time it takes says whether a
name exists, also while hashes made with older parameters are about. `SetPassword` must say that a
name is taken; it is a dear call of somebody signed in.
"""

import unicodedata
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import exc, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, invalid, precondition
from services.lobby.lockout import Lockout
from services.lobby.passwords import Passwords, acceptable, spelt
from services.lobby.players import Player, Players
from services.lobby.schema import logins, players
from services.lobby.sessions import (
    Beginning,
    Means,
    Refreshing,
    digest,
    end_others,
    hold_player,
)
from services.runtime.database import read, write
from services.runtime.store.api import RequestReused

LOGIN_MIN = 3
"""Shortest login name, in characters."""
LOGIN_MAX = 32
"""Longest login name, in characters."""
SIGNS = "-_."


@dataclass(frozen=True, slots=True)
class Login:
    """A player's login name, and when he last chose it or its password (microseconds)."""

    name: str
    changed_at: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a player wants to sign in with: a name where it is to change, a password, and his old
    password where he has one to show."""

    name: str
    new: str = field(repr=False)
    old: str = field(repr=False)


def login_name(text: str, field: str = "login_name") -> str:
    """A login name in the one form it is kept in: NFKC, case folded.

    3 to 32 letters, digits, `-`, `_`, `.`. Raises Refused naming the field.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    if not LOGIN_MIN <= len(folded) <= LOGIN_MAX:
        raise invalid(field, f"must have {LOGIN_MIN} to {LOGIN_MAX} characters")
    for sign in folded:
        if sign not in SIGNS and unicodedata.category(sign) not in {"Ll", "Lo", "Lm", "Nd"}:
            raise invalid(field, "letters, digits, `-`, `_` and `.` only")
    if not any(sign.isalnum() for sign in folded):
        raise invalid(field, "needs a letter or a digit")
    return folded


class Logins:
    """The logins of one database; every method raises StoreUnavailable when it is gone."""

    def __init__(
        self, engine: AsyncEngine, players: Players, passwords: Passwords, lockout: Lockout
    ) -> None:
        self._engine = engine
        self._players = players
        self._passwords = passwords
        self._lockout = lockout

    async def of_player(self, player: UUID) -> Login | None:
        """A player's login, None for a guest."""
        row = await self._row(player)
        return None if row is None else Login(row.login_name, row.changed_at)

    async def sign_in(
        self, name: str, password: str, address: str, device_name: str = ""
    ) -> tuple[Player, Refreshing]:
        """Begin a session by a password.

        Raises Refused SIGN_IN_REFUSED, SIGN_IN_LOCKED, SIGN_IN_BUSY, BEING_ERASED.
        """
        attempt = await self._lockout.attempt(name, address)
        try:
            row = await self._nearest(name)
            encoded = self._passwords.decoy if row is None else row.password
            right = await self._passwords.matches(encoded, spelt(password))
            if not right or row is None or row.login_name != name:
                raise _refused()
            newer = None
            if self._passwords.outdated(encoded):
                newer = await self._passwords.hash(spelt(password))
        except Refused as refused:
            if refused.kind is Kind.EXHAUSTED:
                await self._lockout.forgive(attempt)
            raise
        signed_in = await self._begin(row, newer, device_name)
        await self._lockout.succeeded(attempt)
        return signed_in

    async def set(
        self, player: UUID, session: str, wanted: Wanted, request_id: str, address: str
    ) -> str:
        """Give a player the login he wants and end his other sessions; his login name.

        Raises Refused: SIGN_IN_NOT_FRESH without an old password in an older session,
        SIGN_IN_REFUSED for a wrong one, LOGIN_NAME_MISSING, LOGIN_NAME_TAKEN, LOGIN_CHANGED when
        it was changed meanwhile, SIGN_IN_LOCKED, SIGN_IN_BUSY, BEING_ERASED. RequestReused.
        """
        before, request = await self._row(player), digest(request_id)
        if before is not None and before.request == request:
            if wanted.name not in ("", before.login_name):
                raise RequestReused
            if not await self._is(before, before.login_name, wanted.new, address):
                raise RequestReused
            return str(before.login_name)
        if wanted.old:
            await self._prove(before, player, wanted.old, address)
        name = wanted.name or ("" if before is None else before.login_name)
        if not name:
            raise precondition("LOGIN_NAME_MISSING", "choose a login name with the password")
        async with write(self._engine) as connection:
            await self._may(connection, player, session, wanted)
        encoded = await self._passwords.hash(wanted.new)
        values = {"login_name": name, "password": encoded, "request": request}
        try:
            async with write(self._engine) as connection:
                await self._may(connection, player, session, wanted)
                await self._put(connection, player, before, values)
                await end_others(connection, player, session)
        except exc.IntegrityError:
            raise Refused(
                Kind.EXISTS, "LOGIN_NAME_TAKEN", "another player has this login name"
            ) from None
        return name

    async def _may(
        self, connection: AsyncConnection, player: UUID, session: str, wanted: Wanted
    ) -> None:
        """Hold the row of a player who may change his login: he showed the old password, or has
        just signed in. It is asked before the hash is made, and again when it is stored."""
        await hold_player(connection, player)
        if not wanted.old:
            await self._players.sessions.require_fresh(connection, player, session)

    async def _prove(self, before: Any, player: UUID, old: str, address: str) -> None:
        """The old password is right; raises Refused SIGN_IN_REFUSED."""
        counted = str(player) if before is None else before.login_name
        if not await self._is(before, counted, old, address):
            raise _refused()

    async def _is(self, login: Any, counted: str, password: str, address: str) -> bool:
        """Whether it is the password of a login, None for one that is not there; where it is not,
        that is counted, as signing in is."""
        attempt = await self._lockout.attempt(counted, address)
        encoded = self._passwords.decoy if login is None else login.password
        try:
            right = await self._passwords.matches(encoded, spelt(password))
        except Refused:
            await self._lockout.forgive(attempt)
            raise
        if not right or login is None:
            return False
        await self._lockout.succeeded(attempt)
        return True

    async def _begin(
        self, row: Any, newer: str | None, device_name: str
    ) -> tuple[Player, Refreshing]:
        """A session for the holder of a login, if it is still the one that was looked at."""
        async with write(self._engine) as connection:
            await hold_player(connection, row.player_id)
            mine = logins.c.player_id == row.player_id
            who = select(players).where(players.c.player_id == row.player_id)
            found = (await connection.execute(who)).one_or_none()
            same = select(logins.c.password).where(mine, logins.c.login_name == row.login_name)
            now_there = (await connection.execute(same)).scalar_one_or_none()
            if found is None or now_there != row.password:
                raise _refused()
            if newer is not None:
                await connection.execute(update(logins).where(mine).values(password=newer))
            beginning = Beginning(Means.PASSWORD, device_name)
            refresh = await self._players.sessions.begin(connection, row.player_id, beginning)
            return Player(found.player_id, found.display_name, found.bot), refresh

    async def _put(
        self, connection: AsyncConnection, player: UUID, before: Any, values: dict[str, Any]
    ) -> None:
        mine = logins.c.player_id == player
        row = (await connection.execute(select(logins).where(mine))).one_or_none()
        if (row and row.request) != (before and before.request):
            raise Refused(Kind.CONFLICT, "LOGIN_CHANGED", "it was changed at the same moment")
        changed = {**values, "changed_at": await self._players.now(connection)}
        if row is None:
            await connection.execute(insert(logins).values(player_id=player, **changed))
        else:
            await connection.execute(update(logins).where(mine).values(**changed))

    async def _nearest(self, name: str) -> Any:
        """The row of a name, or of the next one in order."""
        query = select(logins).where(logins.c.login_name >= name)
        async with read(self._engine) as connection:
            found = await connection.execute(query.order_by(logins.c.login_name).limit(1))
            return found.one_or_none()

    async def _row(self, player: UUID) -> Any:
        async with read(self._engine) as connection:
            query = select(logins).where(logins.c.player_id == player)
            return (await connection.execute(query)).one_or_none()


def wanted(name: str, new: str, old: str) -> Wanted:
    """What a player asks for, checked; raises Refused naming a field."""
    chosen = login_name(name) if name else ""
    password = acceptable("new_password", new)
    if chosen and password.casefold() == chosen:
        raise invalid("new_password", "must not be the login name")
    return Wanted(chosen, password, old)


def _refused() -> Refused:
    return Refused(
        Kind.UNAUTHENTICATED, "SIGN_IN_REFUSED", "no such login name, or another password"
    )
