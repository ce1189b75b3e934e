"""Disputes: a player's complaint about a game, what operators rule, and what comes of it. Pure.

Each dispute is a stream of its own, and every step of it an event. Chips move in the wallet; what
is to move stands in the ruling, and what moved in the event after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias, assert_never
from uuid import UUID

from google.protobuf.message import DecodeError
from kozyr.game.events.v1 import game_pb2 as stored

from engines.shuffle import digest, framed
from services.kernel.decider import Decider
from services.kernel.envelope import Due, NewEvent, Plan, Recorded
from services.kernel.errors import Refused, denied, not_found, precondition
from services.kernel.ids import RANDOM_BYTES, uuid7
from services.runtime.store.api import Damaged

DISPUTE_VERSION = 8
"""The UUID version of dispute ids, which no game's id has: they share a store."""
TAG = "dispute"
CLAIM_TAG = "claim"
PAY, COLLECT = "pay", "collect"
"""Due work: a ruling's chips are to move; a claim is to be collected. Keys count from 1."""

DisputeEvent: TypeAlias = (
    stored.DisputeOpened
    | stored.DisputeRuled
    | stored.RulingApproved
    | stored.RulingWithdrawn
    | stored.RulingRefused
    | stored.RulingPaid
    | stored.ClaimCalled
    | stored.ClaimCollected
    | stored.ClaimRefused
)
"""Stored as they are: a dispute has no engine and no secrets. The command is the event it asks
for."""
NAMES: dict[str, type[DisputeEvent]] = {
    f"dispute.{event.DESCRIPTOR.name}": event
    for event in (
        stored.DisputeOpened,
        stored.DisputeRuled,
        stored.RulingApproved,
        stored.RulingWithdrawn,
        stored.RulingRefused,
        stored.RulingPaid,
        stored.ClaimCalled,
        stored.ClaimCollected,
        stored.ClaimRefused,
    )
}


class Standing(IntEnum):
    """Where a dispute stands; the numbers are those of `DisputeState`, UNOPENED aside."""

    UNOPENED = 0
    OPEN = 1
    AWAITING_APPROVAL = 2
    PAYING = 3
    CLOSED = 4


@dataclass(frozen=True, slots=True)
class Dispute:
    """A dispute now; moments are Unix microseconds, 0 for not yet.

    `ruled` is the ruling that stands, `rulings` how many there were, `refused` why the wallet would
    not carry it out. `collected` is what came in of each player's claim, `called` the claim that is
    being collected, `calls` how often one was, `uncollected` why the last try at a player failed.
    """

    opened: stored.DisputeOpened | None = None
    opened_at: int = 0
    ruled: stored.DisputeRuled | None = None
    ruled_at: int = 0
    rulings: int = 0
    approved: str = ""
    refused: str = ""
    paid: stored.RulingPaid | None = None
    collected: Mapping[str, int] = field(default_factory=dict)
    called: stored.ClaimCalled | None = None
    calls: int = 0
    uncollected: Mapping[str, str] = field(default_factory=dict)

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        if self.opened is None:
            return Standing.UNOPENED
        if self.ruled is None:
            return Standing.OPEN
        if self.ruled.needs_approval and not self.approved:
            return Standing.AWAITING_APPROVAL
        return Standing.PAYING if self.ruled.moves and self.paid is None else Standing.CLOSED

    @property
    def claims(self) -> dict[str, int]:
        """What the reserve paid for each player, collected or not."""
        return {} if self.paid is None else {c.player_id: c.chips for c in self.paid.claims}

    def outstanding(self, player: str) -> int:
        """What is left of the claim on a player."""
        return self.claims.get(player, 0) - self.collected.get(player, 0)


def decide(state: Dispute, command: DisputeEvent) -> Sequence[DisputeEvent]:
    """Whether the event may follow; raises Refused."""
    if isinstance(command, stored.DisputeOpened):
        if state.opened is not None:
            raise precondition("DISPUTE_EXISTS", "this dispute has been opened")
        return (command,)
    if state.opened is None:
        raise missing()
    match command:
        case stored.DisputeRuled():
            if state.ruled is not None:
                raise precondition("DISPUTE_RULED", "this dispute has been ruled")
        case stored.RulingApproved():
            _check_awaiting(state)
            if state.ruled is not None and state.ruled.operator == command.operator:
                raise denied("SAME_OPERATOR", "who ruled cannot approve; another operator must")
        case stored.RulingWithdrawn():
            if command.operator:
                _check_awaiting(state)
            else:
                _check_paying(state)
        case stored.RulingRefused() | stored.RulingPaid():
            _check_paying(state)
        case stored.ClaimCalled():
            if state.outstanding(command.player_id) <= 0:
                raise not_found("CLAIM_NOT_FOUND", "there is no open claim on this player")
            if state.called is not None:
                raise precondition("CLAIM_CALLED", "a claim of this dispute is being collected")
        case stored.ClaimCollected() | stored.ClaimRefused():
            if state.called is None or state.called.player_id != command.player_id:
                raise precondition("CLAIM_NOT_CALLED", "no claim on this player is being collected")
        case _:
            assert_never(command)
    return (command,)


