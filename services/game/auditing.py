"""AuditService: reading, replaying and verifying logs, and disputes about them."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from uuid import UUID

from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc

from services.game import audit, export, requests, views
from services.game.accesses import Access, Accesses
from services.game.arbitration import Disputes
from services.game.checking import Checked, Held
from services.game.disputes import DISPUTE_VERSION
from services.game.disputes import missing as no_dispute
from services.game.evidence import Evidence
from services.game.export import CHUNK_BYTES
from services.game.forgetting import Forgetting
from services.game.games import Games
from services.game.model import Stage, State
from services.game.verdicts import Verdicts
from services.game.viewers import missing, seat_of
from services.kernel.errors import precondition
from services.runtime import validate
from services.runtime.auth import Role
from services.runtime.call import caller, note, whose
from services.runtime.moments import timestamp
from services.runtime.seal import open_page, seal_page
from services.runtime.slices import each

ROWS_DEFAULT = 200
ROWS_MAX = 1_000
VERSION_MAX = 2**63 - 1
HEADS_A_MESSAGE = 500
LOGS_MAX = 2**31 - 1
LOGS_DEFAULT = 200
LOGS_A_PAGE_MAX = 1_000
ACCESSES_DEFAULT = 100
ACCESSES_MAX = 500
LOOKS_MAX = 500


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """For operators; players read, export and dispute the games they sat in, once these ended."""

    def __init__(
        self,
        games: Games,
        verdicts: Verdicts,
        disputes: Disputes,
        accesses: Accesses,
        seal_key: bytes,
        evidence: Evidence,
        forgetting: Forgetting,
    ) -> None:
        self._games = games
        self._verdicts = verdicts
        self._disputes = disputes
        self._accesses = accesses
        self._seal_key = seal_key
        self._evidence = evidence
        self._forgetting = forgetting

    async def ListLogs(
        self, request: audit_pb2.ListLogsRequest, context: Any
    ) -> AsyncIterator[audit_pb2.ListLogsResponse]:
        """Games' heads, from the heads themselves and not from what is listed."""
        after = validate.optional_uuid("after_game_id", request.after_game_id)
        most = validate.number("page_size", request.page_size, low=0, high=LOGS_MAX) or LOGS_MAX
        page, listed = audit_pb2.ListLogsResponse(), 0
        async for head in self._games.store.streams(after):
            if head.stream.version == DISPUTE_VERSION:
                continue
            game_id, listed = str(head.stream), listed + 1
            page.heads.add(game_id=game_id, version=head.version, hash=head.hash, ended=head.ended)
            if listed == most:
                break
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
        rows = await self._games.rows(game_id)
        async for step in each(audit.replay(rows)):
            if step.rows[-1].version < request.from_version:
                continue
            if step.rows[0].version > last:
                return
            yield replayed(step)

    async def VerifyGame(
        self, request: audit_pb2.VerifyGameRequest, context: Any
    ) -> audit_pb2.VerifyGameResponse:
        """Re-execute the log from its rows, and compare it with the wallet."""
        game_id = requests.game_id("game_id", request.game_id)
        note(game=game_id)
        held = [Held(each.version, each.hash) for each in request.held]
        await self._accesses.note(game_id)
        checked = await self._verdicts.one(game_id, held)
        if checked is None:
            raise missing()
        return audit_pb2.VerifyGameResponse(
            faults=map(_fault, checked.faults),
            events=checked.events,
            checks=audit.CHECKS,
            covered_version=checked.covered,
            archived=checked.archived,
        )

    async def VerifyGames(
        self, request: audit_pb2.VerifyGamesRequest, context: Any
    ) -> AsyncIterator[audit_pb2.VerifyGamesResponse]:
        """A page of logs verified by other processes, as they get done."""
        after = validate.optional_uuid("after_game_id", request.after_game_id)
        size = validate.page_size(request.page_size, default=LOGS_DEFAULT, high=LOGS_A_PAGE_MAX)
        await self._accesses.note(None, f"{size} logs after {after or 'none'}")
        async with aclosing(self._verdicts.page(after, size)) as answers:
            async for some in answers:
                yield audit_pb2.VerifyGamesResponse(
                    verdicts=[_verdict(game, found) for game, found in some]
                )

    async def ListAccesses(
        self, request: audit_pb2.ListAccessesRequest, context: Any
    ) -> audit_pb2.ListAccessesResponse:
        """A page of what operators looked at."""
        size = validate.page_size(request.page_size, default=ACCESSES_DEFAULT, high=ACCESSES_MAX)
        game = validate.optional_uuid("game_id", request.game_id)
        bound = (request.game_id,)
        fields = open_page(self._seal_key, "accesses", bound, request.page_token)
        found = await self._accesses.page(int(fields[0] or 0) if fields else None, size + 1, game)
        response = audit_pb2.ListAccessesResponse(accesses=map(_access, found[:size]))
        if len(found) > size:
            last = found[size - 1].number
            response.next_page_token = seal_page(self._seal_key, "accesses", bound, (last,))
        return response

    async def ExportGame(
        self, request: audit_pb2.ExportGameRequest, context: Any
    ) -> AsyncIterator[audit_pb2.ExportGameResponse]:
        """An ended game as one JSON document, in pieces that fit into a message."""
        game_id, state = await self._find_ended(request.game_id)
        rows = await self._games.rows(game_id)
        auditor = caller().role is Role.OPERATOR
        document = export.document(game_id, state, rows, auditor=auditor)
        async for chunk in export.chunks(document):
            yield audit_pb2.ExportGameResponse(chunk=chunk)

    async def OpenDispute(
        self, request: audit_pb2.OpenDisputeRequest, context: Any
    ) -> audit_pb2.OpenDisputeResponse:
        """A player disputes a game he sat in."""
        loaded = await self._games.load(requests.game_id("game_id", request.game_id))
        seat_of(loaded.state, caller())
        dispute = await self._disputes.open(request, caller(), loaded.state.version)
        return audit_pb2.OpenDisputeResponse(dispute=dispute)

    async def ListDisputes(
        self, request: audit_pb2.ListDisputesRequest, context: Any
    ) -> audit_pb2.ListDisputesResponse:
        """All disputes for operators; for players their own, or those about a game of theirs."""
        game_id = None
        if request.game_id:
            game_id = requests.game_id("game_id", request.game_id)
            if caller().role is not Role.OPERATOR:
                seat_of((await self._games.load(game_id)).state, caller())
        await self._accesses.note(game_id, "disputes")
        return await self._disputes.page(request, caller())

    async def GetDispute(
        self, request: audit_pb2.GetDisputeRequest, context: Any
    ) -> audit_pb2.GetDisputeResponse:
        """One dispute, for operators and the players of its game."""
        dispute = await self._disputes.find(request.dispute_id)
        game_id = requests.game_id("game_id", dispute.game_id)
        note(game=game_id)
        if caller().role is not Role.OPERATOR:
            state = (await self._games.load(game_id)).state
            if state.seat_of(caller().subject) is None:
                raise no_dispute()
        await self._accesses.note(game_id, str(dispute.id))
        shown = await self._disputes.show(dispute, caller())
        return audit_pb2.GetDisputeResponse(dispute=shown)

    async def GetEvidence(
        self, request: audit_pb2.GetEvidenceRequest, context: Any
    ) -> AsyncIterator[audit_pb2.GetEvidenceResponse]:
        """Everything to judge a dispute by, in pieces that fit into a message."""
        dispute = await self._disputes.find(request.dispute_id)
        game_id = requests.game_id("game_id", dispute.game_id)
        note(game=game_id)
        await self._accesses.note(game_id, str(dispute.id))
        shown = await self._disputes.show(dispute, caller())
        document = await self._evidence.document(dispute, shown)
        for start in range(0, len(document), CHUNK_BYTES):
            yield audit_pb2.GetEvidenceResponse(chunk=document[start : start + CHUNK_BYTES])

    async def ResolveDispute(
        self, request: audit_pb2.ResolveDisputeRequest, context: Any
    ) -> audit_pb2.ResolveDisputeResponse:
        """An operator's ruling."""
        dispute = await self._disputes.rule(request, caller())
        return audit_pb2.ResolveDisputeResponse(dispute=dispute)

    async def ApproveRuling(
        self, request: audit_pb2.ApproveRulingRequest, context: Any
    ) -> audit_pb2.ApproveRulingResponse:
        """A second operator lets a ruling be carried out."""
        dispute = await self._disputes.approve(request, caller())
        return audit_pb2.ApproveRulingResponse(dispute=dispute)

    async def WithdrawRuling(
        self, request: audit_pb2.WithdrawRulingRequest, context: Any
    ) -> audit_pb2.WithdrawRulingResponse:
        """A ruling that waits for approval is taken back."""
        dispute = await self._disputes.withdraw(request, caller())
        return audit_pb2.WithdrawRulingResponse(dispute=dispute)

    async def ListClaims(
        self, request: audit_pb2.ListClaimsRequest, context: Any
    ) -> audit_pb2.ListClaimsResponse:
        """What the reserve paid for players."""
        await self._accesses.note(None, "claims")
        return await self._disputes.claims(request)

    async def CollectClaim(
        self, request: audit_pb2.CollectClaimRequest, context: Any
    ) -> audit_pb2.CollectClaimResponse:
        """Begin to collect a claim."""
        dispute = await self._disputes.collect(request, caller())
        return audit_pb2.CollectClaimResponse(dispute=dispute)

    async def GetTraces(
        self, request: audit_pb2.GetTracesRequest, context: Any
    ) -> audit_pb2.GetTracesResponse:
        """When a player's streams of a game were open; once it has ended, when operators looked at
        it: who is looked at while he plays is not told."""
        player = str(whose(request.player_id))
        game_id, state = await self._find(request.game_id)
        seat = state.seat_of(player)
        if seat is None:
            raise missing()
        rows = await self._forgetting.connections.of_game(game_id)
        looks = await self._accesses.page(None, LOOKS_MAX, game_id) if state.ended else []
        return audit_pb2.GetTracesResponse(
            connections=[
                audit_pb2.ConnectionTrace(
                    connection_time=timestamp(each.at),
                    connection_id=str(each.connection),
                    opened=each.opened,
                )
                for each in rows
                if each.seat == seat
            ],
            looks=[
                audit_pb2.LookTrace(look_time=timestamp(look.at), action=look.action)
                for look in looks
            ],
        )

    async def CheckErasure(
        self, request: audit_pb2.CheckErasureRequest, context: Any
    ) -> audit_pb2.CheckErasureResponse:
        """Whether nothing here stands against erasing a player."""
        player = validate.uuid("player_id", request.player_id)
        await self._forgetting.check(str(player), leave_claims=request.leave_claims)
        return audit_pb2.CheckErasureResponse()

    async def ErasePlayer(
        self, request: audit_pb2.ErasePlayerRequest, context: Any
    ) -> audit_pb2.ErasePlayerResponse:
        """Remove what may be removed about a player."""
        player = validate.uuid("player_id", request.player_id)
        texts, connections = await self._forgetting.erase(str(player))
        return audit_pb2.ErasePlayerResponse(texts=texts, connections=connections)

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


def _verdict(game_id: UUID, found: Checked) -> audit_pb2.Verdict:
    return audit_pb2.Verdict(
        game_id=str(game_id),
        faults=map(_fault, found.faults),
        events=found.events,
        version=found.version,
        covered_version=found.covered,
        archived=found.archived,
    )


def _access(found: Access) -> audit_pb2.Access:
    return audit_pb2.Access(
        number=found.number,
        access_time=timestamp(found.at),
        operator=found.operator,
        action=found.action,
        game_id="" if found.game is None else str(found.game),
        detail=found.detail,
        hash=found.hash,
    )


def replayed(step: audit.Append) -> audit_pb2.ReplayGameResponse:
    """An append of an ended game as it is shown to those who may see all hands."""
    metadata = stored.Metadata.FromString(step.rows[0].metadata)
    state, head = step.after, step.rows[-1].hash
    pairs = list(zip(step.rows, step.events, strict=True))
    return audit_pb2.ReplayGameResponse(
        from_version=step.rows[0].version,
        to_version=step.rows[-1].version,
        actor=metadata.actor,
        reason=metadata.reason,
        happenings=views.happenings(state.rules, pairs, None),
        views=[views.game_view(state, seat, head) for seat in range(len(state.seats))],
    )
