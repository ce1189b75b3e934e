"""What each event does to the state; nothing is judged here."""

from typing import assert_never

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
from engines.cards import Card
from engines.records import changed


def evolve(state: State, event: Event) -> State:
    """The state after one event: total, never judges."""
    match event:
        case FeePaid(seat=seat, chips=chips):
            return _fee_paid(state, seat, chips)
        case BecameShort(seat=seat):
            player = changed(state.players[seat], short=True)
            return changed(state, players=_seated(state, seat, player))
        case OpenerDrawn(seat=seat):
            return changed(state, origin=seat)
        case Dealt():
            return _dealt(state, event)
        case CardDropped(seat=seat, unseen=unseen, secret=secret):
            return _dropped(state, seat, secret.card, unseen)
        case BiddingOpened(opener=opener):
            return changed(state, phase=Phase.BIDDING, cursor=opener, turn=state.turn + 1)
        case BlindLookedAt(seat=seat):
            grows = state.phase is Phase.BIDDING
            players = _seated(state, seat, changed(state.players[seat], blind=False))
            return changed(state, players=players, turn=state.turn + grows)
        case BidMade() | Levelled() | WentAllIn():
            return _bid(state, event)
        case Folded(seat=seat):
            player = changed(state.players[seat], standing=Standing.FOLDED)
            players = _seated(state, seat, player)
            return changed(state, players=players, cursor=_after(state, seat), turn=state.turn + 1)
        case BiddingClosed(leader=leader):
            return _closed(state, leader)
        case CardPlayed(seat=seat, card=card):
            player = changed(state.players[seat], hand=_without(state, seat, card))
            players, trick = _seated(state, seat, player), (*state.trick, Play(seat, card))
            return changed(state, players=players, trick=trick, turn=state.turn + 1)
        case TrickTaken(seat=seat, leader=leader):
            return _trick_taken(state, seat, leader)
        case AziDeclared(price=price, asked=asked):
            return _azi(state, price, asked)
        case BoughtBack(seat=seat, chips=chips):
            return _bought_back(state, seat, chips)
        case Declined(seat=seat):
            return changed(state, asked=_not_asked(state, seat), turn=state.turn + 1)
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


def _seated(state: State, seat: int, player: Player) -> tuple[Player, ...]:
    """The players with this one in that seat."""
    return (*state.players[:seat], player, *state.players[seat + 1 :])


def _without(state: State, seat: int, card: Card) -> tuple[Card, ...]:
    return tuple([c for c in state.players[seat].hand if c != card])


def _after(state: State, seat: int) -> int:
    return (seat + 1) % len(state.players)


def _not_asked(state: State, seat: int) -> tuple[int, ...]:
    return tuple(s for s in state.asked if s != seat)


def _fee_paid(state: State, seat: int, chips: int) -> State:
    player = state.players[seat]
    player = changed(
        player,
        stack=player.stack - chips,
        contributed=player.contributed + chips,
        weight=player.weight + chips,
    )
    return changed(state, players=_seated(state, seat, player), bank=state.bank + chips)


def _dropped(state: State, seat: int, card: Card, unseen: bool) -> State:
    hand = _without(state, seat, card)
    player = changed(state.players[seat], hand=hand, dropped=card, dropped_unseen=unseen)
    return changed(state, players=_seated(state, seat, player))


def _bid(state: State, event: BidMade | Levelled | WentAllIn) -> State:
    """The seat puts chips in and stands at a level; only a bid sets the highest one."""
    seat, player, raised = event.seat, state.players[event.seat], isinstance(event, BidMade)
    player = changed(
        player,
        stack=player.stack - event.chips,
        contributed=player.contributed + event.chips,
        weight=player.weight + event.level - player.level,
        level=event.level,
        bids=player.bids + raised,
        short=player.short or isinstance(event, WentAllIn),
    )
    return changed(
        state,
        players=_seated(state, seat, player),
        bank=state.bank + event.chips,
        cursor=_after(state, seat),
        turn=state.turn + 1,
        high=event.level if raised else state.high,
        high_seat=seat if raised else state.high_seat,
    )


def _trick_taken(state: State, seat: int, leader: int) -> State:
    player = state.players[seat]
    player = changed(player, tricks=player.tricks + 1)
    done = (*state.tricks, Trick(state.trick, seat))
    return changed(
        state, players=_seated(state, seat, player), tricks=done, trick=(), leader=leader
    )


def _dealt(state: State, event: Dealt) -> State:
    hands = dealt_hands(event)
    players = tuple(
        changed(
            player,
            hand=hands.get(seat, ()),
            blind=event.blind and seat in hands,
            level=0,
            bids=0,
            tricks=0,
            dropped=None,
            dropped_unseen=False,
        )
        for seat, player in enumerate(state.players)
    )
    return changed(
        state,
        players=players,
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
        changed(p, blind=False) if p.standing is Standing.LIVE else p for p in state.players
    )
    return changed(state, players=players, phase=Phase.TRICKS, leader=leader, turn=state.turn + 1)


def _azi(state: State, price: int, asked: tuple[int, ...]) -> State:
    return changed(
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


def _bought_back(state: State, seat: int, chips: int) -> State:
    player = state.players[seat]
    player = changed(
        player,
        stack=player.stack - chips,
        bought_back=player.bought_back + chips,
        standing=Standing.LIVE,
    )
    return changed(
        state,
        players=_seated(state, seat, player),
        asked=_not_asked(state, seat),
        bank=state.bank + chips,
        turn=state.turn + 1,
    )


def _left(state: State, seat: int) -> State:
    grows = to_act(state) == (seat,)
    players = _seated(state, seat, changed(state.players[seat], standing=Standing.LEFT))
    leader = state.leader
    if leader == seat and not state.trick:
        after = (*range(seat + 1, len(players)), *range(seat))
        leader = next((s for s in after if players[s].standing is Standing.LIVE), seat)
    return changed(
        state,
        players=players,
        leader=leader,
        asked=_not_asked(state, seat),
        turn=state.turn + grows,
    )


def _bank_paid(state: State, event: BankPaid) -> State:
    players = tuple(
        changed(p, stack=stack) for p, stack in zip(state.players, event.stacks, strict=True)
    )
    return changed(
        state,
        players=players,
        phase=Phase.OVER,
        bank=0,
        asked=(),
        winner=event.winner,
        payouts=event.payouts,
        turn=state.turn + 1,
    )
