"""When a game of a table starts, and what it leaves there. Pure."""

from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

from services.kernel.errors import invalid, precondition
from services.lobby.commands import Abandon, Confirm, EndGame, Fail, Line
from services.lobby.conditions import Moot, require_waiting
from services.lobby.evolve import after_events, rules_of
from services.lobby.model import (
    BotLevel,
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    Phase,
    SeatLeft,
    SeatOutcome,
    StartAbandoned,
    StartBegun,
    StartFailed,
    Table,
    TableClosed,
    ToppedUp,
)


def start(table: Table, game: UUID) -> tuple[Event, ...]:
    """The start that the host asks for; raises Refused."""
    require_waiting(table)
    taken = table.taken()
    low = rules_of(table).seats_min
    if len(taken) < low:
        raise precondition("TOO_FEW_PLAYERS", f"at least {low} seats must be taken", low=str(low))
    unready = [str(number) for number, seat in taken if not seat.ready]
    if unready:
        raise precondition("NOT_READY", "not everybody is ready", seats=",".join(unready))
    return (StartBegun(game, tuple(number for number, _ in taken)),)


def started(table: Table, events: Sequence[Event], game: UUID) -> Sequence[Event]:
    """The events, and the start that follows from them by itself."""
    seats = _starters(after_events(table, events))
    return (*events, StartBegun(game, seats)) if seats else events


def _starters(table: Table) -> tuple[int, ...]:
    """The seats with which a game starts by itself; none while it waits for somebody."""
    if table.phase is not Phase.WAITING:
        return ()
    ready = tuple(number for number, seat in table.taken() if seat.ready)
    people = [seat for _, seat in table.people()]
    agreed = any(seat.again for seat in people) and all(s.ready for s in people if s.played)
    full = len(ready) == len(table.seats)
    return ready if full or (agreed and len(ready) >= rules_of(table).seats_min) else ()


def start_step(table: Table, command: Abandon | Fail | Confirm) -> tuple[Event, ...]:
    """What a start under way has come to; raises Moot."""
    if table.phase is not Phase.STARTING or table.game != command.game:
        raise Moot
    match command:
        case Confirm():
            return (GameStarted(command.game),)
        case Fail():
            if not table.abandoned:
                raise Moot
            return (StartFailed(command.game),)
        case Abandon():
            if table.abandoned:
                raise Moot
            people = tuple(n for n, _ in table.people() if n in table.playing)
            at_fault = tuple(n for n in command.unready if n in people)
            return (StartAbandoned(command.game, command.reason, at_fault or people),)
        case _:
            assert_never(command)


def end_game(table: Table, command: EndGame) -> tuple[Event, ...]:
    """A game of the table has ended; raises Refused for another game, or other players."""
    running = table.phase in {Phase.STARTING, Phase.PLAYING}
    if not running or table.game != command.game:
        raise precondition("NOT_THE_TABLES_GAME", "the table is not playing this game")
    events: list[Event] = []
    if table.phase is Phase.STARTING:
        events.append(GameStarted(command.game))
    outcomes = _outcomes(table, command.lines) if command.finished else ()
    winner = command.winner if command.finished else None
    events.append(GameEnded(command.game, command.finished, outcomes, winner))
    events += _bots_refilled(after_events(table, events))
    gone = [n for n in table.playing if (s := table.seats[n]) and s.player in command.left]
    events += [SeatLeft(n) for n in gone]
    if gone:
        events += succession(after_events(table, events), gone[0])
    return tuple(events)


def _outcomes(table: Table, lines: Sequence[Line]) -> tuple[SeatOutcome, ...]:
    seated = [(n, s.player) for n in table.playing if (s := table.seats[n])]
    if [player for _, player in seated] != [line.player for line in lines]:
        raise invalid("result.seats", "must name the game's players in order")
    return tuple(
        SeatOutcome(number, line.stack, line.first, line.durak)
        for (number, _), line in zip(seated, lines, strict=True)
    )


def _bots_refilled(table: Table) -> list[Event]:
    """A bot that cannot pay the next fee gets the least buy-in again."""
    rules = rules_of(table)
    return [
        ToppedUp(number, rules.buy_in_min - seat.stack)
        for number, seat in table.taken()
        if seat.bot is not BotLevel.PERSON and seat.stack < rules.entry_fee
    ]


def succession(table: Table, gone: int) -> tuple[Event, ...]:
    """Who is host when a seat was left: the next person clockwise; without one the table closes."""
    if table.host is not None and table.seat_of(table.host) is not None:
        return ()
    people = table.people()
    if not people:
        return (TableClosed(),)
    _, heir = min(people, key=lambda taken: (taken[0] - gone) % len(table.seats))
    return (HostChanged(heir.player),)
