"""Rami at the table: time, absence, who sees what, exact counts and a whole match."""

import os
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from engines import rami
from engines.api import (
    Act,
    Leave,
    RuleViolation,
    Start,
    Timeout,
)
from engines.cards import parse
from engines.rami import Ending, Source
from engines.scenario import described
from tests.engines.rami_play import CHANCE, after, at, begun, cards, keen_match, refusal

GOLDEN = Path(__file__).parent / "golden" / "rami.txt"


# Time and absence


def test_a_timeout_says_that_the_server_moved() -> None:
    """RAMI-27: draw and discard in one append, with no card in the notice."""
    state = at("QS 3S", "KD", stock=["8C"], discard=["4H"])
    assert rami.timeout_move(state, 0) == rami.DrawStock()
    assert rami.decide(state, Timeout(0), CHANCE) == (
        rami.TurnExpired(0, draws=True, discards=True),
        rami.CardDrawn(0, Source.STOCK, None),
        rami.Discarded(0, parse("8C")),
    )


def test_a_timeout_after_the_draw_only_discards() -> None:
    """RAMI-27: the dearest card that may go, here not the taken one."""
    state = after(at("9S 3S", "KD", discard=["QH"]), Act(0, rami.DrawDiscard()))
    assert rami.timeout_move(state, 0) == rami.Discard(parse("9S"))
    assert rami.decide(state, Timeout(0), CHANCE) == (
        rami.TurnExpired(0, draws=False, discards=True),
        rami.Discarded(0, parse("9S")),
    )


def test_a_timeout_asks_the_empty_stock() -> None:
    """RAMI-27: with nothing to draw the round ends, and nothing is discarded."""
    expired, scored, *_ = rami.decide(at("QS 3S", "KD", discard=["4H"]), Timeout(0), CHANCE)
    assert expired == rami.TurnExpired(0, draws=True, discards=False)
    assert isinstance(scored, rami.RoundScored)
    assert (scored.ending, scored.winner) == (Ending.EXHAUSTED, 1)


def test_only_the_seat_to_act_can_time_out() -> None:
    """RAMI-8: the other seats have no time running."""
    state = at("QS", "KD", stock=["8C"])
    assert refusal(state, Timeout(1)).reason == "NOT_YOUR_TURN"
    with pytest.raises(RuleViolation, match="NOT_YOUR_TURN"):
        rami.timeout_move(state, 1)


def test_leaving_changes_no_card_and_no_turn() -> None:
    """RAMI-28: the seat plays on, is marked, and cannot be left twice; also before the deal."""
    for state in (at("QS", "KD", stock=["8C"]), rami.initial(rami.Options(), 2)):
        left = after(state, Leave(1))
        assert left.left == (1,)
        assert (left.turn, left.hands, left.actor) == (state.turn, state.hands, state.actor)
        assert refusal(left, Leave(1)).rule == "RAMI-28"
        assert after(left, Leave(0)).left == (0, 1)


# Seeing


def test_a_view_shows_the_own_hand_and_counts() -> None:
    """RAMI-26: own cards ascending, other hands as numbers, the public nothing of either."""
    state = begun(3)
    own, public = rami.view(state, 1), rami.view(state, None)
    assert own.hand == tuple(sorted(state.hands[1]))
    assert own.counts == public.counts == (10, 10, 10)
    assert (own.stock, own.discard, own.seat) == (21, state.discard, 1)
    assert own.hand_points == sum(rami.card_points(c, False) for c in own.hand)
    assert (public.hand, public.legal, public.seat, public.hand_points) == ((), (), None, 0)
    assert own.legal == (rami.DrawStock(), rami.DrawDiscard())


def test_what_was_drawn_is_seen_by_whom_it_may() -> None:
    """RAMI-26: the source by all, a taken discard by all, a stock card by its seat alone."""
    state = at("QS", "KD", stock=["8C"], discard=["4H"])
    stock, discard = (
        [rami.view(after(state, Act(0, draw)), viewer) for viewer in (0, 1, None)]
        for draw in (rami.DrawStock(), rami.DrawDiscard())
    )
    assert [(v.drawn, v.taken) for v in stock] == [(Source.STOCK, None)] * 3
    assert [v.drew for v in stock] == [parse("8C"), None, None]
    assert [(v.drawn, v.taken, v.drew) for v in discard] == [
        (Source.DISCARD, parse("4H"), None)
    ] * 3


def test_a_taken_card_is_known_until_it_leaves_the_hand() -> None:
    """RAMI-26: everybody saw it taken; laid or discarded it is known no more."""
    state = after(
        at("QS 5D", "KD", stock=["8C", "9C", "TC"], discard=["4H"]),
        Act(0, rami.DrawDiscard()),
        Act(0, rami.Discard(parse("QS"))),
    )
    assert rami.view(state, None).known == (rami.KnownCards(0, cards("4H")),)
    state = after(state, Act(1, rami.DrawStock()), Act(1, rami.Discard(parse("8C"))))
    state = after(state, Act(0, rami.DrawStock()), Act(0, rami.Discard(parse("4H"))))
    assert rami.view(state, 1).known == ()
    state = at("8H 9H 2C", "KD", discard=["TH"])
    state = after(state, Act(0, rami.DrawDiscard()), Act(0, rami.Meld(cards("8H 9H TH"))))
    assert rami.view(state, 1).known == ()


