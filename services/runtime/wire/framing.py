"""Protobuf's framing, for messages put together from parts that are serialised already."""

from functools import lru_cache

NUMBER = 0
LENGTH_DELIMITED = 2
"""How a field is written: as a number, or as octets after their length."""


def nested(number: int, octets: bytes) -> bytes:
    """Field `number` of a message, holding a message (or bytes) serialised as `octets`."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(octets)) + octets


def numeral(number: int, value: int) -> bytes:
    """Field `number` of a message, holding a number that is not negative."""
    return varint(number << 3 | NUMBER) + varint(value)


@lru_cache(maxsize=16_384)
def varint(value: int) -> bytes:
    """A number as protobuf writes it: seven bits an octet, the lowest first. Nearly all are tags
    and lengths that were written before."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
