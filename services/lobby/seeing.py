"""Who may know of a table. Pure.

For whoever may not, a table is not there: he is answered as for one that was never opened, whatever
he asks. Who was sent away from a table that is not public is told so, for he has sat there.
"""

from hmac import compare_digest
from uuid import UUID

from services.kernel.errors import Refused, denied, not_found
from services.lobby.model import KickReason, Table


def may_see(table: Table, player: UUID, code: str = "") -> bool:
    """Whether a player may know of this table: it is public, he sits there, he has the code of a
    private one, or is invited; and was not sent away from one that is not public."""
    rules = table.rules
    if rules is None:
        return False
    if rules.listed or table.seat_of(player) is not None:
        return True
    if kick_of(table, player) is not KickReason.NONE:
        return False
    if rules.by_invitation:
        return player in rules.invited
    return compare_digest(rules.invite_code.encode(), code.encode())


def require_sight(table: Table, player: UUID, code: str = "") -> None:
    """Raise Refused TABLE_NOT_FOUND for a player who may not know of this table, KICKED for one who
    was sent away from it."""
    if may_see(table, player, code):
        return
    reason = kick_of(table, player)
    raise table_not_found() if reason is KickReason.NONE else kicked(reason)


def kick_of(table: Table, player: UUID) -> KickReason:
    """Why the host sent this player away, if he did."""
    reasons = (each.reason for each in table.kicked if each.player == player)
    return next(reasons, KickReason.NONE)


def kicked(reason: KickReason) -> Refused:
    """The player was sent away, and is told why."""
    refused = denied("KICKED", "the host has sent the player away from this table")
    refused.facts["kick_reason"] = reason.name
    return refused


def table_not_found() -> Refused:
    """There is no such table, or the caller may not know of it."""
    return not_found("TABLE_NOT_FOUND", "there is no such table, or it needs its invite code")
