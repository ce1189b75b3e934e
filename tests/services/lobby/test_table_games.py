"""What a game leaves behind at its table."""

from services.lobby.commands import (
    AddBot,
    Confirm,
    EndGame,
    Line,
    SetReady,
    TopUp,
)
from services.lobby.evolve import START, plan
from services.lobby.model import (
    GameEnded,
    GameStarted,
    HostChanged,
    Phase,
    SeatLeft,
    SeatOutcome,
    StartBegun,
    Table,
    TableClosed,
    Tally,
    ToppedUp,
)
from tests.services.lobby.rounds import end, playing, ready
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
    when,
)


def test_a_finished_game_leaves_stacks_and_asks_persons_anew() -> None:
    """Bots stay ready; whoever won the bank is remembered."""
    table = given(opened(azi_rules(3), 1))
    _, table = when(table, AddBot(player(0), bot(1), 2, 0, G))
    for number in (0, 1):
        _, table = when(table, ready(number))
    _, table = when(table, Confirm(G))
    lines = (Line(player(0), 150), Line(player(1), 400), Line(bot(1).player, 50))
    events, table = when(table, end(*lines, winner=1))
    outcomes = (
        SeatOutcome(0, 150, False, False),
        SeatOutcome(1, 400, False, False),
        SeatOutcome(2, 50, False, False),
    )
    assert events == [GameEnded(G, True, outcomes, player(1))]
    assert (table.phase, table.games, table.last_winner) == (Phase.WAITING, 1, player(1))
    assert [s and (s.stack, s.ready) for s in table.seats] == [
        (150, False),
        (400, False),
        (50, True),
    ]


def test_a_stack_outside_the_bounds_plays_on_while_it_pays_the_fee() -> None:
    """Winning more than the largest buy-in, or falling below the least, is no reason to stop."""
    table = playing(azi_rules(2, fee=10), 1)
    _, table = when(table, end(Line(player(0), 1_990), Line(player(1), 10)))
    _, table = when(table, SetReady(player(0), True, game(2)))
    events, _ = when(table, SetReady(player(1), True, game(2)))
    assert events[-1] == StartBegun(game(2), (0, 1))


def test_a_seat_that_cannot_pay_the_fee_is_told_so_and_tops_up() -> None:
    """Until then it cannot be ready; topping up must lead into the bounds."""
    table = playing(azi_rules(2, fee=10), 1)
    _, table = when(table, end(Line(player(0), 391), Line(player(1), 9)))
    seat = table.seats[1]
    assert seat is not None
    assert (seat.ready, seat.problem) == (False, "STACK_BELOW_ENTRY_FEE")
    assert refusal(table, ready(1)) == "STACK_BELOW_ENTRY_FEE"
    _, still = when(table, SetReady(player(1), False, G))
    assert still.seats[1] == seat
    assert refusal(table, TopUp(player(1), 190)) == "BUY_IN_OUT_OF_BOUNDS"
    assert refusal(table, TopUp(player(1), 992)) == "BUY_IN_OUT_OF_BOUNDS"
    _, table = when(table, TopUp(player(1), 191))
    seat = table.seats[1]
    assert seat is not None
    assert (seat.stack, seat.problem) == (200, "")
    assert when(table, ready(1))


def test_topping_up_needs_stacks() -> None:
    """There are none at a Durak table."""
    assert refusal(given(opened(durak_rules())), TopUp(player(0), 1)) == "NO_STACKS"


def test_a_bot_that_cannot_pay_the_fee_gets_the_least_buy_in_again() -> None:
    """A visible event of the same append."""
    table = given(opened(azi_rules(2, fee=10)))
    _, table = when(table, AddBot(player(0), bot(1), None, 0, G))
    _, table = when(table, ready(0))
    _, table = when(table, Confirm(G))
    events, table = when(table, end(Line(player(0), 395), Line(bot(1).player, 5)))
    assert events[1:] == [ToppedUp(1, 195)]
    assert table.seats[1] is not None
    assert (table.seats[1].stack, table.seats[1].ready) == (200, True)


def test_a_cancelled_game_changes_no_stack_and_no_tally() -> None:
    """The chips went back; players are asked anew."""
    table = playing(azi_rules(2), 1)
    events, after = when(table, EndGame(G, False, (), None, frozenset()))
    assert events == [GameEnded(G, False, (), None)]
    assert [s and s.stack for s in after.seats] == [200, 200]
    assert [s and s.ready for s in after.seats] == [False, False]
    assert after.games == 1


def test_players_who_left_in_mid_game_lose_their_seats_at_its_end() -> None:
    """The host among them hands over; without a person left the table closes."""
    table = playing(durak_rules(3), 1, 2)
    lines = tuple(Line(player(n), 0) for n in range(3))
    events, after = when(table, end(*lines, left=(0, 1)))
    assert events[1:] == [SeatLeft(0), SeatLeft(1), HostChanged(player(2))]
    assert [s and s.player for s in after.seats] == [None, None, player(2)]
    events, after = when(table, end(*lines, left=(0, 1, 2)))
    assert events[-1] == TableClosed()


def test_durak_keeps_a_tally_over_the_games_of_a_table() -> None:
    """A win for the first out, a loss for the durak; nothing for a null deal (DURAK-23)."""
    table = playing(durak_rules(3), 1, 2)
    lines = (Line(player(0), 0, first=True), Line(player(1), 0), Line(player(2), 0, durak=True))
    _, table = when(table, end(*lines))
    assert table.series == (Tally(player(0), 1, 0), Tally(player(2), 0, 1))
    for number in range(3):
        _, table = when(table, ready(number))
    _, table = when(table, Confirm(G))
    _, table = when(table, end(*(Line(player(n), 0) for n in range(3))))
    assert table.series == (Tally(player(0), 1, 0), Tally(player(2), 0, 1))


def test_no_tally_is_kept_where_the_host_wants_none() -> None:
    """A table option."""
    table = playing(durak_rules(2, series=False), 1)
    _, table = when(table, end(Line(player(0), 0, first=True), Line(player(1), 0, durak=True)))
    assert table.series == ()


def test_a_game_may_end_before_the_table_heard_that_it_had_opened() -> None:
    """Both are recorded together."""
    table = given(opened(durak_rules(2), 1))
    for number in (0, 1):
        _, table = when(table, ready(number))
    events, after = when(table, end(Line(player(0), 0), Line(player(1), 0)))
    assert [type(e) for e in events] == [GameStarted, GameEnded]
    assert plan(table, after).done == ((START, str(G)),)


def test_only_the_tables_present_game_can_end() -> None:
    """Another game, or none, is refused; so is a result for other players."""
    table = playing(durak_rules(2), 1)
    other = EndGame(game(2), False, (), None, frozenset())
    assert refusal(table, other) == "NOT_THE_TABLES_GAME"
    assert refusal(given(opened(durak_rules(2), 1)), other) == "NOT_THE_TABLES_GAME"
    assert refusal(Table(), other) == "NOT_THE_TABLES_GAME"
    swapped = end(Line(player(1), 0), Line(player(0), 0))
    assert refusal(table, swapped) == "INVALID_FIELD"
    assert refusal(table, end(Line(player(0), 0))) == "INVALID_FIELD"
