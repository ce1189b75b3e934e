"""Reads protobuf octets into dataclasses, by the numbers in `verifier.numbers`, from annotations.

| dataclass | on the wire |
|---|---|
| `int`, `bool` | varint (64 bits, two's complement) |
| `Card`, `Suit` | varint, the value + 1 |
| another `IntEnum` | varint, the value; 0 is not given |
| `str`, `bytes` | length and octets |
| a dataclass | length and its own fields |
| `X | None` | as X, or nothing |
| `tuple[X, ...]` | X again and again; numbers in one field of octets |

Octets that are none of this raise `Unreadable`: an unknown field, one that came twice, one cut off.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from engines.cards import PACK_SIZE, Card, Suit
from verifier.numbers import NUMBERS

T = TypeVar("T")

VARINT, OCTETS = 0, 2
VARINT_BITS = 64


class Unreadable(Exception):
    """Octets that are not the message they should be; the text says why, without any content."""


def read(cls: type[T], message: str, octets: bytes, **given: Any) -> T:
    """The instance of a dataclass that these octets stand for; `given` are fields from elsewhere.

    `message` is its name in `verifier.numbers`, such as `azi.Dealt`.
    """
    made = read_present(cls, message, octets, frozenset(given))
    shape: Any = cls
    for name, hint in _hints(shape).items():
        if name not in made and name not in given:
            try:
                made[name] = _absent(hint)
            except Unreadable as problem:
                raise Unreadable(f"{message}.{name}: {problem}") from None
    return cls(**made, **given)


def read_present(
    cls: type, message: str, octets: bytes, aside: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The values of the dataclass's fields that are there, those `aside` being read elsewhere."""
    hints, numbers = _hints(cls), NUMBERS.get(message)
    if numbers is None:
        raise Unreadable(f"there is no message {message}")
    names = {number: name for name, number in numbers.items()}
    found: dict[str, list[int | bytes]] = {}
    for number, value in parse(octets):
        name = names.get(number)
        if name is None or (name not in hints and name not in aside):
            raise Unreadable(f"{message} has no field {number}")
        if name not in aside:
            found.setdefault(name, []).append(value)
    made = {}
    for name, values in found.items():
        try:
            made[name] = _field(hints[name], message, values)
        except Unreadable as problem:
            raise Unreadable(f"{message}.{name}: {problem}") from None
    return made


def octets_of(message: str, name: str, octets: bytes) -> bytes:
    """The octets of one field of a message, empty where it is not there."""
    number, found = NUMBERS[message][name], b""
    for at, value in parse(octets):
        if at == number:
            if found or not isinstance(value, bytes):
                raise Unreadable(f"{message}.{name}: comes twice or is a number")
            found = value
    return found


def parse(octets: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: each field's number, and a number or octets."""
    at = 0
    while at < len(octets):
        tag, at = _varint(octets, at)
        if tag & 7 == VARINT:
            value, at = _varint(octets, at)
            yield tag >> 3, value
        elif tag & 7 == OCTETS:
            size, at = _varint(octets, at)
            if at + size > len(octets):
                raise Unreadable("a field is cut off")
            yield tag >> 3, octets[at : at + size]
            at += size
        else:
            raise Unreadable(f"wire type {tag & 7} is used by no message")


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(octets) or shift >= VARINT_BITS + 6:
            raise Unreadable("a number is cut off")
        value |= (octets[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if octets[at - 1] < 128:
            if value >> VARINT_BITS or (shift > 7 and not octets[at - 1]):
                raise Unreadable("a number is not written as numbers are")
            return value, at


@cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _field(hint: Any, message: str, values: list[int | bytes]) -> Any:
    """A field's value from all that came for it."""
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return tuple(_item(item, message, value) for value in _spread(item, values))
    if len(values) > 1:
        raise Unreadable("comes twice")
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return _item(hint, message, values[0])


def _spread(item: Any, values: list[int | bytes]) -> Iterator[int | bytes]:
    """Numbers packed into octets as numbers, everything else as it is."""
    for value in values:
        if isinstance(value, bytes) and not is_dataclass(item) and item not in (str, bytes):
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                yield number
        else:
            yield value


def _absent(hint: Any) -> Any:
    """What a field is when nothing came for it."""
    if get_origin(hint) is tuple:
        return ()
    if get_origin(hint) in (Union, UnionType):
        return None
    if hint in (int, bool, str, bytes):
        return hint()
    raise Unreadable("is missing")


def _item(hint: Any, message: str, value: int | bytes) -> Any:
    if hint in (str, bytes) or is_dataclass(hint):
        if not isinstance(value, bytes):
            raise Unreadable("must be octets")
        return _from_octets(hint, message, value)
    if not isinstance(value, int):
        raise Unreadable("must be a number")
    if hint is bool:
        if value > 1:
            raise Unreadable("must be 0 or 1")
        return bool(value)
    if hint is Card:
        if not 1 <= value <= PACK_SIZE:
            raise Unreadable("is no card")
        return Card(value - 1)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        try:
            return hint(value - 1 if hint is Suit else value)
        except ValueError:
            raise Unreadable("has an unknown value") from None
    return value - (1 << VARINT_BITS) if value >> (VARINT_BITS - 1) else value


def _from_octets(hint: Any, message: str, value: bytes) -> Any:
    if hint is bytes:
        return value
    if hint is str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Unreadable("is no text") from None
    return read(hint, f"{message.partition('.')[0]}.{hint.__name__}", value)
