"""Rows of a log and the hashes that bind them, as docs/fairness/README.md writes them down."""

from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

LABEL = b"kozyr event 1"
GENESIS = bytes(32)
SALT_BYTES = 32


@dataclass(frozen=True, slots=True)
class Row:
    """A stored event. Octets as stored; `request_id` is UTF-8; `recorded_at` Unix microseconds."""

    version: int
    name: str
    schema: int
    payload: bytes
    secret_digest: bytes | None
    salt: bytes | None
    secret: bytes | None
    metadata: bytes
    request_id: bytes | None
    body_hash: bytes | None
    recorded_at: int
    hash: bytes


def link(previous: bytes, stream: UUID, row: Row) -> bytes:
    """The hash of a row after the hash of the row before it, 32 bytes."""
    fields = (
        LABEL,
        previous,
        stream.bytes,
        row.version.to_bytes(8, "big"),
        row.name.encode(),
        row.schema.to_bytes(4, "big"),
        row.payload,
        row.secret_digest,
        row.metadata,
        row.request_id,
        row.body_hash,
        row.recorded_at.to_bytes(8, "big"),
    )
    return sha256(b"".join(map(_field, fields))).digest()


def secret_digest(salt: bytes, secret: bytes) -> bytes:
    """What a row says of its secret, 32 bytes."""
    return sha256(salt + secret).digest()


def _field(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
