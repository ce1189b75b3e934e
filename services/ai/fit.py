"""Whether a view fits together: what the bots rely on, checked once where a view comes in.

A view from the game service always fits. One that a client made up may still be impossible, but a
bot can read it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engines import azi, durak, rami
from engines.api import CHIPS_MAX
from engines.cards import PACK_SIZE, Card

AZI_HAND_MAX = 4
RAMI_HAND_MAX = 11
LEGAL_MAX = 1_000
"""More moves than any hand has."""
AZI_KINDS: Mapping[azi.Phase, tuple[type, ...]] = {
    azi.Phase.DROPPING: (azi.Look, azi.Drop, azi.DropLast),
    azi.Phase.BIDDING: (azi.Look, azi.Bid, azi.Level, azi.Fold, azi.AllIn),
    azi.Phase.BUYING_BACK: (azi.BuyBack, azi.Decline),
    azi.Phase.TRICKS: (azi.PlayCard,),
}
"""The moves a seat can be asked for in each phase of Azi."""
DURAK_KINDS: Mapping[durak.Phase, tuple[type, ...]] = {
    durak.Phase.ATTACKING: (durak.Attack, durak.Pass),
    durak.Phase.DEFENDING: (durak.Beat, durak.Take),
    durak.Phase.TAKING: (durak.Attack, durak.Pass),
}


class Unfit(Exception):
    """A field of the view that cannot be as it is."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem


def check(game: str, view: Any) -> None:
    """Raise Unfit for a view that does not fit together; for one with legal moves."""
    _must(len(view.legal) <= LEGAL_MAX, "legal", "more moves than there are")
    _CHECKS[game](view)


def _check_azi(view: azi.View) -> None:
    seats = range(len(view.seats))
    _check_seats(seats, azi.SEATS, "seats", view.seat)
    _must(all(s.seat == at for at, s in enumerate(view.seats)), "seats", "are not in order")
    for seat in view.seats:
        paid = (seat.stack, seat.level, seat.contributed, seat.weight, seat.bought_back)
        _must(all(0 <= a <= CHIPS_MAX for a in paid), "seats", "amounts out of range")
        _must(0 <= seat.tricks <= 1, "seats", "tricks out of range")
        _must(0 <= seat.cards <= len(azi.PACK), "seats", "cards out of range")
    plays = [*(play for trick in view.tricks for play in trick.plays), *view.trick]
    _must(all(play.seat in seats for play in plays), "trick", "names no seat")
    _must(all(trick.plays for trick in view.tricks), "tricks", "a trick without a card")
    _must(view.turned is not None, "turned", "is required")
    cards = [*view.hand, *(play.card for play in plays)]
    _check_cards((*cards, view.turned, view.dropped), azi.PACK, "hand")
    _must(len(view.hand) <= AZI_HAND_MAX, "hand", "too many cards")
    _must(0 < view.options.min_bet <= CHIPS_MAX, "options.min_bet", "out of range")
    kinds = AZI_KINDS.get(view.phase, ())
    _must(all(isinstance(m, kinds) for m in view.legal), "legal", "not moves of this phase")
    for move in view.legal:
        match move:
            case azi.Drop(card=card) | azi.PlayCard(card=card):
                _must(card in view.hand, "legal", "a card that is not in the hand")
            case azi.Bid(amount=amount):
                bounded = view.bid_minimum <= amount <= view.bid_maximum
                _must(bounded and amount > 0, "legal", "a bid out of its bounds")
            case _:
                pass
    amounts = (view.bank, view.high, view.level_price, view.buy_back_price)
    _must(all(0 <= a <= CHIPS_MAX for a in amounts), "bank", "amounts out of range")
    if view.phase is azi.Phase.BIDDING and azi.Look() not in view.legal:
        _must(len(view.hand) == azi.BIDS_MAX, "hand", "three cards are bid on")


def _check_durak(view: durak.View) -> None:
    seats = range(len(view.counts))
    _check_seats(seats, durak.SEATS, "counts", view.seat)
    _must(all(0 <= n <= len(durak.PACK) for n in view.counts), "counts", "out of range")
    _must(view.defender is not None and view.defender in seats, "defender", "names no seat")
    _must(view.trump is not None, "trump", "is required")
    _must(0 <= view.talon <= len(durak.PACK), "talon", "out of range")
    table = [c for pair in view.table for c in (pair.attack, pair.beaten_by)]
    known = [card for hand in view.known if hand.seat != view.seat for card in hand.cards]
    _check_cards((*view.hand, *table, *view.discarded, *known), durak.PACK, "hand")
    kinds = DURAK_KINDS.get(view.phase, ())
    _must(all(isinstance(m, kinds) for m in view.legal), "legal", "not moves of this phase")
    cards = [m.card for m in view.legal if isinstance(m, durak.Attack | durak.Beat)]
    _must(set(cards) <= set(view.hand), "legal", "a card that is not in the hand")
    attack = view.table[-1].attack if view.table else None
    _must(view.phase is not durak.Phase.DEFENDING or attack is not None, "table", "is empty")


def _check_rami(view: rami.View) -> None:
    seats = range(len(view.counts))
    _check_seats(seats, rami.SEATS, "counts", view.seat)
    _must(all(0 <= n <= PACK_SIZE for n in view.counts), "counts", "out of range")
    _must(0 < len(view.hand) <= RAMI_HAND_MAX, "hand", f"must have 1 to {RAMI_HAND_MAX} cards")
    pack = [Card(number) for number in range(PACK_SIZE)]
    laid = [card for meld in view.melds for card in meld.cards]
    _check_cards((*view.hand, *laid, *view.discard), pack, "hand")
    _must(all(rami.kind_of(meld.cards) is not None for meld in view.melds), "melds", "is no meld")
    drawing = view.drawn is None
    for move in view.legal:
        match move:
            case rami.Meld(cards=cards) | rami.LayOff(cards=cards):
                fits = bool(cards) and set(cards) <= set(view.hand)
            case rami.Discard(card=card):
                fits = card in view.hand
            case _:
                fits = drawing
        _must(fits, "legal", "not a move of this hand")
    if not drawing:
        _must(any(isinstance(m, rami.Discard) for m in view.legal), "legal", "no card to discard")


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "azi": _check_azi,
    "durak": _check_durak,
    "rami": _check_rami,
}


def _check_seats(seats: range, allowed: range, field: str, seat: int | None) -> None:
    _must(len(seats) in allowed, field, "not a number of seats that can play")
    _must(seat is not None and seat in seats, "seat", "names no seat")


def _check_cards(cards: Iterable[Card | None], pack: Iterable[Card], field: str) -> None:
    held = [card for card in cards if card is not None]
    _must(len(held) == len(set(held)), field, "a card that lies in two places")
    _must(set(held) <= set(pack), field, "a card that is not in the pack")


def _must(holds: bool, field: str, problem: str) -> None:
    if not holds:
        raise Unfit(field, problem)
