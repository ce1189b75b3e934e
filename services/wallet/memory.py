"""What batches have lately read and written, so that the next one need not be read again.

It may be wrong at any time: another wallet may have written since. So nothing follows from it
alone. What is written says on which versions it was decided, and the database refuses it if one of
them has changed; what would be refused, or would change nothing, is decided again on what is read.
A game that is to take a reservation and is not remembered is taken to be new: if it is not, making
it collides. Whatever was part of a batch that failed is forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from services.wallet.batch import Found, Wanted
from services.wallet.books import Account, Table

ROOM = 20_000
"""How many accounts, and how many games, are remembered at least, and at most twice as many."""

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by id; what has not been used for long falls out, half of them at once."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._young: dict[UUID, V] = {}
        self._old: dict[UUID, V] = {}

    def get(self, key: UUID) -> V | None:
        """The value, if it is remembered."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: UUID, value: V) -> None:
        """Remember a value in the place of what was."""
        if len(self._young) >= self._room:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def drop(self, key: UUID) -> None:
        """Forget a value."""
        self._young.pop(key, None)
        self._old.pop(key, None)


@dataclass(slots=True)
class Memory:
    """Accounts, and games with their reservations."""

    accounts: Recent[Account] = field(default_factory=lambda: Recent(ROOM))
    tables: Recent[Table] = field(default_factory=lambda: Recent(ROOM))

    def recall(self, wanted: Wanted, now: int) -> Found | None:
        """All that is wanted, at a moment of the database's clock; None if some must be read."""
        if wanted.holders:
            return None  # what games hold for an account is no account's version
        tables: dict[UUID, Table] = {}
        needed = wanted.accounts
        for key in wanted.games:
            table = self.tables.get(key)
            if table is None:
                if key in wanted.begun:
                    return None
                needed -= {key}
                continue
            tables[key] = table
            if key in wanted.begun or any(r.expires_at <= now for r in table.seats):
                needed |= {r.account for r in table.seats if r.is_held}
        found = [self.accounts.get(key) for key in needed]
        accounts = {account.id: account for account in found if account is not None}
        if len(accounts) < len(needed):
            return None
        return Found(now, accounts, tables, {}, {}, {}, is_remembered=True)

    def learn(self, accounts: Mapping[UUID, Account], tables: Mapping[UUID, Table]) -> None:
        """Take in what stands now that a batch is written."""
        for key, account in accounts.items():
            self.accounts.put(key, account)
        for key, table in tables.items():
            self.tables.put(key, table)

    def forget(self, wanted: Wanted, found: Found | None) -> None:
        """Forget whatever was part of a batch."""
        for key in wanted.games:
            self.tables.drop(key)
        for key in (*wanted.accounts, *(found.accounts if found else ())):
            self.accounts.drop(key)
