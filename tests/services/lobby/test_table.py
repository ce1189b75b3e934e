"""A table decides: seats, hosts, readiness, and starts."""

from uuid import UUID

import pytest

from services.lobby.commands import (
    Abandon,
    AddBot,
    Close,
    Command,
    Confirm,
    Fail,
    LeaveSeat,
    Open,
    RemoveBot,
    SetReady,
    StartGame,
    TopUp,
)
from services.lobby.conditions import Moot
from services.lobby.domain import decide
from services.lobby.evolve import START, plan
from services.lobby.model import (
    BotLevel,
    GameStarted,
    HostChanged,
    Phase,
    ReadySet,
    SeatLeft,
    SeatTaken,
    StartAbandoned,
    StartBegun,
    StartFailed,
    Table,
    TableClosed,
    TableOpened,
    ToppedUp,
)
from services.lobby.seeing import may_see
from tests.services.lobby.rounds import ready
from tests.services.lobby.tables import (
    G,
    azi_rules,
    bot,
    durak_rules,
    game,
    given,
    opened,
    player,
    refusal,
    sit,
    when,
)


def test_the_host_sits_on_seat_0_with_the_least_buy_in() -> None:
    """Opening seats the host; without a stack named he brings the least buy-in."""
    rules = azi_rules(fee=10)
    events, table = when(Table(), Open(player(0), rules, 0, G))
    assert events == [
        TableOpened(player(0), rules),
        SeatTaken(0, player(0), BotLevel.PERSON, 200),
    ]
    assert (table.phase, table.host, table.version) == (Phase.WAITING, player(0), 2)


@pytest.mark.parametrize(
    ("stack", "allowed"), [(199, False), (200, True), (1000, True), (1001, False)]
)
def test_a_stack_must_be_within_the_buy_in_bounds(stack: int, allowed: bool) -> None:
    """Both bounds belong to the range, for the host, for players and for bots."""
    rules = azi_rules(fee=10)
    table = given(opened(rules))
    opening = Open(player(0), rules, stack, G)
    add = AddBot(player(0), bot(1), None, stack, G)
    tries: list[tuple[Table, Command]] = [(Table(), opening), (table, sit(1, stack=stack))]
    for start, command in [*tries, (table, add)]:
        if allowed:
            assert when(start, command)
        else:
            assert refusal(start, command) == "BUY_IN_OUT_OF_BOUNDS"


def test_no_stack_is_brought_where_no_chips_are_played_for() -> None:
    """A buy-in at a Durak table is refused."""
    assert refusal(given(opened(durak_rules())), sit(1, stack=1)) == "BUY_IN_OUT_OF_BOUNDS"


def test_seats_are_taken_by_number_or_the_first_free_one() -> None:
    """A taken seat, a seat that does not exist and a full table are refused."""
    table = given(opened(durak_rules(3)))
    events, table = when(table, sit(1, 2))
    assert events == [SeatTaken(2, player(1), BotLevel.PERSON, 0)]
    assert refusal(table, sit(2, 2)) == "SEAT_TAKEN"
    assert refusal(table, sit(2, 3)) == "INVALID_FIELD"
    assert refusal(table, sit(2, -1)) == "INVALID_FIELD"
    events, table = when(table, sit(2))
    assert events == [SeatTaken(1, player(2), BotLevel.PERSON, 0)]
    assert refusal(table, sit(3)) == "TABLE_FULL"


def test_a_player_sits_once_at_a_table() -> None:
    """The host sits already."""
    assert refusal(given(opened(durak_rules(3))), sit(0)) == "ALREADY_SEATED"


def test_a_table_is_opened_once() -> None:
    """Another opening of the same table is refused."""
    assert (
        refusal(given(opened(durak_rules())), Open(player(1), durak_rules(), 0, G))
        == "TABLE_EXISTS"
    )


def test_a_private_table_does_not_exist_without_its_code() -> None:
    """Whatever is asked, the answer is TABLE_NOT_FOUND, as for a table that was never opened."""
    table = given(opened(durak_rules(listed=False, invite_code="abc"), 1))
    stranger: list[Command] = [
        sit(9),
        sit(9, code="abd"),
        LeaveSeat(player(9), G),
        AddBot(player(9), bot(1), None, 0, G),
        RemoveBot(player(9), 0),
        ready(9),
        StartGame(player(9), G),
        TopUp(player(9), 1),
        Close(player(9)),
    ]
    for command in stranger:
        assert refusal(table, command) == "TABLE_NOT_FOUND"
        assert refusal(Table(), command) == "TABLE_NOT_FOUND"
    assert refusal(table, sit(9, code="abc")) == "TABLE_FULL"
    assert may_see(table, player(1), "")
    assert not may_see(table, player(9), "")


