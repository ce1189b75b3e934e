"""What tables have stored must decode for ever: the bytes of events as first written."""

from pathlib import Path
from uuid import UUID

from services.kernel.envelope import NewEvent
from services.lobby.codec import READERS, SCHEMA, decode, encode
from services.lobby.model import (
    BotLevel,
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    KickReason,
    LeftCause,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    SeatLeft,
    SeatOutcome,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    TableClosed,
    TableOpened,
    ToppedUp,
    Wish,
)
from tests.services.lobby.tables import azi_rules, durak_rules, game, player
from tests.services.lobby.test_table_laws import recorded

GOLDEN = Path(__file__).with_name("stored_events.txt")
"""Lines of name, schema and payload in hexadecimal. Lines are added, never changed."""

EVENTS: tuple[Event, ...] = (
    TableOpened(
        player(0),
        azi_rules(6, fee=5, listed=False, invite_code="abcdefgh23456722"),
    ),
    TableOpened(player(0), durak_rules(4)),
    SeatTaken(3, player(1), BotLevel.PERSON, 100),
    SeatTaken(0, UUID(int=2), BotLevel.HARD, 0),
    SeatLeft(2),
    ReadySet(1, True),
    ToppedUp(1, 2**40),
    HostChanged(player(2)),
    StartBegun(game(1), (0, 2, 3)),
    GameStarted(game(1)),
    StartAbandoned(game(1), "INSUFFICIENT_CHIPS", (2, 3)),
    StartFailed(game(1)),
    GameEnded(
        game(1), True, (SeatOutcome(0, 7, True, False), SeatOutcome(3, 0, False, True)), None
    ),
    GameEnded(game(1), False, (), player(1)),
    TableClosed(),
)
SINCE: tuple[Event, ...] = (
    TableOpened(
        player(0),
        durak_rules(
            3,
            listed=False,
            by_invitation=True,
            invite_code="abcdefgh23456722",
            no_bots=True,
            invited=(player(1), player(2)),
        ),
    ),
    SeatTaken(1, player(1), BotLevel.PERSON, 5, Wish(BotLevel.NORMAL, 20_000)),
    SeatTaken(1, player(1), BotLevel.PERSON, 5, Wish(BotLevel.EASY, 0)),
    SeatLeft(2, LeftCause.KICKED, KickReason.CONDUCT),
    SeatLeft(2, LeftCause.UNREADY),
    ReadySet(1, True, again=True),
    PlayerInvited(player(3)),
    PlayerUninvited(player(3)),
)
"""What release 0.2.0 added."""
WRITTEN = (*EVENTS[2:], *EVENTS[:2], *SINCE)
"""In the order of the lines: a table's options have grown since its first two were written."""


def test_every_event_is_written_as_it_always_was() -> None:
    """A line that no longer matches means tables that can no longer be read."""
    written = [encode(event) for event in WRITTEN]
    lines = [f"{new.name} {new.schema} {new.payload.hex()}".rstrip() for new in written]
    assert lines == GOLDEN.read_text("ascii").splitlines()[2:]
    assert {new.name for new in written} == set(READERS)


def test_every_event_is_read_as_it_was_meant() -> None:
    """From the committed bytes alone."""
    events = (*EVENTS[:2], *WRITTEN)
    for line, event in zip(GOLDEN.read_text("ascii").splitlines(), events, strict=True):
        name, schema, payload = [*line.split(" "), ""][:3]
        assert int(schema) == SCHEMA
        assert decode(recorded(NewEvent(name, SCHEMA, bytes.fromhex(payload)), 1)) == event
