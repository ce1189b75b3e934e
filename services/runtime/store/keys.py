"""Data keys of streams: made with a stream's first secret, found again, wrapped anew."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.runtime.store.api import Damaged
from services.runtime.store.queries import KEY
from services.runtime.store.schema import stream_keys
from services.runtime.store.sealing import (
    KEY_BYTES,
    NONCE_BYTES,
    MasterKeys,
    SealBroken,
    unwrap,
    wrap,
)

KEPT = 4_096
"""How many opened data keys are kept in memory."""


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """A step of wrapping keys anew: how many were, the streams whose key could not be opened, and
    the last one looked at (None: there is none left)."""

    wrapped: int
    broken: tuple[UUID, ...]
    last: UUID | None


class StreamKeys:
    """The data keys of one database's streams."""

    def __init__(self, masters: MasterKeys, random: Callable[[int], bytes]) -> None:
        self._masters = masters
        self._random = random
        self._opened: OrderedDict[UUID, bytes] = OrderedDict()

    @property
    def current(self) -> str:
        """The id of the master key that wraps new keys."""
        return self._masters.current

    @property
    def present(self) -> frozenset[str]:
        """The ids of the master keys that are here."""
        return frozenset(self._masters.keys)

    async def find(self, connection: AsyncConnection, stream: UUID) -> bytes | None:
        """The stream's data key, None if it has none; raises KeyUnknown, Damaged."""
        if key := self.known(stream):
            return key
        row = (await connection.execute(KEY, {"stream": stream})).one_or_none()
        return None if row is None else self.opened(stream, *row)

    def known(self, stream: UUID) -> bytes | None:
        """The stream's data key if it is in memory."""
        if stream in self._opened:
            self._opened.move_to_end(stream)
        return self._opened.get(stream)

    def opened(self, stream: UUID, key_id: str, wrapped: bytes) -> bytes:
        """The data key that is stored so, kept from now on; raises KeyUnknown, Damaged."""
        key = self._unwrap(stream, key_id, wrapped)
        self.keep(stream, key)
        return key

    def make(self, stream: UUID) -> tuple[bytes, tuple[str, bytes]]:
        """A new data key and how it is stored: the master key's id, and wrapped.

        It is not kept in memory before it is stored: the append it comes with may yet be lost.
        """
        key = self._random(KEY_BYTES)
        wrapped = wrap(self._masters, stream, key, self._random(NONCE_BYTES))
        return key, (self._masters.current, wrapped)

    def keep(self, stream: UUID, key: bytes) -> None:
        """Keeps the data key of a stream in memory."""
        self._opened[stream] = key
        self._opened.move_to_end(stream)
        if len(self._opened) > KEPT:
            self._opened.popitem(last=False)

    async def rewrap(
        self, connection: AsyncConnection, after: UUID | None, limit: int
    ) -> Rewrapped:
        """Wraps up to `limit` keys of other master keys that are here under the current one."""
        others = [key_id for key_id in self._masters.keys if key_id != self._masters.current]
        page = select(stream_keys).where(stream_keys.c.key_id.in_(others))
        if after is not None:
            page = page.where(stream_keys.c.stream > after)
        rows = (
            await connection.execute(
                page.order_by(stream_keys.c.stream).limit(limit).with_for_update()
            )
        ).all()
        broken = []
        for row in rows:
            try:
                key = self._unwrap(row.stream, row.key_id, row.wrapped)
            except Damaged:
                broken.append(row.stream)
                continue
            await connection.execute(
                update(stream_keys)
                .where(stream_keys.c.stream == row.stream)
                .values(
                    key_id=self._masters.current,
                    wrapped=wrap(self._masters, row.stream, key, self._random(NONCE_BYTES)),
                )
            )
        last = rows[-1].stream if rows else None
        return Rewrapped(len(rows) - len(broken), tuple(broken), last)

    def _unwrap(self, stream: UUID, key_id: str, wrapped: bytes) -> bytes:
        try:
            return unwrap(self._masters, stream, key_id, wrapped)
        except SealBroken:
            raise Damaged(stream, 0, "the stream's key cannot be opened") from None
