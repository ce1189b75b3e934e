"""Azi's rules, one by one, and the faults that keep coming back in such games."""

import pytest

import engines.azi as azi
from engines.azi import (
    AllIn,
    AziDeclared,
    BankPaid,
    BecameShort,
    Bid,
    BuyBack,
    CardPlayed,
    Dealt,
    Decline,
    Drop,
    DropLast,
    FeePaid,
    Fold,
    Level,
    Look,
    OpenerDrawn,
    Phase,
    PlayCard,
    ServerMove,
    Standing,
    TurnExpired,
)
from engines.cards import parse
from tests.engines.azi_play import Listed, Table, cards

TWO = "KS 6D 7D  7H AD QD  9H"
THREE = "KS 6D 7D  7H AD QD  8S 9S TS  9H"
FOURS = "KS 6D 7D 8D  7H AD QD 9D  6S 7S 8S 9S  9H"
AZI = "AS 9H 6S  7S 8S AH  9S 7H KD  7D"
AZI_OF_FOUR = "AS 9H 6S  7S 8S AH  9S 7H KD  6H TS TD  7D"


def play(table: Table, *plays: str) -> Table:
    """Plays cards, each written with its seat: `"0 AS"`."""
    for one in plays:
        seat, card = one.split()
        table.move(int(seat), PlayCard(parse(card)))
    return table


def bid_and_levels(table: Table, amount: int, *levels: int) -> Table:
    """The seat on turn bids, the named ones level."""
    table.move(azi.to_act(table.state)[0], Bid(amount))
    for seat in levels:
        table.move(seat, Level())
    return table


def to_azi(table: Table) -> Table:
    """Plays the hands of AZI so that each of three seats takes a trick."""
    play(table, "0 AS", "1 8S", "2 9S", "0 9H", "1 AH", "2 7H", "1 7S", "2 KD", "0 6S")
    return table


def test_the_deal_goes_in_blocks_and_the_next_card_is_turned() -> None:
    """AZI-5, AZI-8: hands in seat order, absent seats passed over, then the public trump."""
    table = Table(Listed("KS 6D 7D  8S 9S TS  9H"), [100, 5, 100])
    hands = [player.hand for player in table.state.players]
    assert hands == [cards("KS 6D 7D"), (), cards("8S 9S TS")]
    assert table.state.players[1].standing is Standing.ABSENT
    assert azi.view(table.state, None).turned == parse("9H")
    assert [seat.cards for seat in azi.view(table.state, None).seats] == [3, 0, 3]


def test_six_hands_of_four_fit_the_pack() -> None:
    """AZI-1: 24 cards and the turned one leave two."""
    table = Table(Listed(), [100] * 6, deal_size=4)
    assert len(table.state.stock) == 2


def test_the_fee_is_paid_once_a_deal_by_those_dealt_in() -> None:
    """AZI-3: nobody is charged for joining, and an absent seat is not charged at all."""
    table = Table(Listed("KS 6D 7D  8S 9S TS  9H"), [100, 5, 100])
    paid = [event for event in table.events if isinstance(event, FeePaid)]
    assert paid == [FeePaid(0, 10), FeePaid(2, 10)]
    assert table.stacks == [90, 5, 90]


def test_the_house_takes_nothing() -> None:
    """AZI-2: what was put in is what is paid out."""
    table = bid_and_levels(Table(Listed(THREE), [100] * 3), 20, 1).move(2, Fold()).leave(1)
    assert sum(table.stacks) == 300
    assert table.paid() == {0: 70}


def test_without_a_winner_yet_the_opener_is_drawn_and_recorded() -> None:
    """AZI-11: the draw is among the seats dealt in, from the deal's own randomness."""
    chance = Listed("KS 6D 7D  8S 9S TS  9H", index=1)
    table = Table(chance, [100, 5, 100], last_winner=None)
    assert chance.drawn == [(1, "opener", 2)]
    assert OpenerDrawn(1, 2) in table.events
    assert azi.to_act(table.state) == (2,)


def test_after_an_azi_the_opener_is_drawn_again_among_the_survivors() -> None:
    """AZI-40: while nobody has won, each deal draws its own opener."""
    chance = Listed(AZI_OF_FOUR, index=0)
    table = bid_and_levels(Table(chance, [100] * 4, last_winner=None), 20, 1, 2)
    chance.index = 2
    to_azi(table.move(3, Fold()))
    assert chance.drawn == [(1, "opener", 4), (2, "opener", 3)]
    assert azi.to_act(table.state) == (2,)


