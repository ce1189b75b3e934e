"""Whoever asks about all of a long game holds up nobody: the work is done in slices."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2

from services.game import audit, codec, export
from services.runtime import slices, streams
from tests.services.game.system import Seat, System, new_id, system
from tests.services.game.test_service import settled

LONG = 40
"""More events than the longest append has, by far."""


class Counted:
    """Calls of a function, and the most of them between two turns of the event loop."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self.calls = 0
        self.most = 0
        self._before = 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        """As the function itself."""
        self.calls += 1
        return self._real(*given, **named)

    def turn(self) -> None:
        """The loop has come round."""
        self.most = max(self.most, self.calls - self._before)
        self._before = self.calls
        asyncio.get_running_loop().call_soon(self.turn)


@asynccontextmanager
async def finished(folder: Path) -> AsyncIterator[tuple[System, str, str]]:
    """A house with a game that has ended, its id and one of its players."""
    async with system(folder) as house:
        request = await house.open(variant="durak", people=0, bots=3)
        await settled(house)
        yield house, request.game_id, request.seats[0].player_id


async def taken(caller: Seat, method: Any, request: Any) -> int:
    """How many messages a stream brings."""
    return len([each async for each in caller.client.stream(method, request)])


async def verified(house: System, game: str, player: str) -> None:
    """The game is executed again."""
    operator = house.operator
    request = audit_pb2.VerifyGameRequest(game_id=game)
    assert not (await operator.call(operator.audits.VerifyGame, request)).faults


async def replayed(house: System, game: str, player: str) -> None:
    """Only the end is asked for."""
    caller = house.game(player)
    request = audit_pb2.ReplayGameRequest(game_id=game, from_version=2**40)
    assert not await taken(caller, caller.audits.ReplayGame, request)


async def exported(house: System, game: str, player: str) -> None:
    """All of the log."""
    caller = house.game(player)
    request = audit_pb2.ExportGameRequest(game_id=game)
    assert await taken(caller, caller.audits.ExportGame, request)


async def told(house: System, game: str, player: str) -> None:
    """All that happened."""
    caller = house.game(player)
    request = game_pb2.GetGameRequest(game_id=game, history=True)
    assert len((await caller.call(caller.games.GetGame, request)).history) > LONG


async def judged(house: System, game: str, player: str) -> None:
    """All there is to judge the game by."""
    caller, operator = house.game(player), house.operator
    complaint = audit_pb2.OpenDisputeRequest(request_id=new_id(), game_id=game, complaint="No.")
    opened = await caller.call(caller.audits.OpenDispute, complaint)
    request = audit_pb2.GetEvidenceRequest(dispute_id=opened.dispute.dispute_id)
    assert await taken(operator, operator.audits.GetEvidence, request)


@pytest.mark.parametrize(
    ("ask", "place", "name"),
    [
        (verified, audit, "decode"),
        (replayed, audit, "decode"),
        (exported, export, "_row"),
        (told, codec, "decode"),
        (judged, audit, "decode"),
        (judged, export, "log_row"),
    ],
    ids=["VerifyGame", "ReplayGame", "ExportGame", "GetGame", "clock", "GetEvidence"],
)
async def test_nobody_waits_until_all_of_a_game_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any, place: Any, name: str
) -> None:
    """Between two turns of the event loop no more is done than an append takes, where a slice is as
    short as it can be; and every event is looked at."""
    async with finished(tmp_path) as (house, game, player):
        counted = Counted(getattr(place, name))
        monkeypatch.setattr(place, name, counted)
        monkeypatch.setattr(slices, "SLICE_S", -1)
        counted.turn()
        await ask(house, game, player)
        assert counted.calls > LONG
        assert counted.most < LONG / 2


async def test_a_long_log_is_folded_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that takes a game up gives way every few rows."""
    async with finished(tmp_path) as (_, game, player):
        pass
    monkeypatch.setattr(streams, "ROWS_AT_ONCE", 5)
    counted = Counted(codec.decode)
    monkeypatch.setattr(codec, "decode", counted)
    async with system(tmp_path) as house:
        counted.turn()
        view = await house.game(player).view(game)
        assert counted.calls == view.version > LONG
        assert counted.most < LONG / 2


async def test_each_piece_comes_once_and_in_order() -> None:
    """Whatever the slices: nothing is lost where others have their turn."""
    assert [n async for n in slices.each(range(1_000))] == list(range(1_000))

    def work() -> Any:
        total = 0
        for n in range(1_000):
            total += n
            yield
        return total

    assert await slices.finished(work()) == slices.at_once(work()) == sum(range(1_000))
