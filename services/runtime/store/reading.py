"""Reading streams back: the store's own rows, whole, in order, with their secrets opened.

A game is read in one statement. On PostgreSQL it goes to the driver as text that SQLAlchemy made
once: a row that passes through SQLAlchemy costs as much as decoding and folding it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ClauseElement, Select
from sqlalchemy.ext.asyncio import AsyncEngine

from engines.records import maker
from services.kernel.envelope import Head, Recorded
from services.runtime.database import read
from services.runtime.drivers import Drivers
from services.runtime.store.api import Damaged, Log
from services.runtime.store.keys import StreamKeys
from services.runtime.store.queries import (
    ALL,
    COLUMNS,
    EVENTS,
    HEAD,
    KEY,
    KEYS,
    OF_EACH,
    OF_REQUEST,
    WHOLE,
)
from services.runtime.store.schema import event_secrets
from services.runtime.store.sealing import KeyUnknown, SealBroken, unseal

Published = Callable[[Sequence[Recorded]], Sequence[Recorded] | None]
"""Puts into the rows of a whole stream the secrets that its own events publish, without their
salts; None where they do not publish all."""

ASKED = (EVENTS, WHOLE, OF_EACH, OF_REQUEST, HEAD, KEY, KEYS)
"""What a reader asks."""

_SEALED = COLUMNS.index(event_secrets.c.sealed)
_EVENT = slice(len(COLUMNS))
_HEAD = slice(len(COLUMNS), len(COLUMNS) + 3)
KEPT = 2
"""How many connections are kept for reading: one read is under way while another is looked at."""
_recorded = maker(Recorded)


class Reader:
    """Reads what streams hold. Without `keys` secrets stay closed (None).

    Where the master key of a stream is missing, its secrets are those that are `published`.
    """

    def __init__(
        self, engine: AsyncEngine, keys: StreamKeys | None, published: Published | None = None
    ) -> None:
        self._engine = engine
        self._drivers = Drivers(engine, KEPT)
        self._keys = keys
        self._published = published
        direct = ASKED if engine.dialect.name == "postgresql" else ()
        self._texts = {query: direct_text(query, engine) for query in direct}

    async def events(self, stream: UUID, after: int, limit: int | None) -> list[Recorded]:
        """The events above a version; raises Damaged, KeyUnknown, StoreUnavailable."""
        given = {"stream": stream, "after": after, "limit": ALL if limit is None else limit}
        return await self._opened(stream, after + 1, await self._fetch(EVENTS, given))

    async def events_of_each(self, after: Mapping[UUID, int]) -> dict[UUID, list[Recorded]]:
        """The events of several streams, each above a version; raises as above."""
        if len(after) == 1 or not self._texts:
            return {each: await self.events(each, above, None) for each, above in after.items()}
        found = await self._fetch_each(after)
        return {each: await self._opened(each, after[each] + 1, found[each]) for each in after}

    async def whole(self, stream: UUID) -> Log:
        """The head and all events of one moment; raises as above."""
        asked = {"stream": stream, "limit": ALL}
        found = await self._fetch(WHOLE, asked)
        if not found and (head := await self.head(stream)):
            found = await self._fetch(WHOLE, asked)  # it may have begun just now
            if not found:
                return head, []
        if not found:
            return None, []
        return _head(stream, found[0]), await self._opened(stream, 1, found)

    async def wholes(self, streams: Sequence[UUID]) -> dict[UUID, Log]:
        """Heads and events of several streams, of those that have events; raises as above where any
        of them would."""
        if not self._texts:
            each = {stream: await self.whole(stream) for stream in streams}
            return {stream: log for stream, log in each.items() if log[1]}
        found = await self._fetch_each(dict.fromkeys(streams, 0))
        await self._learn_keys(found)
        return {
            stream: (_head(stream, rows[0]), await self._opened(stream, 1, rows))
            for stream, rows in found.items()
            if rows
        }

    async def of_request(self, stream: UUID, request_id: str) -> list[Recorded]:
        """The events of the append with this request id, none if there is none; raises as above."""
        found = await self._fetch(OF_REQUEST, {"stream": stream, "request_id": request_id})
        return await self._opened(stream, found[0][0], found) if found else []

    async def head(self, stream: UUID) -> Head | None:
        """The stream's head, or None if it does not exist."""
        found = await self._fetch(HEAD, {"stream": stream})
        return Head(*found[0]) if found else None

    async def _opened(self, stream: UUID, first: int, found: Sequence[Any]) -> list[Recorded]:
        if self._keys is None:
            return opened(stream, first, found, None)
        sealed = any(row[_SEALED] is not None for row in found)
        try:
            key = await self._key(stream) if sealed else b""
        except KeyUnknown:
            if (public := await self._from_its_events(stream)) is None:
                raise
            return list(public[first - 1 : first - 1 + len(found)])
        return opened(stream, first, found, key)

    async def _from_its_events(self, stream: UUID) -> Sequence[Recorded] | None:
        """The whole stream with the secrets it publishes itself; None if it does not."""
        if self._published is None:
            return None
        found = await self._fetch(EVENTS, {"stream": stream, "after": 0, "limit": ALL})
        return self._published(opened(stream, 1, found, None))

    async def _key(self, stream: UUID) -> bytes:
        """The stream's data key; what opens nothing if it has none."""
        if self._keys is None:
            return b""
        if key := self._keys.known(stream):
            return key
        found = await self._fetch(KEY, {"stream": stream})
        return self._keys.opened(stream, *found[0]) if found else b""

    async def _learn_keys(self, streams: Iterable[UUID]) -> None:
        """Looks up at once what data keys are not known."""
        if self._keys is None:
            return
        if unknown := [stream for stream in streams if self._keys.known(stream) is None]:
            for key_id, wrapped, stream in await self._fetch(KEYS, {"streams": unknown}):
                self._keys.opened(stream, key_id, wrapped)

    async def _fetch_each(self, after: Mapping[UUID, int]) -> dict[UUID, list[Any]]:
        """The rows of several streams, each above a version."""
        given = {"streams": list(after), "versions": list(after.values()), "limit": ALL}
        found: list[list[Any]] = [[] for _ in after]
        for row in await self._fetch(OF_EACH, given):
            found[row[-1] - 1].append(row)
        return dict(zip(after, found, strict=True))

    async def _fetch(self, query: Select[Any], given: Mapping[str, Any]) -> Sequence[Any]:
        rows: Sequence[Any]
        if direct := self._texts.get(query):
            text, names = direct
            async with self._drivers.lend() as connection:
                rows = await connection.fetch(text, *[given[name] for name in names])
        else:
            async with read(self._engine) as connection:
                rows = (await connection.execute(query, given)).all()
        return rows