def test_a_known_winner_needs_no_draw() -> None:
    """AZI-10: the seat left of the last winner opens."""
    chance = Listed(THREE)
    assert azi.to_act(Table(chance, [100] * 3, last_winner=0).state) == (1,)
    assert chance.drawn == []


def test_asked_a_seat_may_fold_level_or_raise() -> None:
    """AZI-14: and levelling leaves the lead with the highest bidder."""
    table = Table(Listed(TWO), [100, 100]).move(0, Bid(10))
    kinds = {type(move) for move in azi.legal(table.state, 1)}
    assert kinds == {Fold, Level, Bid}
    assert table.move(1, Level()).state.leader == 0


def test_the_highest_bidder_is_not_asked_to_level_himself() -> None:
    """AZI-18: the bidding goes past him and ends."""
    table = bid_and_levels(Table(Listed(THREE), [100] * 3), 20, 1, 2)
    assert table.state.phase is Phase.TRICKS


def test_out_of_time_a_seat_folds() -> None:
    """AZI-22: the move is the server's, and is marked so."""
    table = Table(Listed(THREE), [100] * 3).move(0, Bid(20)).late(1)
    assert table.told[0] == TurnExpired(1, ServerMove.FOLD)
    assert table.state.players[1].standing is Standing.FOLDED


@pytest.mark.parametrize("seats", [2, 3, 6])
def test_everyone_folds_and_the_last_one_wins(seats: int) -> None:
    """AZI-21: without a bid even, when the seats only let their time run out."""
    table = Table(Listed(), [100] * seats)
    for seat in range(seats - 1):
        table.late(seat)
    assert table.state.winner == seats - 1
    assert table.paid() == {seats - 1: 10 * seats}
    assert not [event for event in table.events if isinstance(event, CardPlayed)]


def test_the_last_one_wins_in_every_phase() -> None:
    """AZI-21: while dropping, bidding, playing, and while others are asked to buy back."""
    dropping = Table(Listed(FOURS), [100] * 3, deal_size=4).leave(0).leave(2)
    assert dropping.paid() == {1: 30}
    assert Table(Listed(THREE), [100] * 3).leave(1).leave(0).paid() == {2: 30}
    tricks = bid_and_levels(Table(Listed(THREE), [100] * 3), 20, 1, 2)
    play(tricks, "0 KS").leave(0).leave(1)
    assert tricks.paid() == {2: 90}
    asking = Table(Listed(AZI_OF_FOUR), [100] * 4, azi_entry="half_bank")
    to_azi(bid_and_levels(asking, 20, 1, 2).move(3, Fold()))
    assert asking.leave(0).leave(1).paid() == {2: 100}


def test_a_short_seat_plays_on_and_is_not_asked_again() -> None:
    """AZI-25: it is shown as in the game, not as folded, and may lead after taking a trick."""
    table = Table(Listed("6S 7S 8S  6D 7D 8D  AS KD 6H  9H"), [500, 500, 60])
    table.move(0, Bid(100)).move(1, Level()).move(2, AllIn())
    seat = azi.view(table.state, None).seats[2]
    assert (seat.standing, seat.short, seat.stack) == (Standing.LIVE, True, 0)
    play(table, "0 6S", "1 6D", "2 AS")
    assert azi.to_act(table.state) == (2,)


def test_a_stale_bid_does_not_reach_the_next_deal() -> None:
    """AZI-17, AZI-37: levels, bids, shown cards and tricks begin anew, chips put in stay."""
    table = to_azi(bid_and_levels(Table(Listed(AZI), [500] * 3), 20, 1, 2))
    view = azi.view(table.state, 0)
    assert (view.deal, view.high, view.high_seat, view.leader) == (2, 0, None, None)
    assert [(s.level, s.bids_left, s.tricks) for s in view.seats] == [(0, 3, 0)] * 3
    assert [s.contributed for s in view.seats] == [40] * 3
    assert (view.trick, view.tricks) == ((), ())
    assert table.refused(0, Bid(9)) == "BID_TOO_LOW"


def test_two_seats_alone_cannot_come_to_azi() -> None:
    """AZI-36: of three tricks one of two seats has two."""
    table = bid_and_levels(Table(Listed("AS 6S 7D  7S 8S 8D  9H"), [100, 100]), 10, 1)
    play(table, "0 AS", "1 7S", "0 6S", "1 8S", "1 8D", "0 7D")
    assert table.state.winner == 1


