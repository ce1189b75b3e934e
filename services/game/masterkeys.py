"""KeyService: which master keys seal what, what would be closed without one, and their exchange."""

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import keys_pb2, keys_pb2_grpc
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.accesses import Accesses
from services.runtime import validate
from services.runtime.database import read
from services.runtime.store import masters
from services.runtime.store.schema import events
from services.runtime.store.sealing import KEY_ID_MAX
from services.runtime.store.sql import SqlStore
from services.runtime.streams import refusals

STEP = 200
"""So many games are wrapped in one transaction."""
OWN = "own"


class KeyServicer(keys_pb2_grpc.KeyServiceServicer):
    """For operators; shows ids of keys and games, nothing else."""

    def __init__(self, engine: AsyncEngine, store: SqlStore, accesses: Accesses) -> None:
        self._engine = engine
        self._store = store
        self._accesses = accesses

    async def ListKeys(
        self, request: keys_pb2.ListKeysRequest, context: Any
    ) -> keys_pb2.ListKeysResponse:
        """What is in use or here."""
        await self._accesses.note(None, "master keys")
        with refusals():
            async with read(self._engine) as connection:
                used = {use.key_id: use for use in await masters.uses(connection)}
        current, present = self._store.master_keys
        response = keys_pb2.ListKeysResponse()
        for key_id in sorted(used.keys() | present):
            use = used.get(key_id, masters.Use(key_id, 0, 0))
            response.keys.add(
                key_id=key_id,
                present=key_id in present,
                current=key_id == current,
                games=use.streams,
                running_games=use.running,
            )
        return response

    async def ListClosedGames(
        self, request: keys_pb2.ListClosedGamesRequest, context: Any
    ) -> AsyncIterator[keys_pb2.ListClosedGamesResponse]:
        """What nobody could read without this key."""
        key_id = validate.text("key_id", request.key_id, low=1, high=KEY_ID_MAX)
        await self._accesses.note(None, "master keys")
        with refusals():
            async for page in masters.streams_of(self._engine, key_id):
                ended = [stream for stream, has_ended in page if has_ended]
                own = await self._opened_singly(ended)
                closed = [str(s) for s, has_ended in page if not has_ended or s in own]
                if closed:
                    yield keys_pb2.ListClosedGamesResponse(game_ids=closed)

    async def WrapKeys(
        self, request: keys_pb2.WrapKeysRequest, context: Any
    ) -> AsyncIterator[keys_pb2.WrapKeysResponse]:
        """Step by step, each a short transaction; games go on meanwhile."""
        await self._accesses.note(None, "master keys")
        done, after = 0, None
        with refusals():
            while True:
                step = await self._store.rewrap(after, STEP)
                if step.last is None:
                    return
                done, after = done + step.wrapped, step.last
                yield keys_pb2.WrapKeysResponse(wrapped=done, broken_game_ids=map(str, step.broken))

    async def _opened_singly(self, streams: Sequence[UUID]) -> set[UUID]:
        """Those of the games whose cards are never laid open."""
        first = select(events.c.stream, events.c.payload).where(
            events.c.version == 1,
            events.c.name == "game.GameOpened",
            events.c.stream.in_(streams),
        )
        async with read(self._engine) as connection:
            rows = list(await connection.execute(first))
        return {row.stream for row in rows if _reveal(row.payload) == OWN}


def _reveal(payload: bytes) -> str:
    options = stored.GameOpened.FromString(payload).options
    chosen = options.WhichOneof("options")
    return "" if chosen is None else str(getattr(options, chosen).reveal)
