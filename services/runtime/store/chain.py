"""The hash chain over a stream's events: pure, and written down to the byte.

    hash(v) = SHA-256( f(LABEL) f(previous) f(stream) f(version) f(name) f(schema) f(payload)
                       f(secret_digest) f(metadata) f(request_id) f(body_hash) f(recorded_at) )

`f(x)` is the length of `x` in octets as 4 octets big-endian, then `x`; a value that is absent is
the 4 octets FF FF FF FF alone, so absent differs from empty. LABEL is the ASCII text
`kozyr event 1`; `previous` the hash of the version before, 32 zero octets for version 1; `stream`
the UUID's 16 octets; `version` and `recorded_at` 8 octets, `schema` 4 octets, unsigned big-endian;
`name` and `request_id` UTF-8; the rest as stored. A secret counts through its digest alone,
`secret_digest = SHA-256(salt ‖ secret)`, so whoever may not see it can still follow the chain.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from uuid import UUID

from services.kernel.envelope import Head, Recorded

LABEL = b"kozyr event 1"
GENESIS = bytes(32)
"""What stands before version 1."""
SALT_BYTES = 32
ABSENT = b"\xff\xff\xff\xff"
LABEL_FIELD = len(LABEL).to_bytes(4) + LABEL
VERSION_AND_NAME = Struct(">IQI").pack
SCHEMA_AND_PAYLOAD = Struct(">III").pack
MOMENT = Struct(">IQ").pack
"""Numbers with their sizes, and the size of what follows them."""


def octets(value: bytes | None) -> bytes:
    """One length-prefixed field."""
    return ABSENT if value is None else len(value).to_bytes(4, "big") + value


def text(value: str) -> bytes:
    """Text as its octets; text that came damaged out of a database keeps its own."""
    return value.encode("utf-8", "surrogateescape")


def link(previous: bytes, event: Recorded) -> bytes:
    """The hash of an event after the hash before it, 32 bytes; `event.hash` is not looked at."""
    return digest(
        previous,
        event.stream.bytes,
        event.version,
        text(event.name),
        event.schema,
        event.payload,
        event.secret_digest,
        event.metadata,
        None if event.request_id is None else text(event.request_id),
        event.body_hash,
        event.recorded_at,
    )


def digest(
    previous: bytes,
    stream: bytes,
    version: int,
    name: bytes,
    schema: int,
    payload: bytes,
    secret_digest: bytes | None,
    metadata: bytes,
    request_id: bytes | None,
    body_hash: bytes | None,
    recorded_at: int,
) -> bytes:
    """The hash of an event's fields, each in the octets it counts with."""
    return sha256(
        b"".join(
            (
                LABEL_FIELD,
                len(previous).to_bytes(4),
                previous,
                len(stream).to_bytes(4),
                stream,
                VERSION_AND_NAME(8, version, len(name)),
                name,
                SCHEMA_AND_PAYLOAD(4, schema, len(payload)),
                payload,
                ABSENT if secret_digest is None else octets(secret_digest),
                len(metadata).to_bytes(4),
                metadata,
                ABSENT if request_id is None else octets(request_id),
                ABSENT if body_hash is None else octets(body_hash),
                MOMENT(8, recorded_at),
            )
        )
    ).digest()


def secret_digest(salt: bytes, secret: bytes) -> bytes:
    """What the log says of a secret: nothing, until salt and secret are shown."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes")
    return sha256(salt + secret).digest()


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing wrong with a stream: where, and what (a sentence without any content)."""

    stream: UUID
    version: int
    problem: str


def check(previous: bytes, version: int, row: Recorded) -> Fault | None:
    """What is wrong with the row that should stand at `version`, after the hash `previous`."""
    if row.version != version:
        return Fault(row.stream, version, f"expected version {version}, found {row.version}")
    try:
        expected = link(previous, row)
    except (AttributeError, TypeError, UnicodeEncodeError, struct.error):
        return Fault(row.stream, version, "a column holds what is never stored there")
    if expected != row.hash:
        return Fault(row.stream, version, "the hash is not that of the row and the one before it")
    if row.secret is not None and row.salt is not None:
        if row.secret_digest is None:
            return Fault(row.stream, version, "there is a secret the event does not know of")
        if secret_digest(row.salt, row.secret) != row.secret_digest:
            return Fault(row.stream, version, "the secret is not the one the event was made with")
    return None


def verify(
    rows: Iterable[Recorded], head: Head | None = None, previous: bytes = GENESIS, after: int = 0
) -> Fault | None:
    """The first fault of a stream's rows, which follow version `after` with the hash `previous`.

    With `head`, the rows must also end exactly where it says: a cut tail is found.
    """
    version = after
    for row in rows:
        version += 1
        if fault := check(previous, version, row):
            return fault
        previous = row.hash
    if head is not None:
        if head.version > version:
            return Fault(head.stream, version + 1, f"the event is missing, head {head.version}")
        if head.version < version:
            return Fault(head.stream, version, f"the head knows only {head.version} events")
        if head.hash != previous:
            return Fault(head.stream, version, "the head's hash is not that of the last event")
    return None