def _check_awaiting(state: Dispute) -> None:
    if state.standing is not Standing.AWAITING_APPROVAL:
        raise precondition("NOT_AWAITING_APPROVAL", "no ruling of this dispute waits for approval")


def _check_paying(state: Dispute) -> None:
    if state.standing is not Standing.PAYING:
        raise precondition("NOT_PAYING", "no chips are being moved for this dispute")


def evolve(state: Dispute, event: DisputeEvent, at: int) -> Dispute:
    """The dispute after an event."""
    match event:
        case stored.DisputeOpened():
            return replace(state, opened=event, opened_at=at)
        case stored.DisputeRuled():
            return replace(state, ruled=event, ruled_at=at, rulings=state.rulings + 1)
        case stored.RulingApproved():
            return replace(state, approved=event.operator)
        case stored.RulingWithdrawn():
            return replace(state, ruled=None, ruled_at=0, approved="", refused="")
        case stored.RulingRefused():
            return replace(state, refused=event.reason)
        case stored.RulingPaid():
            return replace(state, paid=event, refused="")
        case stored.ClaimCalled():
            return replace(state, called=event, calls=state.calls + 1)
        case stored.ClaimCollected():
            sums = {**state.collected}
            sums[event.player_id] = sums.get(event.player_id, 0) + event.chips
            without = {p: why for p, why in state.uncollected.items() if p != event.player_id}
            return replace(state, collected=sums, called=None, uncollected=without)
        case stored.ClaimRefused():
            reasons = {**state.uncollected, event.player_id: event.reason}
            return replace(state, called=None, uncollected=reasons)
        case _:
            assert_never(event)


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


def due_work(state: Dispute) -> set[tuple[str, str]]:
    """What must be done now, as (kind, key)."""
    work = set()
    if state.standing is Standing.PAYING:
        work.add((PAY, str(state.rulings)))
    if state.called is not None:
        work.add((COLLECT, str(state.calls)))
    return work


def plan(before: Dispute, after: Dispute) -> Plan:
    """Due work, and tags for lists; a dispute that is closed is ended."""
    tags: tuple[str, ...] = ()
    if before.opened is None and after.opened is not None:
        tags = (TAG, f"complainant:{after.opened.player_id}")
    if before.paid is None and after.claims:
        tags = (CLAIM_TAG, *(f"{CLAIM_TAG}:{player}" for player in after.claims))
    was, is_now = due_work(before), due_work(after)
    return Plan(
        due=tuple(Due(*work, 0) for work in sorted(is_now - was)),
        done=tuple(sorted(was - is_now)),
        tags=tags,
        ended=after.standing is Standing.CLOSED,
    )


DECIDER = Decider(
    initial=Dispute(), decide=decide, evolve=evolve, encode=encode, decode=decode, plan=plan
)


def place_id(game_id: UUID, player: str, place: int) -> UUID:
    """The id of a player's dispute about a game at one of the places he has for them, from 0."""
    return dispute_id(game_id, player, str(place))


def dispute_id(game_id: UUID, player: str, name: str) -> UUID:
    """The id of a player's dispute about a game by a name, ordered by game; in 0.1.0 the name was
    the id of the request that opened it."""
    random = digest(framed(game_id.bytes, player.encode(), name.encode()))
    alike = uuid7(game_id.int >> 80, random[:RANDOM_BYTES])
    return UUID(int=alike.int & ~(0xF << 76) | DISPUTE_VERSION << 76)


def ids_about(game_id: UUID) -> tuple[UUID, UUID]:
    """Bounds of the ids of disputes about a game: from the first to below the second.

    Disputes about games of the same millisecond lie between them as well.
    """
    moment = game_id.int >> 80
    return UUID(int=moment << 80), UUID(int=(moment + 1) << 80)


def missing() -> Refused:
    """No such dispute, as far as the caller may know."""
    return not_found("DISPUTE_NOT_FOUND", "there is no dispute of this id that you may see")
