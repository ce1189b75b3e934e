"""Dataclasses and messages: exactly the same fields, exactly the same values, both ways."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from kozyr.cards.v1 import cards_pb2

from engines.cards import Card, Suit
from services.kernel.errors import Kind, Refused
from services.runtime.wire.mapping import Mapper, Mismatch, snake_case

Field = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "int": Field.TYPE_INT64, "small": Field.TYPE_INT32, "bool": Field.TYPE_BOOL,
    "str": Field.TYPE_STRING, "bytes": Field.TYPE_BYTES,
}  # fmt: skip
PACKAGE = "kozyr.test.mapping.v1"


def declare(
    file: str, messages: Mapping[str, Mapping[str, str]], enums: Mapping[str, tuple[str, ...]]
) -> dict[str, type[Message]]:
    """Message classes from a sketch: field → type, `?` optional, `*` repeated, `|` oneof."""
    package = f"{PACKAGE}.{file}"
    proto = descriptor_pb2.FileDescriptorProto(
        name=f"{file}.proto", package=package, syntax="proto3", dependency=["cards.proto"]
    )
    proto.dependency[0] = cards_pb2.DESCRIPTOR.name
    for name, values in enums.items():
        enum = proto.enum_type.add(name=name)
        for number, value in enumerate(("UNSPECIFIED", *values)):
            enum.value.add(name=f"{name.upper()}_{value}", number=number)
    for name, sketch in messages.items():
        _declare_message(proto.message_type.add(name=name), sketch, package, enums)
    descriptor_pool.Default().Add(proto)
    found = descriptor_pool.Default().FindFileByName(f"{file}.proto")
    return {
        name: message_factory.GetMessageClass(found.message_types_by_name[name])
        for name in messages
    }


def _declare_message(
    message: descriptor_pb2.DescriptorProto,
    sketch: Mapping[str, str],
    package: str,
    enums: Mapping[str, tuple[str, ...]],
) -> None:
    if any(kind.endswith("|") for kind in sketch.values()):
        message.oneof_decl.add(name="which")
    for number, (name, kind) in enumerate(sketch.items(), start=1):
        bare = kind.rstrip("?*|")
        added = message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
        if kind.endswith("*"):
            added.label = Field.LABEL_REPEATED
        if bare in KINDS:
            added.type = KINDS[bare]
        elif bare in enums or bare in ("Card", "Suit"):
            added.type = Field.TYPE_ENUM
            added.type_name = f".{package}.{bare}" if bare in enums else f".kozyr.cards.v1.{bare}"
        else:
            added.type = Field.TYPE_MESSAGE
            added.type_name = f".{package}.{bare}"
        if kind.endswith("|"):
            added.oneof_index = 0
        elif kind.endswith("?") and added.type != Field.TYPE_MESSAGE:
            added.proto3_optional = True
            added.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")


class Mood(IntEnum):
    """A test enum."""

    CALM = 1
    WILD = 2


@dataclass(frozen=True, slots=True)
class Put:
    """Put cards somewhere."""

    cards: tuple[Card, ...]
    where: int


@dataclass(frozen=True, slots=True)
class PassOn:
    """Nothing."""


Act = Put | PassOn


@dataclass(frozen=True, slots=True)
class Hidden:
    """A secret."""

    card: Card


@dataclass(frozen=True, slots=True)
class Table:
    """Every kind of field."""

    seat: int | None
    chips: int
    open: bool
    name: str
    salt: bytes
    trump: Suit
    turned: Card | None
    mood: Mood
    last: Act | None
    next: PassOn
    best: Put | None
    acts: tuple[Act, ...]
    counts: tuple[int, ...]
    moods: tuple[Mood, ...]
    rounds: int = 3
    secret: Hidden = field(default=Hidden(Card(0)))


WIRE = declare(
    "all",
    {
        "Put": {"cards": "Card*", "where": "small"},
        "PassOn": {},
        "Act": {"put": "Put|", "pass_on": "PassOn|"},
        "Table": {
            "seat": "small?", "chips": "int", "open": "bool", "name": "str", "salt": "bytes",
            "trump": "Suit", "turned": "Card?", "mood": "Mood", "last": "Act", "next": "PassOn",
            "best": "Put", "acts": "Act*", "counts": "int*", "moods": "Mood*", "rounds": "small?",
        },
        "Lacking": {"cards": "Card*"},
        "Wrong": {"cards": "int*", "where": "small"},
        "Single": {"cards": "Card", "where": "small"},
        "Text": {"cards": "Card*", "where": "str"},
        "Bare": {"seat": "small"},
    },
    {"Mood": ("CALM", "WILD")},
)  # fmt: skip

cards = st.integers(0, 51).map(Card)
puts = st.builds(Put, st.lists(cards).map(tuple), st.integers(-(2**31), 2**31 - 1))
acts = puts | st.just(PassOn())
moods = st.sampled_from(Mood)
tables = st.builds(
    Table,
    seat=st.none() | st.integers(0, 5),
    chips=st.integers(-(2**63), 2**63 - 1),
    open=st.booleans(),
    name=st.text(),
    salt=st.binary(),
    trump=st.sampled_from(Suit),
    turned=st.none() | cards,
    mood=moods,
    last=st.none() | acts,
    next=st.just(PassOn()),
    best=st.none() | puts,
    acts=st.lists(acts).map(tuple),
    counts=st.lists(st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1)).map(tuple),
    moods=st.lists(moods).map(tuple),
    rounds=st.integers(0, 9) | st.integers(-(2**31), 2**31 - 1),
)
TABLE: Mapper[Table, Any] = Mapper(Table, WIRE["Table"], exclude=frozenset({"secret"}))


@given(tables)
def test_what_goes_out_comes_back(table: Table) -> None:
    """Through octets and back, with the excluded field given again: equal, and of equal types."""
    back = TABLE.from_wire(TABLE.to_wire(table), secret=table.secret)
    assert back == table
    assert type(back.trump) is Suit
    assert type(back.mood) is Mood


@given(tables)
def test_octets_are_those_of_protobuf_itself(table: Table) -> None:
    """A message filled field by field and serialised gives the octets that are written."""
    assert TABLE.to_octets(table) == filled(table).SerializeToString(deterministic=True)


def filled(table: Table) -> Message:
    """The table's message, by protobuf's own means."""
    return WIRE["Table"](
        chips=table.chips, open=table.open, name=table.name, salt=table.salt, seat=table.seat,
        trump=table.trump + 1, turned=None if table.turned is None else table.turned + 1,
        mood=table.mood, next={}, counts=table.counts, moods=table.moods, rounds=table.rounds,
        last=None if table.last is None else act_fields(table.last),
        best=None if table.best is None else put_fields(table.best),
        acts=[act_fields(act) for act in table.acts],
    )  # fmt: skip


def act_fields(act: Act) -> dict[str, Any]:
    """A move as protobuf is given it."""
    return {"put": put_fields(act)} if isinstance(act, Put) else {"pass_on": {}}


def put_fields(put: Put) -> dict[str, Any]:
    """A record as protobuf is given it."""
    return {"cards": [card + 1 for card in put.cards], "where": put.where}


@pytest.mark.parametrize(
    "changes", [{"chips": 2**63}, {"chips": -(2**63) - 1}, {"rounds": 2**31}, {"counts": (2**63,)}]
)
def test_what_a_field_does_not_hold_is_never_written(changes: dict[str, Any]) -> None:
    """A number beyond its field's type is refused, as protobuf refuses it."""
    table = Table(
        0, 5, True, "n", b"", Suit.CLUBS, None, Mood.CALM, None, PassOn(), None, (), (), ()
    )
    with pytest.raises(ValueError, match="does not fit"):
        TABLE.to_octets(replace(table, **changes))


