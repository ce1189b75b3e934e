"""Disputes as they are shown: what each viewer may know of one."""

from collections.abc import Iterable, Mapping

from kozyr.game.v1 import audit_pb2

from services.game.disputes import Dispute, Standing, missing
from services.runtime.auth import Caller, Role
from services.runtime.moments import timestamp


def digests_of(state: Dispute) -> list[bytes]:
    """The digests of a dispute's texts that are kept apart."""
    found = []
    if state.opened is not None and state.opened.HasField("complaint_digest"):
        found.append(state.opened.complaint_digest)
    if state.ruled is not None and state.ruled.HasField("explanation_digest"):
        found.append(state.ruled.explanation_digest)
    return found


def message(
    dispute: str, state: Dispute, texts: Mapping[bytes, str], viewer: Caller
) -> audit_pb2.Dispute:
    """A dispute on the wire, built from what the viewer may know.

    The complaint is for its author and operators; the ruling, once it stands, for all players of
    the game; who ruled and what holds it up for operators.
    """
    opened = state.opened
    if opened is None:
        raise missing()
    operator = viewer.role is Role.OPERATOR
    shown = audit_pb2.Dispute(
        dispute_id=dispute,
        game_id=opened.game_id,
        version=opened.version,
        player_id=opened.player_id,
        opened_time=timestamp(state.opened_at),
        state=audit_pb2.DisputeState.ValueType(state.standing),
    )
    if operator or viewer.subject == opened.player_id:
        if opened.HasField("complaint_digest"):
            words = texts.get(opened.complaint_digest)
            shown.complaint, shown.complaint_erased = words or "", words is None
        else:
            shown.complaint = opened.complaint
    if state.standing is Standing.AWAITING_APPROVAL and not operator:
        shown.state = audit_pb2.DISPUTE_STATE_OPEN
    elif state.ruled is not None:
        _show_ruling(shown, state, texts)
        shown.claims.extend(
            claim
            for claim in claims_of(dispute, state)
            if operator or claim.player_id == viewer.subject
        )
    if operator and state.ruled is not None:
        shown.ruled_by, shown.approved_by = state.ruled.operator, state.approved
        shown.refused = state.refused
    elif not operator:
        for claim in shown.claims:
            claim.ClearField("refused")
    return shown


def _show_ruling(shown: audit_pb2.Dispute, state: Dispute, texts: Mapping[bytes, str]) -> None:
    ruled = state.ruled
    if ruled is None:
        return
    shown.ruling = audit_pb2.RULING_UPHELD if ruled.upheld else audit_pb2.RULING_DISMISSED
    shown.remedy = ruled.remedy
    shown.ruled_time.CopyFrom(timestamp(state.ruled_at))
    for move in ruled.moves:
        shown.moves.add(player_id=move.player_id, chips=move.chips)
    shown.transfer_id = "" if state.paid is None else state.paid.transfer_id
    if ruled.HasField("explanation_digest"):
        words = texts.get(ruled.explanation_digest)
        shown.explanation, shown.explanation_erased = words or "", words is None
    else:
        shown.explanation = ruled.explanation


def claims_of(dispute: str, state: Dispute) -> Iterable[audit_pb2.Claim]:
    """What the reserve paid for players by a dispute's ruling."""
    for player, chips in state.claims.items():
        yield audit_pb2.Claim(
            dispute_id=dispute,
            game_id=state.opened.game_id if state.opened else "",
            player_id=player,
            chips=chips,
            collected=state.collected.get(player, 0),
            refused=state.uncollected.get(player, ""),
        )
