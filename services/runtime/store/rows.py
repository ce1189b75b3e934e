"""Rows of the store's tables, from what the kernel asks for and back. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import Row

from services.kernel.envelope import Append, Appended, Claimed, Due, Recorded
from services.runtime.store.api import RequestReused
from services.runtime.store.chain import SALT_BYTES, link, secret_digest
from services.runtime.store.schema import events

BODY_HASH_BYTES = 32
WORD_MAX = 200
"""Longest request id, tag, due kind, due key and event name, in characters.

A caller's request id is shorter, so that a service may put in front whose it is.
"""


def require_storable(append: Append) -> None:
    """Raises ValueError for an append that a caller should never have built."""
    words = [append.request_id]
    if not 0 < len(append.request_id) <= WORD_MAX:
        raise ValueError(f"a request id has 1 to {WORD_MAX} characters")
    if len(append.body_hash) != BODY_HASH_BYTES:
        raise ValueError(f"a body hash has {BODY_HASH_BYTES} bytes")
    if append.expected < 0 or not append.events:
        raise ValueError("an append has at least one event and follows a version of at least 0")
    for new in append.events:
        words.append(new.name)
        if not new.name or not 0 < new.schema < 2**31:
            raise ValueError("an event has a name and a schema of at least 1")
    for work in append.plan.due:
        words += [work.kind, work.key]
    for kind, key in append.plan.done:
        words += [kind, key]
    words += append.plan.tags
    for word in words:
        if len(word) > WORD_MAX or not (word.isprintable() and word.isascii()):
            raise ValueError(f"names, ids and tags are printable ASCII, {WORD_MAX} at most")


def first_outcome(earlier: Appended, append: Append) -> Appended:
    """The outcome of the first append with this request id; raises RequestReused."""
    if earlier.events[0].body_hash != append.body_hash:
        raise RequestReused
    return earlier


def chained(
    append: Append, previous: bytes, at: int, random: Callable[[int], bytes]
) -> tuple[Recorded, ...]:
    """The rows of an append that follows the hash `previous`, recorded at `at` microseconds."""
    rows: list[Recorded] = []
    for offset, new in enumerate(append.events):
        salt = None if new.secret is None else random(SALT_BYTES)
        row = Recorded(
            stream=append.stream,
            version=append.expected + 1 + offset,
            name=new.name,
            schema=new.schema,
            payload=new.payload,
            metadata=append.metadata,
            request_id=None if offset else append.request_id,
            body_hash=None if offset else append.body_hash,
            recorded_at=at,
            secret_digest=None if salt is None else secret_digest(salt, new.secret or b""),
            salt=salt,
            secret=new.secret,
            hash=b"",
        )
        previous = link(previous, row)
        rows.append(replace(row, hash=previous))
    return tuple(rows)


def recorded(row: Row[Any], salt: bytes | None, secret: bytes | None) -> Recorded:
    """A stored row as it is given out."""
    return Recorded(
        stream=row.stream,
        version=row.version,
        name=row.name,
        schema=row.schema,
        payload=row.payload,
        metadata=row.metadata,
        request_id=row.request_id,
        body_hash=row.body_hash,
        recorded_at=row.recorded_at,
        secret_digest=row.secret_digest,
        salt=salt,
        secret=secret,
        hash=row.hash,
    )


def event_row(row: Recorded) -> dict[str, Any]:
    """The columns of `events` from an event."""
    return {column.name: getattr(row, column.name) for column in events.columns}


def due_row(work: Due, last: Recorded) -> dict[str, Any]:
    """The columns of `due` for work asked for by the append that ended with `last`."""
    at = last.recorded_at + work.after_ms * 1_000
    return {
        "stream": last.stream,
        "kind": work.kind,
        "key": work.key,
        "version": last.version,
        "due_at": at,
        "ready_at": at,
        "attempts": 0,
        "worker": None,
    }


def work_key(claimed: Claimed) -> dict[str, Any]:
    """Names a due row."""
    return {"at_stream": claimed.stream, "at_kind": claimed.kind, "at_key": claimed.key}


def claim_key(claimed: Claimed) -> dict[str, Any]:
    """Names a due row as long as this claim holds it."""
    return {
        **work_key(claimed),
        "at_version": claimed.version,
        "at_attempts": claimed.attempts,
    }
