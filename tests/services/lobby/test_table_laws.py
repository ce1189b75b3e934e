"""Laws of tables over random play: whatever is asked, in whatever order."""

import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from services.kernel.envelope import Due, NewEvent, Recorded
from services.kernel.errors import Refused
from services.lobby.codec import SCHEMA, decode, encode
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
    Line,
    Open,
    Rematch,
    RemoveBot,
    SetReady,
    StartGame,
    TakeSeat,
    TopUp,
    Uninvite,
)
from services.lobby.conditions import Moot
from services.lobby.domain import INVITED_MAX, decide
from services.lobby.evolve import FILL, IDLE, START, UNREADY, Limits, evolve, plan
from services.lobby.model import (
    BotLevel,
    Event,
    HostChanged,
    KickReason,
    LeftCause,
    Phase,
    Rules,
    Seat,
    SeatLeft,
    SeatTaken,
    StartBegun,
    Table,
    Wish,
)
from services.lobby.seeing import kick_of, may_see
from services.runtime.store.api import Damaged
from tests.services.lobby.tables import AT, azi_rules, bot, durak_rules, game, player

STEPS = 400
PLAYERS = 5
ACTIVE = {Phase.STARTING, Phase.PLAYING}


def recorded(new: NewEvent, version: int) -> Recorded:
    """The event as a store gives it back."""
    return Recorded(
        stream=UUID(int=1),
        version=version,
        name=new.name,
        schema=new.schema,
        payload=new.payload,
        metadata=b"",
        request_id=None,
        body_hash=None,
        recorded_at=AT,
        secret_digest=None,
        salt=None,
        secret=None,
        hash=bytes(32),
    )


def any_command(chance: random.Random, table: Table, number: int) -> Command:
    """Something somebody might ask, sensible more often than not."""
    who, whom = (player(chance.randrange(PLAYERS)) for _ in range(2))
    host = table.host if table.host and chance.random() < 0.8 else who
    late = table.version - chance.choice([0, 0, 0, 3])
    wish = chance.choice([None, None, Wish(BotLevel.EASY, 5_000)])
    seat = chance.choice([None, *range(-1, 5)])
    present = table.game or game(0)
    ended = [Line(s.player, chance.randrange(900)) for n in table.playing if (s := table.seats[n])]
    gone = frozenset(line.player for line in ended if chance.random() < 0.2)
    finished = EndGame(present, True, tuple(ended), who, gone)
    choices: list[tuple[float, Command]] = [
        (
            4,
            TakeSeat(
                who,
                seat,
                chance.choice([0, 0, 150, 900]),
                chance.choice(["", "code"]),
                game(number),
                chance.random() < 0.3,
                wish,
            ),
        ),
        (1, LeaveSeat(who, game(number))),
        (4, Rematch(who, game(number))),
        (0.7, Kick(host, whom, KickReason.ABSENT, game(number))),
        (0.7, Invite(host, whom)),
        (0.3, Uninvite(host, whom)),
        (0.5, HandOver(host, whom)),
        (0.5, FreeSeat(chance.randrange(4), late, game(number))),
        (0.5, FillSeats(chance.randrange(4), late, tuple(map(bot, range(9))), game(number))),
        (1, AddBot(who, bot(number), seat, 0, game(number))),
        (1, RemoveBot(who, seat or 0)),
        (8, SetReady(who, chance.random() < 0.9, game(number))),
        (3, StartGame(who, game(number))),
        (1, TopUp(who, chance.choice([1, 100, 500]))),
        (0.02, Close(who)),
        (2, Confirm(present)),
        (1, Abandon(present, "SOME_REASON", (chance.randrange(4),))),
        (2, Fail(present)),
        (2, finished),
        (1, EndGame(present, False, (), None, gone)),
        (1, CloseIdle(table.version - chance.choice([1, 1, 1, 5]))),
    ]
    return chance.choices([c for _, c in choices], [w for w, _ in choices])[0]


def check(table: Table) -> None:
    """What holds at every moment of a table's life."""
    assert table.rules is not None
    seated = [seat.player for _, seat in table.taken()]
    assert len(seated) == len(set(seated))
    assert len(table.seats) == table.rules.seats
    assert all(seat.stack >= 0 for _, seat in table.taken())
    if table.phase is Phase.CLOSED:
        return
    assert table.host in [seat.player for _, seat in table.people()]
    assert bool(table.abandoned) <= (table.phase is Phase.STARTING)
    people = [seat.player for _, seat in table.people()]
    kept_off = [each.player for each in table.kicked]
    assert len(set(kept_off)) == len(kept_off)
    assert not set(kept_off) & {*people, *table.rules.invited}
    assert len(set(table.rules.invited)) == len(table.rules.invited) <= INVITED_MAX
    assert table.rules.by_invitation or not table.rules.invited
    assert len(people) == len(table.taken()) or not table.rules.no_bots
    for n in range(PLAYERS):
        seen = table.rules.listed or player(n) in {*people, *table.rules.invited}
        assert may_see(table, player(n)) == seen
    assert all(seat.ready for seat in map(seat_of(table), people) if seat.again or seat.wish)
    if table.phase in ACTIVE:
        assert len(table.playing) >= table.rules.seats_min
        assert list(table.playing) == sorted(table.playing)
        playing = [seat for n, seat in table.taken() if n in table.playing]
        assert len(playing) == len(table.playing)
        if table.phase is Phase.STARTING and not table.abandoned:
            assert all(s.ready and s.stack >= table.rules.entry_fee for s in playing)
    else:
        assert table.playing == ()
        assert not all(seat and seat.ready for seat in table.seats)
        assert all(seat.ready for _, seat in table.taken() if seat.bot is not BotLevel.PERSON)


