"""Disputes: a player's complaint about a game, and an operator's ruling. Each is a stream."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from google.protobuf.message import DecodeError, Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import audit_pb2

from engines.shuffle import digest, framed
from services.kernel.decider import Decider
from services.kernel.envelope import NewEvent, Plan, Recorded
from services.kernel.errors import invalid, not_found, precondition
from services.kernel.ids import RANDOM_BYTES, parse_uuid, uuid7
from services.runtime import validate
from services.runtime.auth import Caller, Role
from services.runtime.fingerprint import fingerprint
from services.runtime.moments import timestamp
from services.runtime.seal import open_page, seal_page
from services.runtime.store.api import Damaged, Store
from services.runtime.streams import Streams

WORDS_MAX = 1_000
"""Longest complaint or explanation, in characters."""
PAGE_SIZE_DEFAULT = 20
PAGE_SIZE_MAX = 100

DISPUTE_VERSION = 8
"""The UUID version of dispute ids, which no game's id has: they share a store."""

NAMES: dict[str, type[stored.DisputeOpened] | type[stored.DisputeRuled]] = {
    "dispute.DisputeOpened": stored.DisputeOpened,
    "dispute.DisputeRuled": stored.DisputeRuled,
}
DisputeEvent = stored.DisputeOpened | stored.DisputeRuled
"""Stored as they are: a dispute has no engine and no secrets."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A dispute now; moments are Unix microseconds, 0 for not yet."""

    opened: stored.DisputeOpened | None = None
    ruled: stored.DisputeRuled | None = None
    opened_at: int = 0
    ruled_at: int = 0


def decide(state: Dispute, command: DisputeEvent) -> Sequence[DisputeEvent]:
    """A dispute is opened once and ruled once; the command is the event it asks for."""
    if isinstance(command, stored.DisputeOpened):
        if state.opened is not None:
            raise precondition("DISPUTE_EXISTS", "this dispute has been opened")
    elif state.opened is None:
        raise not_found("DISPUTE_NOT_FOUND", "there is no such dispute")
    elif state.ruled is not None:
        raise precondition("DISPUTE_RULED", "this dispute has been ruled")
    return (command,)


def evolve(state: Dispute, event: DisputeEvent, at: int) -> Dispute:
    """The dispute after an event."""
    if isinstance(event, stored.DisputeOpened):
        return replace(state, opened=event, opened_at=at)
    return replace(state, ruled=event, ruled_at=at)


def encode(event: DisputeEvent) -> NewEvent:
    """An event as it is stored."""
    name = f"dispute.{event.DESCRIPTOR.name}"
    return NewEvent(name, 1, event.SerializeToString(deterministic=True))


def decode(row: Recorded) -> DisputeEvent:
    """An event as it was stored; raises Damaged for a row that is none of ours."""
    try:
        return NAMES[row.name].FromString(row.payload)
    except (DecodeError, KeyError) as problem:
        raise Damaged(row.stream, row.version, "is not an event that can be read") from problem


def plan(before: Dispute, after: Dispute) -> Plan:
    """Tags for lists; a ruled dispute is ended."""
    tags: tuple[str, ...] = ()
    if before.opened is None and after.opened is not None:
        tags = ("dispute", f"complainant:{after.opened.player_id}")
    return Plan(tags=tags, ended=after.ruled is not None)


DECIDER = Decider(
    initial=Dispute(), decide=decide, evolve=evolve, encode=encode, decode=decode, plan=plan
)


