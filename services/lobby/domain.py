"""The decider of a table: who may sit, when a game starts, what a game leaves behind. Pure.

A table outlives its games. A stack is a number until a game starts: chips are reserved by the
start and settled by the game's end. The buy-in bounds hold for sitting down and for topping up;
what a seat wins or loses may lie outside them, and it plays on while it can pay the entry fee.

A game starts by itself when every seat is taken and ready; or, between games, when somebody wants
another and all persons are ready who were in the last one and are still there: then whoever is
ready plays, and who sat down meanwhile and is not waits for the game after it.
"""

from collections.abc import Sequence
from typing import assert_never
from uuid import UUID

from services.kernel.errors import precondition
from services.lobby.commands import (
    Abandon,
    AddBot,
    Close,
    CloseIdle,
    Command,
    Confirm,
    EndGame,
    Fail,
    FillSeats,
    FreeSeat,
    HandOver,
    Invite,
    Kick,
    LeaveSeat,
    Open,
    PlayerCommand,
    Rematch,
    RemoveBot,
    SetReady,
    StartGame,
    TakeSeat,
    TopUp,
    Uninvite,
)
from services.lobby.conditions import (
    Moot,
    buy_in,
    free_seat,
    idle_seat,
    in_game,
    require_bots_allowed,
    require_bounds,
    require_fee,
    require_host,
    require_person,
    require_waiting,
    running,
    seat_of,
)
from services.lobby.evolve import after_events, rules_of
from services.lobby.model import (
    BotLevel,
    Event,
    HostChanged,
    KickReason,
    LeftCause,
    Phase,
    PlayerInvited,
    PlayerUninvited,
    ReadySet,
    SeatLeft,
    SeatTaken,
    Table,
    TableClosed,
    TableOpened,
    ToppedUp,
)
from services.lobby.rounds import end_game, start, start_step, started, succession
from services.lobby.seeing import kick_of, kicked, require_sight, table_not_found

INVITED_MAX = 32
"""How many players a table by invitation may name."""
KICKED_MAX = 200
"""How many players may be kept off a table."""


def decide(table: Table, command: Command) -> Sequence[Event]:
    """The events that follow.

    Raises Refused; Moot for due work that the table no longer waits for.
    """
    match command:
        case Open():
            return _open(table, command)
        case Abandon() | Fail() | Confirm():
            return start_step(table, command)
        case EndGame():
            return end_game(table, command)
        case CloseIdle() | FreeSeat() | FillSeats():
            return _due(table, command)
        case _:
            return _player(table, command)


def _open(table: Table, command: Open) -> Sequence[Event]:
    if table.phase is not Phase.UNOPENED:
        raise precondition("TABLE_EXISTS", "this table has been opened already")
    rules, stack = command.rules, buy_in(command.rules, command.stack)
    events: list[Event] = [
        TableOpened(command.host, rules),
        SeatTaken(0, command.host, BotLevel.PERSON, stack, command.wish if command.ready else None),
    ]
    if len(command.bots) >= rules.seats:
        raise precondition("TABLE_FULL", "more bots than free seats")
    if command.bots or command.wish:
        require_bots_allowed(rules)
    for seat, bot in enumerate(command.bots, 1):
        events.append(SeatTaken(seat, bot.player, bot.level, rules.buy_in_min))
    if command.ready:
        events.append(ReadySet(0, True))
    return started(table, events, command.game)


def _player(table: Table, command: PlayerCommand) -> Sequence[Event]:
    if command.player is None:
        if table.rules is None:
            raise table_not_found()
    else:
        require_sight(table, command.player, command.code if isinstance(command, TakeSeat) else "")
    if table.phase is Phase.CLOSED:
        raise precondition("TABLE_CLOSED", "the table is closed")
    match command:
        case TakeSeat():
            return _take_seat(table, command)
        case LeaveSeat():
            left = _leave(table, idle_seat(table, command.player))
            return started(table, left, command.game)
        case SetReady() | Rematch():
            return _get_ready(table, command)
        case TopUp():
            return _top_up(table, command)
        case _:
            if command.player is not None:
                require_host(table, command.player)
            return _host(table, command)


def _host(
    table: Table,
    command: AddBot | RemoveBot | Kick | Invite | Uninvite | HandOver | StartGame | Close,
) -> Sequence[Event]:
    match command:
        case AddBot():
            return _add_bot(table, command)
        case RemoveBot():
            return _remove_bot(table, command.seat)
        case Kick():
            return _kick(table, command)
        case Invite():
            return _invite(table, command.whom)
        case Uninvite():
            return _uninvite(table, command.whom)
        case HandOver():
            return _hand_over(table, command.whom)
        case StartGame():
            return start(table, command.game)
        case Close():
            require_waiting(table)
            return (TableClosed(),)
        case _:
            assert_never(command)


def _take_seat(table: Table, command: TakeSeat) -> Sequence[Event]:
    if table.seat_of(command.player) is not None:
        raise precondition("ALREADY_SEATED", "the player sits at this table already")
    if (reason := kick_of(table, command.player)) is not KickReason.NONE:
        raise kicked(reason)
    seat = free_seat(table, command.seat)
    rules = rules_of(table)
    stack = buy_in(rules, command.stack)
    wish = command.wish if command.ready and not rules.no_bots else None
    events: list[Event] = [SeatTaken(seat, command.player, BotLevel.PERSON, stack, wish)]
    if command.ready:
        require_waiting(table)
        events.append(ReadySet(seat, True))
    return started(table, events, command.game)


