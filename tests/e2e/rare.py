"""Requests in order that hardly ever come about by chance, so that each call is got through to."""

import time
from collections.abc import Sequence

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from kozyr.ai.v1 import ai_pb2
from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import limits_pb2, lobby_pb2
from kozyr.wallet.v1 import wallet_pb2


def common(views: Sequence[view_pb2.GameView], fresh: Sequence[str]) -> list[Message]:
    """What is asked again and again, and chance seldom makes whole; `fresh` are ids of nobody."""
    made: list[Message] = [
        lobby_pb2.QuickPlayRequest(request_id=f"q{variant}", variant=variant)
        for variant in (variant_pb2.VARIANT_DURAK, variant_pb2.VARIANT_RAMI)
    ]
    kind = wallet_pb2.ACCOUNT_KIND_PLAYER
    made += [
        wallet_pb2.OpenAccountRequest(request_id=f"a{n}", account_id=each, kind=kind)
        for n, each in enumerate(fresh)
    ]
    easy = variant_pb2.BOT_LEVEL_EASY
    return made + [ai_pb2.ChooseMoveRequest(view=view, level=easy) for view in views[:4]]


def excluded() -> list[Message]:
    """Exclusions of oneself for some days."""
    made: list[Message] = []
    for days in (1, 2, 300):
        until = Timestamp(seconds=int(time.time()) + days * 86_400)
        made.append(limits_pb2.ExcludeMyselfRequest(request_id=f"x{days}", end_time=until))
    return made
