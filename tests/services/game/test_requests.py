"""Ids that callers choose."""

import time
from uuid import UUID

import pytest

from services.game import requests
from services.kernel.errors import Kind, Refused
from services.kernel.ids import uuid7

DAY_MS = 86_400_000
CENTURY_MS = 36_525 * DAY_MS


def made_at(ms: int) -> str:
    """An id made so many milliseconds from now."""
    return str(uuid7(time.time_ns() // 1_000_000 + ms, bytes(10)))


@pytest.mark.parametrize("ms", [0, DAY_MS // 2, -DAY_MS, -360 * DAY_MS])
def test_a_new_games_id_is_of_its_time(ms: int) -> None:
    """A clock that is a little off and a start that waited long do no harm."""
    text = made_at(ms)
    assert requests.new_game_id("game_id", text) == UUID(text)


@pytest.mark.parametrize("ms", [2 * DAY_MS, CENTURY_MS, -367 * DAY_MS, -CENTURY_MS // 2])
def test_nobody_begins_a_game_in_another_year(ms: int) -> None:
    """Where a log lies follows from the time in its id: one far away is refused, by its field; an
    old game is found all the same."""
    text = made_at(ms)
    with pytest.raises(Refused) as caught:
        requests.new_game_id("game_id", text)
    assert caught.value.kind is Kind.INVALID
    assert [field.field for field in caught.value.fields] == ["game_id"]
    assert requests.game_id("game_id", text) == UUID(text)


@pytest.mark.parametrize("version", [1, 4, 8])
def test_a_games_id_is_a_uuid_of_version_7(version: int) -> None:
    """Others have no time where the month is read from."""
    text = str(UUID(int=UUID(made_at(0)).int & ~(0xF << 76) | version << 76))
    for read in (requests.game_id, requests.new_game_id):
        with pytest.raises(Refused) as caught:
            read("game_id", text)
        assert [field.field for field in caught.value.fields] == ["game_id"]