def expect_plan(before: Table, after: Table, due: set[tuple[str, str]]) -> None:
    """A start is due exactly while one is under way, whatever the table went through.

    A closing is due exactly while the table waits, and put off by whatever happens there; so is the
    freeing of each seat whose player is not ready, and the bots that somebody waits for.
    """
    planned = plan(before, after)
    due.difference_update(planned.done)
    due.update((work.kind, work.key) for work in planned.due)
    expected = {(START, str(after.game))} if after.phase is Phase.STARTING else set()
    if after.phase is Phase.WAITING:
        expected.add((IDLE, ""))
        assert Due(IDLE, "", Limits().idle_ms) in planned.due
        people = after.people()
        expected |= {(UNREADY, str(n)) for n, seat in people if not seat.ready}
        expected |= {(FILL, str(n)) for n, seat in people if seat.wish and after.free()}
    assert due == expected
    assert planned.ended == (after.phase is Phase.CLOSED)


def seat_of(table: Table) -> Callable[[UUID], Seat]:
    """Finds a player's seat."""
    seats = {seat.player: seat for _, seat in table.taken()}
    return lambda who: seats[who]


def expect_events(before: Table, command: Command, events: Sequence[Event]) -> None:
    """Who may do what, seen from what was done."""
    table = before
    for event in events:
        match event:
            case StartBegun():
                seats = dict(table.taken())
                assert len(event.seats) >= (table.rules.seats_min if table.rules else 0)
                assert all(seats[n].ready for n in event.seats)
                left_out = [s for n, s in seats.items() if n not in event.seats]
                assert not any(s.ready or s.played for s in left_out)
            case SeatTaken(_, who, BotLevel.PERSON, _):
                assert kick_of(table, who) is KickReason.NONE
                assert table.phase in {Phase.WAITING, *ACTIVE}
            case SeatLeft(number, LeftCause.KICKED, _):
                assert isinstance(command, Kick)
                assert before.host == command.player != command.whom
                assert before.phase is Phase.WAITING
                seat = table.seats[number]
                assert seat is not None
                assert (seat.player, seat.bot) == (command.whom, BotLevel.PERSON)
            case HostChanged():
                assert table.seat_of(event.host) is not None
            case _:
                pass
        table = evolve(table, event, AT)


def any_rules(chance: random.Random, seed: int) -> Rules:
    """Rules of tables of all kinds."""
    changes: dict[str, Any] = {"no_bots": chance.random() < 0.2}
    if chance.random() < 0.4:
        named = tuple(player(n) for n in range(1, 4))
        changes |= {"listed": False, "by_invitation": True, "invite_code": "code", "invited": named}
    seats = chance.choice([2, 3, 4])
    return azi_rules(seats, **changes) if seed % 2 else durak_rules(seats, **changes)


@pytest.mark.parametrize("seed", range(60))
def test_the_laws_of_a_table_hold_whatever_is_asked(seed: int) -> None:
    """Seats, host, readiness, due work; a refusal changes nothing; replay gives the same table."""
    chance = random.Random(seed)
    rules = any_rules(chance, seed)
    table, log, due = Table(), list[Event](), set[tuple[str, str]]()
    command: Command = Open(player(0), rules, 0, game(0))
    accepted = 0
    for number in range(1, STEPS):
        try:
            events = decide(table, command)
        except (Refused, Moot):
            events = ()
        before = table
        expect_events(before, command, events)
        for event in events:
            table = evolve(table, event, AT)
        log += events
        if events:
            accepted += 1
            check(table)
            expect_plan(before, table, due)
            assert table.version == len(log)
        if table.phase is Phase.CLOSED:
            break
        command = any_command(chance, table, number)
    replayed = Table()
    for version, event in enumerate(log, 1):
        again = decode(recorded(encode(event), version))
        assert again == event
        replayed = evolve(replayed, again, AT)
    assert replayed == table
    assert accepted > 0


def test_random_play_reaches_everything() -> None:
    """The law above would be empty if games never started, failed and ended in it."""
    seen, causes, agreed = set[str](), set[LeftCause](), set[bool]()
    for seed in range(60):
        chance, table = random.Random(seed), Table()
        command: Command = Open(player(0), any_rules(chance, seed), 0, game(0))
        for number in range(1, STEPS):
            try:
                events = decide(table, command)
            except (Refused, Moot):
                events = ()
            for event in events:
                seen.add(type(event).__name__)
                if isinstance(event, SeatLeft):
                    causes.add(event.cause)
                if isinstance(event, StartBegun) and isinstance(command, Rematch):
                    agreed.add(len(event.seats) < len(table.seats))
                table = evolve(table, event, AT)
            command = any_command(chance, table, number)
    assert seen == {
        *("TableOpened", "SeatTaken", "SeatLeft", "ReadySet", "ToppedUp", "HostChanged"),
        *("StartBegun", "StartAbandoned", "StartFailed", "GameStarted", "GameEnded", "TableClosed"),
        *("PlayerInvited", "PlayerUninvited"),
    }
    assert causes == {LeftCause.LEFT, LeftCause.KICKED, LeftCause.UNREADY}
    assert agreed == {False, True}


def test_an_event_of_another_schema_is_not_guessed_at() -> None:
    """Nor is one of an unknown name, or one that was cut off."""
    good = encode(next(iter(decide(Table(), Open(player(0), durak_rules(), 0, game(0))))))
    for new in (
        NewEvent(good.name, SCHEMA + 1, good.payload),
        NewEvent("TableMoved", SCHEMA, good.payload),
        NewEvent(good.name, SCHEMA, good.payload[:-1]),
    ):
        with pytest.raises(Damaged):
            decode(recorded(new, 1))
