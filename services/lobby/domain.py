"""The decider of a table: who may sit, when a game starts, what a game leaves behind. Pure.

A table outlives its games. A stack is a number until a game starts: chips are reserved by the
start and settled by the game's end. The buy-in bounds hold for sitting down and for topping up;
what a seat wins or loses may lie outside them, and it plays on while it can pay the entry fee.
"""

from collections.abc import Sequence
from hmac import compare_digest
from typing import assert_never
from uuid import UUID

from services.kernel.errors import Refused, denied, invalid, not_found, precondition
from services.lobby.commands import (
    Abandon,
    AddBot,
    Close,
    CloseIdle,
    Command,
    Confirm,
    EndGame,
    Fail,
    LeaveSeat,
    Line,
    Open,
    PlayerCommand,
    RemoveBot,
    SetReady,
    StartGame,
    TakeSeat,
    TopUp,
)
from services.lobby.evolve import STACK_BELOW_ENTRY_FEE, after_events, rules_of
from services.lobby.model import (
    BotLevel,
    Event,
    GameEnded,
    GameStarted,
    HostChanged,
    Phase,
    ReadySet,
    Rules,
    Seat,
    SeatLeft,
    SeatOutcome,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    Table,
    TableClosed,
    TableOpened,
    ToppedUp,
)


class Moot(Exception):
    """Work that is not needed any more: the table has moved on."""


def decide(table: Table, command: Command) -> Sequence[Event]:
    """The events that follow.

    Raises Refused; Moot for due work that the table no longer waits for.
    """
    match command:
        case Open():
            return _open(table, command)
        case Abandon() | Fail() | Confirm():
            return _start_step(table, command)
        case EndGame():
            return _end_game(table, command)
        case CloseIdle():
            if table.phase is not Phase.WAITING or table.version != command.version:
                raise Moot
            return (TableClosed(),)
        case _:
            return _player(table, command)


def may_see(table: Table, player: UUID, code: str) -> bool:
    """Whether a player may know of this table: it is listed, he sits there, or has its code."""
    if table.rules is None:
        return False
    if table.rules.listed or table.seat_of(player) is not None:
        return True
    return compare_digest(table.rules.invite_code.encode(), code.encode())


def table_not_found() -> Refused:
    """There is no such table, or the caller may not know of it."""
    return not_found("TABLE_NOT_FOUND", "there is no such table, or it needs its invite code")


def _open(table: Table, command: Open) -> tuple[Event, ...]:
    if table.phase is not Phase.UNOPENED:
        raise precondition("TABLE_EXISTS", "this table has been opened already")
    rules = command.rules
    events: list[Event] = [
        TableOpened(command.host, rules),
        SeatTaken(0, command.host, BotLevel.PERSON, _buy_in(rules, command.stack)),
    ]
    if len(command.bots) >= rules.seats:
        raise precondition("TABLE_FULL", "more bots than free seats")
    for seat, bot in enumerate(command.bots, 1):
        events.append(SeatTaken(seat, bot.player, bot.level, rules.buy_in_min))
    if command.ready:
        events.append(ReadySet(0, True))
    return (*events, *_when_full(after_events(table, events), command.game))


def _player(table: Table, command: PlayerCommand) -> tuple[Event, ...]:
    code = command.code if isinstance(command, TakeSeat) else ""
    if table.rules is None or not (command.player is None or may_see(table, command.player, code)):
        raise table_not_found()
    if table.phase is Phase.CLOSED:
        raise precondition("TABLE_CLOSED", "the table is closed")
    match command:
        case TakeSeat():
            return _take_seat(table, command)
        case LeaveSeat():
            return _leave(table, _idle_seat(table, command.player))
        case AddBot():
            _require_host(table, command.player)
            return _add_bot(table, command)
        case RemoveBot():
            _require_host(table, command.player)
            return _remove_bot(table, command.seat)
        case SetReady():
            return _set_ready(table, command)
        case StartGame():
            _require_host(table, command.player)
            return _start(table, command.game)
        case TopUp():
            return _top_up(table, command)
        case Close():
            if command.player is not None:
                _require_host(table, command.player)
            _require_waiting(table)
            return (TableClosed(),)
        case _:
            assert_never(command)


def _take_seat(table: Table, command: TakeSeat) -> tuple[Event, ...]:
    if table.seat_of(command.player) is not None:
        raise precondition("ALREADY_SEATED", "the player sits at this table already")
    seat = _free_seat(table, command.seat)
    stack = _buy_in(rules_of(table), command.stack)
    events: list[Event] = [SeatTaken(seat, command.player, BotLevel.PERSON, stack)]
    if command.ready:
        _require_waiting(table)
        events.append(ReadySet(seat, True))
    return (*events, *_when_full(after_events(table, events), command.game))


def _add_bot(table: Table, command: AddBot) -> tuple[Event, ...]:
    seat = _free_seat(table, command.seat)
    stack = _buy_in(rules_of(table), command.stack)
    taken = SeatTaken(seat, command.bot.player, command.bot.level, stack)
    return (taken, *_when_full(after_events(table, (taken,)), command.game))


