"""What a seat, or the public, may see of a game: an allow-list, built field by field.

Hidden are the hands, the dropped cards and the undealt ones; all the rest of a game of Azi is
public (AZI-52).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from engines.azi.bank import cost, may_bid, minimum_bid, reach
from engines.azi.events import (
    AziDeclared,
    BankPaid,
    BecameShort,
    BiddingClosed,
    BiddingOpened,
    BidMade,
    BlindLookedAt,
    BoughtBack,
    CardDropped,
    CardPlayed,
    Dealt,
    Declined,
    Event,
    FeePaid,
    Folded,
    Levelled,
    OpenerDrawn,
    SeatLeft,
    TrickTaken,
    TurnExpired,
    WentAllIn,
    dealt_hands,
)
from engines.azi.model import (
    BIDS_MAX,
    Move,
    Options,
    Payout,
    Phase,
    Play,
    Player,
    Standing,
    State,
    Trick,
)
from engines.azi.replay import to_act
from engines.azi.rules import legal
from engines.cards import Card
from engines.records import changed, maker


@dataclass(frozen=True, slots=True)
class SeatView:
    """A seat as everybody sees it.

    `stack`, `contributed` (fees and bids of this game) and `bought_back` are chips; `weight`
    measures a short winner's part (AZI-32). `level` is what it has bid to in this deal, `bids_left`
    how often it may still set a new high. `cards` counts its hand, `tricks` what it has taken.
    """

    seat: int
    standing: Standing
    stack: int
    level: int
    bids_left: int
    contributed: int
    weight: int
    bought_back: int
    short: bool
    blind: bool
    dropped: bool
    cards: int
    tricks: int


@dataclass(frozen=True, slots=True)
class View:
    """A game as one seat (`seat`), or the public (None), may see it.

    `hand` is the viewer's own, ascending, empty while it is blind; `dropped` the card it dropped
    with open eyes. `high` is the highest bid (0: none) and `high_seat` made it. For a viewer who
    is live and not short in the bidding `level_price` is what it would cost to level now, in
    chips; `bid_minimum` and `bid_maximum` bound what the viewer may bid now, both 0 when it may
    not. `buy_back_price` is asked of folded seats after an azi, 0 otherwise. `tricks` are the
    finished ones of this deal in order, the last trick last; `azis` counts the deals that ended in
    azi. `last_winner` is the seat that won the last bank before this game, None if nobody has.
    """

    seat: int | None
    options: Options
    phase: Phase
    turn: int
    deal: int
    azis: int
    bank: int
    seats: tuple[SeatView, ...]
    to_act: tuple[int, ...]
    legal: tuple[Move, ...]
    turned: Card | None
    hand: tuple[Card, ...]
    dropped: Card | None
    high: int
    high_seat: int | None
    level_price: int
    bid_minimum: int
    bid_maximum: int
    buy_back_price: int
    leader: int | None
    trick: tuple[Play, ...]
    tricks: tuple[Trick, ...]
    last_winner: int | None
    winner: int | None
    payouts: tuple[Payout, ...]


@dataclass(frozen=True, slots=True)
class DealtShown:
    """A deal as one viewer sees it: `hand` is its own, ascending, empty for all others.

    It is empty for a blind seat as well, until it looks.
    """

    deal: int
    seats: tuple[int, ...]
    cards: int
    turned: Card
    blind: bool
    hand: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class CardDroppedShown:
    """A dropped card as one viewer sees it: `card` only for its seat, and not if dropped unseen."""

    seat: int
    unseen: bool
    card: Card | None


Happening = (
    DealtShown
    | CardDroppedShown
    | FeePaid
    | BecameShort
    | OpenerDrawn
    | BiddingOpened
    | BlindLookedAt
    | BidMade
    | Levelled
    | WentAllIn
    | Folded
    | BiddingClosed
    | CardPlayed
    | TrickTaken
    | AziDeclared
    | BoughtBack
    | Declined
    | BankPaid
    | TurnExpired
    | SeatLeft
)


_view, _seen = maker(View), maker(SeatView)


def view(state: State, viewer: int | None, public: View | None = None) -> View:
    """What a seat, or the public (None), may see of this state (AZI-52); `public` is what the
    latter sees, if known."""
    shown = _public(state) if public is None else public
    if viewer is None:
        return shown
    own = state.players[viewer]
    least, most = _bounds(state, viewer)
    return changed(
        shown,
        seat=viewer,
        legal=legal(state, viewer),
        hand=() if own.blind else tuple(sorted(own.hand)),
        dropped=None if own.dropped_unseen else own.dropped,
        level_price=_level_price(state, own),
        bid_minimum=least,
        bid_maximum=most,
    )


def _public(state: State) -> View:
    return _view(
        seat=None,
        options=state.options,
        phase=state.phase,
        turn=state.turn,
        deal=state.deal,
        azis=state.azis,
        bank=state.bank,
        seats=tuple(_seat_view(seat, player) for seat, player in enumerate(state.players)),
        to_act=to_act(state),
        legal=(),
        turned=state.turned,
        hand=(),
        dropped=None,
        high=state.high,
        high_seat=state.high_seat,
        level_price=0,
        bid_minimum=0,
        bid_maximum=0,
        buy_back_price=state.price,
        leader=state.leader,
        trick=state.trick,
        tricks=state.tricks,
        last_winner=state.last_winner,
        winner=state.winner,
        payouts=state.payouts,
    )


def show(event: Event, viewer: int | None) -> Happening | None:
    """The event as this viewer may see it; of Azi's every event something is public."""
    match event:
        case Dealt():
            hand = () if event.blind or viewer is None else dealt_hands(event).get(viewer, ())
            return DealtShown(
                deal=event.deal,
                seats=event.seats,
                cards=event.cards,
                turned=event.turned,
                blind=event.blind,
                hand=tuple(sorted(hand)),
            )
        case CardDropped(seat=seat, unseen=unseen, secret=secret):
            seen = seat == viewer and not unseen
            return CardDroppedShown(seat, unseen, secret.card if seen else None)
        case FeePaid() | BecameShort() | OpenerDrawn() | BiddingOpened() | BlindLookedAt():
            return event
        case BidMade() | Levelled() | WentAllIn() | Folded() | BiddingClosed():
            return event
        case CardPlayed() | TrickTaken() | AziDeclared() | BoughtBack() | Declined():
            return event
        case BankPaid() | TurnExpired() | SeatLeft():
            return event
        case _:
            assert_never(event)


def history(events: Sequence[Event], viewer: int | None) -> tuple[Happening, ...]:
    """The events as this viewer may see them, in order."""
    shown = (show(event, viewer) for event in events)
    return tuple(happening for happening in shown if happening is not None)


def _seat_view(seat: int, player: Player) -> SeatView:
    seen: SeatView = _seen(
        seat=seat,
        standing=player.standing,
        stack=player.stack,
        level=player.level,
        bids_left=BIDS_MAX - player.bids,
        contributed=player.contributed,
        weight=player.weight,
        bought_back=player.bought_back,
        short=player.short,
        blind=player.blind,
        dropped=player.dropped is not None,
        cards=len(player.hand),
        tricks=player.tricks,
    )
    return seen


def _level_price(state: State, own: Player) -> int:
    asked = own.standing is Standing.LIVE and not own.short
    if state.phase is not Phase.BIDDING or not asked:
        return 0
    return max(0, cost(own, state.high))


def _bounds(state: State, viewer: int) -> tuple[int, int]:
    if state.phase is not Phase.BIDDING or viewer not in to_act(state):
        return 0, 0
    player = state.players[viewer]
    return (minimum_bid(state), reach(player)) if may_bid(state, player) else (0, 0)