BLANK: dict[str, Any] = {
    "seat": None,
    "chips": 0,
    "open": False,
    "name": "",
    "salt": b"",
    "turned": None,
    "last": None,
    "best": None,
    "acts": (),
    "counts": (),
    "moods": (),
}


@given(tables, tables, st.sets(st.sampled_from(sorted(BLANK))))
def test_what_one_has_beside_another_makes_it_whole(
    table: Table, stranger: Table, hidden: set[str]
) -> None:
    """Fields of one message and what another has beside them are the other, or cannot be."""
    public = replace(table, **{name: BLANK[name] for name in hidden})
    for other in (public, stranger):
        own = TABLE.to_octets_beside(table, other)
        assert own is not None or other is stranger
        if own is not None:
            octets = TABLE.to_octets(other) + own
            assert WIRE["Table"].FromString(octets) == TABLE.to_wire(table)


def wire(**changes: Any) -> Any:
    """A good message with some fields changed; None clears."""
    table = Table(
        0, 5, True, "n", b"", Suit.CLUBS, None, Mood.CALM, None, PassOn(), None, (), (), ()
    )
    message = TABLE.to_wire(table)
    for name, value in changes.items():
        message.ClearField(name)
        if value is not None:
            setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"trump": 0}, "table.trump", "is required"),
        ({"trump": 5}, "table.trump", "is not a known value"),
        ({"turned": 0}, "table.turned", "is required"),
        ({"turned": 53}, "table.turned", "is not a known value"),
        ({"mood": -1}, "table.mood", "is not a known value"),
        ({"next": None}, "table.next", "is required"),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, Any], path: str, problem: str) -> None:
    """INVALID_ARGUMENT with the path below where the message stands."""
    with pytest.raises(Refused) as caught:
        TABLE.from_wire(wire(**changes), "table")
    assert caught.value.kind is Kind.INVALID
    assert [(f.field, f.problem) for f in caught.value.fields] == [(path, problem)]


