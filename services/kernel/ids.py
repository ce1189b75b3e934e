"""Identifiers: UUIDv7, ordered by the millisecond of their making."""

from uuid import UUID

RANDOM_BYTES = 10
REQUEST_ID_MAX = 64
"""Longest request id, in characters."""
_48_BITS, _RANDOM_A, _RANDOM_B = 2**48 - 1, 0xFFF << 64, 2**62 - 1
_VERSION_7 = 0x7 << 76 | 0b10 << 62
"""The fields of a UUIDv7: its milliseconds, two random parts, version and variant."""


def uuid7(at_ms: int, random: bytes) -> UUID:
    """A version 7 UUID (RFC 9562) from a Unix time in milliseconds and 10 random bytes."""
    return UUID(bytes=uuid7_octets(at_ms, random))


def uuid7_octets(at_ms: int, random: bytes) -> bytes:
    """The 16 octets of such a UUID."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed")
    bits = int.from_bytes(random, "big")
    return (
        (at_ms & _48_BITS) << 80 | _VERSION_7 | bits >> 4 & _RANDOM_A | bits & _RANDOM_B
    ).to_bytes(16)


def parse_uuid(text: str) -> UUID | None:
    """Read a UUID in its canonical lower-case text form, or None."""
    try:
        parsed = UUID(text)
    except ValueError:
        return None
    return parsed if str(parsed) == text else None