def test_survivors_all_without_a_chip_play_for_the_bank() -> None:
    """AZI-38, AZI-24: nobody pays, everybody is short, the first would-be opener leads."""
    table = to_azi(bid_and_levels(Table(Listed(AZI), [30] * 3), 20, 1, 2))
    assert [type(event) for event in table.told[-6:]] == [
        BecameShort,
        BecameShort,
        BecameShort,
        Dealt,
        azi.BiddingOpened,
        azi.BiddingClosed,
    ]
    assert (table.state.phase, table.state.bank) == (Phase.TRICKS, 90)
    assert azi.to_act(table.state) == (0,)


def test_who_leaves_while_others_are_asked_is_out_of_the_next_deal() -> None:
    """AZI-49: a survivor who leaves is not dealt in, a seat waiting to be asked declines."""
    deal = "AS 9H 6S  7S 8S AH  9S 7H KD  6H TS TD  8H 6D JD  7D"
    table = bid_and_levels(Table(Listed(deal), [500] * 5, azi_entry="half_bank"), 20, 1, 2)
    to_azi(table.move(3, Fold()).move(4, Fold()))
    assert table.state.asked == (3, 4)
    turn = table.state.turn
    table.leave(4).leave(0)
    assert (azi.to_act(table.state), table.state.turn) == ((3,), turn)
    table.move(3, BuyBack())
    dealt = next(event for event in table.told if isinstance(event, Dealt))
    assert dealt.seats == (1, 2, 3)


def test_each_pays_the_same_to_buy_back() -> None:
    """AZI-39: half the carried bank, rounded up, though the bank grows meanwhile."""
    deal = "AS 9H 6S  7S 8S AH  9S 7H KD  6H TS TD  8H 6D JD  7D"
    table = Table(Listed(deal), [500] * 5, azi_entry="half_bank", entry_fee=1)
    to_azi(bid_and_levels(table, 2, 1, 2).move(3, Fold()).move(4, Fold()))
    assert isinstance(table.told[-1], AziDeclared)
    assert table.told[-1] == AziDeclared(1, 11, 6, (3, 4))
    table.move(3, BuyBack()).move(4, BuyBack())
    assert [p.bought_back for p in table.state.players] == [0, 0, 0, 6, 6]
    assert table.state.bank == 11 + 12 + 5


def test_asking_begins_where_the_opener_is_looked_for() -> None:
    """AZI-39: clockwise from the left of the last winner, not from seat 0."""
    deal = "AS 9H 6S  7S 8S AH  9S 7H KD  6H TS TD  8H 6D JD  7D"
    table = Table(Listed(deal), [500] * 5, last_winner=3, azi_entry="half_bank").late(4)
    to_azi(bid_and_levels(table, 20, 1, 2).move(3, Fold()))
    assert table.state.asked == (4, 3)


def test_a_seat_that_buys_back_may_have_to_open() -> None:
    """AZI-40: the next deal's opener is the first seat dealt in, it included."""
    deal = "6H TS TD  AS 9H 6S  7S 8S AH  9S 7H KD  7D"
    table = Table(Listed(deal), [500] * 4, azi_entry="half_bank").late(0)
    bid_and_levels(table, 20, 2, 3)
    play(table, "1 AS", "2 8S", "3 9S", "1 9H", "2 AH", "3 7H", "2 7S", "3 KD", "1 6S")
    assert azi.to_act(table.move(0, BuyBack()).state) == (0,)
    assert table.refused(0, Fold()) == "MUST_BID"


def test_the_turn_number_tells_a_late_move() -> None:
    """AZI-54: it grows with decisions and looks, not with drops or another seat's leaving."""
    table = Table(Listed(FOURS), [100] * 3, deal_size=4, blind_bets=True)
    turn = table.state.turn
    table.move(1, Look()).move(2, DropLast()).move(1, Drop(parse("9D")))
    assert table.state.turn == turn
    bidding = table.move(0, DropLast()).state.turn
    assert bidding > turn
    looked = table.move(0, Look()).state.turn
    assert looked > bidding
    assert table.leave(2).state.turn == looked
    assert table.move(0, Bid(10)).state.turn > looked


def test_a_double_click_acts_once() -> None:
    """AZI-50: the same move again meets another turn, or a card that is gone."""
    table = bid_and_levels(Table(Listed(THREE), [100] * 3), 20)
    assert table.refused(0, Bid(20)) == "NOT_YOUR_TURN"
    table.move(1, Level()).move(2, Level())
    play(table, "0 KS")
    assert table.refused(0, PlayCard(parse("KS"))) == "NOT_YOUR_TURN"


def test_a_trump_is_no_way_around_the_led_suit() -> None:
    """AZI-27: holding the led suit no trump may be played, the six on stage not either."""
    table = Table(Listed("AS 8S 9S  6H 7S 8D  AH"), [100, 100])
    play(bid_and_levels(table, 10, 1), "0 AS")
    assert table.refused(1, PlayCard(parse("6H"))) == "MUST_FOLLOW_SUIT"