def test_what_only_the_host_may_do_is_refused_to_others() -> None:
    """Bots, starting and closing are the host's."""
    table = given(opened(durak_rules(3), 1))
    for command in (
        AddBot(player(1), bot(1), None, 0, G),
        RemoveBot(player(1), 0),
        StartGame(player(1), G),
        Close(player(1)),
    ):
        assert refusal(table, command) == "NOT_HOST"


def test_what_only_the_seated_may_do_is_refused_to_others() -> None:
    """Leaving, being ready and topping up need a seat."""
    table = given(opened(durak_rules(3), 1))
    for command in (LeaveSeat(player(9), G), ready(9), TopUp(player(9), 1)):
        assert refusal(table, command) == "NOT_SEATED"


def test_a_closed_table_stays_closed() -> None:
    """The host, or an operator, closes; nothing else follows."""
    table = given(opened(durak_rules(3), 1))
    for closer in (player(0), None):
        events, closed = when(table, Close(closer))
        assert events == [TableClosed()]
        assert plan(table, closed).ended
        commands: list[Command] = [sit(2), ready(1), LeaveSeat(player(1), G), Close(None)]
        for command in [*commands, Close(player(0))]:
            assert refusal(closed, command) == "TABLE_CLOSED"


def test_a_bot_sits_down_ready_and_is_taken_away() -> None:
    """Only bots can be taken away, and only from where one sits."""
    table = given(opened(durak_rules(3)))
    events, table = when(table, AddBot(player(0), bot(1, BotLevel.HARD), 2, 0, G))
    assert events == [SeatTaken(2, bot(1).player, BotLevel.HARD, 0)]
    seat = table.seats[2]
    assert seat is not None
    assert seat.ready
    for number in (0, 1, 3, -1):
        assert refusal(table, RemoveBot(player(0), number)) == "NOT_A_BOT"
    events, table = when(table, RemoveBot(player(0), 2))
    assert events == [SeatLeft(2)]


def test_the_next_person_clockwise_becomes_host() -> None:
    """A bot never does."""
    table = given(opened(durak_rules(4), 1, 2))
    _, table = when(table, LeaveSeat(player(1), G))
    _, table = when(table, AddBot(player(0), bot(1), 1, 0, G))
    events, table = when(table, LeaveSeat(player(0), G))
    assert events == [SeatLeft(0), HostChanged(player(2))]
    assert table.host == player(2)


def test_the_table_closes_when_the_last_person_leaves() -> None:
    """Bots do not keep a table open."""
    table = given(opened(durak_rules(3)))
    _, table = when(table, AddBot(player(0), bot(1), None, 0, G))
    events, table = when(table, LeaveSeat(player(0), G))
    assert events == [SeatLeft(0), TableClosed()]


def test_the_last_one_to_be_ready_starts_the_game() -> None:
    """All seats taken and ready: the start follows in the same append, and is due."""
    table = given(opened(durak_rules(2), 1))
    events, table = when(table, ready(0))
    assert events == [ReadySet(0, True)]
    events, after = when(table, ready(1))
    assert events == [ReadySet(1, True), StartBegun(G, (0, 1))]
    assert [(d.kind, d.key, d.after_ms) for d in plan(table, after).due] == [(START, str(G), 0)]


def test_a_bot_on_the_last_seat_starts_the_game_when_all_are_ready() -> None:
    """And does not, when somebody is not."""
    table = given(opened(durak_rules(2)))
    add = AddBot(player(0), bot(1), None, 0, G)
    assert len(when(table, add)[0]) == 1
    _, table = when(table, ready(0))
    assert when(table, add)[0][-1] == StartBegun(G, (0, 1))


def test_the_host_starts_with_the_seats_taken_so_far() -> None:
    """Enough of them, all of them ready."""
    table = given(opened(durak_rules(4)))
    _, table = when(table, ready(0))
    assert refusal(table, StartGame(player(0), G)) == "TOO_FEW_PLAYERS"
    _, table = when(table, sit(1, 3))
    assert refusal(table, StartGame(player(0), G)) == "NOT_READY"
    _, table = when(table, ready(1))
    assert when(table, StartGame(player(0), G))[0] == [StartBegun(G, (0, 3))]


def test_nothing_moves_while_a_game_starts_or_runs() -> None:
    """Those who play cannot leave, change their stacks or their readiness; bots stay."""
    table = given(opened(azi_rules(3), 1))
    _, table = when(table, AddBot(player(0), bot(1), 2, 0, G))
    for number in (0, 1):
        _, table = when(table, ready(number))
    _, running = when(table, Confirm(G))
    for state in (table, running):
        for command in (
            LeaveSeat(player(1), G),
            RemoveBot(player(0), 2),
            SetReady(player(1), False, G),
            ready(1),
            StartGame(player(0), G),
            TopUp(player(1), 10),
            Close(player(0)),
        ):
            assert refusal(state, command) == "GAME_RUNNING"


