"""Changed copies of frozen records: a state after an event is the state before it but for a few
fields, so a fold does little else than copy.

`changed` does what `dataclasses.replace` does, and type checkers read it as that, at about a sixth
of the time: `replace` reads every field by name and goes through an `__init__` that has to get
round the class's own refusal to be written to. Here a function is compiled once for each class. It
fills an instance of a twin, a class of the same slots that may be written to, and hands it over to
the frozen class once it is whole; nobody ever holds one that can be changed.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["changed", "maker"]

T = TypeVar("T")

_SAME = object()
"""Stands for a field that is not given."""

if TYPE_CHECKING:
    from dataclasses import replace as changed
else:

    def changed(record, /, **changes):
        """The record with these fields changed; raises TypeError for a field it does not have."""
        copy = _COPIERS.get(record.__class__)
        if copy is None:
            copy = _COPIERS[record.__class__] = _copier(record.__class__)
        return copy(record, **changes)


def maker(cls: type[T]) -> Callable[..., T]:
    """What `cls` does when it is called with all its fields by position, at a quarter of the time.

    Raises TypeError for a class that is not a frozen, slotted dataclass of plain fields: one whose
    `__init__` does more than fill them.
    """
    names, twin = _twin(cls)
    filling = "".join(f"    made.{name} = {name}\n" for name in names)
    made: Callable[..., T] = _compiled(cls, twin, ", ".join(names), filling)
    return made


def _copier(cls: type[T]) -> Callable[..., T]:
    names, twin = _twin(cls)
    given = "".join(f", {name}=_SAME" for name in names)
    filling = "".join(
        f"    made.{name} = _record.{name} if {name} is _SAME else {name}\n" for name in names
    )
    made: Callable[..., T] = _compiled(cls, twin, f"_record, /{given}", filling)
    return made


def _compiled(cls: type, twin: type, parameters: str, filling: str) -> Any:
    """A function that fills a twin by these lines and makes it a `cls`."""
    source = f"def make({parameters}):\n    made = _twin()\n{filling}"
    source += "    made.__class__ = _cls\n    return made\n"
    scope: dict[str, Any] = {"_twin": twin, "_cls": cls, "_SAME": _SAME}
    exec(source, scope)  # noqa: S102 - made of the names of fields
    return scope["make"]


def _twin(cls: type) -> tuple[tuple[str, ...], type]:
    """The class's fields, and a class of the same slots that may be written to."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is not a dataclass")
    names = tuple(field.name for field in fields(cls))
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    plain = all(field.init for field in fields(cls)) and not hasattr(cls, "__post_init__")
    slotted = cls.__base__ is object and getattr(cls, "__slots__", None) == names
    if not (frozen and plain and slotted):
        raise TypeError(f"{cls.__name__} is not a frozen, slotted dataclass of plain fields")
    return names, type(cls.__name__, (), {"__slots__": names})


_COPIERS: dict[type, Callable[..., Any]] = {}
