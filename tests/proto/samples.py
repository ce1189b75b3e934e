"""Sample events of every class, made from the types of their fields, and events as plain values.

The samples of a class take between them every member of every enum, every class of a union, and
each field that may be absent or empty so and otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import IntEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from engines import azi, durak, rami
from engines.cards import PACK_SIZE, Card, card
from engines.cards import text as card_text
from services.game import model as game
from services.lobby import model as lobby
from services.lobby.variants import ENGINES

GAMES = {"azi": azi, "durak": durak, "rami": rami}
CHOSEN: Mapping[str, Mapping[str, Any]] = {
    "azi": {
        "entry_fee": 5,
        "deal_size": 4,
        "min_bet": 10,
        "azi_entry": "half_bank",
        "azi_entry_fee": False,
        "blind_bets": True,
        "reveal": "own",
    },
    "durak": {"throw_in_after_take": False, "auto_pass": False, "reveal": "own"},
    "rami": {
        "ace_high": True,
        "discard_to_win": True,
        "forbid_same_discard": False,
        "target": 7,
        "reveal": "own",
    },
}
"""Every option of each game, chosen otherwise than by default."""


def samples(cls: type) -> Iterator[Any]:
    """The sample events of an event class."""
    if cls is game.GameOpened:
        yield from _games_opened()
    elif cls is lobby.TableOpened:
        yield from _tables_opened()
    else:
        for number in range(_variety(cls)):
            yield _Maker(number).make(cls, cls.__name__)


def plain(value: Any, hint: Any = None) -> Any:
    """A value for JSON: cards, enum members and octets as text, the fields of a class by name."""
    if value is None:
        return None
    if _is_union(hint):
        rest = [each for each in get_args(hint) if each is not NoneType]
        hint = rest[0] if len(rest) == 1 else None
    if hint is Card:
        return card_text(value)
    match value:
        case bool() | str():
            return value
        case IntEnum():
            return value.name
        case int():
            return value
        case bytes():
            return value.hex()
        case UUID():
            return str(value)
        case tuple():
            return [plain(each, get_args(hint)[0] if hint else None) for each in value]
        case _ if is_dataclass(value):
            hints = get_type_hints(type(value))
            named = {f.name: plain(getattr(value, f.name), hints[f.name]) for f in fields(value)}
            return {type(value).__name__: named}
        case _:
            raise TypeError(f"no plain form of {type(value).__name__}")


@dataclass
class _Maker:
    """Makes sample `number` of a class; whole numbers differ from field to field."""

    number: int
    counted: int = 0

    def make(self, hint: Any, name: str) -> Any:
        """A value of a field's type."""
        if _is_union(hint):
            options = [each for each in get_args(hint) if each is not NoneType]
            if len(options) < len(get_args(hint)) and self.number % 2:
                return None
            return self.make(options[self.number % len(options)], name)
        if hint is Card:
            self.counted += 1
            return card(self.number % 4, (self.number + self.counted) % 13)
        if get_origin(hint) is tuple:
            if name == "deck":
                return tuple(Card(7 * (n + self.number) % PACK_SIZE) for n in range(PACK_SIZE))
            if self.number % 2:
                return ()
            item = _Maker(self.number // 2, self.counted)
            made = tuple(item.make(get_args(hint)[0], name) for _ in range(2))
            self.counted = item.counted
            return made
        if hint is bool:
            return self.number % 2 == 0
        if hint is str:
            return f"{name.upper()}_{self.number}"
        if hint is bytes:
            return bytes((self.number + n) % 256 for n in range(32))
        if isinstance(hint, type) and issubclass(hint, IntEnum):
            members = list(hint)
            return members[self.number % len(members)]
        if hint in (Any, object):
            return None
        if is_dataclass(hint):
            cls: Any = hint
            hints = get_type_hints(cls)
            return cls(**{f.name: self.make(hints[f.name], f.name) for f in fields(cls)})
        self.counted += 1
        if hint is int:
            return self.counted * (10 ** (3 * self.number)) % 2**31 if self.number else self.counted
        if hint is UUID:
            return UUID(int=0x01890A5D_AC96_774B_BCCE_000000000000 + self.counted)
        raise TypeError(f"no sample of {hint}")


def _variety(hint: Any) -> int:
    """How many samples show all that a type can be."""
    if _is_union(hint):
        return max(2, len(get_args(hint)), *(_variety(each) for each in get_args(hint)))
    if get_origin(hint) is tuple:
        # Every other sample is empty, so twice as many show all that an item can be.
        return 2 * _variety(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return len(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return max([1, *(_variety(hints[field.name]) for field in fields(hint))])
    return 2 if hint is bool else 1


def _games_opened() -> Iterator[game.GameOpened]:
    """Every game with its default options, and with all options chosen."""
    for number, (name, engine) in enumerate(GAMES.items()):
        for chosen in ({}, CHOSEN[name]):
            maker = _Maker(2 * number + bool(chosen))
            hints = get_type_hints(game.GameOpened)
            made = {
                field.name: maker.make(hints[field.name], field.name)
                for field in fields(game.GameOpened)
                if field.name not in ("options", "rules", "seats")
            }
            seats = tuple(_Maker(n).make(game.SeatOpened, "seat") for n in range(4))
            yield game.GameOpened(
                **made, rules=f"{name} 1.0.0", options=engine.Options(**chosen), seats=seats
            )


def _tables_opened() -> Iterator[lobby.TableOpened]:
    """As the games; what a table derives from its options is not stored."""
    for variant, engine in ENGINES.items():
        for number, chosen in enumerate(({}, CHOSEN[variant.name.lower()])):
            made: lobby.TableOpened = _Maker(number).make(lobby.TableOpened, "table")
            options = engine.Options(**chosen)
            rules = replace(
                made.rules,
                variant=variant,
                options=options,
                seats_min=engine.SEATS.start,
                entry_fee=getattr(options, "entry_fee", 0),
            )
            yield replace(made, rules=rules)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)
