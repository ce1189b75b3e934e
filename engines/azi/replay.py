"""What each event does to the state; nothing is judged here."""

from dataclasses import replace
from typing import Any, assert_never

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
from engines.azi.model import Phase, Play, Player, Standing, State, Trick


def evolve(state: State, event: Event) -> State:
    """The state after one event: total, never judges."""
    match event:
        case FeePaid(seat=seat, chips=chips):
            return _paid(state, seat, chips, weight=chips)
        case BecameShort(seat=seat):
            return _with(state, seat, short=True)
        case OpenerDrawn(seat=seat):
            return replace(state, origin=seat)
        case Dealt():
            return _dealt(state, event)
        case CardDropped(seat=seat, unseen=unseen, secret=secret):
            hand = tuple(c for c in state.players[seat].hand if c != secret.card)
            return _with(state, seat, hand=hand, dropped=secret.card, dropped_unseen=unseen)
        case BiddingOpened(opener=opener):
            return replace(state, phase=Phase.BIDDING, cursor=opener, turn=state.turn + 1)
        case BlindLookedAt(seat=seat):
            grows = state.phase is Phase.BIDDING
            return replace(_with(state, seat, blind=False), turn=state.turn + grows)
        case BidMade(seat=seat, level=level, chips=chips):
            state = _bid(state, seat, level, chips, bids=state.players[seat].bids + 1)
            return replace(state, high=level, high_seat=seat)
        case Levelled(seat=seat, level=level, chips=chips):
            return _bid(state, seat, level, chips)
        case WentAllIn(seat=seat, level=level, chips=chips):
            return _bid(state, seat, level, chips, short=True)
        case Folded(seat=seat):
            return _asked(_with(state, seat, standing=Standing.FOLDED), seat)
        case BiddingClosed(leader=leader):
            return _closed(state, leader)
        case CardPlayed(seat=seat, card=card):
            hand = tuple(c for c in state.players[seat].hand if c != card)
            state = _with(state, seat, hand=hand)
            return replace(state, trick=(*state.trick, Play(seat, card)), turn=state.turn + 1)
        case TrickTaken(seat=seat, leader=leader):
            state = _with(state, seat, tricks=state.players[seat].tricks + 1)
            done = (*state.tricks, Trick(state.trick, seat))
            return replace(state, tricks=done, trick=(), leader=leader)
        case AziDeclared(price=price, asked=asked):
            return replace(
                state,
                phase=Phase.BUYING_BACK,
                azis=state.azis + 1,
                price=price,
                asked=asked,
                high=0,
                high_seat=None,
                leader=None,
                turn=state.turn + 1,
            )
        case BoughtBack(seat=seat, chips=chips):
            player = state.players[seat]
            state = _with(
                state,
                seat,
                stack=player.stack - chips,
                bought_back=player.bought_back + chips,
                standing=Standing.LIVE,
            )
            return replace(_answered(state, seat), bank=state.bank + chips, turn=state.turn + 1)
        case Declined(seat=seat):
            return replace(_answered(state, seat), turn=state.turn + 1)
        case BankPaid():
            return _bank_paid(state, event)
        case TurnExpired():
            return state
        case SeatLeft(seat=seat):
            return _left(state, seat)
        case _:
            assert_never(event)


def dropping(state: State) -> tuple[int, ...]:
    """The live seats that still have to drop a card, ascending (AZI-7)."""
    if state.options.deal_size == 3:
        return ()
    return tuple(
        s for s, p in enumerate(state.players) if p.standing is Standing.LIVE and p.dropped is None
    )


def bidding(state: State) -> int | None:
    """The seat asked in the bidding, None when it is closed (AZI-18)."""
    players, seats = state.players, len(state.players)
    for i in range(seats):
        seat = (state.cursor + i) % seats
        player = players[seat]
        behind = state.high == 0 or player.level < state.high
        if behind and player.standing is Standing.LIVE and not player.short:
            return seat
    return None


def playing(state: State) -> int | None:
    """The seat to play a card, None when the trick is complete."""
    players, seats = state.players, len(state.players)
    played = {play.seat for play in state.trick}
    for i in range(seats):
        seat = ((state.leader or 0) + i) % seats
        if players[seat].standing is Standing.LIVE and seat not in played:
            return seat
    return None


def to_act(state: State) -> tuple[int, ...]:
    """The seats that may move now, ascending; none before the start and after the end."""
    match state.phase:
        case Phase.WAITING | Phase.OVER:
            return ()
        case Phase.DROPPING:
            return dropping(state)
        case Phase.BIDDING:
            seat = bidding(state)
        case Phase.TRICKS:
            seat = playing(state)
        case Phase.BUYING_BACK:
            return state.asked[:1]
        case _:
            assert_never(state.phase)
    return () if seat is None else (seat,)


def _with(state: State, seat: int, **changes: Any) -> State:
    player = replace(state.players[seat], **changes)
    return replace(state, players=(*state.players[:seat], player, *state.players[seat + 1 :]))


def _paid(state: State, seat: int, chips: int, weight: int, **changes: Any) -> State:
    player = state.players[seat]
    state = _with(
        state,
        seat,
        stack=player.stack - chips,
        contributed=player.contributed + chips,
        weight=player.weight + weight,
        **changes,
    )
    return replace(state, bank=state.bank + chips)


def _bid(state: State, seat: int, level: int, chips: int, **changes: Any) -> State:
    weight = level - state.players[seat].level
    return _asked(_paid(state, seat, chips, weight, level=level, **changes), seat)


def _asked(state: State, seat: int) -> State:
    return replace(state, cursor=(seat + 1) % len(state.players), turn=state.turn + 1)


def _dealt(state: State, event: Dealt) -> State:
    hands = dealt_hands(event)
    players: list[Player] = []
    for seat, player in enumerate(state.players):
        players.append(
            replace(
                player,
                hand=hands.get(seat, ()),
                blind=event.blind and seat in hands,
                level=0,
                bids=0,
                tricks=0,
                dropped=None,
                dropped_unseen=False,
            )
        )
    return replace(
        state,
        players=tuple(players),
        phase=Phase.DROPPING,
        turn=state.turn + 1,
        deal=event.deal,
        turned=event.turned,
        stock=event.secret.deck[len(event.seats) * event.cards + 1 :],
        high=0,
        high_seat=None,
        leader=None,
        trick=(),
        tricks=(),
        asked=(),
        price=0,
    )


def _closed(state: State, leader: int) -> State:
    players = tuple(
        replace(p, blind=False) if p.standing is Standing.LIVE else p for p in state.players
    )
    return replace(state, players=players, phase=Phase.TRICKS, leader=leader, turn=state.turn + 1)


def _answered(state: State, seat: int) -> State:
    return replace(state, asked=tuple(s for s in state.asked if s != seat))


def _left(state: State, seat: int) -> State:
    grows = state.phase is not Phase.DROPPING and to_act(state) == (seat,)
    state = _answered(_with(state, seat, standing=Standing.LEFT), seat)
    return replace(state, turn=state.turn + grows)


def _bank_paid(state: State, event: BankPaid) -> State:
    players = tuple(
        replace(p, stack=stack) for p, stack in zip(state.players, event.stacks, strict=True)
    )
    return replace(
        state,
        players=players,
        phase=Phase.OVER,
        bank=0,
        asked=(),
        winner=event.winner,
        payouts=event.payouts,
        turn=state.turn + 1,
    )
