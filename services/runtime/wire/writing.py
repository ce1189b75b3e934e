"""Octets of messages made from values: what protobuf's own serialiser gives for the same message,
without the message. What protobuf does faster, field by field, is made up for by what is written
again and again: moves, seats and options inside of messages are written once and then known.

A writer takes a value and gives a field with it, tag included. Which fields a record has, and which
of them are left out where they are empty, is its plan (`mapping.py`).
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from services.runtime.wire.framing import LENGTH_DELIMITED, NUMBER, varint

Write = Callable[[Any], bytes]
Plan = Sequence[tuple[str, Write, bool]]
"""Names of a record's fields in the order of their numbers, their writers, and whether an empty
value of it is what a message without the field holds."""

BOUNDS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_BOOL: (0, 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
}
"""The least and the greatest number of each type of field that is written as one."""
ONE_OCTET = 128
"""Numbers below it take one octet."""
WRITTEN_KEPT = 1_024
"""Of how many values of a field that holds a message the octets are kept."""
NEXT = bytes((*range(1, 256), 0))


def record(plan: Plan) -> Write:
    """All fields of a record, as the octets of its message."""

    def write(value: Any) -> bytes:
        octets = b""
        for name, write_field, default in plan:
            part = getattr(value, name)
            if part or not (default or part is None):
                octets += write_field(part)
        return octets

    return write


def message(number: int, write: Write) -> Write:
    """A field that holds the message whose octets `write` gives."""
    tag = varint(number << 3 | LENGTH_DELIMITED)

    def write_field(value: Any) -> bytes:
        octets = write(value)
        return tag + varint(len(octets)) + octets

    return write_field


def known(write: Write) -> Write:
    """The same writer, which remembers what it has written last."""
    return lru_cache(maxsize=WRITTEN_KEPT)(write)


def text(number: int) -> Write:
    """A field of text."""
    return message(number, str.encode)


def octets(number: int) -> Write:
    """A field of octets."""
    return message(number, bytes)


@cache
def numeral(number: int, kind: int, plus: int = 0) -> Write:
    """A field of a number, which is `plus` more than the value; raises ValueError for one that its
    type does not hold."""
    tag = varint(number << 3 | NUMBER)
    short = [tag + bytes((n + plus,)) for n in range(ONE_OCTET - plus)]
    many = len(short)

    def write(value: int) -> bytes:
        if 0 <= value < many:
            return short[value]
        return tag + _long(value + plus, kind)

    return write


@cache
def numerals(number: int, kind: int, plus: int = 0) -> Write:
    """The same for many numbers in one field, packed."""

    def body(values: Sequence[int]) -> bytes:
        if min(values) >= 0 and max(values) < ONE_OCTET - plus:
            return bytes(values).translate(NEXT) if plus else bytes(values)
        return b"".join([_long(value + plus, kind) for value in values])

    return message(number, body)


def each(write: Write) -> Write:
    """A field for every one of many values."""
    return lambda values: b"".join([write(value) for value in values])


def one_of(writers: dict[type, Write]) -> Write:
    """The field that stands for the value's class."""
    return lambda value: writers[type(value)](value)


def _long(value: int, kind: int) -> bytes:
    low, high = BOUNDS[kind]
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit into the field")
    return varint(value & (2**64 - 1))