def _head(stream: UUID, row: Any) -> Head | None:
    """The head that stands beside a stream's first event."""
    version, link, ended = row[_HEAD]
    return None if version is None else Head(stream, version, link, ended)


def opened(stream: UUID, first: int, found: Sequence[Any], key: bytes | None) -> list[Recorded]:
    """Stored rows as they are given out, from version `first` on; None leaves secrets closed.

    Raises Damaged where a row is missing or a secret is not the one that was sealed.
    """
    rows: list[Recorded] = []
    for expected, row in enumerate(found, start=first):
        version, name, schema, payload, meta, request, body, at, digest, link, sealed = row[_EVENT]
        if version != expected:
            raise Damaged(stream, expected, "the event is missing")
        salt = secret = None
        if key is not None and (digest is not None or sealed is not None):
            salt, secret = _unsealed(stream, version, digest, sealed, key)
        rows.append(
            _recorded(
                stream,
                version,
                name,
                schema,
                payload,
                meta,
                request,
                body,
                at,
                digest,
                salt,
                secret,
                link,
            )
        )
    return rows


def _unsealed(
    stream: UUID, version: int, digest: bytes | None, sealed: bytes | None, key: bytes
) -> tuple[bytes, bytes]:
    if digest is None or sealed is None:
        raise Damaged(stream, version, "the event and its secret do not match")
    try:
        return unseal(key, stream, version, sealed)
    except SealBroken:
        raise Damaged(stream, version, "the secret cannot be opened") from None


def direct_text(query: ClauseElement, engine: AsyncEngine) -> tuple[str, tuple[str, ...]]:
    """A statement as PostgreSQL is asked it, and the names of its parameters in their order."""
    compiled: Any = query.compile(dialect=engine.dialect)
    return str(compiled), tuple(compiled.positiontup or ())
