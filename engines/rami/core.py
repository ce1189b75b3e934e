"""Rami for searches: one mutable position of a match, all cards known, a move an integer.

Cards are bits, `1 << card`; a hand, a combination, the cards of a move are masks
(`engines.rami.masks`). A move is

* `DRAW_STOCK` or `DRAW_DISCARD`;
* a discard: its card;
* a new combination: its cards;
* a lay-off: its cards, and from bit `TARGET` on the number of the combination on the table, from 1.

A core knows what decides how the match goes on. What only tells who knows what (taken cards, who
laid a combination), turn numbers, and players who have left are the decider's alone.
"""

from collections.abc import Sequence

from engines.bits import members
from engines.cards import PACK_SIZE, Card
from engines.rami import masks
from engines.rami.model import GUARD_TURNS, Options, Source
from engines.rami.table import cards_dealt, dealt_hands

DRAW_STOCK = 0
TARGET = PACK_SIZE
DRAW_DISCARD = 1 << TARGET + 8
"""Above every lay-off."""
NOBODY = -1
"""No seat: nobody is to act, nobody has won."""

_DRAWS = [DRAW_STOCK, DRAW_DISCARD]
_NO_DISCARD = [DRAW_STOCK]
_STOCK, _DISCARD = Source.STOCK.value, Source.DISCARD.value


