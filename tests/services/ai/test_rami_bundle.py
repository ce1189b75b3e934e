"""Rounds of Rami played side by side are rounds of Rami: every lane keeps to the rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest

from engines import rami
from engines.rami import masks
from engines.rami.core import DRAW_DISCARD, DRAW_STOCK, NOBODY, Core
from services.ai.bots.rami.bundle import (
    LONGEST,
    PLACE,
    PLACES,
    Bundle,
    Policy,
    Row,
    points,
    preferred,
    winners,
)
from tests.engines.laws import Decks
from tests.engines.test_rami_laws import OPTIONS

LANES = 40


@dataclass(frozen=True)
class Pair:
    """A bundle and, lane by lane, the same rounds in cores; `told` are those to compare."""

    bundle: Bundle
    cores: list[Core]
    told: set[int]

    def hand(self, seat: int, lane: int) -> int:
        """The mask of what a seat holds in a lane of the bundle."""
        return self.mask(self.bundle.hands[seat], lane)

    @staticmethod
    def mask(row: Row, lane: int) -> int:
        """The mask of the cards that a row has in a lane."""
        return sum(1 << card for card, at in enumerate(PLACE) if row[at] >> lane & 1)


Follow = Callable[[Pair, int, int], None]
"""Has the core of a lane do what a seat has done there."""


def policy(rng: Random) -> Policy:
    """Any wishes, with combinations held back or not."""
    wishes = [[rng.random() for _ in range(8)] for _ in range(13)]
    return Policy(preferred(wishes), rng.choice((0, 2, 5)))


def dealt(options: rami.Options, seats: int, seed: int) -> Pair:
    """Rounds that begin."""
    cores = [Core(options, seats) for _ in range(LANES)]
    for lane, core in enumerate(cores):
        core.deal(Decks(LANES * seed + lane).deck(1, rami.PACK))
    hands = [[0] * PLACES for _ in range(seats)]
    stock = [[0] * PLACES for _ in cores[0].stock]
    bundle = Bundle((1 << LANES) - 1, hands, ())
    for lane, core in enumerate(cores):
        for row, held in zip((*hands, *stock), (*core.hands, *core.stock), strict=True):
            for card in masks.cards(held):
                row[PLACE[card]] |= 1 << lane
        top = PLACE[core.discard[0].bit_length() - 1]
        bundle.top.append((top, 1 << lane))
        bundle.gone[top] |= 1 << lane
    bundle.stock = [[(at, lanes) for at, lanes in enumerate(row) if lanes] for row in stock]
    return Pair(bundle, cores, set(range(LANES)))


def drawn(pair: Pair, seat: int, lane: int) -> None:
    """The core draws what the bundle has drawn in the lane, wherever it lay in the stock."""
    core = pair.cores[lane]
    card = pair.hand(seat, lane) ^ core.hands[seat]
    if card == core.discard[-1]:
        core.apply(DRAW_DISCARD)
        return
    if card:
        at, stock = core.stock.index(card, core.taken), list(core.stock)
        stock[core.taken], stock[at] = stock[at], stock[core.taken]
        core.stock = tuple(stock)
    core.apply(DRAW_STOCK)
    assert (core.seat == NOBODY) == (not card) == (not pair.bundle.live >> lane & 1)


def laid(pair: Pair, seat: int, lane: int) -> None:
    """The core lays and adds, by legal moves, what has left the hand in the lane."""
    core = pair.cores[lane]
    gone = pair.hand(seat, lane) ^ core.hands[seat]
    if core.keep and gone == core.hands[seat]:
        pair.told.discard(lane)  # counts as gone out
        return
    table = pair.mask(pair.bundle.runs, lane), pair.mask(pair.bundle.lacks, lane)
    after = next((after for after in _after_laying(core, gone) if _table(after) == table), None)
    assert after is not None
    pair.cores[lane] = after


def _after_laying(core: Core, cards: int) -> Iterator[Core]:
    """The core after any legal moves that lay just these cards."""
    if not cards:
        yield core
    for move in core.lays() if cards else ():
        if not move & masks.ALL & ~cards:
            after = core.clone()
            after.apply(move)
            yield from _after_laying(after, cards & ~move)


def _table(core: Core) -> tuple[int, int]:
    """The cards in runs, and those that groups of three lack."""
    runs = lacks = 0
    for meld in core.melds:
        if masks.is_run(meld):
            runs |= meld
        else:
            lacks |= masks.neighbours(meld)
    return runs, lacks


def discarded(pair: Pair, seat: int, lane: int) -> None:
    """The core discards what has left the hand in the lane."""
    core = pair.cores[lane]
    card = pair.hand(seat, lane) ^ core.hands[seat]
    assert card in core.legal()
    core.apply(card)


def turn(pair: Pair, seat: int, plays: Policy, *, barring: bool) -> None:
    """A turn in all lanes, step by step."""
    bundle = pair.bundle
    steps: tuple[tuple[Follow, Callable[[], None]], ...] = (
        (drawn, partial(bundle.draw, seat, bundle.full)),
        (laid, partial(bundle.lay, seat, plays.holds)),
        (discarded, partial(bundle.discard, seat, plays.discards, barring)),
    )
    for follow, step in steps:
        live = [lane for lane in pair.told if bundle.live >> lane & 1]
        step()
        for lane in live:
            follow(pair, seat, lane)


@pytest.mark.parametrize("seats", rami.SEATS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_lane_is_a_round_by_the_rules(options: rami.Options, seats: int) -> None:
    """Every draw, lay-off, combination and discard is legal; rounds end and cost the same."""
    rng = Random(f"{options}/{seats}")
    pair = dealt(options, seats, rng.randrange(1000))
    plays = [policy(rng) for _ in range(seats)]
    seat = pair.cores[0].seat
    while pair.bundle.live:
        turn(pair, seat, plays[seat], barring=options.forbid_same_discard)
        seat = (seat + 1) % seats
    out = winners(pair.bundle.out, LANES)[::-1]
    costs = [points(hand, LANES, options.ace_high)[::-1] for hand in pair.bundle.hands]
    assert len(pair.told) > LANES // 3
    for lane in pair.told:
        core, cost = pair.cores[lane], [of[lane] for of in costs]
        assert core.seat == NOBODY
        assert cost == [masks.points(hand, options.ace_high) for hand in core.hands]
        winner = out[lane] - 1 if out[lane] else cost.index(min(cost))
        assert (winner, sum(cost) - cost[winner]) == (core.round_winner, core.gain)


def test_combinations_are_held_back_while_others_hold_many_cards() -> None:
    """Nothing is laid unless it goes out, or another hand has fewer cards than `holds`."""
    rng, held, few = Random(5), 0, 0
    pair = dealt(rami.Options(), 2, 5)
    holding = Policy(policy(rng).discards, 5)
    seat = pair.cores[0].seat
    bundle = pair.bundle
    for _ in range(12):
        bundle.draw(seat, bundle.full)
        before = [pair.hand(seat, lane) for lane in range(LANES)]
        live = bundle.live
        bundle.lay(seat, holding.holds if seat else 0)
        for lane in range(LANES):
            if seat and live >> lane & 1 and masks.melds_in(before[lane]):
                laid_cards = before[lane] ^ pair.hand(seat, lane)
                many = pair.hand(0, lane).bit_count() >= holding.holds
                left = pair.hand(seat, lane).bit_count()
                assert bool(laid_cards) == (not many or left <= 1)
                held += many
                few += not many
        bundle.discard(seat, holding.discards, True)
        for at, lanes in bundle.kept.items():
            assert lanes & bundle.hands[seat][at] == lanes, "what is held back is not discarded"
        seat = 1 - seat
    assert held > 20
    assert few > 2


def test_a_discard_is_the_card_whose_points_and_outs_say_so() -> None:
    """An out is neither held nor gone and makes a combination with another card of the hand."""
    worth = preferred([[rank - 20.0 * outs for outs in range(8)] for rank in range(13)])
    pair = dealt(rami.Options(), 2, 9)
    bundle, seat = pair.bundle, pair.cores[0].seat
    bundle.draw(seat, 0)
    gone = [core.discard[0] for core in pair.cores]
    before = [pair.hand(seat, lane) for lane in range(LANES)]
    bundle.discard(seat, worth, True)
    for lane, hand in enumerate(before):

        def outs(card: int, hand: int = hand, lane: int = lane) -> int:
            free = [c for c in range(52) if not (hand | gone[lane]) >> c & 1]
            held = [c for c in masks.cards(hand) if c != card]
            made = (masks.mask((card, c, out)) for c in held for out in free)
            return len({m & ~hand for m in made if masks.melds_in(m)})

        chosen = (hand ^ pair.hand(seat, lane)).bit_length() - 1
        scores = {int(card): card % 13 - 20 * outs(card) for card in masks.cards(hand)}
        assert scores[chosen] == max(scores.values())


def test_a_bundle_is_played_for_so_many_turns_and_no_more() -> None:
    """Rounds that go round in circles do not keep a search for ever."""
    pair = dealt(rami.Options(), 2, 3)
    pair.bundle.turn = LONGEST - 2
    pair.bundle.stock = [[]] * LONGEST
    assert pair.bundle.play(pair.cores[0].seat, [policy(Random(1))] * 2, True)
    assert pair.bundle.turn == LONGEST
    assert pair.bundle.live == pair.bundle.full


def test_a_bundle_is_broken_off_when_time_is_up() -> None:
    """It says so, for its rounds tell nothing then."""
    pair, left = dealt(rami.Options(), 2, 4), iter((True, True, False))
    plays = [policy(Random(1))] * 2
    assert not pair.bundle.play(0, plays, True, lambda: next(left))
    assert pair.bundle.turn == 2
