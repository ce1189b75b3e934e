"""Frozen dataclasses ↔ protobuf messages, by field name, from their type annotations.

| dataclass | message |
|---|---|
| `int`, `bool`, `str`, `bytes` | a field of that type (any integer type but fixed ones) |
| `Card`, `Suit` | the enums of `kozyr.cards.v1`, value + 1 |
| another `IntEnum` | an enum of the same numbers, and 0 for unspecified |
| a dataclass | a message with the same fields |
| a union of dataclasses | a message with one oneof; its fields are the classes in snake_case |
| `X | None` | a field with presence, absent for None |
| `tuple[X, ...]` | a repeated field |

Both sides must have exactly the same fields; a `Mapper` that cannot be right fails when it is made.
Closures are compiled once for every class and message. What goes out is written as octets at once
(`writing.py`); what comes in is read from messages.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from functools import cached_property
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from engines.cards import PACK_SIZE, Card, Suit
from services.kernel.errors import invalid
from services.runtime.wire import writing
from services.runtime.wire.writing import Plan, Write

T = TypeVar("T")
M = TypeVar("M", bound=Message)

Decode = Callable[[Any], Any]
"""How a value comes in."""
Read = Callable[[Any], Any]
"""Takes a field's value out of a message."""

_SCALARS: Mapping[type, frozenset[int]] = {
    bool: frozenset((FieldDescriptor.TYPE_BOOL,)),
    str: frozenset((FieldDescriptor.TYPE_STRING,)),
    bytes: frozenset((FieldDescriptor.TYPE_BYTES,)),
    int: frozenset(
        (
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_UINT32,
            FieldDescriptor.TYPE_UINT64,
        )
    ),
}
_CARDS = {number + 1: Card(number) for number in range(PACK_SIZE)}
_SUITS = {int(suit) + 1: suit for suit in Suit}
_CARD_ENUM, _SUIT_ENUM = "kozyr.cards.v1.Card", "kozyr.cards.v1.Suit"
_ABSENT = object()


class Mismatch(TypeError):
    """A dataclass and a message that should stand for one another do not."""


class Mapper(Generic[T, M]):
    """Maps a dataclass, or a union of dataclasses, to a message class and back.

    `exclude` names fields that are mapped elsewhere or stand on one side only; `from_wire` is given
    their values. `build` makes the instance from the fields that are present (for options, where
    what is absent has a default). Raises Mismatch.
    """

    def __init__(
        self,
        cls: Any,
        message: type[M],
        *,
        exclude: frozenset[str] = frozenset(),
        build: Callable[[Mapping[str, Any]], T] | None = None,
    ) -> None:
        self.cls = cls
        self.message = message
        self._plan: Plan = ()
        self.to_octets: Write
        """Serialises the message that stands for a value, always to the same octets."""
        if _is_union(cls):
            self.to_octets, decode = _union(cls, message.DESCRIPTOR)
            self._decode: Callable[..., T] = decode
        else:
            self._plan = _writers(cls, message.DESCRIPTOR, exclude)
            self.to_octets = writing.record(self._plan)
            self._decode = _decoder(cls, message.DESCRIPTOR, exclude, build)

    def to_wire(self, value: T) -> M:
        """The message that stands for `value`."""
        return self.message.FromString(self.to_octets(value))

    @cached_property
    def to_octets_beside(self) -> Callable[[T, T], bytes | None]:
        """Serialises what a value has beside another of its class (`writing.beside`)."""
        return writing.beside(self._plan)

    def from_wire(self, message: M, path: str = "", **given: Any) -> T:
        """What the message stands for; `given` are the excluded fields.

        Raises Refused INVALID_ARGUMENT naming the field below `path`: a missing message, an enum
        value that is unspecified or unknown.
        """
        try:
            return self._decode(message, **given)
        except _Problem as problem:
            raise invalid(problem.under(path).path or "message", problem.problem) from None


