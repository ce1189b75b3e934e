"""Many rounds of Rami side by side, played on together.

Each round of a bundle is a bit, a lane: for every card there is an integer that has the lanes in
which a seat holds it, another that has the lanes in which it is gone, and so on. A turn of all
lanes is some thousand operations on long integers, which take hardly longer for a thousand lanes
than for one.

Every seat keeps to a `Policy`: it draws from the pile what makes a combination with its hand or
can be added to one on the table, lays and adds all it can (where a run and a group want the same
card, the run) or holds it back, and discards by points and outs. An out of a card is another that
would make a combination of it and a third of the hand, and that is neither held nor gone. A policy
looks at nothing but its hand and what is public.

With `discard_to_win` a hand that could be laid whole counts as gone out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engines.cards import PACK_SIZE, RANKS, SUITS, Card
from engines.rami import card_points

_STRIDE = len(RANKS) + 2
PLACES = len(SUITS) * _STRIDE + 2
"""Places of a row: every suit's cards, with two empty places before, between and after them."""
PLACE = tuple(2 + card // len(RANKS) * _STRIDE + card % len(RANKS) for card in range(PACK_SIZE))
"""Where a card stands in a row."""
_RANKS = tuple(PLACE[rank :: len(RANKS)] for rank in range(len(RANKS)))
"""The four places of each rank."""
_OTHERS = {
    four[suit]: (*four[:suit], *four[suit + 1 :]) for four in _RANKS for suit in range(len(SUITS))
}
"""By place those of the other three cards of the rank."""
_WAYS = ((PLACE, -1), (PLACE[::-1], 1))
"""Up and down the suits, with the step back to the neighbour that was before."""

Row = list[int]
"""Lanes by place."""
Lanes = list[tuple[int, int]]
"""Places, each with lanes."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a seat plays.

    `discards` are ranks and numbers of outs, those of the gladliest discards first. Combinations
    are held back while every other hand has at least `holds` cards, until they go out; with 0 they
    are laid at once.
    """

    discards: tuple[tuple[int, int], ...]
    holds: int = 0


class Bundle:
    """Rounds side by side, in all of which it is the same seat's turn.

    Attributes:
        full: all lanes; `live`: those whose round goes on.
        hands: by seat, who holds what.
        top: the visible discards; `taken`: those taken in this turn.
        runs: the cards of runs on the table; `lacks`: the card a group of three there lacks.
        gone: the cards on the table and in the pile.
        stock: by turn, the card drawn from the stock in it, unless another is taken.
        turn: how many turns have begun.
        passed: by turn, the lanes in which its stock card was not drawn.
        kept: cards of combinations that the seat whose turn it is holds back.
        out: by seat, the lanes in which it went out.
    """

    __slots__ = (
        "full",
        "gone",
        "hands",
        "kept",
        "lacks",
        "live",
        "out",
        "passed",
        "runs",
        "stock",
        "taken",
        "top",
        "turn",
    )

    def __init__(self, full: int, hands: list[Row], stock: Sequence[Lanes]) -> None:
        self.full = self.live = full
        self.hands = hands
        self.stock = stock
        self.top: Lanes = []
        self.taken: Lanes = []
        self.runs: Row = [0] * PLACES
        self.lacks: Row = [0] * PLACES
        self.gone: Row = [0] * PLACES
        self.turn = 0
        self.passed: list[int] = []
        self.kept: dict[int, int] = {}
        self.out = [0] * len(hands)

    def play(
        self,
        seat: int,
        policies: Sequence[Policy],
        barring: bool,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Play on from this seat's turn until few rounds go on, and have those lay what they can.

        Cards that are taken and thrown away for ever are not waited for (RAMI-22).
        `barring` is the option `forbid_same_discard`. False when it was broken off because it no
        longer `goes_on`, which is asked every turn.
        """
        few = self.full.bit_count() // _FEW
        while self.live.bit_count() > few and self.turn < LONGEST:
            if not goes_on():
                return False
            self.draw(seat, self.full)
            self.lay(seat, policies[seat].holds)
            self.discard(seat, policies[seat].discards, barring)
            seat = (seat + 1) % len(self.hands)
        for each in range(len(self.hands)):
            self.lay(each, 0)
        return True

    def draw(self, seat: int, may_take: int) -> None:
        """Draw in all live lanes, from the pile only in lanes of `may_take`.

        Where the stock is empty the round is over.
        """
        hand, runs, lacks = self.hands[seat], self.runs, self.lacks
        self.taken = []
        left = self.live
        for at, lanes in self.top:
            if lanes := lanes & left & may_take:
                low, high = hand[at - 1], hand[at + 1]
                x, y, z = [hand[other] for other in _OTHERS[at]]
                use = low & (hand[at - 2] | high) | high & hand[at + 2]
                use |= x & y | z & (x | y)
                use |= runs[at - 1] | runs[at + 1] | lacks[at]
                if use := use & lanes:
                    self.taken.append((at, use))
                    left ^= use
        for at, lanes in self.taken:
            hand[at] |= lanes
            self.gone[at] ^= lanes
        self._draw_stock(hand, left)
        self.turn += 1

    def _draw_stock(self, hand: Row, wanted: int) -> None:
        """This turn's card, in turns after the last one that was passed.

        Nobody knows the order of the stock, so any unseen card is as good as another.
        """
        if self.turn < len(self.stock):
            self.passed.append(self.full ^ wanted)
            _deal(hand, self.stock[self.turn], wanted)
            return
        for turn, passed in enumerate(self.passed):
            if drawn := passed & wanted:
                self.passed[turn] ^= drawn
                wanted ^= drawn
                _deal(hand, self.stock[turn], drawn)
        self.live ^= wanted

    def lay(self, seat: int, holds: int) -> None:
        """Lay and add all that can be, or hold it back; be out where nothing is left."""
        hand = self.hands[seat]
        holding = self._waiting(seat, holds)
        rows = (hand, self.runs, self.lacks, self.gone)
        before = [row[:] for row in rows] if holding else []
        self._lay_runs(hand)
        self._lay_groups(hand)
        self._add(hand)
        self.kept = {}
        if holding := holding & _two_or_more(hand):
            self.kept = {
                at: lanes
                for at, (was, now) in enumerate(zip(before[0], hand, strict=True))
                if (lanes := (was ^ now) & holding)
            }
            for row, old in zip(rows, before, strict=True):
                for at, (was, now) in enumerate(zip(old, row, strict=True)):
                    if was != now:
                        row[at] = now ^ (was ^ now) & holding
        self._go_out(seat)

    def _waiting(self, seat: int, holds: int) -> int:
        """The live lanes in which every other hand has at least so many cards."""
        waiting = self.live if holds else 0
        for other, hand in enumerate(self.hands):
            if other != seat and waiting:
                waiting &= _at_least(hand, holds)
        return waiting

    def _lay_runs(self, hand: Row) -> None:
        live, runs, gone = self.live, self.runs, self.gone
        found = [
            (at, three) for at in PLACE if (three := hand[at] & hand[at + 1] & hand[at + 2] & live)
        ]
        for first, three in found:
            for at in (first, first + 1, first + 2):
                laid = hand[at] & three
                hand[at] ^= laid
                runs[at] |= laid
                gone[at] |= laid

    def _lay_groups(self, hand: Row) -> None:
        live, lacks, gone = self.live, self.lacks, self.gone
        for four in _RANKS:
            w, x, y, z = [hand[at] for at in four]
            if group := (w & x & (y | z) | y & z & (w | x)) & live:
                for at in four:
                    laid = hand[at] & group
                    hand[at] ^= laid
                    gone[at] |= laid
                    lacks[at] |= group ^ laid

    def _add(self, hand: Row) -> None:
        """Add to what lies on the table, up and down its runs."""
        live, runs, lacks, gone = self.live, self.runs, self.lacks, self.gone
        for places, back in _WAYS:
            for at in places:
                if added := hand[at] & (runs[at + back] | lacks[at]) & live:
                    group = added & lacks[at]
                    lacks[at] ^= group
                    runs[at] |= added ^ group
                    hand[at] ^= added
                    gone[at] |= added

    def _go_out(self, seat: int) -> None:
        held = 0
        for lanes in self.hands[seat]:
            held |= lanes
        out = self.live & (self.full ^ held)
        self.out[seat] |= out
        self.live ^= out

    def discard(self, seat: int, discards: Sequence[tuple[int, int]], barring: bool) -> None:
        """Discard in all live lanes and be out where that was the last card."""
        hand, left = self.hands[seat], self.live
        barred: dict[int, int] = {}
        for at, lanes in self.taken if barring else ():
            barred[at] = barred.get(at, 0) | lanes
        chosen = [0] * PLACES
        left = _choose(self._ranked(hand, discards, barred), left, chosen)
        if left:  # nothing but combinations, or a taken card alone, which may go back (RAMI-17)
            others = [(at, held & (self.full ^ barred.get(at, 0))) for at, held in enumerate(hand)]
            _choose(enumerate(hand), _choose(others, left, chosen), chosen)
        self.top = [(at, lanes) for at, lanes in enumerate(chosen) if lanes]
        for at, lanes in self.top:
            hand[at] ^= lanes
            self.gone[at] |= lanes
        self._go_out(seat)

    def _ranked(
        self, hand: Row, discards: Sequence[tuple[int, int]], barred: Mapping[int, int]
    ) -> Lanes:
        """The cards and the lanes in which they have so many outs, best discards first."""
        full, gone = self.full, self.gone
        free = [full ^ (lost | held) for lost, held in zip(gone, hand, strict=True)]
        ranks: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in _RANKS]
        for four, by_outs in zip(_RANKS, ranks, strict=True):
            for at in four:
                held = hand[at]
                for staying in (self.kept, barred):
                    if at in staying:
                        held &= full ^ staying[at]
                if held:
                    by_outs.append((at, _by_outs(at, held, hand, free)))
        return [
            (at, lanes[outs]) for rank, outs in discards for at, lanes in ranks[rank] if lanes[outs]
        ]


LONGEST = 120
"""A bundle is played for no more turns."""
_FEW = 16
"""A bundle is played until at most one round of so many goes on."""


def preferred(scores: Sequence[Sequence[float]]) -> tuple[tuple[int, int], ...]:
    """The discards of a policy from scores by rank and by number of outs; of equals the lowest."""
    every = [(rank, outs) for rank, row in enumerate(scores) for outs in range(len(row))]
    return tuple(sorted(every, key=lambda each: -scores[each[0]][each[1]]))


def points(hand: Row, lanes: int, ace_high: bool) -> bytes:
    """What the hand costs in each of so many lanes, the last lane first."""
    ones = int.from_bytes(b"\1" * lanes)
    costs = 0
    for card, at in enumerate(PLACE):
        if held := hand[at]:
            costs += card_points(Card(card), ace_high) * (_spread(held, lanes) & ones)
    return costs.to_bytes(lanes)


def winners(out: Sequence[int], lanes: int) -> bytes:
    """In each of so many lanes 1 more than the seat that went out, or 0; the last lane first."""
    ones = int.from_bytes(b"\1" * lanes)
    seats = sum(seat * (_spread(of, lanes) & ones) for seat, of in enumerate(out, 1))
    return seats.to_bytes(lanes)


def _spread(of: int, lanes: int) -> int:
    """An octet for each lane, its lowest bit the lane's."""
    return int.from_bytes(format(of, f"0{lanes}b").encode())


def _deal(hand: Row, cards: Lanes, to: int) -> None:
    for at, lanes in cards:
        hand[at] |= lanes & to


def _choose(cards: Iterable[tuple[int, int]], left: int, chosen: Row) -> int:
    """Choose for each of the lanes the first card that is offered; the lanes without one."""
    for at, lanes in cards:
        if picked := lanes & left:
            left ^= picked
            chosen[at] |= picked
    return left


def _two_or_more(hand: Row) -> int:
    one = two = 0
    for held in hand:
        two |= one & held
        one |= held
    return two


def _at_least(hand: Row, number: int) -> int:
    """The lanes in which the hand has so many cards, at least 1."""
    counted = [0] * number
    for held in hand:
        if held:
            for index in range(number - 1, 0, -1):
                counted[index] |= counted[index - 1] & held
            counted[0] |= held
    return counted[-1]


def _by_outs(at: int, held: int, hand: Row, free: Row) -> tuple[int, ...]:
    """The lanes that hold the card with no out, with one, …, with seven."""
    low, high = hand[at - 1], hand[at + 1]
    a, b, c = _OTHERS[at]
    x, y, z = hand[a], hand[b], hand[c]
    one, two = _added(
        low & free[at - 2],
        (hand[at - 2] | high) & free[at - 1],
        (low | hand[at + 2]) & free[at + 1],
    )
    other, more = _added(high & free[at + 2], free[a] & (y | z), free[b] & (x | z))
    one, carried = _added(one, other, free[c] & (x | y))
    two, four = _added(two, more, carried)
    n1 = held & one
    n0 = held ^ n1
    n2, n3 = n0 & two, n1 & two
    n0 ^= n2
    n1 ^= n3
    if not four & held:
        return n0, n1, n2, n3, 0, 0, 0, 0
    n4, n5, n6, n7 = n0 & four, n1 & four, n2 & four, n3 & four
    return n0 ^ n4, n1 ^ n5, n2 ^ n6, n3 ^ n7, n4, n5, n6, n7


def _added(x: int, y: int, z: int) -> tuple[int, int]:
    """Three bits of every lane added up: ones and twos."""
    odd = x ^ y
    return odd ^ z, x & y | odd & z