def _remove_bot(table: Table, number: int) -> tuple[Event, ...]:
    seat = table.seats[number] if 0 <= number < len(table.seats) else None
    if seat is None or seat.bot is BotLevel.PERSON:
        raise precondition("NOT_A_BOT", "no bot sits there", seat=str(number))
    if _in_game(table, number):
        raise _running()
    return (SeatLeft(number),)


def _leave(table: Table, seat: int) -> tuple[Event, ...]:
    left = SeatLeft(seat)
    return (left, *_succession(after_events(table, (left,)), seat))


def _succession(table: Table, gone: int) -> tuple[Event, ...]:
    """Who is host when a seat was left: the next person clockwise; without one the table closes."""
    if table.host is not None and table.seat_of(table.host) is not None:
        return ()
    people = table.people()
    if not people:
        return (TableClosed(),)
    _, heir = min(people, key=lambda taken: (taken[0] - gone) % len(table.seats))
    return (HostChanged(heir.player),)


def _set_ready(table: Table, command: SetReady) -> tuple[Event, ...]:
    number, seat = _own_seat(table, command.player)
    _require_waiting(table)
    if command.ready:
        _require_fee(table, seat)
    event = ReadySet(number, command.ready)
    return (event, *_when_full(after_events(table, (event,)), command.game))


def _start(table: Table, game: UUID) -> tuple[Event, ...]:
    _require_waiting(table)
    taken = table.taken()
    low = rules_of(table).seats_min
    if len(taken) < low:
        raise precondition("TOO_FEW_PLAYERS", f"at least {low} seats must be taken", low=str(low))
    unready = [str(number) for number, seat in taken if not seat.ready]
    if unready:
        raise precondition("NOT_READY", "not everybody is ready", seats=",".join(unready))
    return (StartBegun(game, tuple(number for number, _ in taken)),)


def _when_full(table: Table, game: UUID) -> tuple[Event, ...]:
    """The start that follows by itself when every seat is taken and ready."""
    if table.phase is not Phase.WAITING or not all(s and s.ready for s in table.seats):
        return ()
    return (StartBegun(game, tuple(range(len(table.seats)))),)


def _top_up(table: Table, command: TopUp) -> tuple[Event, ...]:
    number = _idle_seat(table, command.player)
    _, seat = _own_seat(table, command.player)
    rules = rules_of(table)
    if not rules.entry_fee:
        raise precondition("NO_STACKS", "no chips are played for at this table")
    _require_bounds(rules, seat.stack + command.chips)
    return (ToppedUp(number, command.chips),)


def _start_step(table: Table, command: Abandon | Fail | Confirm) -> tuple[Event, ...]:
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


def _end_game(table: Table, command: EndGame) -> tuple[Event, ...]:
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
        events += _succession(after_events(table, events), gone[0])
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


def _own_seat(table: Table, player: UUID) -> tuple[int, Seat]:
    number = table.seat_of(player)
    seat = table.seats[number] if number is not None else None
    if number is None or seat is None:
        raise precondition("NOT_SEATED", "the player does not sit at this table")
    return number, seat


def _idle_seat(table: Table, player: UUID) -> int:
    """The player's seat, which must not be in a running game."""
    number, _ = _own_seat(table, player)
    if _in_game(table, number):
        raise _running()
    return number


def _in_game(table: Table, number: int) -> bool:
    return table.phase in {Phase.STARTING, Phase.PLAYING} and number in table.playing


def _free_seat(table: Table, wanted: int | None) -> int:
    free = table.free()
    if wanted is None:
        if not free:
            raise precondition("TABLE_FULL", "every seat is taken")
        return free[0]
    if not 0 <= wanted < len(table.seats):
        raise invalid("seat", f"must be 0 to {len(table.seats) - 1}")
    if wanted not in free:
        raise precondition("SEAT_TAKEN", "the seat is taken", seat=str(wanted))
    return wanted


def _buy_in(rules: Rules, chips: int) -> int:
    stack = chips or rules.buy_in_min
    _require_bounds(rules, stack)
    return stack


def _require_bounds(rules: Rules, stack: int) -> None:
    low, high = rules.buy_in_min, rules.buy_in_max
    if not low <= stack <= high:
        raise precondition(
            "BUY_IN_OUT_OF_BOUNDS",
            f"a stack must be {low} to {high} chips",
            low=str(low),
            high=str(high),
        )


def _require_fee(table: Table, seat: Seat) -> None:
    fee = rules_of(table).entry_fee
    if seat.stack < fee:
        raise precondition(
            STACK_BELOW_ENTRY_FEE,
            "top up to pay the entry fee",
            fee=str(fee),
            stack=str(seat.stack),
        )


def _require_host(table: Table, player: UUID) -> None:
    if table.host != player:
        raise denied("NOT_HOST", "only the host may do this")


def _require_waiting(table: Table) -> None:
    if table.phase in {Phase.STARTING, Phase.PLAYING}:
        raise _running()


def _running() -> Refused:
    return precondition("GAME_RUNNING", "a game is running; between games this is possible")