class _Problem(Exception):
    """Something wrong with a message; the path grows while it is passed outwards."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def under(self, name: str) -> "_Problem":
        dot = "." if self.path and name and not self.path.startswith("[") else ""
        self.path = f"{name}{dot}{self.path}"
        return self


def snake_case(name: str) -> str:
    """`BlindLookedAt` → `blind_looked_at`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _where(cls: Any, descriptor: Any) -> str:
    return f"{getattr(cls, '__qualname__', cls)} and {descriptor.full_name}"


def _matched(cls: Any, descriptor: Any, exclude: frozenset[str]) -> list[tuple[Any, Any, Any]]:
    """Dataclass field, its type and its message field, in the dataclass's order."""
    if not is_dataclass(cls) or not isinstance(cls, type):
        raise Mismatch(f"{_where(cls, descriptor)}: not a dataclass")
    hints = get_type_hints(cls)
    ours = {f.name: f for f in fields(cls) if f.name not in exclude}
    theirs = {n: f for n, f in descriptor.fields_by_name.items() if n not in exclude}
    unmatched = sorted(ours.keys() ^ theirs.keys())
    if unmatched:
        raise Mismatch(f"{_where(cls, descriptor)}: on one side only: {', '.join(unmatched)}")
    return [(field, hints[name], theirs[name]) for name, field in ours.items()]


def _writers(cls: Any, descriptor: Any, exclude: frozenset[str] = frozenset()) -> Plan:
    """How a class's fields are written, in the order of their numbers."""
    plan = []
    for field, hint, wire in _matched(cls, descriptor, exclude):
        item, many, _ = _shape(hint, wire)
        empty = many or not (wire.has_presence or item in (Card, Suit))
        plan.append((wire.number, field.name, _writer(item, wire, many=many), empty))
    return tuple((name, write, empty) for _, name, write, empty in sorted(plan, key=itemgetter(0)))


def _writer(hint: Any, wire: Any, *, many: bool) -> Write:
    """Writes a field, tags included."""
    plus = 1 if hint in (Card, Suit) else 0
    if wire.type in writing.BOUNDS:
        numbers = writing.numerals if many else writing.numeral
        return numbers(wire.number, wire.type, plus)
    if wire.type == FieldDescriptor.TYPE_STRING:
        write = writing.text(wire.number)
    elif wire.type == FieldDescriptor.TYPE_BYTES:
        write = writing.octets(wire.number)
    elif _is_union(hint):
        write = writing.message(wire.number, _union(hint, wire.message_type)[0])
    else:
        write = writing.message(wire.number, writing.record(_writers(hint, wire.message_type)))
    return writing.each(write) if many else write


def _decoder(
    cls: Any,
    descriptor: Any,
    exclude: frozenset[str] = frozenset(),
    build: Callable[[Mapping[str, Any]], Any] | None = None,
) -> Callable[..., Any]:
    """A function from a message to an instance."""
    plan = []
    for field, hint, wire in _matched(cls, descriptor, exclude):
        plan.append((field.name, _reader(field, hint, wire, partial=build is not None)))

    def run(message: Any, **given: Any) -> Any:
        for name, read in plan:
            part = read(message)
            if part is not _ABSENT:
                given[name] = part
        return cls(**given) if build is None else build(given)

    return run


def _reader(field: Any, hint: Any, wire: Any, *, partial: bool) -> Read:
    """Takes one field out of a message: `_ABSENT` leaves it to the class's default."""
    item, many, optional = _shape(hint, wire)
    decode = _item(item, wire)
    name = field.name
    get: Read = attrgetter(name)
    if many:
        return _read_many(name, get, decode)
    value = get if decode is None else _read_one(name, get, decode)
    if not wire.has_presence:
        return value
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    absent: Any = _ABSENT
    if optional:
        absent = None
    elif not has_default and not partial:
        return _read_required(name, value)
    return lambda message: value(message) if message.HasField(name) else absent


def _read_one(name: str, get: Read, decode: Decode) -> Read:
    def read(message: Any) -> Any:
        try:
            return decode(get(message))
        except _Problem as problem:
            raise problem.under(name) from None

    return read