def test_a_bad_field_deep_inside_is_named() -> None:
    """Lists count from 0, oneofs name their field."""
    message = wire()
    message.acts.add(put=WIRE["Put"](cards=[1]))
    message.acts.add(put=WIRE["Put"](cards=[1, 99]))
    with pytest.raises(Refused) as caught:
        TABLE.from_wire(message)
    assert caught.value.fields[0].field == "acts[1].put.cards[1]"
    empty = wire()
    empty.acts.add()
    with pytest.raises(Refused) as caught:
        TABLE.from_wire(empty)
    assert caught.value.fields[0].field == "acts[0]"


def test_absent_fields_have_the_defaults_of_the_class() -> None:
    """An optional field of the message that the class has a default for may be left out."""
    assert TABLE.from_wire(wire(rounds=None)).rounds == 3
    assert TABLE.from_wire(wire(rounds=0)).rounds == 0


def test_a_builder_gets_what_is_present() -> None:
    """Options are made from the fields that were sent."""
    seen: list[dict[str, Any]] = []

    def build(found: Mapping[str, Any]) -> Table:
        seen.append(dict(found))
        return Table(**{**seen[0], "next": PassOn()})

    mapper: Mapper[Table, Any] = Mapper(
        Table, WIRE["Table"], exclude=frozenset({"secret"}), build=build
    )
    mapper.from_wire(wire(rounds=None, next=None))
    assert "rounds" not in seen[0]
    assert "next" not in seen[0]


def test_an_empty_message_in_a_oneof_is_present() -> None:
    """A move without fields is still a move."""
    act: Mapper[Act, Any] = Mapper(Act, WIRE["Act"])
    message = WIRE["Act"].FromString(act.to_wire(PassOn()).SerializeToString())
    assert act.from_wire(message) == PassOn()
    with pytest.raises(Refused) as caught:
        act.from_wire(WIRE["Act"](), "move")
    assert caught.value.fields[0].field == "move"


@dataclass(frozen=True, slots=True)
class Seated:
    """For a message whose field cannot be absent."""

    seat: int | None


class Colour(IntEnum):
    """An enum with a member the wire does not have."""

    RED = 1


@dataclass(frozen=True, slots=True)
class Tabled:
    """A class with an enum of another size."""

    mood: Colour


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Put, "Lacking"), (PassOn, "Lacking"), (Put, "Wrong"), (Put, "Single"), (Put, "Text"),
        (Seated, "Bare"), (Act, "Put"), (Put, "Act"), (Table, "Table"), (int, "Put"),
    ],
)  # fmt: skip
def test_two_sides_that_differ_are_found_at_once(cls: Any, message: str) -> None:
    """A mapper that could lose or misread anything cannot be made."""
    with pytest.raises(Mismatch):
        Mapper(cls, WIRE[message])


def test_enums_must_have_the_same_numbers() -> None:
    """A member the wire does not know, or the other way round, is found at once."""
    other = declare("enums", {"Tabled": {"mood": "Mood"}}, {"Mood": ("CALM", "WILD")})
    with pytest.raises(Mismatch):
        Mapper(Tabled, other["Tabled"])


def test_names_of_oneof_fields() -> None:
    """They follow from the class names."""
    assert [snake_case(n) for n in ("Bid", "BlindLookedAt", "AllIn")] == [
        "bid", "blind_looked_at", "all_in",
    ]  # fmt: skip
