"""The RPCs of the bots: what was asked becomes a question, the thought an answer."""

from typing import Any

import grpc
from kozyr.ai.v1 import ai_pb2 as pb
from kozyr.ai.v1.ai_pb2_grpc import AiServiceServicer

from services.ai import requests, views
from services.ai.minds import Minds
from services.runtime import metrics, traces
from services.runtime.call import note

Context = grpc.aio.ServicerContext[Any, Any]


class AiServicer(AiServiceServicer):
    """`AiService` on the minds that think."""

    def __init__(self, minds: Minds) -> None:
        self._minds = minds

    async def ChooseMove(
        self, request: pb.ChooseMoveRequest, context: Context
    ) -> pb.ChooseMoveResponse:
        """A move for the seat whose view this is; a player's own view gives him a hint."""
        note(game=requests.read_game_id(request))
        player = requests.read_asker(request)
        question = requests.read_question(request)
        with traces.step("think"):
            thought = await self._minds.think(question, player)
        bots = metrics.THOUGHTS.of(question.game, thought.level.name.lower())
        bots.observe(thought.took_us / 1e6)
        return views.show_thought(question.game, thought)

    async def ListBots(self, request: pb.ListBotsRequest, context: Context) -> pb.ListBotsResponse:
        """The bots there are."""
        return views.show_bots()
