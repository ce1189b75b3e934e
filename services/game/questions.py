"""What the ai service is asked: for a move of a seat, by what that seat may see."""

import hmac

from kozyr.ai.v1 import ai_pb2
from kozyr.game.v1 import variant_pb2

from engines import rami
from engines.shuffle import framed
from services.game import views
from services.game.games import Games
from services.game.model import State
from services.kernel.seats import BotLevel


async def question(
    games: Games, state: State, seat: int, head: bytes, level: BotLevel, purpose: bytes
) -> ai_pb2.ChooseMoveRequest:
    """The question for a seat's move at that level.

    Its chances are drawn from a secret of the game, for each `purpose` apart.
    """
    # No bot looks further back than the deal in play in Rami, whose matches are long.
    after = state.deals[-1].version - 1 if state.variant == rami.NAME else 0
    decision = framed(purpose, state.version.to_bytes(8, "big"), seat.to_bytes(1, "big"))
    return ai_pb2.ChooseMoveRequest(
        view=views.game_view(state, seat, head),
        history=await games.history(state, seat, after),
        level=variant_pb2.BotLevel.ValueType(level),
        seed=hmac.digest(state.bot_seed, decision, "sha256"),
    )
