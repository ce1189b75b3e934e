"""What the others' moves tell of their hidden cards, from the history a seat was shown.

Every move of another seat makes some cards more or less likely in its hand: who takes hardly holds
a cheap card that beats, who lays a card seldom holds one he could sooner have done without, who
passes by choice holds a card that fits and is too good to give. A draw dilutes what is believed,
as the cards drawn may be any.
"""

from collections.abc import Sequence
from typing import assert_never

from engines.bits import members
from engines.cards import Card
from engines.durak import (
    HAND_SIZE,
    PACK,
    Attacked,
    Beaten,
    BoutClosed,
    CardsDrawn,
    DealNull,
    DurakNamed,
    HandsDealt,
    Happening,
    Options,
    Outcome,
    Passed,
    SeatLeft,
    SeatOut,
    Taken,
    TurnExpired,
)
from engines.durak.masks import BEATING, BIT, RANKS, TRUMPS
from services.ai.bots.durak.worlds import Weights

HIGHEST = 0xFF << 28
"""The kings and aces."""
SPARING_TALON = 8
"""With more cards in the talon, taking may save the highest trumps."""
THICK_TALON = 6
"""With more cards in the talon, a defender who takes is given next to nothing."""

# How much likelier a card is to be held after a move: what was counted in games between bots,
# moved towards 1, as nobody is bound to play like them.
CHEAPER = 0.3
"""It would have done as well as the card that was laid, for less."""
SOONER = 0.7
"""One would have begun with it sooner."""
UNUSED = 0.3
"""It fitted and was not added, or it beat and was not used."""
DENIED = 0.02
"""An automatic pass denied its rank; that lasts when other cards have been drawn."""
SAVED = 2.5
"""A trump that fitted was not added, and only who can add is asked: such a card it will be."""


def weights(own: int, history: Sequence[Happening], options: Options) -> Weights:
    """By seat and card, how much likelier than chance the card is among the seat's hidden ones.

    `own` is the seat that was shown the history, `options` are the table's. Nothing is believed
    without the deal.
    """
    if not history or not isinstance(history[0], HandsDealt):
        return {}
    beliefs = _Beliefs(own, history[0], options)
    for happening in history[1:]:
        beliefs.hear(happening)
    return beliefs.weights


class _Beliefs:
    """What is believed so far, and what of the position it takes to go on."""

    def __init__(self, own: int, dealt: HandsDealt, options: Options) -> None:
        self._asked_if_able = options.auto_pass
        self.weights: dict[int, dict[int, float]] = {
            seat: {} for seat in range(dealt.seats) if seat != own
        }
        self._trumps = TRUMPS[dealt.trump]
        self._beating = BEATING[dealt.trump]
        self._hidden = [HAND_SIZE] * dealt.seats
        self._known = [0] * dealt.seats
        self._talon = len(PACK) - HAND_SIZE * dealt.seats
        self._table = self._ranks = self._open = self._defender = 0
        self._taking = False
        if dealt.lowest is not None:
            self._see(dealt.starter, BIT[dealt.lowest])
        if not self._talon:
            self._see(dealt.seats - 1, BIT[dealt.shown])

    def hear(self, happening: Happening) -> None:
        """Something happened."""
        match happening:
            case Attacked(seat, card):
                self._attacked(seat, BIT[card])
            case Beaten(seat, card):
                self._beaten(seat, BIT[card])
            case Taken(seat):
                self._taken(seat)
            case Passed(seat, automatic):
                self._passed(seat, automatic=automatic)
            case CardsDrawn(seat, count, shown):
                self._drawn(seat, count, shown)
            case BoutClosed(outcome=outcome):
                if outcome is Outcome.TAKEN:
                    self._known[self._defender] |= self._table
                self._table = self._ranks = self._open = 0
                self._taking = False
            case HandsDealt() | SeatOut() | DurakNamed() | DealNull() | TurnExpired() | SeatLeft():
                pass
            case _:
                assert_never(happening)

    def _attacked(self, seat: int, card: int) -> None:
        plain, lower = ~self._trumps, _lower(card)
        if not self._table:
            if card & plain:
                self._believe(seat, lower & plain, SOONER)
            else:
                self._believe(seat, plain, UNUSED)
                self._believe(seat, lower & self._trumps, CHEAPER)
        elif not self._taking and card & plain:
            self._believe(seat, self._ranks & lower & plain, CHEAPER)
        self._open = 0 if self._taking else card
        self._lay(seat, card)

    def _beaten(self, seat: int, card: int) -> None:
        beating, plain = self._beating[self._open or card], ~self._trumps
        if card & plain:
            self._believe(seat, beating & plain & _lower(card), CHEAPER)
        else:
            self._believe(seat, beating & plain, UNUSED)
            self._believe(seat, beating & self._trumps & _lower(card), CHEAPER)
        self._defender = seat
        self._open = 0
        self._lay(seat, card)

    def _taken(self, seat: int) -> None:
        if self._open:
            beating = self._beating[self._open]
            if self._talon > SPARING_TALON:
                beating &= ~(HIGHEST & self._trumps)
            self._believe(seat, beating, UNUSED)
        self._defender = seat
        self._taking = True
        self._open = 0

    def _passed(self, seat: int, *, automatic: bool) -> None:
        if automatic:
            self._believe(seat, self._ranks, DENIED)
        else:
            if not self._taking or self._talon <= THICK_TALON:
                self._believe(seat, self._ranks & ~self._trumps, UNUSED)
            if self._asked_if_able:
                self._believe(seat, self._ranks & self._trumps, SAVED)

    def _drawn(self, seat: int, count: int, shown: Card | None) -> None:
        """Of the hidden cards some are new now, and a new one may be any."""
        self._talon -= count
        if shown is not None:
            count -= 1
            self._known[seat] |= BIT[shown]
        hidden = max(self._hidden[seat], 0)
        self._hidden[seat] = hidden + count
        believed = self.weights.get(seat)
        if believed and count:
            for card, weight in believed.items():
                believed[card] = (weight * hidden + count) / (hidden + count)

    def _believe(self, seat: int, cards: int, factor: float) -> None:
        believed = self.weights.get(seat)
        if believed is not None:
            for card in members(cards & _ALL):
                believed[card] = believed.get(card, 1.0) * factor

    def _lay(self, seat: int, card: int) -> None:
        self._table |= card
        self._ranks |= RANKS[card]
        self._see(seat, card)
        self._known[seat] &= ~card

    def _see(self, seat: int, card: int) -> None:
        """A card of the seat's is hidden no more."""
        if not self._known[seat] & card:
            self._known[seat] |= card
            self._hidden[seat] -= 1


_ALL = (1 << len(PACK)) - 1


def _lower(card: int) -> int:
    """All cards of lower ranks."""
    ranks = RANKS[card]
    return (ranks & -ranks) - 1
