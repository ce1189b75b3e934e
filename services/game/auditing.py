"""AuditService: reading, replaying and verifying logs, and disputes about them."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game import audit, checking, export, requests, views
from services.game.accesses import Accesses
from services.game.disputes import DISPUTE_VERSION, Disputes
from services.game.export import CHUNK_BYTES
from services.game.games import Games
from services.game.model import Stage, State
from services.game.peers import Peers
from services.game.settled import wallet_faults
from services.game.viewers import missing, seat_of
from services.kernel.errors import precondition
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import caller, note
from services.runtime.streams import refusals

ROWS_DEFAULT = 200
ROWS_MAX = 1_000
VERSION_MAX = 2**63 - 1
HEADS_A_MESSAGE = 500


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """For operators; players read, export and dispute the games they sat in, once these ended."""

    def __init__(
        self,
        engine: AsyncEngine,
        games: Games,
        peers: Peers,
        disputes: Disputes,
        accesses: Accesses,
    ) -> None:
        self._engine = engine
        self._games = games
        self._peers = peers
        self._disputes = disputes
        self._accesses = accesses

    async def ListLogs(
        self, request: audit_pb2.ListLogsRequest, context: Any
    ) -> AsyncIterator[audit_pb2.ListLogsResponse]:
        """Every game's head, from the heads themselves and not from what is listed."""
        page = audit_pb2.ListLogsResponse()
        async for head in self._games.store.streams():
            if head.stream.version == DISPUTE_VERSION:
                continue
            game_id = str(head.stream)
            page.heads.add(game_id=game_id, version=head.version, hash=head.hash, ended=head.ended)
            if len(page.heads) == HEADS_A_MESSAGE:
                yield page
                page = audit_pb2.ListLogsResponse()
        if page.heads:
            yield page

    async def ReadLog(
        self, request: audit_pb2.ReadLogRequest, context: Any
    ) -> audit_pb2.ReadLogResponse:
        """Stored rows; secrets only after the end."""
        game_id, state = await self._find(request.game_id)
        size = validate.page_size(request.page_size, default=ROWS_DEFAULT, high=ROWS_MAX)
        after = validate.number("after_version", request.after_version, low=0, high=VERSION_MAX)
        rows = await self._games.rows(game_id, after, size + 1)
        return audit_pb2.ReadLogResponse(
            rows=[export.log_row(row, secrets=state.ended) for row in rows[:size]],
            more=len(rows) > size,
        )

    async def ReplayGame(
        self, request: audit_pb2.ReplayGameRequest, context: Any
    ) -> AsyncIterator[audit_pb2.ReplayGameResponse]:
        """The state after each append of an ended game, as every seat saw it."""
        game_id, state = await self._find_ended(request.game_id)
        validate.number("from_version", request.from_version, low=0, high=VERSION_MAX)
        validate.number("to_version", request.to_version, low=0, high=VERSION_MAX)
        last = request.to_version or state.version
        for step in audit.replay(await self._games.rows(game_id)):
            if step.rows[-1].version < request.from_version:
                continue
            if step.rows[0].version > last:
                return
            yield _replayed(step)

    async def VerifyGame(
        self, request: audit_pb2.VerifyGameRequest, context: Any
    ) -> audit_pb2.VerifyGameResponse:
        """Re-execute the log from its rows, and compare it with the wallet."""
        game_id = requests.game_id("game_id", request.game_id)
        note(game=game_id)
        held = [checking.Held(each.version, each.hash) for each in request.held]
        await self._accesses.note(game_id)
        with refusals():
            checked = await checking.check_game(self._engine, self._games.store, game_id, held)
            now = await self._games.store.now()
        if checked is None:
            raise missing()
        faults = checked.faults
        if (end := checked.end) is not None:
            faults += tuple(await wallet_faults(self._peers, game_id, end.state, end.head, now))
        return audit_pb2.VerifyGameResponse(
            faults=map(_fault, faults),
            events=checked.events,
            checks=audit.CHECKS,
            covered_version=checked.covered,
        )

    async def ExportGame(
        self, request: audit_pb2.ExportGameRequest, context: Any
    ) -> AsyncIterator[audit_pb2.ExportGameResponse]:
        """An ended game as one JSON document, in pieces that fit into a message."""
        game_id, state = await self._find_ended(request.game_id)
        document = export.document(game_id, state, await self._games.rows(game_id))
        for start in range(0, len(document), CHUNK_BYTES):
            chunk = document[start : start + CHUNK_BYTES]
            yield audit_pb2.ExportGameResponse(chunk=chunk)

    async def OpenDispute(
        self, request: audit_pb2.OpenDisputeRequest, context: Any
    ) -> audit_pb2.OpenDisputeResponse:
        """A player disputes a game he sat in."""
        loaded = await self._games.load(requests.game_id("game_id", request.game_id))
        seat_of(loaded.state, caller())
        dispute = await self._disputes.open(request, caller().subject, loaded.state.version)
        return audit_pb2.OpenDisputeResponse(dispute=dispute)

    async def ListDisputes(
        self, request: audit_pb2.ListDisputesRequest, context: Any
    ) -> audit_pb2.ListDisputesResponse:
        """All disputes for operators, a player's own for players."""
        return await self._disputes.page(request, caller())

    async def ResolveDispute(
        self, request: audit_pb2.ResolveDisputeRequest, context: Any
    ) -> audit_pb2.ResolveDisputeResponse:
        """An operator's ruling."""
        dispute = await self._disputes.rule(request, caller().subject)
        return audit_pb2.ResolveDisputeResponse(dispute=dispute)

    async def _find(self, text: str) -> tuple[UUID, State]:
        """The game, for operators and for those who sat in it.

        A game that was cancelled before it opened has no id in its state.
        """
        game_id = requests.game_id("game_id", text)
        note(game=game_id)
        state = (await self._games.load(game_id)).state
        if state.stage is Stage.ABSENT:
            raise missing()
        if caller().role is not Role.OPERATOR:
            seat_of(state, caller())
        await self._accesses.note(game_id)
        return game_id, state

    async def _find_ended(self, text: str) -> tuple[UUID, State]:
        game_id, state = await self._find(text)
        if not state.ended:
            raise precondition("GAME_RUNNING", "hands are shown after the game has ended")
        if not state.laid_open and caller().role is not Role.OPERATOR:
            raise precondition("HANDS_CLOSED", "hands of this game are shown to auditors only")
        return game_id, state


def _fault(found: audit.Fault) -> audit_pb2.Fault:
    return audit_pb2.Fault(version=found.version, kind=found.kind, detail=found.detail)


def _replayed(step: audit.Append) -> audit_pb2.ReplayGameResponse:
    metadata = stored.Metadata.FromString(step.rows[0].metadata)
    state, head = step.after, step.rows[-1].hash
    pairs = list(zip(step.rows, step.events, strict=True))
    return audit_pb2.ReplayGameResponse(
        from_version=step.rows[0].version,
        to_version=step.rows[-1].version,
        actor=metadata.actor,
        reason=metadata.reason,
        happenings=views.happenings(state.variant, pairs, None),
        views=[views.game_view(state, seat, head) for seat in range(len(state.seats))],
    )