def test_a_newcomer_waits_for_the_next_game() -> None:
    """He may take a free seat, top up and leave again while others play, but not be ready."""
    table = given(opened(azi_rules(3), 1))
    for number in (0, 1):
        _, table = when(table, ready(number))
    _, table = when(table, StartGame(player(0), G))
    _, table = when(table, sit(2))
    assert table.playing == (0, 1)
    assert refusal(table, ready(2)) == "GAME_RUNNING"
    assert when(table, TopUp(player(2), 10))[0] == [ToppedUp(2, 10)]
    assert when(table, LeaveSeat(player(2), G))[0] == [SeatLeft(2)]


def test_a_start_is_confirmed_once() -> None:
    """Steps of another game or of a start that is over are moot."""
    table = given(opened(durak_rules(2), 1))
    for number in (0, 1):
        _, table = when(table, ready(number))
    with pytest.raises(Moot):
        decide(table, Confirm(game(2)))
    with pytest.raises(Moot):
        decide(table, Fail(G))
    events, after = when(table, Confirm(G))
    assert events == [GameStarted(G)]
    assert plan(table, after).done == ((START, str(G)),)
    for step in (Confirm(G), Abandon(G, "X"), Fail(G)):
        with pytest.raises(Moot):
            decide(after, step)


def test_a_failed_start_says_why_and_whom_it_waits_for() -> None:
    """The seats at fault are not ready any more; the others still are."""
    table = given(opened(azi_rules(2), 1))
    for number in (0, 1):
        _, table = when(table, ready(number))
    events, table = when(table, Abandon(G, "INSUFFICIENT_CHIPS", (1,)))
    assert events == [StartAbandoned(G, "INSUFFICIENT_CHIPS", (1,))]
    assert table.phase is Phase.STARTING
    with pytest.raises(Moot):
        decide(table, Abandon(G, "OTHER"))
    events, after = when(table, Fail(G))
    assert events == [StartFailed(G)]
    assert plan(table, after).done == ((START, str(G)),)
    assert (after.phase, after.failure) == (Phase.WAITING, "INSUFFICIENT_CHIPS")
    assert [s and (s.ready, s.problem) for s in after.seats] == [
        (True, ""),
        (False, "INSUFFICIENT_CHIPS"),
    ]
    events, again = when(after, SetReady(player(1), True, game(2)))
    assert events[-1] == StartBegun(game(2), (0, 1))
    assert (again.failure, again.seats[1] and again.seats[1].problem) == ("", "")


def test_a_start_that_failed_for_nobodys_fault_asks_all_persons_again() -> None:
    """So a table with bots at fault can be started again at all."""
    table = given(opened(azi_rules(3), 1))
    _, table = when(table, AddBot(player(0), bot(1), 2, 0, G))
    for number in (0, 1):
        _, table = when(table, ready(number))
    for unready in ((), (2,)):
        events, after = when(table, Abandon(G, "SERVICES_UNAVAILABLE", unready))
        assert events == [StartAbandoned(G, "SERVICES_UNAVAILABLE", (0, 1))]
        assert [s and s.ready for s in after.seats] == [False, False, True]


def test_an_abandoned_start_whose_game_had_opened_goes_on() -> None:
    """The game counts, not the intention."""
    table = given(opened(durak_rules(2), 1))
    for number in (0, 1):
        _, table = when(table, ready(number))
    _, table = when(table, Abandon(G, "SERVICES_UNAVAILABLE"))
    _, table = when(table, Confirm(G))
    assert (table.phase, table.abandoned, table.failure) == (Phase.PLAYING, "", "")


def test_tags_make_tables_findable() -> None:
    """Listed tables by game, and everybody's own; a private table is not listed."""
    table = given(opened(durak_rules(2)))
    assert set(plan(Table(), table).tags) == {"public", "public:durak", f"player:{player(0)}"}
    hidden = given(opened(durak_rules(2, listed=False, invite_code="x")))
    assert set(plan(Table(), hidden).tags) == {f"player:{player(0)}"}
    _, after = when(table, sit(1))
    assert plan(table, after).tags == (f"player:{player(1)}",)


def test_the_fields_of_a_table_are_told_apart() -> None:
    """A bot's level and a person's are never mixed up in `people` and `taken`."""
    table = given(opened(durak_rules(3)))
    _, table = when(table, AddBot(player(0), bot(1), 1, 0, G))
    assert [n for n, _ in table.taken()] == [0, 1]
    assert [n for n, _ in table.people()] == [0]
    assert table.free() == (2,)
    assert table.seat_of(UUID(int=1)) is None
