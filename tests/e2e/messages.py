"""Random and broken messages, built from the descriptors of the wire contract."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

DEPTH = 6
STRANGE_TEXTS = (
    "",
    " ",
    "x" * 65,
    "y" * 5_000,
    "\x00",
    "a\nb",
    "\u202e\u0000",
    "\U0001f0a1",
    "ё" * 30,
    "'; DROP TABLE events; --",
    "../../etc/passwd",
    "%s%n{}{0}",
    "00000000-0000-0000-0000-000000000000",
    "01890A5D-AC96-774B-BCCE-B302099A8057",
    "1" * 64,
    "NaN",
)
NUMBERS = (0, 1, 2, 3, 4, 5, 10, 36, 51, 52, 53, 100, 255, 1_000, 30_000, 10**6)
RAW_TEXT = b"\x12\x04\xff\xfe\xc3\x28"
"""A field of octets that are no text."""
DEEP = b"\x0b" * 20_000
"""Twenty thousand groups, each inside the other."""

Pool = Mapping[str, Sequence[Any]]
"""Values that exist, by field name."""
Samples = Mapping[str, Sequence[Message]]
"""Requests that are in order, by the full name of their type, where random ones seldom are."""


def request(
    descriptor: Descriptor, rng: Random, pool: Pool, samples: Samples | None = None
) -> bytes:
    """The octets of a request: well formed and likely, or mutated, or nothing of the kind."""
    message = build(descriptor, rng, pool)
    known = (samples or {}).get(descriptor.full_name)
    if known and rng.random() < 0.5:
        message = _nearly(rng.choice(known), message, rng)
    raw = message.SerializeToString()
    kind = rng.random()
    if kind < 0.75:
        return raw
    if kind < 0.97:
        return broken(raw, rng)
    return rng.choice([b"", rng.randbytes(50), RAW_TEXT + raw, DEEP, raw + b"\x0a" * 70_000])


def build(descriptor: Descriptor, rng: Random, pool: Pool, depth: int = 0) -> Message:
    """A message with random fields; a field known to the pool mostly has a value of it."""
    message: Message = GetMessageClass(descriptor)()
    skipped = {
        field.name
        for oneof in descriptor.oneofs
        if len(oneof.fields) > 1
        for field in _others(oneof.fields, rng)
    }
    presence = rng.choice((0.95, 0.95, 0.6))
    for field in descriptor.fields:
        if field.name in skipped or rng.random() > presence:
            continue
        if field.is_repeated:
            count = rng.choice((0, 1, 1, 2, 3, 3, 4, 6, 300 if depth < 2 else 2))
            for _ in range(count):
                _put(message, field, rng, pool, depth, repeated=True)
        else:
            _put(message, field, rng, pool, depth, repeated=False)
    return message


def _nearly(sample: Message, other: Message, rng: Random) -> Message:
    """A sample, every second time with one field as in another message."""
    made = type(sample)()
    made.CopyFrom(sample)
    if rng.random() < 0.5:
        taken = type(sample)()
        taken.CopyFrom(other)
        names = [field.name for field in sample.DESCRIPTOR.fields]
        kept = rng.choice(names)
        for name in names:
            if name != kept:
                taken.ClearField(name)
        made.ClearField(kept)
        made.MergeFrom(taken)
    return made


def _others(fields: Sequence[FieldDescriptor], rng: Random) -> list[FieldDescriptor]:
    chosen = rng.choice(fields)
    return [field for field in fields if field is not chosen]


def _put(
    message: Message, field: Any, rng: Random, pool: Pool, depth: int, *, repeated: bool
) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        there = getattr(message, field.name)
        target = there.add() if repeated else there
        known = pool.get(field.name)
        if known and rng.random() < 0.7:
            target.CopyFrom(rng.choice(known))
            if rng.random() < 0.3:
                target.MergeFrom(build(field.message_type, rng, pool, DEPTH))
        elif depth < DEPTH:
            target.CopyFrom(build(field.message_type, rng, pool, depth + 1))
        return
    value = _value(field, rng, pool)
    try:
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):
        return  # a text or a number that this field cannot carry at all


def _value(field: Any, rng: Random, pool: Pool) -> Any:
    known = pool.get(field.name)
    if known and rng.random() < 0.85:
        return rng.choice(known)
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(STRANGE_TEXTS)
        case FieldDescriptor.TYPE_BYTES:
            return rng.randbytes(rng.choice((0, 1, 16, 32, 32, 64, 65, 5_000)))
        case FieldDescriptor.TYPE_ENUM:
            numbers = sorted(field.enum_type.values_by_number)
            return rng.choice(numbers) if rng.random() < 0.9 else rng.choice((-1, 999, 2**31 - 1))
        case _:
            return _number(field.type, rng)


def _number(kind: int, rng: Random) -> float:
    if rng.random() < 0.8:
        return rng.choice(NUMBERS)
    bits = 64 if kind in _LONG else 32
    return rng.choice((-1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2**31 - 1, -(2**31)))


_LONG = (
    FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_UINT64,
    FieldDescriptor.TYPE_SINT64,
    FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_SFIXED64,
)


def broken(raw: bytes, rng: Random) -> bytes:
    """The same octets with one to three of them changed, lost, doubled or added."""
    octets = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(octets) + 1)
        match rng.randrange(5):
            case 0 if at < len(octets):
                octets[at] = rng.randrange(256)
            case 1 if at < len(octets):
                octets[at] ^= 1 << rng.randrange(8)
            case 2:
                del octets[at:]
            case 3:
                octets[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                octets += octets[at:]
    return bytes(octets[:60_000])
