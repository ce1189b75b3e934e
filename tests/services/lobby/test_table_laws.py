"""Laws of tables over random play: whatever is asked, in whatever order."""

import random
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
    LeaveSeat,
    Line,
    Open,
    RemoveBot,
    SetReady,
    StartGame,
    TakeSeat,
    TopUp,
)
from services.lobby.domain import Moot, decide
from services.lobby.evolve import IDLE, IDLE_MS, START, evolve, plan
from services.lobby.model import BotLevel, Event, Phase, Table
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
    who = player(chance.randrange(PLAYERS))
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
            ),
        ),
        (1, LeaveSeat(who)),
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

    A closing is due exactly while the table waits, and put off by whatever happens there.
    """
    planned = plan(before, after)
    due.difference_update(planned.done)
    due.update((work.kind, work.key) for work in planned.due)
    expected = {(START, str(after.game))} if after.phase is Phase.STARTING else set()
    if after.phase is Phase.WAITING:
        expected.add((IDLE, ""))
        assert Due(IDLE, "", IDLE_MS) in planned.due
    assert due == expected
    assert planned.ended == (after.phase is Phase.CLOSED)


@pytest.mark.parametrize("seed", range(40))
def test_the_laws_of_a_table_hold_whatever_is_asked(seed: int) -> None:
    """Seats, host, readiness, due work; a refusal changes nothing; replay gives the same table."""
    chance = random.Random(seed)
    rules = azi_rules(chance.choice([2, 3, 4])) if seed % 2 else durak_rules(3)
    table, log, due = Table(), list[Event](), set[tuple[str, str]]()
    command: Command = Open(player(0), rules, 0, game(0))
    accepted = 0
    for number in range(1, STEPS):
        try:
            events = decide(table, command)
        except (Refused, Moot):
            events = ()
        before = table
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
    seen: set[str] = set()
    for seed in range(40):
        chance, table = random.Random(seed), Table()
        command: Command = Open(player(0), azi_rules(3), 0, game(0))
        for number in range(1, STEPS):
            try:
                events = decide(table, command)
            except (Refused, Moot):
                events = ()
            for event in events:
                seen.add(type(event).__name__)
                table = evolve(table, event, AT)
            command = any_command(chance, table, number)
    assert seen == {
        *("TableOpened", "SeatTaken", "SeatLeft", "ReadySet", "ToppedUp", "HostChanged"),
        *("StartBegun", "StartAbandoned", "StartFailed", "GameStarted", "GameEnded", "TableClosed"),
    }


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
