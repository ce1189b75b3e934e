"""Who may say something at a table, and who may read what is said there. Pure."""

from uuid import UUID

from services.kernel.errors import Refused, denied, precondition
from services.lobby.evolve import rules_of
from services.lobby.model import Phase, Table


def require_talker(table: Table, player: UUID, *, silenced: bool) -> None:
    """Raise Refused unless a player who may see the table may talk there: TABLE_CLOSED, TALK_OFF,
    NOT_SEATED, SILENCED."""
    if table.phase is Phase.CLOSED:
        raise table_closed()
    _require_talk(table)
    if table.seat_of(player) is None:
        raise _not_seated()
    if silenced:
        raise precondition("SILENCED", "the table's host lets this player say nothing")


def require_listener(table: Table, player: UUID) -> None:
    """Raise Refused TALK_OFF, NOT_SEATED unless a player who may see the table may read its talk.

    Who sits there may; others where they see the game as it is played. Who watches with a delay
    does not, for he could be told what happens now.
    """
    _require_talk(table)
    rules = rules_of(table)
    live = rules.spectators and not rules.spectator_delay
    if table.seat_of(player) is None and not live:
        raise _not_seated()


def require_silencer(table: Table, host: UUID, player: UUID, *, silenced: bool) -> None:
    """Raise Refused TABLE_CLOSED, NOT_HOST, NOT_SEATED unless `host` may silence `player` there;
    one who is `silenced` may have left."""
    require_host(table, host)
    if host == player or (table.seat_of(player) is None and not silenced):
        raise precondition("NOT_SEATED", "another player who sits at the table can be silenced")


def require_host(table: Table, player: UUID) -> None:
    """Raise Refused TABLE_CLOSED, NOT_HOST unless the player is host of an open table."""
    if table.phase is Phase.CLOSED:
        raise table_closed()
    if table.host != player:
        raise denied("NOT_HOST", "only the host may do this")


def _require_talk(table: Table) -> None:
    if rules_of(table).no_chat:
        raise precondition("TALK_OFF", "nobody talks at this table")


def table_closed() -> Refused:
    """Nothing happens there any more."""
    return precondition("TABLE_CLOSED", "the table is closed")


def _not_seated() -> Refused:
    return denied("NOT_SEATED", "for those who sit at the table")
