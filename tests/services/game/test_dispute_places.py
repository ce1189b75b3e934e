"""The places a player has for disputes about a game, filled by several replicas at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2

from services.game.arbitration import DISPUTES_MAX, Disputes
from services.game.disputes import dispute_id
from services.game.server import FOLDERS
from services.game.texts import Texts
from services.kernel.errors import Refused
from services.kernel.ids import uuid7
from services.runtime.auth import Caller, Role
from services.runtime.database import open_engine
from services.runtime.migrate import migrate
from services.runtime.store.sql import SqlStore

GAME = uuid7(1_700_000_000_000, bytes(10))
PLAYER = Caller(Role.PLAYER, str(uuid7(1_700_000_000_000, bytes(range(10)))), 0)
AT_ONCE = 15
"""More disputes than a player may open about a game."""


@asynccontextmanager
async def replicas(url: str, count: int) -> AsyncIterator[list[Disputes]]:
    """The disputes of one database as so many processes have them."""
    await migrate(url, FOLDERS)
    stores = [SqlStore(open_engine(url), None) for _ in range(count)]
    nobody: Any = None  # neither games nor peers are asked when a dispute is opened
    yield [Disputes(store, nobody, nobody, Texts(store._engine), b"key", 0) for store in stores]
    for store in stores:
        await store.close()


async def opened(disputes: Disputes, request_id: str) -> str:
    """The id of a dispute that a request opens, or why it is refused."""
    request = audit_pb2.OpenDisputeRequest(
        request_id=request_id, game_id=str(GAME), complaint="That was not right."
    )
    try:
        return (await disputes.open(request, PLAYER, 0)).dispute_id
    except Refused as refused:
        return refused.reason


async def test_replicas_open_no_more_than_one_would(postgres_url: str) -> None:
    """However calls overtake each other: the bound holds, and no place is left empty."""
    async with replicas(postgres_url, 3) as disputes:
        answers = await asyncio.gather(
            *(opened(disputes[n % 3], f"request-{n}") for n in range(AT_ONCE))
        )
        assert answers.count("TOO_MANY_DISPUTES") == AT_ONCE - DISPUTES_MAX
        stored_ids = {str(found.id) async for found in disputes[0].about(GAME)}
        assert stored_ids == {*answers} - {"TOO_MANY_DISPUTES"}
        assert len(stored_ids) == DISPUTES_MAX


async def test_a_request_sent_to_several_replicas_opens_one(postgres_url: str) -> None:
    """At once, among others of the same player, and again when all places are taken."""
    async with replicas(postgres_url, 3) as disputes:
        asked = [(replica, f"request-{n}") for n in range(DISPUTES_MAX) for replica in disputes]
        answers = await asyncio.gather(*(opened(*one) for one in asked))
        by_request = {
            request_id: answer for (_, request_id), answer in zip(asked, answers, strict=True)
        }
        assert len({*answers}) == len({*by_request.values()}) == DISPUTES_MAX
        assert "TOO_MANY_DISPUTES" not in answers
        again = await asyncio.gather(*(opened(*one) for one in asked))
        assert again == answers


async def test_disputes_of_the_first_release_count(postgres_url: str) -> None:
    """They have ids made of their requests: such a request is found again, and takes a place."""
    async with replicas(postgres_url, 1) as (disputes,):
        stream: UUID = dispute_id(GAME, PLAYER.subject, "of old")
        words = "That was not right."
        event = stored.DisputeOpened(
            game_id=str(GAME),
            player_id=PLAYER.subject,
            complaint_digest=await disputes._texts.keep(stream, PLAYER.subject, words),
        )
        request = audit_pb2.OpenDisputeRequest(
            request_id="of old", game_id=str(GAME), complaint=words
        )
        await disputes._write(stream, event, request, words, event.complaint_digest, PLAYER)
        assert await opened(disputes, "of old") == str(stream)
        answers = [await opened(disputes, f"request-{n}") for n in range(DISPUTES_MAX)]
        assert answers.count("TOO_MANY_DISPUTES") == 1
        assert answers[-1] == "TOO_MANY_DISPUTES"