@pytest.mark.parametrize("amount", [0, -1, 2**64, 10**30])
def test_negative_and_huge_bids(amount: int) -> None:
    """AZI-16, AZI-50: no bid of nothing or less, none above the stack however far."""
    table = Table(Listed(TWO), [100, 100])
    assert table.refused(0, Bid(amount)) == ("MALFORMED" if amount <= 0 else "INSUFFICIENT_CHIPS")


def test_a_blind_hand_is_withheld_until_looked_at() -> None:
    """AZI-42, AZI-43, AZI-52: from the view and from the deal as shown; looking is public."""
    table = Table(Listed(TWO), [100, 100], blind_bets=True)
    dealt = next(event for event in table.events if isinstance(event, Dealt))
    shown = azi.show(dealt, 0)
    assert isinstance(shown, azi.DealtShown)
    assert shown.hand == ()
    assert azi.view(table.state, 0).hand == ()
    table.move(0, Look())
    assert azi.view(table.state, 0).hand == tuple(sorted(cards("KS 6D 7D")))
    assert azi.show(table.told[0], 1) == azi.BlindLookedAt(0)


def test_a_blind_hand_that_folded_stays_closed() -> None:
    """AZI-43: only live seats look by themselves before the first trick."""
    table = Table(Listed(THREE), [100] * 3, blind_bets=True).move(0, Bid(20)).move(1, Fold())
    table.move(2, Level())
    assert azi.view(table.state, 1).hand == ()
    assert azi.view(table.state, 2).hand == tuple(sorted(cards("8S 9S TS")))


def test_a_card_dropped_unseen_stays_unseen() -> None:
    """AZI-44: to its own seat too, after looking; a chosen one is known to its seat only."""
    table = Table(Listed(FOURS), [100] * 3, deal_size=4, blind_bets=True)
    table.move(0, DropLast())
    assert azi.show(table.told[0], 0) == azi.CardDroppedShown(0, True, None)
    table.move(1, Look(), Drop(parse("9D")))
    assert azi.show(table.told[0], 1) == azi.CardDroppedShown(1, False, parse("9D"))
    assert azi.show(table.told[0], 0) == azi.CardDroppedShown(1, False, None)
    table.move(2, DropLast()).move(0, Look())
    assert azi.view(table.state, 0).dropped is None
    assert azi.view(table.state, 1).dropped == parse("9D")


def test_nothing_is_opened_by_the_end() -> None:
    """AZI-9: the winner's hand and the loser's stay closed to the others."""
    table = Table(Listed(TWO), [100, 100]).move(0, Bid(10)).move(1, Fold())
    assert isinstance(table.told[-1], BankPaid)
    assert azi.view(table.state, 1).hand == tuple(sorted(cards("7H AD QD")))
    assert azi.view(table.state, None).hand == ()
    hidden = set(cards("KS 6D 7D"))
    assert not hidden & set(azi.view(table.state, 1).hand)


def test_the_covering_bids_are_four_at_most() -> None:
    """AZI-53: the lowest, one more, the pot, everything."""
    table = Table(Listed(THREE), [500] * 3)
    assert azi.legal(table.state, 0) == (Bid(10), Bid(11), Bid(30), Bid(490))
    table.move(0, Bid(20))
    bids = [move for move in azi.legal(table.state, 1) if isinstance(move, Bid)]
    assert bids == [Bid(21), Bid(22), Bid(90), Bid(490)]


def test_view_tells_what_a_decision_costs() -> None:
    """AZI-15, AZI-42: what levelling costs in chips and what may be bid, blind and seen."""
    table = Table(Listed(TWO), [100, 100], blind_bets=True).move(0, Bid(25))
    view = azi.view(table.state, 1)
    assert (view.level_price, view.bid_minimum, view.bid_maximum) == (13, 26, 180)
    view = azi.view(table.move(1, Look()).state, 1)
    assert (view.level_price, view.bid_minimum, view.bid_maximum) == (25, 26, 90)
    assert azi.view(table.state, 0).bid_maximum == 0


def test_declining_is_final() -> None:
    """AZI-39: who declined or was not asked waits until the bank is paid."""
    table = Table(Listed(AZI_OF_FOUR), [100] * 4, azi_entry="half_bank")
    to_azi(bid_and_levels(table, 20, 1, 2).move(3, Fold())).move(3, Decline())
    assert table.refused(3, BuyBack()) == "WRONG_PHASE"
    assert table.state.players[3].standing is Standing.FOLDED
