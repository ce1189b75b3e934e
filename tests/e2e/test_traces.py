"""A table's start is one trace through the services, and so is a move with all that it leads to."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from tests.collector import Collector, Kept, collector
from tests.e2e.house import House, house, play_out, rules, start, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

START = [
    "lobby server LobbyService/SetReady",
    "lobby internal append",
    "lobby consumer due start",
]
PAID = [
    "game internal append",
    "game consumer due end",
    "game client WalletService/Settle",
    "wallet server WalletService/Settle",
]
BOT = [
    "game server GameService/SubmitMove",
    "game internal append",
    "game consumer due bot",
]
THOUGHT = [
    "game client AiService/ChooseMove",
    "ai server AiService/ChooseMove",
    "ai internal think",
]


@dataclass(frozen=True, slots=True)
class Traced:
    """A game of a player and a bot with chips, played to its end; every process has ended since."""

    house: House
    kept: Collector
    game: str
    private: tuple[str, ...]
    """The player's id, name, token and seed."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def traced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    """Everything is traced, and sent no sooner than at the end."""
    settings = {"TRACE_RATIO": "1", "TRACE_INTERVAL_MS": "60000", "TRACE_QUEUE_MAX": "10000"}
    async with collector() as kept:
        environment = {f"KOZYR_{key}": value for key, value in settings.items()}
        environment["KOZYR_OTLP_ENDPOINT"] = f"http://{kept.address}"
        async with house(tmp_path_factory.mktemp("traces"), **environment) as given:
            player = await given.player()
            _, game = await start(player, rules("azi", 2))
            await play_out(player, game, Random(1))
            seed = player.seed(game)
            private = (player.player_id, "Player 1", player.access_token, seed.hex())
            await player.close()

            async def paid() -> bool:
                return not (await given.trial()).open_reservations

            await until(paid)
        yield Traced(given, kept, game, private)


def of_game(traced: Traced, name: str) -> list[Kept]:
    """The spans of this name that are about the game."""
    found = [each for each in traced.kept.kept if each.name == name]
    return [each for each in found if each.facts.get("kozyr.game") == traced.game]


async def test_a_start_is_followed_to_game_and_wallet(traced: Traced) -> None:
    """From the player who is ready to the stacks that are reserved and bound to the game."""
    for reserved in of_game(traced, "wallet server WalletService/Reserve"):
        path = traced.kept.path(reserved)
        assert path == [*START, "lobby client WalletService/Reserve", reserved.name]
    (pinned,) = of_game(traced, "wallet server WalletService/Pin")
    assert traced.kept.path(pinned) == [
        *START,
        "lobby client GameService/CreateGame",
        "game server GameService/CreateGame",
        "game client WalletService/Pin",
        "wallet server WalletService/Pin",
    ]


async def test_a_move_is_followed_to_the_bot_and_to_the_wallet(traced: Traced) -> None:
    """A player's move, the bot that thinks because of it, its move, and the chips at the end."""
    paths = [traced.kept.path(each) for each in traced.kept.kept if each.name == THOUGHT[-1]]
    assert [*BOT, *THOUGHT] in paths
    (paid,) = of_game(traced, "wallet server WalletService/Settle")
    path = traced.kept.path(paid)
    assert path[-4:] == PAID
    assert path[0] == "game server GameService/SubmitMove"
    assert path[:-4] in (BOT[:1], BOT)


async def test_a_span_is_of_its_parents_trace_and_time(traced: Traced) -> None:
    """All that was sent hangs together: no span is missing that another is below."""
    assert {each.service for each in traced.kept.kept} == {"lobby", "game", "ai", "wallet"}
    for each in traced.kept.kept:
        above = traced.kept.above(each)
        assert (above is None) == (not each.span.parent_span_id)
        if above is not None:
            assert above.span.trace_id == each.span.trace_id
            assert above.span.start_time_unix_nano <= each.span.start_time_unix_nano
        assert each.span.start_time_unix_nano <= each.span.end_time_unix_nano


async def test_a_log_line_names_the_trace(traced: Traced) -> None:
    """So that the lines of a trace are found in all logs."""
    (paid,) = of_game(traced, "wallet server WalletService/Settle")
    lines = [json.loads(line) for line in traced.house.logs().splitlines() if line]
    of_trace = [each for each in lines if each.get("trace_id") == paid.span.trace_id.hex()]
    assert {each["service"] for each in of_trace} >= {"game", "wallet", "lobby"}
    assert any(each.get("method", "").endswith("/Settle") for each in of_trace)


async def test_nobody_is_named_in_a_trace(traced: Traced) -> None:
    """Neither his id nor his name, nor what only he and the services know."""
    sent = b"".join(each.SerializeToString() for each in traced.kept.requests)
    assert traced.game.encode() in sent
    for private in traced.private:
        assert private.encode() not in sent


async def test_processes_end_without_waiting_for_the_next_round(traced: Traced) -> None:
    """What was traced is sent when a process ends, and nothing was lost on the way."""
    assert traced.kept.requests
    assert "traces_not_sent" not in traced.house.logs()
