"""Changed copies of frozen records: what `dataclasses.replace` gives, and nothing else."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import azi, durak, rami
from engines.records import changed, maker

STATES: dict[str, Any] = {
    "azi": azi.initial(azi.Options(), 3, stacks=(50, 60, 70), last_winner=1),
    "azi player": azi.Player(10, azi.Standing.LIVE),
    "durak": durak.initial(durak.Options(), 4),
    "rami": rami.initial(rami.Options(), 2),
    "rami meld": rami.TableMeld("m1", 0, rami.MeldKind.RUN, ()),
}


@pytest.fixture(params=STATES)
def record(request: pytest.FixtureRequest) -> Any:
    """A record of a class that folds change."""
    return STATES[request.param]


@given(data=st.data())
@pytest.mark.parametrize("name", STATES)
def test_a_changed_copy_is_what_replace_gives(name: str, data: st.DataObject) -> None:
    """Whatever fields are given, with whatever values: equal, of the same class, the old as it was.

    Equality alone would not tell a field of one value from an equal one of another type.
    """
    record = STATES[name]
    names = [each.name for each in fields(record)]
    changes = data.draw(st.dictionaries(st.sampled_from(names), st.integers() | st.none()))
    before = [getattr(record, each) for each in names]
    ours, theirs = changed(record, **changes), replace(record, **changes)
    assert ours == theirs
    assert type(ours) is type(theirs) is type(record)
    assert ours is not record
    for each in names:
        assert getattr(ours, each) is getattr(theirs, each)
    assert [getattr(record, each) for each in names] == before


def test_a_changed_copy_is_as_frozen_as_its_like(record: Any) -> None:
    """Nothing of it can be written, deleted or added, and it hashes, prints and copies alike."""
    ours, theirs = changed(record), replace(record)
    for name in (fields(record)[0].name, "another"):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(ours, name, 1)
    with pytest.raises(FrozenInstanceError):
        delattr(ours, fields(record)[0].name)
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs)
    assert copy.deepcopy(ours) == pickle.loads(pickle.dumps(ours)) == theirs  # noqa: S301 - ours


def test_an_unknown_field_is_refused(record: Any) -> None:
    """As by `replace`: a misspelt field is an error and not a field more."""
    for make in (changed, replace):
        with pytest.raises(TypeError):
            make(record, turm=1)


def test_a_maker_gives_what_the_class_gives(record: Any) -> None:
    """All fields by position, no fewer and no more."""
    values = [getattr(record, each.name) for each in fields(record)]
    make = maker(type(record))
    assert make(*values) == record
    assert type(make(*values)) is type(record)
    for wrong in (values[:-1], [*values, 0]):
        with pytest.raises(TypeError):
            make(*wrong)


@dataclass(frozen=True, slots=True)
class Counted:
    """Its constructor does more than fill the fields."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError


@dataclass(frozen=True, slots=True)
class Derived:
    """One field is made by the class itself."""

    number: int
    twice: int = field(init=False, default=0)


@dataclass(frozen=True)
class Loose:
    """Has a dictionary of its own."""

    number: int


@dataclass(slots=True)
class Soft:
    """Can be written to anyway."""

    number: int


@dataclass(frozen=True, slots=True)
class More(Loose):
    """Has slots and a dictionary."""

    other: int = 0


class Plain:
    """No dataclass."""

    def __init__(self, number: int) -> None:
        self.number = number


def copied(cls: Any) -> object:
    """A changed copy of an instance."""
    return changed(cls(1))


@pytest.mark.parametrize("make", [maker, copied])
@pytest.mark.parametrize("cls", [Counted, Derived, Loose, Soft, More, Plain])
def test_a_class_that_is_not_filled_plainly_is_refused(
    cls: type, make: Callable[[type], object]
) -> None:
    """Where `replace` would do more than fill fields, nobody gets a copy that skipped it."""
    with pytest.raises(TypeError, match=cls.__name__):
        make(cls)
