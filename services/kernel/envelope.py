"""What is stored around an event, and what one append asks of the store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event ready to be stored.

    `name` and `schema` say how to decode `payload` (protobuf octets that may become public);
    `secret` holds what nobody may know yet (protobuf octets; sealed and stored apart).
    """

    name: str
    schema: int
    payload: bytes
    secret: bytes | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stored event. Versions start at 1; `recorded_at` is database time, Unix microseconds.

    `request_id` and `body_hash` stand on the first event of an append only. `secret` and `salt`
    are None where the event has no secret, or where the reader may not open it.
    """

    stream: UUID
    version: int
    name: str
    schema: int
    payload: bytes
    metadata: bytes
    request_id: str | None
    body_hash: bytes | None
    recorded_at: int
    secret_digest: bytes | None
    salt: bytes | None
    secret: bytes | None
    hash: bytes


@dataclass(frozen=True, slots=True)
class Due:
    """Work to be done `after_ms` after the append that asks for it; (kind, key) is unique in a
    stream, a second one replaces the first."""

    kind: str
    key: str
    after_ms: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A due row a worker holds until its lease ends. `version` is the stream version that asked
    for it; `due_at` database time, microseconds; `attempts` counts this one (from 1)."""

    stream: UUID
    kind: str
    key: str
    version: int
    due_at: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What an append does beside its events: due rows to set and to delete (kind, key), index
    tags to add, and whether the stream has ended."""

    due: tuple[Due, ...] = ()
    done: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """One whole-or-nothing append at a known version.

    `expected` is the stream's version before it (0: the stream does not exist yet), `follows` the
    hash of the event of that version, where the append was decided on it: on another history of the
    same length it is none. `not_after` (database time, microseconds) refuses it when the database's
    clock has passed that moment.
    """

    stream: UUID
    expected: int
    events: tuple[NewEvent, ...]
    request_id: str
    body_hash: bytes
    metadata: bytes = b""
    plan: Plan = Plan()
    not_after: int | None = None
    follows: bytes | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The outcome: the stored events in order. `repeated` is true when this request id had been
    stored before and these are the events of that first time."""

    events: tuple[Recorded, ...]
    repeated: bool = False

    @property
    def version(self) -> int:
        """The stream's version after this append."""
        return self.events[-1].version


@dataclass(frozen=True, slots=True)
class Head:
    """The latest known end of a stream: version, chain hash, whether it has ended."""

    stream: UUID
    version: int
    hash: bytes
    ended: bool


def appends(rows: Sequence[Recorded]) -> Iterator[tuple[Recorded, ...]]:
    """The rows grouped by append: each begins with a row that carries a request id."""
    group: list[Recorded] = []
    for row in rows:
        if row.request_id is not None and group:
            yield tuple(group)
            group = []
        group.append(row)
    if group:
        yield tuple(group)
