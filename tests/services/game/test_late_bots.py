"""A bot that is asked too late for its decision: nobody's fault, and nothing of its doing."""

from types import SimpleNamespace
from typing import Any

import pytest
from kozyr.ai.v1 import ai_pb2
from structlog.testing import capture_logs

from services.game.pacing import AT_ONCE, Pace
from services.game.reactions import Reactions
from services.kernel.envelope import Claimed
from services.kernel.errors import precondition
from services.runtime.streams import Loaded
from tests.services.game.logs import GAME_ID, dealt


@pytest.mark.parametrize(
    ("reason", "level"), [("DEADLINE_PASSED", "warning"), ("NOT_YOUR_CARD", "error")]
)
async def test_only_a_move_that_the_rules_refuse_is_an_error(reason: str, level: str) -> None:
    """A row taken up after the deadline (its replica died) is told apart from a bad choice."""
    state = dealt("rami", 2, people=0).state
    seat = state.engine.actor
    loaded = Loaded(state, state.version, bytes(32), state.recorded_at)

    async def load(*_: object, **__: object) -> Any:
        return loaded

    async def act(*_: object, **__: object) -> Any:
        raise precondition(reason, "refused")

    async def credit(*_: object) -> bool:
        return False

    async def history(*_: object) -> list[Any]:
        return []

    async def choose(request: ai_pb2.ChooseMoveRequest) -> ai_pb2.ChooseMoveResponse:
        response = ai_pb2.ChooseMoveResponse()
        response.move.rami.CopyFrom(request.view.rami.legal[0])
        return response

    games: Any = SimpleNamespace(load=load, act=act, credit=credit, history=history)
    peers: Any = SimpleNamespace(choose_move=choose)
    endings: Any = SimpleNamespace()
    row = Claimed(GAME_ID, "bot", f"{seat}.{state.turn}", state.version, 0, 1)
    with capture_logs() as lines:
        await Reactions(games, peers, endings, AT_ONCE).handle("bot", row)
    assert [line["log_level"] for line in lines] == [level]


async def test_a_move_found_at_once_is_made_at_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bot answers after a millisecond; its move waits for the rest of the pause."""
    state, pace = dealt("rami", 2, people=0).state, Pace(800)
    seat, done = state.engine.actor, list[str]()
    clock = state.recorded_at + (pace.ask_ms(state, seat) + 1) * 1_000

    async def load(*_: object, **__: object) -> Any:
        return Loaded(state, state.version, bytes(32), state.recorded_at)

    async def sleep(seconds: float) -> None:
        nonlocal clock
        clock += round(seconds * 1_000_000)
        done.append("waits")

    async def act(*_: object, **__: object) -> Any:
        done.append("moves")
        raise precondition("NOT_YOUR_CARD", "enough is known")

    async def now() -> int:
        return clock

    async def history(*_: object) -> list[Any]:
        return []

    async def choose(request: ai_pb2.ChooseMoveRequest) -> ai_pb2.ChooseMoveResponse:
        response = ai_pb2.ChooseMoveResponse()
        response.move.rami.CopyFrom(request.view.rami.legal[0])
        return response

    monkeypatch.setattr("services.game.reactions.asyncio.sleep", sleep)
    store = SimpleNamespace(now=now)
    games: Any = SimpleNamespace(load=load, act=act, history=history, store=store)
    peers: Any = SimpleNamespace(choose_move=choose)
    endings: Any = SimpleNamespace()
    row = Claimed(GAME_ID, "bot", f"{seat}.{state.turn}", state.version, 0, 1)
    await Reactions(games, peers, endings, pace).handle("bot", row)
    assert done == ["waits", "moves"]
    assert clock == state.recorded_at + pace.pause_ms(state, seat) * 1_000
