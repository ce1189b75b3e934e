"""The event store's interface: whole-or-nothing appends to streams, reads, due work, tags.

There is no order over all streams. Versions in a stream run 1, 2, 3 … without a gap. Rows are
never changed or removed. Every method raises `StoreUnavailable` when the database is gone or
refuses to write; an append that raised it may or may not have been stored, and the same request
id tells which.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from services.kernel.envelope import Append, Appended, Claimed, Head, Recorded


class Conflict(Exception):
    """The stream is not at the expected version: load again and decide again."""


class RequestReused(Exception):
    """This request id was stored before with another body."""


class Late(Exception):
    """The database's clock has passed the append's `not_after`."""


class StoreUnavailable(Exception):
    """The database is gone or will not write now; nothing is acknowledged that is not stored."""


class Overloaded(Exception):
    """More appends wait than this process takes in; nothing of this one was stored."""


class Unstorable(Exception):
    """The database refuses these rows by a rule of its schema. The text holds no values."""


class Damaged(Exception):
    """A stored row is not what was stored. The text says where and what, never the content."""

    def __init__(self, stream: UUID, version: int, problem: str) -> None:
        super().__init__(f"stream {stream} version {version}: {problem}")
        self.stream = stream
        self.version = version
        self.problem = problem


class Archived(Exception):
    """The stream's month has left the database: whether there was such a stream is not known here.

    `archived_at` is when, Unix microseconds.
    """

    def __init__(self, month: str, archived_at: int) -> None:
        super().__init__(f"the streams of {month} were archived")
        self.month = month
        self.archived_at = archived_at


Log = tuple[Head | None, list[Recorded]]
"""A stream's head, None if it has none, and its events."""


class Store(Protocol):
    """One service's event store."""

    async def append(self, append: Append) -> Appended:
        """Store events, secrets, due rows, tags and the new head, or nothing.

        Raises Conflict, RequestReused, Late, Overloaded, StoreUnavailable, Archived. The same
        request id with the same body returns the first outcome, whatever version is expected, also
        when it is late.
        """
        ...

    async def read(self, stream: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """The stream's events with a version above `after`, in order, secrets opened.

        Raises Damaged where a secret is missing or is not the one that was sealed, and Archived
        where nothing is there because the month of the stream has left.
        """
        ...

    async def read_each(self, after: Mapping[UUID, int]) -> dict[UUID, list[Recorded]]:
        """The same of several streams, each above a version of its own; raises as `read` does."""
        ...

    async def whole(self, stream: UUID) -> Log:
        """The stream's head and all of its events, as of one moment, secrets opened: for audits.

        Raises Damaged as `read` does.
        """
        ...

    async def wholes(self, streams: Sequence[UUID]) -> dict[UUID, Log]:
        """The same of several streams, of those that have events, for fewer questions.

        Raises Damaged and KeyUnknown where `whole` would for any of them.
        """
        ...

    async def find_request(self, stream: UUID, request_id: str) -> Appended | None:
        """The outcome of an earlier append with this request id."""
        ...

    async def head(self, stream: UUID) -> Head | None:
        """The stream's head, or None if it does not exist."""
        ...

    async def heads(self, streams: Sequence[UUID]) -> dict[UUID, Head]:
        """Heads of those of the streams that exist."""
        ...

    async def tagged(
        self, tag: str, before: UUID | None = None, limit: int = 50, ended: bool | None = None
    ) -> list[Head]:
        """Streams that carry the tag, newest id first, below `before`; by `ended` unless None."""
        ...

    def streams(self, after: UUID | None = None) -> AsyncIterator[Head]:
        """Every stream, in the order of ids, above `after`."""
        ...

    async def claim(
        self, worker: str, limit: int, lease_ms: int, but: Collection[UUID] = ()
    ) -> list[Claimed]:
        """Take due rows whose moment has come, for `lease_ms`; others get them only after it.

        Rows of the streams `but` are left to others.
        """
        ...

    async def postpone(self, claimed: Claimed, after_ms: int) -> None:
        """Give a claimed row back, to be claimed again after `after_ms` from now."""
        ...

    async def drop(self, claimed: Claimed) -> None:
        """Delete a claimed row without an append (its work turned out not to be needed)."""
        ...

    async def next_due_ms(self, but: Collection[UUID] = ()) -> int | None:
        """Milliseconds until a due row may be claimable (0: now), never later than one is; None if
        there is none. Those of the streams `but` do not count."""
        ...

    async def now(self) -> int:
        """The database's clock, Unix microseconds."""
        ...

    async def check(self) -> None:
        """Raise StoreUnavailable unless the database answers and accepts writes."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let the database go."""
        ...
