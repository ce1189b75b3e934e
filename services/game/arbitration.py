"""Disputes opened, ruled, approved, listed: one method for each thing that may be asked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from uuid import UUID
from weakref import WeakValueDictionary

from google.protobuf.message import Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2

from services.game import rulings
from services.game.dispute_views import claims_of, digests_of, message
from services.game.disputes import (
    CLAIM_TAG,
    DECIDER,
    DISPUTE_VERSION,
    TAG,
    Dispute,
    DisputeEvent,
    Standing,
    decode,
    ids_about,
    missing,
    place_id,
)
from services.game.games import Games
from services.game.peers import Peers
from services.game.texts import Texts
from services.kernel.envelope import Head, Plan
from services.kernel.errors import Kind, Refused, invalid, precondition
from services.kernel.ids import parse_uuid
from services.runtime import validate
from services.runtime.auth import Caller, Role
from services.runtime.fingerprint import fingerprint
from services.runtime.seal import open_page, seal_page
from services.runtime.status import ARCHIVED
from services.runtime.store.api import RequestReused, Store
from services.runtime.store.months import kept_version
from services.runtime.streams import Streams, refusals

WORDS_MAX = 1_000
"""Longest complaint or explanation, in characters."""
DISPUTES_MAX = 10
"""Most disputes one player may open about one game."""
PAGE_SIZE_DEFAULT = 20
PAGE_SIZE_MAX = 100
SCAN = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A dispute with its id."""

    id: UUID
    state: Dispute

    @property
    def game_id(self) -> str:
        """The game it is about."""
        return _opened(self.state).game_id


