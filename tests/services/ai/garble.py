"""Messages spoilt at random, field by field, within what their types can hold."""

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

NUMBERS = (-1, 0, 1, 2, 3, 5, 11, 2**31 - 1, -(2**31))
LONGS = (*NUMBERS, 2**63 - 1, -(2**63))


def garble(message: Message, rng: Random) -> None:
    """Change one field somewhere in the message."""
    field: Any = rng.choice(message.DESCRIPTOR.fields)
    nested = field.type == FieldDescriptor.TYPE_MESSAGE
    if field.is_repeated:
        _garble_items(getattr(message, field.name), field, rng, nested=nested)
    elif rng.random() < 0.15:
        message.ClearField(field.name)
    elif nested:
        inner = getattr(message, field.name)
        inner.SetInParent()
        garble_if_any(inner, rng)
    else:
        setattr(message, field.name, _value(field, rng))


def garble_if_any(message: Message, rng: Random) -> None:
    """The same for a message that may have no field."""
    if message.DESCRIPTOR.fields:
        garble(message, rng)


def _garble_items(items: Any, field: Any, rng: Random, *, nested: bool) -> None:
    roll = rng.random()
    if items and roll < 0.3:
        del items[rng.randrange(len(items))]
    elif items and roll < 0.5:
        items.append(items[rng.randrange(len(items))])
    elif nested:
        garble_if_any(items.add() if not items or roll > 0.9 else rng.choice(list(items)), rng)
    elif items and roll < 0.8:
        items[rng.randrange(len(items))] = _value(field, rng)
    else:
        items.append(_value(field, rng))


def _value(field: Any, rng: Random) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice(list(field.enum_type.values_by_number))
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(("", "m1", "?"))
        case FieldDescriptor.TYPE_BYTES:
            return rng.randbytes(4)
        case FieldDescriptor.TYPE_UINT32 | FieldDescriptor.TYPE_UINT64:
            return rng.choice([n for n in NUMBERS if n >= 0])
        case FieldDescriptor.TYPE_INT64:
            return rng.choice(LONGS)
        case _:
            return rng.choice(NUMBERS)
