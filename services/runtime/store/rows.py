"""Rows of the store's tables, from what the kernel asks for and back. Pure."""

from collections.abc import Collection, Sequence
from typing import Any

from engines.records import maker
from services.kernel.envelope import Append, Appended, Claimed, Recorded
from services.runtime.store.api import RequestReused
from services.runtime.store.chain import digest, secret_digest, text

_recorded = maker(Recorded)

BODY_HASH_BYTES = 32
WORD_MAX = 200
"""Longest request id, tag, due kind, due key and event name, in characters.

A caller's request id is shorter, so that a service may put in front whose it is.
"""


def require_storable(append: Append) -> None:
    """Raises ValueError for an append that a caller should never have built."""
    if not 0 < len(append.request_id) <= WORD_MAX:
        raise ValueError(f"a request id has 1 to {WORD_MAX} characters")
    if len(append.body_hash) != BODY_HASH_BYTES:
        raise ValueError(f"a body hash has {BODY_HASH_BYTES} bytes")
    if append.expected < 0 or not append.events:
        raise ValueError("an append has at least one event and follows a version of at least 0")
    words = [append.request_id, *append.plan.tags]
    for new in append.events:
        words.append(new.name)
        if not new.name or not 0 < new.schema < 2**31:
            raise ValueError("an event has a name and a schema of at least 1")
    for work in append.plan.due:
        words += (work.kind, work.key)
    for named in append.plan.done:
        words += named
    together = "".join(words)
    too_long = len(together) > WORD_MAX and len(max(words, key=len)) > WORD_MAX
    if too_long or not (together.isascii() and together.isprintable()):
        raise ValueError(f"names, ids and tags are printable ASCII, {WORD_MAX} at most")


def hides(append: Append) -> bool:
    """Whether any of its events has a secret."""
    return any(new.secret is not None for new in append.events)


def first_outcome(earlier: Appended, append: Append) -> Appended:
    """The outcome of the first append with this request id; raises RequestReused."""
    if earlier.events[0].body_hash != append.body_hash:
        raise RequestReused
    return earlier


def chained(
    append: Append, salts: Sequence[bytes | None], previous: bytes, at: int
) -> tuple[Recorded, ...]:
    """The rows of an append that follows the hash `previous`, recorded at `at` microseconds.

    `salts` holds one for each event, None for those without a secret.
    """
    rows: list[Recorded] = []
    stream, octets, metadata = append.stream, append.stream.bytes, append.metadata
    version = append.expected
    request_id: str | None = append.request_id
    body_hash: bytes | None = append.body_hash
    for new, salt in zip(append.events, salts, strict=True):
        version += 1
        hidden = None if salt is None else secret_digest(salt, new.secret or b"")
        previous = digest(
            previous,
            octets,
            version,
            text(new.name),
            new.schema,
            new.payload,
            hidden,
            metadata,
            None if request_id is None else text(request_id),
            body_hash,
            at,
        )
        rows.append(
            _recorded(
                stream,
                version,
                new.name,
                new.schema,
                new.payload,
                metadata,
                request_id,
                body_hash,
                at,
                hidden,
                salt,
                new.secret,
                previous,
            )
        )
        request_id = body_hash = None
    return tuple(rows)


def due_rows(
    append: Append, known: Collection[tuple[str, str]] | None, at: int
) -> tuple[tuple[str, str] | None, list[tuple[str, str]], list[tuple[tuple[str, str], int]]]:
    """What becomes of due rows: one whose place the first new one takes, if that is there; others
    that are gone; the new ones with their moments.

    Rows are named by (kind, key); of two new ones of a name the later stays. `known` names all rows
    that may be there, None is any.
    """
    moments = {(work.kind, work.key): at + work.after_ms * 1_000 for work in append.plan.due}
    names = {*append.plan.done, *moments}
    gone = [*(names if known is None else names.intersection(known))]
    return (gone.pop() if moments and gone else None), gone, [*moments.items()]


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