def test_a_deal_shows_each_viewer_his_own_hand() -> None:
    """RAMI-26: the happening of a deal holds the viewer's hand, and none for the public."""
    state = rami.initial(rami.Options(), 3)
    events = rami.decide(state, Start(), CHANCE)
    dealt = reduce(rami.evolve, events, state)
    for seat in range(3):
        (shown,) = rami.history(events, seat)
        assert isinstance(shown, rami.RoundDealt)
        assert shown.hand == tuple(sorted(dealt.hands[seat]))
    (public,) = rami.history(events, None)
    assert isinstance(public, rami.RoundDealt)
    assert (public.hand, public.upcard, public.starter) == ((), dealt.discard[0], 1)


@pytest.mark.parametrize("viewer", [-1, 4])
def test_nobody_else_is_a_viewer(viewer: int) -> None:
    """RAMI-26: a number that is no seat sees nothing, least of all the last seat's hand."""
    state = rami.initial(rami.Options(), 3)
    (dealt,) = rami.decide(state, Start(), CHANCE)
    with pytest.raises(ValueError, match="no seat"):
        rami.view(rami.evolve(state, dealt), viewer)
    for event in (dealt, rami.SeatLeft(0)):
        with pytest.raises(ValueError, match="no seat"):
            rami.show(event, viewer)


def test_the_end_of_a_round_tells_points_and_no_cards() -> None:
    """RAMI-26: hands stay hidden in the engine's views after the match."""
    state = at("8H", "KH AS", options={"target": 1}, drawn="stock")
    over = after(state, Act(0, rami.Discard(parse("8H"))))
    assert rami.is_over(over)
    assert over.winner == 0
    shown = rami.view(over, 0)
    assert (shown.hand, shown.counts, shown.legal, shown.to_act) == ((), (0, 2), (), ())


# Events and causes


@pytest.mark.parametrize("events", [(), (rami.MatchWon(0, (100, 0)),)])
def test_what_is_no_whole_append_has_no_cause(events: tuple[rami.Event, ...]) -> None:
    """Audits are told when an append is empty or begins in its middle."""
    with pytest.raises(ValueError, match="whole append"):
        rami.cause(events)


def test_turn_numbers_never_repeat() -> None:
    """RAMI-30: every decision of a match of several rounds has a number of its own."""
    turns = [state.turn for _, _, state in keen_match(rami.Options(target=150), 2, 2)]
    assert turns == sorted(set(turns))


def test_melds_are_laid_in_any_order_of_cards() -> None:
    """RAMI-16, RAMI-31: the move's order does not matter; discards go on top in order."""
    state = at("9H TH 8H 2C", "KD QD", drawn="stock", discard=["4S"])
    state = after(state, Act(0, rami.Meld(cards("TH 8H 9H"))))
    assert state.melds[0].cards == cards("8H 9H TH")


# Exact counts


def leaves(state: rami.State, turns: int) -> int:
    """How many sequences of moves there are to the end of the round or of so many turns."""
    count = 0
    for move in rami.legal(state, state.actor):
        reached = after(state, Act(state.actor, move))
        ended = reached.round != state.round or rami.is_over(reached)
        left = turns - (isinstance(move, rami.Discard))
        count += 1 if ended or not left else leaves(reached, left)
    return count


@pytest.mark.parametrize(
    ("options", "turns", "count"),
    [
        ({}, 1, 9),
        ({"discard_to_win": True}, 1, 6),
        ({}, 2, 17),
        ({"forbid_same_discard": False}, 2, 21),
        ({"discard_to_win": True}, 2, 14),
    ],
)
def test_counts_of_a_tiny_position(options: dict[str, Any], turns: int, count: int) -> None:
    """Four hearts in a row, counted by hand.

    One turn: four discards; the run of four (out); either run of three, then the last card by
    lay-off or discard (out): 4 + 1 + 2·2 = 9. With discard_to_win the last card is only
    discarded: 4 + 2 = 6. Two turns: after each of the four discards the opponent ends the round
    by the empty stock, or takes the card and discards one of the other two (or of all three).
    """
    state = at("5H 6H 7H 8H", "KD QC", options=options, drawn="stock", discard=["4S"])
    assert leaves(state, turns) == count


# A whole match


def playthrough() -> str:
    """A match told line by line: each event, and the view of seat 0 where a round begins."""
    lines = []
    for _, events, state in keen_match(rami.Options(target=80), 3, 11):
        for event in events:
            told = described(event)
            told.pop("secret", None)
            name = told.pop("name")
            lines.append(" ".join([name, *(f"{k}={_told(v)}" for k, v in told.items())]))
            if isinstance(event, rami.Dealt):
                view = described(rami.view(state, 0))
                lines += [f"  {k}: {_told(view[k])}" for k in ("hand", "hand_points", "counts")]
    return "\n".join(lines) + "\n"


def _told(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def test_golden_playthrough() -> None:
    """A whole match comes out as it was written down; KOZYR_GOLDEN=write writes it anew."""
    told = playthrough()
    if os.environ.get("KOZYR_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(told, "utf-8")
    assert GOLDEN.read_text("utf-8") == told
