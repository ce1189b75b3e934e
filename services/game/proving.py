"""CheckpointService: proofs from the tree over all games, for those who played them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc
from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import requests, tree
from services.game.accesses import Accesses
from services.game.checkpoints import checkpoints, coverage, newest_row
from services.game.games import Games
from services.game.tree import TreeBroken
from services.game.tree_audit import verify_tree
from services.game.viewers import seat_of
from services.kernel import merkle
from services.kernel.errors import Refused, not_yet, precondition
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import caller, note
from services.runtime.database import read
from services.runtime.moments import timestamp
from services.runtime.streams import refusals

log = structlog.get_logger(__name__)

CHECKPOINTS_DEFAULT = 100
CHECKPOINTS_MAX = 500
NUMBER_MAX = 2**63 - 1


class CheckpointServicer(checkpoint_pb2_grpc.CheckpointServiceServicer):
    """Reads the tree; `keys` are those the game service may have signed it with."""

    def __init__(
        self,
        engine: AsyncEngine,
        games: Games,
        accesses: Accesses,
        keys: Sequence[Ed25519PublicKey],
    ) -> None:
        self._engine = engine
        self._games = games
        self._accesses = accesses
        self._keys = keys

    async def GetInclusionProof(
        self, request: checkpoint_pb2.GetInclusionProofRequest, context: Any
    ) -> checkpoint_pb2.GetInclusionProofResponse:
        """For those who sat in the game, and operators: a leaf of it and the way to the root."""
        game_id = requests.game_id("game_id", request.game_id)
        note(game=game_id)
        if caller().role is not Role.OPERATOR:
            seat_of((await self._games.load(game_id, known=0)).state, caller())
        version = validate.number("version", request.version, low=0, high=NUMBER_MAX)
        await self._accesses.note(game_id)
        return await inclusion_proof(self._engine, game_id, version or None)

    async def GetConsistencyProof(
        self, request: checkpoint_pb2.GetConsistencyProofRequest, context: Any
    ) -> checkpoint_pb2.GetConsistencyProofResponse:
        """From one size of the tree to another."""
        with refusals():
            async with read(self._engine) as connection:
                newest = await newest_row(connection)
                size = 0 if newest is None else newest.size
                to = validate.number("to_size", request.to_size or size, low=1, high=max(size, 1))
                old = validate.number("from_size", request.from_size, low=1, high=to)
                if newest is None:
                    raise _not_covered()
                with _refused_if_broken():
                    proof = await tree.roots(connection, merkle.consistency_ranges(old, to))
        return checkpoint_pb2.GetConsistencyProofResponse(from_size=old, to_size=to, proof=proof)

    async def ListCheckpoints(
        self, request: checkpoint_pb2.ListCheckpointsRequest, context: Any
    ) -> checkpoint_pb2.ListCheckpointsResponse:
        """A page of checkpoints by size, or the newest."""
        size = validate.page_size(
            request.page_size, default=CHECKPOINTS_DEFAULT, high=CHECKPOINTS_MAX
        )
        after = validate.number("after_size", request.after_size, low=0, high=NUMBER_MAX)
        page = select(checkpoints).where(checkpoints.c.size > after).order_by(checkpoints.c.size)
        with refusals():
            async with read(self._engine) as connection:
                if request.newest:
                    newest = await newest_row(connection)
                    rows = [] if newest is None else [newest]
                else:
                    rows = list(await connection.execute(page.limit(size + 1)))
        return checkpoint_pb2.ListCheckpointsResponse(
            checkpoints=map(_message, rows[:size]), more=len(rows) > size
        )

    async def GetCoverage(
        self, request: checkpoint_pb2.GetCoverageRequest, context: Any
    ) -> checkpoint_pb2.GetCoverageResponse:
        """What no checkpoint covers yet."""
        with refusals():
            async with read(self._engine) as connection:
                newest = await newest_row(connection)
            counted = await coverage(self._engine)
        return checkpoint_pb2.GetCoverageResponse(
            checkpoint=None if newest is None else _message(newest),
            logs=counted.streams,
            uncovered_logs=counted.uncovered_streams,
            uncovered_events=counted.uncovered_events,
            oldest_uncovered_time=(
                None if counted.oldest_at is None else timestamp(counted.oldest_at)
            ),
        )

    async def VerifyTree(
        self, request: checkpoint_pb2.VerifyTreeRequest, context: Any
    ) -> AsyncIterator[checkpoint_pb2.VerifyTreeResponse]:
        """The whole tree computed again, page by page."""
        await self._accesses.note(None, "the tree")
        with refusals():
            async for step in verify_tree(self._engine, self._keys):
                yield checkpoint_pb2.VerifyTreeResponse(
                    leaves=step.leaves,
                    of=step.of,
                    checkpoints=step.checkpoints,
                    faults=step.faults,
                )


async def inclusion_proof(
    engine: AsyncEngine, stream: UUID, version: int | None
) -> checkpoint_pb2.GetInclusionProofResponse:
    """A log's leaf at this version or the first later one (None: its last), and the way to the
    newest checkpoint's root; raises Refused NOT_CHECKPOINTED."""
    with refusals():
        async with read(engine) as connection:
            found = await tree.covering_leaf(connection, stream, version)
            newest = await newest_row(connection)
            if found is None or newest is None or found[0] >= newest.size:
                raise _not_covered()
            number, leaf = found
            ranges = merkle.inclusion_ranges(number, newest.size)
            with _refused_if_broken():
                proof = await tree.roots(connection, ranges)
    return checkpoint_pb2.GetInclusionProofResponse(
        game_id=str(stream),
        version=leaf.version,
        head=leaf.head,
        leaf=number,
        proof=proof,
        checkpoint=_message(newest),
    )


def _message(row: Row[Any]) -> checkpoint_pb2.Checkpoint:
    return checkpoint_pb2.Checkpoint(
        size=row.size, root=row.root, signed_time=timestamp(row.at), note=row.note
    )


@contextmanager
def _refused_if_broken() -> Iterator[None]:
    try:
        yield
    except TreeBroken as broken:
        log.error("checkpoint_tree_broken", problem=str(broken))
        raise precondition("TREE_BROKEN", "the stored tree is not the one that was made") from None


def _not_covered() -> Refused:
    return not_yet("NOT_CHECKPOINTED", "no checkpoint covers this yet; ask again soon")
