"""Octets of messages made from values: what protobuf's own serialiser gives for the same message,
without the message. To fill one from Python takes as long again as to write its octets.

A writer takes a value and gives a field with it, tag included. Which fields a record has, and which
of them are left out where they are empty, is its plan (`mapping.py`).
"""

from collections.abc import Callable, Sequence
from functools import cache
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
NEXT = bytes((*range(1, 256), 255))
LONG = b"\xff"
"""Octets to translate to those one higher, and one that stands for numbers of more octets."""


def record(plan: Plan) -> Write:
    """All fields of a record, as the octets of its message.

    The function is compiled with a line for each field: to go through the plan instead takes more
    than twice as long, most of it for fields that are empty.
    """
    lines = ["def write(value):", "    octets = b''"]
    for place, (name, _, default) in enumerate(plan):
        lines.append(f"    part = value.{name}")
        lines.append("    if part:" if default else "    if part is not None:")
        lines.append(f"        octets += write_{place}(part)")
    lines.append("    return octets")
    written: Write = _compiled(plan, lines)
    return written


def beside(plan: Plan) -> Callable[[Any, Any], bytes | None]:
    """What the octets of a record have beside those of another of its class: after them, they stand
    for the record. None where they cannot, because the other has something in a field in which the
    two differ. Compiled for the same reason; most fields are the very same."""
    lines = ["def write(value, other):", "    octets = b''"]
    for place, (name, _, default) in enumerate(plan):
        is_there = "" if default else " is not None"
        lines += [
            f"    part, others = value.{name}, other.{name}",
            "    if part is not others and part != others:",
            f"        if others{is_there}:",
            "            return None",
            f"        if part{is_there}:",
            f"            octets += write_{place}(part)",
        ]
    lines.append("    return octets")
    written: Callable[[Any, Any], bytes | None] = _compiled(plan, lines)
    return written


def message(number: int, write: Write) -> Write:
    """A field that holds the message whose octets `write` gives."""
    tag = varint(number << 3 | LENGTH_DELIMITED)

    def write_field(value: Any) -> bytes:
        octets = write(value)
        return tag + varint(len(octets)) + octets

    return write_field


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
        try:
            short = bytes(values)
        except ValueError:  # one of them is none that an octet holds
            short = LONG
        if plus:
            short = short.translate(NEXT)
        if short.isascii():  # each of them takes one octet
            return short
        return b"".join([_long(value + plus, kind) for value in values])

    return message(number, body)


def each(write: Write) -> Write:
    """A field for every one of many values."""
    return lambda values: b"".join([write(value) for value in values])


def one_of(writers: dict[type, Write]) -> Write:
    """The field that stands for the value's class."""
    return lambda value: writers[type(value)](value)


def _compiled(plan: Plan, lines: Sequence[str]) -> Any:
    """The function of these lines, which call the writers of the plan by their places."""
    scope: dict[str, Any] = {f"write_{place}": write for place, (_, write, _) in enumerate(plan)}
    exec("\n".join(lines), scope)  # noqa: S102 - made of the names of fields
    return scope["write"]


def _long(value: int, kind: int) -> bytes:
    low, high = BOUNDS[kind]
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit into the field")
    return varint(value & (2**64 - 1))
