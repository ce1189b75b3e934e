"""Identifiers: UUIDv7, ordered by the millisecond of their making."""

from uuid import UUID

RANDOM_BYTES = 10
REQUEST_ID_MAX = 64
"""Longest request id, in characters."""


def uuid7(at_ms: int, random: bytes) -> UUID:
    """A version 7 UUID (RFC 9562) from a Unix time in milliseconds and 10 random bytes."""
    return UUID(bytes=uuid7_octets(at_ms, random))


def uuid7_octets(at_ms: int, random: bytes) -> bytes:
    """The 16 octets of such a UUID."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed")
    bits = int.from_bytes(random, "big")
    value = (at_ms & (2**48 - 1)) << 80
    value |= 0x7 << 76
    value |= (bits >> 68 & 0xFFF) << 64
    value |= 0b10 << 62
    value |= bits & (2**62 - 1)
    return value.to_bytes(16)


def parse_uuid(text: str) -> UUID | None:
    """Read a UUID in its canonical lower-case text form, or None."""
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text else None