class Disputes:
    """All disputes of a store. `key` signs page tokens.

    A ruling that moves more than `alone_chips`, together with what rulings on the same game moved
    without a second operator, waits for one. `expect` is told of the
    work that an append asks for.
    """

    def __init__(
        self,
        store: Store,
        games: Games,
        peers: Peers,
        texts: Texts,
        key: bytes,
        alone_chips: int,
        expect: Callable[[UUID, Plan], None] = lambda stream, plan: None,
    ) -> None:
        self._store = store
        self._games = games
        self._peers = peers
        self._texts = texts
        self._key = key
        self._alone_chips = alone_chips
        self._opening: WeakValueDictionary[tuple[UUID, str], asyncio.Lock] = WeakValueDictionary()
        self.streams = Streams(
            store, DECIDER, published=lambda change: expect(change.stream, change.plan)
        )

    async def open(
        self, request: audit_pb2.OpenDisputeRequest, caller: Caller, version: int
    ) -> audit_pb2.Dispute:
        """Open a dispute about a game that stands at `version`; the caller has a seat in it."""
        validate.number("version", request.version, low=0, high=version)
        words = validate.text("complaint", request.complaint, high=WORDS_MAX)
        game_id, player = UUID(request.game_id), caller.subject
        # one at a time of a player: others here would only try for the same places
        async with self._opening.setdefault((game_id, player), asyncio.Lock()):
            async for stream in self._places(game_id, request, caller):
                try:
                    return await self._open(stream, request, words, caller)
                except Refused as refused:
                    if refused.reason != "DISPUTE_EXISTS":
                        raise
        raise precondition(
            "TOO_MANY_DISPUTES",
            f"a player may open {DISPUTES_MAX} disputes about a game",
            limit="disputes",
            most=str(DISPUTES_MAX),
        )

    async def _places(
        self, game_id: UUID, request: audit_pb2.OpenDisputeRequest, caller: Caller
    ) -> AsyncIterator[UUID]:
        """Where a dispute may be opened: where this request has opened one, else the player's free
        places, lowest first.

        Another replica may fill them meanwhile. As nobody leaves one out, whoever carries out the
        same request comes to the place where it was opened before he comes to a free one.
        """
        places = [place_id(game_id, caller.subject, n) for n in range(DISPUTES_MAX)]
        taken = {
            found.id
            async for found in self.about(game_id)
            if _opened(found.state).player_id == caller.subject
        }
        for stream in taken:
            with refusals():
                if await self._store.find_request(stream, _request_id(request, caller)):
                    yield stream
                    return
        elsewhere = len(taken.difference(places))  # disputes of 0.1.0 have ids of another kind
        for stream in places[: DISPUTES_MAX - elsewhere]:
            if stream not in taken:
                yield stream

    async def _open(
        self, stream: UUID, request: audit_pb2.OpenDisputeRequest, words: str, caller: Caller
    ) -> audit_pb2.Dispute:
        """Open a dispute at a place; raises Refused DISPUTE_EXISTS where another has it."""
        player = caller.subject
        digest = await self._texts.keep(stream, player, words)
        opened = stored.DisputeOpened(
            game_id=request.game_id,
            version=request.version,
            player_id=player,
            complaint_digest=digest,
        )
        return await self._write(stream, opened, request, words, digest, caller)

    async def rule(
        self, request: audit_pb2.ResolveDisputeRequest, caller: Caller
    ) -> audit_pb2.Dispute:
        """Record an operator's ruling, and what it does with chips."""
        choices = [audit_pb2.RULING_DISMISSED, audit_pb2.RULING_UPHELD]
        upheld = validate.choice("ruling", request.ruling, choices) == audit_pb2.RULING_UPHELD
        words = validate.text("explanation", request.explanation, high=WORDS_MAX)
        if request.remedy != audit_pb2.REMEDY_CORRECTION and request.moves:
            raise invalid("moves", "are named for a correction only")
        if request.remedy and not upheld:
            raise invalid("remedy", "only an upheld dispute moves chips")
        dispute = await self.find(request.dispute_id)
        opened = _opened(dispute.state)
        ruled = stored.DisputeRuled(upheld=upheld, operator=caller.subject, remedy=request.remedy)
        with refusals():
            again = await self._store.find_request(dispute.id, _request_id(request, caller))
        if again is not None:
            known = decode(again.events[0])
            if isinstance(known, stored.DisputeRuled):
                ruled.CopyFrom(known)
        elif dispute.state.standing is Standing.OPEN and request.remedy:
            await self._price(ruled, request, UUID(dispute.game_id))
        digest = await self._texts.keep(dispute.id, opened.player_id, words)
        ruled.explanation_digest = digest
        return await self._write(dispute.id, ruled, request, words, digest, caller)

    async def _price(
        self, ruled: stored.DisputeRuled, request: audit_pb2.ResolveDisputeRequest, game_id: UUID
    ) -> None:
        """Say what the ruling moves, after which earlier ones, and whether that takes two."""
        state = (await self._games.load(game_id)).state
        rulings.check_chips(state)
        paid = [d.state async for d in self.about(game_id) if d.state.paid is not None]
        transfers = await self._peers.transfers(str(game_id))
        ruled.rulings_before = rulings.rulings_before(paid, transfers)
        ruled.moves.extend(rulings.moves_of(request, state, paid))
        ruled.needs_approval = rulings.moved_alone(ruled, paid) > self._alone_chips

    async def approve(
        self, request: audit_pb2.ApproveRulingRequest, caller: Caller
    ) -> audit_pb2.Dispute:
        """Let a ruling be carried out, as another operator than the one who ruled."""
        dispute = await self.find(request.dispute_id)
        event = stored.RulingApproved(operator=caller.subject)
        return await self._transact(dispute.id, event, request, caller)

    async def withdraw(
        self, request: audit_pb2.WithdrawRulingRequest, caller: Caller
    ) -> audit_pb2.Dispute:
        """Take back a ruling that waits for approval."""
        dispute = await self.find(request.dispute_id)
        event = stored.RulingWithdrawn(operator=caller.subject)
        return await self._transact(dispute.id, event, request, caller)

    async def collect(
        self, request: audit_pb2.CollectClaimRequest, caller: Caller
    ) -> audit_pb2.Dispute:
        """Have a claim collected."""
        dispute = await self.find(request.dispute_id)
        player = str(validate.uuid("player_id", request.player_id))
        event = stored.ClaimCalled(
            player_id=player, chips=dispute.state.outstanding(player), operator=caller.subject
        )
        return await self._transact(dispute.id, event, request, caller)

    async def find(self, text: str) -> Found:
        """The dispute of this id; raises Refused INVALID_FIELD, DISPUTE_NOT_FOUND."""
        stream = validate.uuid("dispute_id", text)
        if stream.version != DISPUTE_VERSION:
            raise invalid("dispute_id", "is not the id of a dispute")
        state = (await self.streams.load(stream)).state
        if state.opened is None:
            raise missing()
        return Found(stream, state)

    async def show(self, dispute: Found, caller: Caller) -> audit_pb2.Dispute:
        """A dispute as the caller may see it."""
        texts = await self._texts.find(digests_of(dispute.state))
        return message(str(dispute.id), dispute.state, texts, caller)

    async def about(self, game_id: UUID) -> AsyncIterator[Found]:
        """Every dispute about a game, the highest id first."""
        async for head in self._heads(*ids_about(game_id)):
            found = await self._load(head)
            if found.game_id == str(game_id):
                yield found

    async def unsettled(self) -> AsyncIterator[Found]:
        """Every dispute that is not closed and can be read, the highest id first."""
        async for head in self._heads(UUID(int=0), None, ended=False):
            try:
                yield await self._load(head)
            except Refused as refused:
                if refused.reason != "LOG_DAMAGED":
                    raise

    async def _heads(
        self, first: UUID, before: UUID | None, ended: bool | None = None
    ) -> AsyncIterator[Head]:
        """Heads of disputes from the id `first` to below `before`, the highest id first."""
        while True:
            with refusals():
                heads = await self._store.tagged(TAG, before=before, limit=SCAN, ended=ended)
            for head in heads:
                if head.stream < first:
                    return
                yield head
            if len(heads) < SCAN:
                return
            before = heads[-1].stream

    async def page(
        self, request: audit_pb2.ListDisputesRequest, caller: Caller
    ) -> audit_pb2.ListDisputesResponse:
        """A page of disputes, those about the newest games first.

        With a game, of that game: the caller may see it.
        """
        size = validate.page_size(request.page_size, default=PAGE_SIZE_DEFAULT, high=PAGE_SIZE_MAX)
        tag = _tag(request, caller)
        bound = (tag, request.game_id, request.open)
        fields = open_page(self._key, "disputes", bound, request.page_token)
        first, before = UUID(int=0), parse_uuid(str(fields[0])) if fields else None
        if request.game_id:
            first, below = ids_about(UUID(request.game_id))
            before = below if before is None else before
        ended = False if request.open else None
        with refusals():
            heads = await self._store.tagged(tag, before=before, limit=size + 1, ended=ended)
        heads = [head for head in heads if head.stream >= first]
        response = audit_pb2.ListDisputesResponse()
        for head in heads[:size]:
            found = await self._here(head)
            if found is not None and request.game_id in ("", found.game_id):
                response.disputes.append(await self.show(found, caller))
        if len(heads) > size:
            last = str(heads[size - 1].stream)
            response.next_page_token = seal_page(self._key, "disputes", bound, (last,))
        return response

    async def claims(self, request: audit_pb2.ListClaimsRequest) -> audit_pb2.ListClaimsResponse:
        """A page of claims, those about the newest games first."""
        size = validate.page_size(request.page_size, default=PAGE_SIZE_DEFAULT, high=PAGE_SIZE_MAX)
        bound = (request.all,)
        fields = open_page(self._key, "claims", bound, request.page_token)
        before = parse_uuid(str(fields[0])) if fields else None
        with refusals():
            heads = await self._store.tagged(CLAIM_TAG, before=before, limit=size + 1)
        response = audit_pb2.ListClaimsResponse()
        for head in heads[:size]:
            found = await self._here(head)
            response.claims.extend(
                claim
                for claim in ([] if found is None else claims_of(str(head.stream), found.state))
                if request.all or claim.collected < claim.chips
            )
        if len(heads) > size:
            last = str(heads[size - 1].stream)
            response.next_page_token = seal_page(self._key, "claims", bound, (last,))
        return response

    async def _load(self, head: Head) -> Found:
        loaded = await self.streams.load(head.stream, known=head.version)
        return Found(head.stream, loaded.state)

    async def _here(self, head: Head) -> Found | None:
        """The dispute, None where its log has been archived with its game's."""
        try:
            loaded = await self.streams.load(head.stream, known=kept_version(head))
            return Found(head.stream, loaded.state)
        except Refused as refused:
            if refused.reason != ARCHIVED:
                raise
            return None

    async def _write(
        self,
        stream: UUID,
        event: DisputeEvent,
        request: Message,
        words: str,
        digest: bytes,
        caller: Caller,
    ) -> audit_pb2.Dispute:
        """Carry out a command whose text has been kept; of a repeated one the first text counts."""
        request_id = _request_id(request, caller)
        with refusals():
            earlier = await self._store.find_request(stream, request_id)
        inline = earlier is not None and not _digest_in(decode(earlier.events[0]))
        body_hash = fingerprint(request if inline else _without_words(request))
        try:
            outcome = await self.streams.transact(
                stream, event, request_id=request_id, body_hash=body_hash
            )
        except Refused as refused:
            if refused.kind is not Kind.UNAVAILABLE:  # then the event may have been stored
                await self._texts.drop(digest)
            raise
        kept = _digest_in(decode(outcome.appended.events[0]))
        if kept != digest:
            await self._texts.drop(digest)
            first = (await self._texts.find([kept])).get(kept)
            if first is not None and first != words:
                with refusals():
                    raise RequestReused
        return await self.show(Found(stream, outcome.state), caller)

    async def _transact(
        self, stream: UUID, event: DisputeEvent, request: Message, caller: Caller
    ) -> audit_pb2.Dispute:
        """Carry the command out once."""
        outcome = await self.streams.transact(
            stream,
            event,
            request_id=_request_id(request, caller),
            body_hash=fingerprint(request),
        )
        return await self.show(Found(stream, outcome.state), caller)


def _request_id(request: Message, caller: Caller) -> str:
    """Ids of different callers are kept apart."""
    return f"{caller.key}/{getattr(request, 'request_id')}"  # noqa: B009 - any message


def _without_words(request: Message) -> Message:
    """A request as the log may name it: no hash in the log tells of a text that is removed."""
    bare = type(request)()
    bare.CopyFrom(request)
    for field in ("complaint", "explanation"):
        if field in request.DESCRIPTOR.fields_by_name:
            bare.ClearField(field)
    return bare


def _opened(state: Dispute) -> stored.DisputeOpened:
    if state.opened is None:
        raise missing()
    return state.opened


def _digest_in(event: DisputeEvent) -> bytes:
    match event:
        case stored.DisputeOpened():
            return event.complaint_digest
        case stored.DisputeRuled():
            return event.explanation_digest
        case _:
            return b""


def _tag(request: audit_pb2.ListDisputesRequest, caller: Caller) -> str:
    """What a list goes by: a player's own disputes, unless he names a game."""
    player = validate.optional_uuid("player_id", request.player_id)
    if caller.role is not Role.OPERATOR:
        return TAG if request.game_id else f"complainant:{caller.subject}"
    return TAG if player is None else f"complainant:{player}"
