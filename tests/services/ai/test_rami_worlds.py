"""What hard Rami imagines of other hands fits all that its seat has seen."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from engines import rami
from engines.cards import Card, parse, text
from engines.rami import State, View, card_points, masks
from services.ai.bots.rami.race import chance, standing
from services.ai.bots.rami.ways import ways
from services.ai.bots.rami.worlds import decks, hidden
from tests.engines import laws, rami_play
from tests.services.ai.positions import Position, random_games


def positions(games: int) -> list[Position]:
    """Decisions of bots at any table."""
    games = laws.games(games)
    return [p for played in random_games("rami", range(games)) for p in played if p.view.legal]


def determinize(view: View, deck: Sequence[int]) -> State:
    """The state of the match if the hidden cards lay like this; the viewer is to act."""
    open_, seat = hidden(view), view.seat or 0
    hands = [(*open_.known[other], *map(Card, dealt)) for other, dealt in open_.hands(deck)]
    hands[seat] = view.hand
    known = {hand.seat: hand.cards for hand in view.known}
    return State(
        options=view.options,
        seats=len(hands),
        phase=view.phase,
        round=view.round,
        turn=view.turn,
        dealer=view.dealer,
        actor=seat,
        hands=tuple(hands),
        stock=tuple(map(Card, deck[open_.dealt :])),
        discard=view.discard,
        melds=view.melds,
        drawn=view.drawn,
        drawn_card=view.taken if view.drew is None else view.drew,
        known=tuple(known.get(other, ()) for other in range(len(hands))),
        idle=view.idle,
        scores=view.scores,
        left=view.left,
        winner=view.winner,
    )


def test_an_imagined_state_looks_the_same_from_the_seat() -> None:
    """Before and after the draw, whatever was taken, laid and discarded: one and the same view."""
    rng, phases = Random(1), Counter[object]()
    for position in positions(6):
        view = position.view
        for deck in decks(view, position.history, hidden(view), 2, rng):
            state = determinize(view, deck)
            assert rami.view(state, view.seat) == view
            cards = [*state.stock, *state.discard, *(c for hand in state.hands for c in hand)]
            cards += [card for meld in state.melds for card in meld.cards]
            assert sorted(cards) == sorted(rami.PACK)
        phases[view.drawn, bool(view.known), len(view.counts)] += 1
    assert len(phases) > 14


def test_others_hold_what_was_taken_and_nothing_they_would_have_laid() -> None:
    """Where such hands can be found at all; and no card is always or never in a hand."""
    rng, likely, asked = Random(2), 0, 0
    for position in positions(6):
        view = position.view
        fits = masks.mask(
            c for m in view.melds for c in masks.cards(masks.neighbours(masks.mask(m.cards)))
        )
        open_ = hidden(view)
        for deck in decks(view, position.history, open_, 4, rng):
            state = determinize(view, deck)
            for each in view.known:
                assert set(each.cards) <= set(state.hands[each.seat])
            for seat, dealt in open_.hands(deck):
                if dealt and not open_.known[seat]:
                    hand = masks.mask(state.hands[seat])
                    asked += 1
                    likely += not (masks.melds_in(hand) or hand & fits)
    assert likely / asked > 0.8


def test_nobody_is_thought_to_keep_a_lonely_card_dearer_than_he_threw_away() -> None:
    """Who discarded a three is hardly dealt lonely figures, who has discarded nothing is."""
    state = rami_play.at("2H 4H 6H 8H TH QH AD", "2S 4S 6S 8S TS QS AH", discard=["9C"], to_act=1)
    view = rami.view(state, 1)
    found = []
    for history in ((), (rami.Discarded(0, parse("3D")),)):
        dealt = decks(view, history, hidden(view), 200, Random(3))
        hands = [masks.mask(dict(hidden(view).hands(deck))[0]) for deck in dealt]
        lonely = [masks.cards(hand & ~masks.paired(hand)) for hand in hands]
        found.append(sum(card_points(card, False) == 10 for cards in lonely for card in cards))
    assert found[1] < found[0] / 2


def test_the_ways_of_a_turn_are_legal_and_have_every_discard() -> None:
    """Their first moves are legal; every card that may be discarded is by one of them."""
    for position in positions(5):
        view = position.view
        each = ways(view)
        assert {way.move for way in each} <= set(view.legal)
        if view.drawn is not None and all(way.left for way in each):
            discards = {m.card for m in view.legal if isinstance(m, rami.Discard)}
            held = {way.discarded for way in each if not way.laid}
            assert held == discards, [text(c) for c in view.hand]
        for way in each:
            laid = [card for lay in way.laid for card in lay.cards]
            ended = [] if way.discarded is None else [way.discarded]
            top = view.discard[-1:] if way.taken else ()
            assert sorted([*way.left, *laid, *ended]) == sorted([*view.hand, *top])


@pytest.mark.parametrize("seats", rami.SEATS)
def test_chances_of_a_match_are_shares_and_grow_with_points(seats: int) -> None:
    """All together are one, equal needs are equal chances, a point more is never worse."""
    rng = Random(seats)
    for _ in range(200):
        scores = [rng.randrange(99) for _ in range(seats)]
        needs = standing(scores, 100)
        chances = [chance(needs, seat) for seat in range(seats)]
        assert sum(chances) == pytest.approx(1)
        by_need = [c for _, c in sorted(zip(needs, chances, strict=True))]
        assert by_need == pytest.approx(sorted(chances, reverse=True))
        more = standing([scores[0] + 1, *scores[1:]], 100)
        assert chance(more, 0) > chances[0]
    assert chance(standing([7] * seats, 100), 1) == pytest.approx(1 / seats)
    assert chance((0, *[3] * (seats - 1)), 0) == 1
    assert chance((0, *[3] * (seats - 1)), 1) == 0


def test_points_count_in_long_matches_too() -> None:
    """Far from the target each point is worth about as much as the one before."""
    begin = standing([0, 0], 10_000)
    ten, twenty = ((begin[0] - gain, begin[1]) for gain in (10, 20))
    first = chance(ten, 0) - chance(begin, 0)
    second = chance(twenty, 0) - chance(ten, 0)
    assert second == pytest.approx(first, rel=0.1)
    assert standing([9_990, 0], 10_000) == (10, 160)
