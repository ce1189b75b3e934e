"""Protobuf's framing, for messages put together from parts that are serialised already."""

LENGTH_DELIMITED = 2


def nested(number: int, octets: bytes) -> bytes:
    """Field `number` of a message, holding a message (or bytes) serialised as `octets`."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(octets)) + octets


def varint(value: int) -> bytes:
    """A number as protobuf writes it: seven bits an octet, the lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
