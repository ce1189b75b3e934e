"""Checks of request fields; each raises `invalid(field, problem)`.

`check_message` is run on every request before its servicer sees it: texts without control
characters and of bounded length, lists of bounded length, enum values that exist, and a
well-formed `request_id` where the message has one. The rest are for servicers.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from services.kernel.errors import invalid
from services.kernel.ids import REQUEST_ID_MAX
from services.runtime.moments import quick_uuid

TEXT_MAX = 1_024
"""Longest text of any request field, in characters."""
BYTES_MAX = 4_096
"""Longest bytes field of any request."""
ITEMS_MAX = 256
"""Most items of a repeated field, where an access row does not say otherwise."""
PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 200

Check = Callable[[Any, str, int], None]
Plan = tuple[tuple[str, bool, bool, Check], ...]


def check_message(message: Message, items_max: int = ITEMS_MAX) -> None:
    """Check every field of a request; raises Refused INVALID_ARGUMENT naming the first at fault."""
    _check_fields(message, "", items_max)
    if _has_request_id(message.DESCRIPTOR):
        request_id("request_id", getattr(message, "request_id"))  # noqa: B009 - any message


def _check_fields(message: Message, path: str, items_max: int) -> None:
    for name, repeated, has_presence, check in _plan(message.DESCRIPTOR):
        if has_presence and not message.HasField(name):
            continue
        value = getattr(message, name)
        if not repeated:
            check(value, path + name, items_max)
            continue
        if len(value) > items_max:
            raise invalid(path + name, f"at most {items_max} items")
        for index, item in enumerate(value):
            check(item, f"{path}{name}[{index}]", items_max)


def request_id(field: str, value: str) -> str:
    """An id chosen by the caller: 1 … 64 printable ASCII characters."""
    if not value:
        raise invalid(field, "is required")
    if len(value) > REQUEST_ID_MAX:
        raise invalid(field, f"at most {REQUEST_ID_MAX} characters")
    if not value.isascii() or not value.isprintable():
        raise invalid(field, "printable ASCII only")
    return value


def uuid(field: str, value: str) -> UUID:
    """A UUID in lower-case canonical text."""
    if not value:
        raise invalid(field, "is required")
    try:
        parsed = quick_uuid(value)
    except ValueError:
        parsed = None
    if parsed is None or str(parsed) != value:
        raise invalid(field, "must be a UUID in lower case")
    return parsed


def optional_uuid(field: str, value: str) -> UUID | None:
    """The same, or None for an empty text."""
    return uuid(field, value) if value else None


def text(field: str, value: str, *, low: int = 1, high: int) -> str:
    """A text of `low` … `high` characters, no blanks around it, no control characters."""
    if low and not value:
        raise invalid(field, "is required")
    if not low <= len(value) <= high:
        raise invalid(field, f"must have {low} to {high} characters")
    if value != value.strip() or not value.isprintable():
        raise invalid(field, "no blanks at the ends and no control characters")
    return value


def octets(field: str, value: bytes, *, low: int = 1, high: int) -> bytes:
    """Bytes of `low` … `high` length."""
    if not low <= len(value) <= high:
        raise invalid(field, f"must have {low} to {high} bytes")
    return value


def number(field: str, value: int, *, low: int, high: int) -> int:
    """An integer of `low` … `high`."""
    if not low <= value <= high:
        raise invalid(field, f"must be {low} to {high}")
    return value


def choice(field: str, value: int, allowed: Sequence[int]) -> int:
    """An enum value that is one of those allowed; 0 (unspecified) counts as missing."""
    if value == 0 and 0 not in allowed:
        raise invalid(field, "is required")
    if value not in allowed:
        raise invalid(field, "is not a known value")
    return value


def present(message: Message, field: str) -> None:
    """A sub-message that must be there."""
    if not message.HasField(field):
        raise invalid(field, "is required")


def page_size(value: int, *, default: int = PAGE_SIZE_DEFAULT, high: int = PAGE_SIZE_MAX) -> int:
    """The number of items of a page: 0 means the default, more than `high` gives `high`."""
    if value < 0:
        raise invalid("page_size", "must not be negative")
    return min(value or default, high)


@cache
def _has_request_id(descriptor: Descriptor) -> bool:
    return "request_id" in descriptor.fields_by_name


@cache
def _plan(descriptor: Descriptor) -> Plan:
    """Fields that need a check: name, repeated, with presence, the check."""
    plan = []
    for field in descriptor.fields:
        check = _check(field)
        if check is not None:
            plan.append((field.name, bool(field.is_repeated), _present(field), check))
    return tuple(plan)


def _present(field: FieldDescriptor) -> bool:
    return bool(field.has_presence) and not field.is_repeated


def _check(field: Any) -> Check | None:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return _text
        case FieldDescriptor.TYPE_BYTES:
            return _octets
        case FieldDescriptor.TYPE_ENUM:
            numbers = frozenset(field.enum_type.values_by_number)
            return lambda value, path, _: _known(value, path, numbers)
        case FieldDescriptor.TYPE_MESSAGE:
            return _entries if field.message_type.GetOptions().map_entry else _nested
        case _:
            return None


def _text(value: str, path: str, _items_max: int = 0) -> None:
    if len(value) > TEXT_MAX:
        raise invalid(path, f"at most {TEXT_MAX} characters")
    if not value.isprintable():
        raise invalid(path, "no control characters")


def _octets(value: bytes, path: str, _items_max: int = 0) -> None:
    if len(value) > BYTES_MAX:
        raise invalid(path, f"at most {BYTES_MAX} bytes")


def _known(value: int, path: str, numbers: frozenset[int]) -> None:
    if value not in numbers:
        raise invalid(path, "is not a known value")


def _nested(value: Message, path: str, items_max: int) -> None:
    _check_fields(value, f"{path}.", items_max)


def _entries(key: object, path: str, _items_max: int) -> None:
    if isinstance(key, str):
        _text(key, path)
