"""The bots' RPCs over loopback: what is answered, what is refused, who may call."""

from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from kozyr.ai.v1 import ai_pb2 as pb

from services.ai.bots import Level
from services.kernel.errors import Refused
from services.runtime.wire import games
from tests.services.ai.host import Host, hosting, move_of, question
from tests.services.ai.positions import Position, random_games

PLAYER = "00000000-0000-4000-8000-000000000001"
GAMES = ("azi", "durak", "rami")


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """A service that serves."""
    async with hosting(tmp_path) as made:
        yield made


def positions(game: str, count: int) -> list[Position]:
    """Positions with a choice, from several games."""
    found: list[Position] = []
    for played in random_games(game, range(100)):
        found += islice((p for p in played if len(p.view.legal) > 1), 12)
        if len(found) >= count:
            return found[:count]
    raise AssertionError("too few positions")


async def refusal(host: Host, request: pb.ChooseMoveRequest, who: str = "game") -> Refused:
    """How a question is refused."""
    with pytest.raises(Refused) as caught:
        await host.choose(request, who)
    return caught.value


@pytest.mark.parametrize("game", GAMES)
async def test_a_bot_answers_with_a_legal_move_and_a_reason(host: Host, game: str) -> None:
    """Every level answers, says how well it played, and the rules accept what it chose."""
    engine: Any = games.of(game).engine
    for position in positions(game, 20):
        for level in Level:
            answer = await host.choose(question(position, level, seed=b"1"))
            move = move_of(game, answer)
            assert engine.decide(position.state, act(position, move), None)
            assert answer.reason.endswith(".")
            assert Level(answer.level) is level
            assert answer.thought_us >= 0


def act(position: Position, move: Any) -> Any:
    """The move as a command."""
    from engines.api import Act

    return Act(position.seat, move)
