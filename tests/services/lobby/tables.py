"""Tables for tests of the decider: players by number, rules, and given/when/then."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from kozyr.game.v1.variant_pb2 import GameOptions

from services.kernel.errors import Refused
from services.kernel.seats import AbsentPolicy
from services.lobby.commands import (
    Bot,
    Command,
    Open,
    TakeSeat,
)
from services.lobby.domain import decide
from services.lobby.evolve import evolve
from services.lobby.model import (
    BotLevel,
    Event,
    Rules,
    SeatTaken,
    Table,
    Variant,
)
from services.lobby.variants import ENGINES, default_options, read_game_options

AT = 1_700_000_000_000_000


def player(number: int) -> UUID:
    """A player's id."""
    return UUID(int=0x1000 + number)


def bot(number: int, level: BotLevel = BotLevel.EASY) -> Bot:
    """A bot to sit down."""
    return Bot(UUID(int=0xB000 + number), level)


def game(number: int) -> UUID:
    """A game's id."""
    return UUID(int=0x6A3E_0000 + number)


def durak_rules(seats: int = 2, **changes: object) -> Rules:
    """A Durak table's rules: no chips move."""
    given: dict[str, object] = {
        "variant": Variant.DURAK,
        "options": default_options(Variant.DURAK),
        "seats": seats,
        "seats_min": ENGINES[Variant.DURAK].SEATS.start,
        "turn_ms": 30_000,
        "listed": True,
        "invite_code": "",
        "spectators": False,
        "absent": AbsentPolicy.EXPIRE,
        "entry_fee": 0,
        "buy_in_min": 0,
        "buy_in_max": 0,
        "series": True,
    }
    return Rules(**(given | changes))  # type: ignore[arg-type]


def azi_rules(seats: int = 2, fee: int = 10, **changes: object) -> Rules:
    """An Azi table's rules: stacks of 20 to 100 entry fees."""
    asked = GameOptions()
    asked.azi.entry_fee = fee
    given: dict[str, object] = {
        "variant": Variant.AZI,
        "options": read_game_options(asked),
        "entry_fee": fee,
        "buy_in_min": 20 * fee,
        "buy_in_max": 100 * fee,
        "series": False,
    }
    return durak_rules(seats, **(given | changes))


def opened(rules: Rules, *others: int, stack: int = 0) -> list[Event]:
    """Player 0 has opened the table, and others sit on the next seats."""
    events = list(decide(Table(), Open(player(0), rules, stack, game(0))))
    for seat, number in enumerate(others, 1):
        events.append(SeatTaken(seat, player(number), BotLevel.PERSON, rules.buy_in_min))
    return events


def given(events: Sequence[Event]) -> Table:
    """The table after these events."""
    table = Table()
    for event in events:
        table = evolve(table, event, AT)
    return table


def when(table: Table, command: Command) -> tuple[list[Event], Table]:
    """The events that follow from a command, and the table after them."""
    events = list(decide(table, command))
    for event in events:
        table = evolve(table, event, AT)
    return events, table


def refusal(table: Table, command: Command) -> str:
    """The reason a command is refused for."""
    with pytest.raises(Refused) as caught:
        decide(table, command)
    return caught.value.reason


G = game(1)
"""The game that most tests start."""


def sit(number: int, seat: int | None = None, stack: int = 0, code: str = "") -> TakeSeat:
    """A player sits down."""
    return TakeSeat(player(number), seat, stack, code, G)