def _read_many(name: str, get: Read, decode: Decode | None) -> Read:
    if decode is None:
        return lambda message: tuple(get(message))

    def read(message: Any) -> Any:
        items = []
        for index, item in enumerate(get(message)):
            try:
                items.append(decode(item))
            except _Problem as problem:
                raise problem.under(f"[{index}]").under(name) from None
        return tuple(items)

    return read


def _read_required(name: str, value: Read) -> Read:
    def read(message: Any) -> Any:
        if not message.HasField(name):
            raise _Problem(name, "is required")
        return value(message)

    return read


def _shape(hint: Any, wire: Any) -> tuple[Any, bool, bool]:
    """The type of one item, whether there are many, whether there may be none."""
    optional = _is_union(hint) and NoneType in get_args(hint)
    if optional:
        rest = [each for each in get_args(hint) if each is not NoneType]
        hint = rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 - made at run time
        if not wire.has_presence or wire.is_repeated:
            raise Mismatch(f"{wire.full_name}: must be able to be absent")
    many = get_origin(hint) is tuple
    if many:
        arguments = get_args(hint)
        if optional or len(arguments) != 2 or arguments[1] is not Ellipsis:
            raise Mismatch(f"{wire.full_name}: only tuple[X, ...] can be mapped")
        hint = arguments[0]
    if many != wire.is_repeated:
        raise Mismatch(f"{wire.full_name}: repeated on one side only")
    return hint, many, optional


def _item(hint: Any, wire: Any) -> Decode | None:
    """How one value of this type comes out of this kind of field; None where it stays as it is."""
    if hint is Card or (isinstance(hint, type) and issubclass(hint, IntEnum)):
        return _enum(hint, wire)
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if hint in _SCALARS:
        if wire.type not in _SCALARS[hint]:
            raise Mismatch(f"{wire.full_name}: does not hold {hint.__name__}")
        return None
    if wire.message_type is None:
        raise Mismatch(f"{wire.full_name}: must be a message for {hint}")
    if _is_union(hint):
        return _union(hint, wire.message_type)[1]
    return _decoder(hint, wire.message_type)


def _enum(hint: Any, wire: Any) -> Decode:
    if wire.enum_type is None:
        raise Mismatch(f"{wire.full_name}: must be an enum")
    values: Mapping[int, Any]
    if hint is Card:
        values, expected = _CARDS, _CARD_ENUM
    elif hint is Suit:
        values, expected = _SUITS, _SUIT_ENUM
    else:
        values, expected = {int(member): member for member in hint}, wire.enum_type.full_name
    numbers = set(wire.enum_type.values_by_number)
    if wire.enum_type.full_name != expected or numbers != {0, *values} or 0 in values:
        raise Mismatch(f"{wire.full_name}: the enum is not that of {hint}")

    def decode(number: int) -> Any:
        try:
            return values[number]
        except KeyError:
            problem = "is required" if number == 0 else "is not a known value"
            raise _Problem("", problem) from None

    return decode


def _union(hint: Any, descriptor: Any) -> tuple[Write, Decode]:
    """A wrapper message whose one oneof holds a class of the union."""
    classes = {snake_case(cls.__name__): cls for cls in get_args(hint)}
    theirs = descriptor.fields_by_name
    unmatched = sorted(classes.keys() ^ theirs.keys())
    if unmatched or len(descriptor.oneofs) != 1:
        raise Mismatch(f"{descriptor.full_name}: not the wrapper of {hint}: {unmatched}")
    which = descriptor.oneofs[0].name
    out = {
        cls: writing.message(
            theirs[name].number, writing.record(_writers(cls, theirs[name].message_type))
        )
        for name, cls in classes.items()
    }
    into = {name: _decoder(cls, theirs[name].message_type) for name, cls in classes.items()}

    def decode(message: Any) -> Any:
        name = message.WhichOneof(which)
        if name is None:
            raise _Problem("", "one of its fields must be set")
        try:
            return into[name](getattr(message, name))
        except _Problem as problem:
            raise problem.under(name) from None

    return writing.one_of(out), decode
