"""Thoughts and bots as messages."""

from kozyr.ai.v1 import ai_pb2 as pb
from kozyr.game.v1 import variant_pb2

from services.ai.roster import BOTS, BUDGET_MS
from services.ai.thinking import Thought
from services.runtime.wire import games


def show_thought(game: str, thought: Thought) -> pb.ChooseMoveResponse:
    """The answer to a question about this game."""
    response = pb.ChooseMoveResponse(
        reason=thought.choice.reason,
        level=variant_pb2.BotLevel.ValueType(thought.level),
        thought_us=thought.took_us,
    )
    getattr(response.move, game).CopyFrom(games.of(game).move.to_wire(thought.choice.move))
    return response


def show_bots() -> pb.ListBotsResponse:
    """The whole roster."""
    return pb.ListBotsResponse(
        bots=[
            pb.Bot(
                level=variant_pb2.BotLevel.ValueType(bot.level),
                variant=games.VARIANTS[bot.game],
                name=bot.name,
                description=bot.description,
                budget_ms=BUDGET_MS[bot.level],
            )
            for bot in BOTS
        ]
    )