class Disputes:
    """All disputes of a store. `key` signs page tokens."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key
        self._streams = Streams(store, DECIDER)

    async def open(
        self, request: audit_pb2.OpenDisputeRequest, player: str, version: int
    ) -> audit_pb2.Dispute:
        """Open a dispute about a game that stands at `version`."""
        validate.number("version", request.version, low=0, high=version)
        opened = stored.DisputeOpened(
            game_id=request.game_id,
            version=request.version,
            player_id=player,
            complaint=validate.text("complaint", request.complaint, high=WORDS_MAX),
        )
        stream = dispute_id(UUID(request.game_id), player, request.request_id)
        return await self._transact(stream, opened, request, f"player:{player}")

    async def rule(
        self, request: audit_pb2.ResolveDisputeRequest, operator: str
    ) -> audit_pb2.Dispute:
        """Record an operator's ruling."""
        rulings = [audit_pb2.RULING_DISMISSED, audit_pb2.RULING_UPHELD]
        ruled = stored.DisputeRuled(
            upheld=validate.choice("ruling", request.ruling, rulings) == audit_pb2.RULING_UPHELD,
            explanation=validate.text("explanation", request.explanation, high=WORDS_MAX),
            operator=operator,
        )
        stream = validate.uuid("dispute_id", request.dispute_id)
        if stream.version != DISPUTE_VERSION:
            raise invalid("dispute_id", "is not the id of a dispute")
        return await self._transact(stream, ruled, request, f"operator:{operator}")

    async def page(
        self, request: audit_pb2.ListDisputesRequest, caller: Caller
    ) -> audit_pb2.ListDisputesResponse:
        """A page of disputes, those about the newest games first."""
        size = validate.page_size(request.page_size, default=PAGE_SIZE_DEFAULT, high=PAGE_SIZE_MAX)
        operator = caller.role is Role.OPERATOR
        tag = "dispute" if operator else f"complainant:{caller.subject}"
        bound = (tag, request.open)
        fields = open_page(self._key, "disputes", bound, request.page_token)
        before = parse_uuid(str(fields[0])) if fields else None
        ended = False if request.open else None
        heads = await self._store.tagged(tag, before=before, limit=size + 1, ended=ended)
        response = audit_pb2.ListDisputesResponse()
        for head in heads[:size]:
            loaded = await self._streams.load(head.stream)
            response.disputes.append(message(str(head.stream), loaded.state))
        if len(heads) > size:
            last = str(heads[size - 1].stream)
            response.next_page_token = seal_page(self._key, "disputes", bound, (last,))
        return response

    async def _transact(
        self, stream: UUID, command: DisputeEvent, request: Message, asks: str
    ) -> audit_pb2.Dispute:
        """Carry the command out once; `asks` keeps the request ids of different callers apart."""
        request_id = getattr(request, "request_id")  # noqa: B009 - any message
        outcome = await self._streams.transact(
            stream,
            command,
            request_id=f"{asks}/{request_id}",
            body_hash=fingerprint(request),
        )
        return message(str(stream), outcome.state)


def dispute_id(game_id: UUID, player: str, request_id: str) -> UUID:
    """The id of the dispute a request opens: the same for a repeated request, ordered by game."""
    random = digest(framed(game_id.bytes, player.encode(), request_id.encode()))
    alike = uuid7(game_id.int >> 80, random[:RANDOM_BYTES])
    return UUID(int=alike.int & ~(0xF << 76) | DISPUTE_VERSION << 76)


def message(dispute: str, state: Dispute) -> audit_pb2.Dispute:
    """A dispute on the wire."""
    if state.opened is None:
        raise not_found("DISPUTE_NOT_FOUND", "there is no such dispute")
    shown = audit_pb2.Dispute(
        dispute_id=dispute,
        game_id=state.opened.game_id,
        version=state.opened.version,
        player_id=state.opened.player_id,
        complaint=state.opened.complaint,
        opened_time=timestamp(state.opened_at),
    )
    if state.ruled is not None:
        upheld = state.ruled.upheld
        shown.ruling = audit_pb2.RULING_UPHELD if upheld else audit_pb2.RULING_DISMISSED
        shown.explanation = state.ruled.explanation
        shown.ruled_time.CopyFrom(timestamp(state.ruled_at))
    return shown