class Core:
    """A match at one moment.

    Attributes:
        options: of the table, and those that each move asks for: `keep` (`discard_to_win`) and
            `forbid` (`forbid_same_discard`).
        seat: who is to act; `NOBODY` when the round is scored.
        hands: the seats' cards.
        stock: the stock as it was dealt, top first; the first `taken` of it are gone.
        discard: the discard pile, bottom first.
        melds: the combinations on the table, in the order they were laid; `fits`: the cards of
            which any one can be added to some of them.
        named: the names of the first of them, if they are not those of RAMI-32.
        drawn: where the seat to act has drawn from (a `Source`), 0 before the draw.
        barred: the card taken from the discard pile in this turn, where it may not go back.
        idle: finished turns in a row without a stock draw (RAMI-22).
        round, dealer, scores: as in the decider's state.
        round_winner, gain: once the round is scored, who won it and how many points.
        winner: the winner of the match, `NOBODY` before its end.
    """

    __slots__ = (
        "barred",
        "dealer",
        "discard",
        "drawn",
        "fits",
        "forbid",
        "gain",
        "hands",
        "idle",
        "keep",
        "melds",
        "named",
        "options",
        "round",
        "round_winner",
        "scores",
        "seat",
        "seats",
        "stock",
        "taken",
        "winner",
    )

    def __init__(self, options: Options, seats: int) -> None:
        self.options = options
        self.keep = options.discard_to_win
        self.forbid = options.forbid_same_discard
        self.seats = seats
        self.seat = NOBODY
        self.hands = [0] * seats
        self.stock: tuple[int, ...] = ()
        self.taken = 0
        self.discard: list[int] = []
        self.melds: list[int] = []
        self.named: tuple[str, ...] = ()
        self.fits = 0
        self.drawn = 0
        self.barred = 0
        self.idle = 0
        self.round = 0
        self.dealer = 0
        self.scores = [0] * seats
        self.round_winner = NOBODY
        self.gain = 0
        self.winner = NOBODY

    def clone(self) -> "Core":
        """Another core that stands the same; neither moves with the other."""
        other = Core.__new__(Core)
        other.options = self.options
        other.keep = self.keep
        other.forbid = self.forbid
        other.seats = self.seats
        other.seat = self.seat
        other.hands = self.hands[:]
        other.stock = self.stock
        other.taken = self.taken
        other.discard = self.discard[:]
        other.melds = self.melds[:]
        other.named = self.named
        other.fits = self.fits
        other.drawn = self.drawn
        other.barred = self.barred
        other.idle = self.idle
        other.round = self.round
        other.dealer = self.dealer
        other.scores = self.scores[:]
        other.round_winner = self.round_winner
        other.gain = self.gain
        other.winner = self.winner
        return other

    def deal(self, deck: Sequence[Card]) -> None:
        """Begin the match, or the next round, from the whole pack in dealing order (RAMI-4)."""
        if self.round:
            self.dealer = (self.dealer + 1) % self.seats
        self.round += 1
        self.seat = (self.dealer + 1) % self.seats
        deck = tuple(deck)
        dealt = cards_dealt(self.seats)
        self.hands = [masks.mask(h) for h in dealt_hands(deck, self.seats, self.seat)]
        self.discard = [1 << deck[dealt]]
        self.stock = tuple([1 << card for card in deck[dealt + 1 :]])
        self.taken = self.fits = self.drawn = self.barred = self.idle = self.gain = 0
        self.melds = []
        self.named = ()
        self.round_winner = NOBODY

    def legal(self) -> list[int]:
        """Every move of the seat to act (RAMI-31); not to be changed by the caller."""
        if not self.drawn:
            return _DRAWS if self.discard else _NO_DISCARD
        hand = self.hands[self.seat]
        # The taken card alone in the hand may go back (RAMI-17).
        return [*self.lays(), *members(hand & ~self.barred or hand)]

    def lays(self) -> list[int]:
        """The combinations and lay-offs among the legal moves of a seat that has drawn."""
        hand = self.hands[self.seat]
        found = masks.melds_in(hand)
        if hand & self.fits:
            for number, meld in enumerate(self.melds, 1):
                target = number << TARGET
                found += [target | added for added in masks.extensions(meld, hand)]
        if found and self.keep:
            return [move for move in found if move & masks.ALL != hand]
        return found

    def apply(self, move: int) -> None:
        """Make a legal move of the seat to act."""
        if not self.drawn:
            self._draw(move)
        elif not move & move - 1:
            self._discard(move)
        else:
            self._lay(move)

    def _draw(self, move: int) -> None:
        if move:
            card = self.discard.pop()
            self.drawn = _DISCARD
            if self.forbid:
                self.barred = card
        elif self.taken < len(self.stock):
            card = self.stock[self.taken]
            self.taken += 1
            self.drawn = _STOCK
        else:
            self._end_round(NOBODY)
            return
        self.hands[self.seat] |= card

    def _discard(self, card: int) -> None:
        seat = self.seat
        self.hands[seat] ^= card
        self.discard.append(card)
        self.idle = 0 if self.drawn == _STOCK else self.idle + 1
        self.drawn = self.barred = 0
        if not self.hands[seat]:
            self._end_round(seat)
        elif self.idle >= GUARD_TURNS:
            self._end_round(NOBODY)
        else:
            seat += 1
            self.seat = seat if seat < self.seats else 0

    def _lay(self, move: int) -> None:
        cards = move & masks.ALL
        if target := move >> TARGET:
            self.melds[target - 1] |= cards
        else:
            self.melds.append(cards)
        self.fits = fits(self.melds)
        self.hands[self.seat] ^= cards
        if not self.hands[self.seat]:
            self._end_round(self.seat)

    def _end_round(self, out: int) -> None:
        """Score the round (RAMI-21, RAMI-24); `out` is the seat that went out, if one did."""
        ace_high = self.options.ace_high
        points = [masks.points(hand, ace_high) for hand in self.hands]
        winner = points.index(min(points)) if out == NOBODY else out
        self.gain = sum(points) - points[winner]
        self.scores[winner] += self.gain
        self.round_winner = winner
        self.drawn = self.barred = 0
        self.seat = NOBODY
        if self.scores[winner] >= self.options.target:
            self.winner = winner


def fits(melds: Sequence[int]) -> int:
    """The cards of which any one can be added to some of these combinations."""
    found = 0
    for meld in melds:
        found |= masks.neighbours(meld)
    return found