def _add_bot(table: Table, command: AddBot) -> Sequence[Event]:
    rules = rules_of(table)
    require_bots_allowed(rules)
    seat = free_seat(table, command.seat)
    stack = buy_in(rules, command.stack)
    taken = SeatTaken(seat, command.bot.player, command.bot.level, stack)
    return started(table, (taken,), command.game)


def _remove_bot(table: Table, number: int) -> tuple[Event, ...]:
    seat = table.seats[number] if 0 <= number < len(table.seats) else None
    if seat is None or seat.bot is BotLevel.PERSON:
        raise precondition("NOT_A_BOT", "no bot sits there", seat=str(number))
    if in_game(table, number):
        raise running()
    return (SeatLeft(number),)


def _leave(table: Table, seat: int, cause: LeftCause = LeftCause.LEFT) -> tuple[Event, ...]:
    left = SeatLeft(seat, cause)
    return (left, *succession(after_events(table, (left,)), seat))


def _kick(table: Table, command: Kick) -> Sequence[Event]:
    require_waiting(table)
    number, seat = seat_of(table, command.whom)
    if command.whom == command.player:
        raise precondition("OWN_SEAT", "a host leaves his own seat by standing up")
    require_person(seat)
    if len(table.kicked) >= KICKED_MAX:
        raise precondition(
            "TOO_MANY_KICKED",
            "let one of those come back first",
            limit="kicked",
            most=str(KICKED_MAX),
        )
    left = SeatLeft(number, LeftCause.KICKED, command.reason)
    return started(table, (left,), command.game)


def _invite(table: Table, whom: UUID) -> Sequence[Event]:
    require_waiting(table)
    rules = rules_of(table)
    if any(each.player == whom for each in table.kicked):
        pass
    elif not rules.by_invitation:
        raise precondition("NOT_BY_INVITATION", "nobody needs an invitation to this table")
    elif whom in rules.invited:
        raise precondition("ALREADY_INVITED", "the player is invited already")
    if rules.by_invitation and len(rules.invited) >= INVITED_MAX:
        raise precondition(
            "TOO_MANY_INVITED", "take one back first", limit="invited", most=str(INVITED_MAX)
        )
    return (PlayerInvited(whom),)


def _uninvite(table: Table, whom: UUID) -> Sequence[Event]:
    require_waiting(table)
    if whom not in rules_of(table).invited:
        raise precondition("NOT_INVITED", "the player is not invited")
    if table.seat_of(whom) is not None:
        raise precondition("SEATED", "the player sits at the table")
    return (PlayerUninvited(whom),)


def _hand_over(table: Table, whom: UUID) -> Sequence[Event]:
    _, seat = seat_of(table, whom)
    require_person(seat)
    if whom == table.host:
        raise precondition("ALREADY_HOST", "the player is the host")
    return (HostChanged(whom),)


def _get_ready(table: Table, command: SetReady | Rematch) -> Sequence[Event]:
    number, seat = seat_of(table, command.player)
    require_waiting(table)
    if isinstance(command, Rematch):
        if not seat.played:
            raise precondition("NO_LAST_GAME", "the player was not in a last game here")
        ready = again = True
    else:
        ready, again = command.ready, command.ready and seat.again
    if ready:
        require_fee(table, seat)
    return started(table, (ReadySet(number, ready, again),), command.game)


def _due(table: Table, command: CloseIdle | FreeSeat | FillSeats) -> Sequence[Event]:
    """What follows when a time is over; raises Moot where the table has moved on."""
    if table.phase is not Phase.WAITING:
        raise Moot
    if isinstance(command, CloseIdle):
        if table.version != command.version:
            raise Moot
        return (TableClosed(),)
    seat = table.seats[command.seat] if command.seat < len(table.seats) else None
    if seat is None or seat.since > command.version or seat.bot is not BotLevel.PERSON:
        raise Moot
    match command:
        case FreeSeat():
            if seat.ready:
                raise Moot
            left = _leave(table, command.seat, LeftCause.UNREADY)
            return started(table, left, command.game)
        case FillSeats():
            if seat.wish is None or not table.free():
                raise Moot
            stack = rules_of(table).buy_in_min
            taken = [
                SeatTaken(number, bot.player, bot.level, stack)
                for number, bot in zip(table.free(), command.bots, strict=False)
                if table.seat_of(bot.player) is None
            ]
            if not taken:
                raise Moot
            return started(table, taken, command.game)
        case _:
            assert_never(command)


def _top_up(table: Table, command: TopUp) -> tuple[Event, ...]:
    number = idle_seat(table, command.player)
    _, seat = seat_of(table, command.player)
    rules = rules_of(table)
    if not rules.entry_fee:
        raise precondition("NO_STACKS", "no chips are played for at this table")
    require_bounds(rules, seat.stack + command.chips)
    return (ToppedUp(number, command.chips),)
