"""Hints: what a bot would do in the place of the player who is asked, from his own view alone."""

from kozyr.game.v1 import game_pb2

from services.game import domain
from services.game.games import Games
from services.game.model import State
from services.game.peers import Peers
from services.game.questions import question
from services.kernel.errors import precondition
from services.kernel.seats import BotLevel
from services.runtime import validate
from services.runtime.auth import Caller
from services.runtime.limits import RateLimit
from services.runtime.settings import Settings
from services.runtime.streams import Loaded

MINUTE_S = 60
LEVEL = BotLevel.HARD
"""Who advises where the player names no level."""


class Hints:
    """Asks the ai service for players, each of whom may ask so often in a minute."""

    def __init__(self, games: Games, peers: Peers, settings: Settings) -> None:
        self._games = games
        self._peers = peers
        often = settings.hints_per_minute
        self._limit = RateLimit("hints", often / MINUTE_S, often, settings.rate_callers_max)

    async def hint(
        self, loaded: Loaded[State], seat: int, request: game_pb2.GetHintRequest, caller: Caller
    ) -> game_pb2.GetHintResponse:
        """A hint for a seat in the decision that the request names.

        Raises Refused: what a move would be refused with there, NO_HINTS at a table without hints,
        RATE_LIMITED.
        """
        state = loaded.state
        levels = (0, *(level.value for level in BotLevel))
        level = validate.choice("level", request.level, levels) or LEVEL
        domain.require_asked(state, seat, request.turn)
        if state.no_hints:
            raise precondition("NO_HINTS", "at this table players are given no hints")
        self._limit.spend(caller.key)
        asked = await question(self._games, state, seat, loaded.hash, BotLevel(level), b"hint")
        asked.hint_for = caller.subject
        answer = await self._peers.choose_move(asked)
        return game_pb2.GetHintResponse(
            move=answer.move, reason=answer.reason, level=answer.level, turn=state.turn
        )
