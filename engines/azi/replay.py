"""What each event does to the state; nothing is judged here."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar, assert_never

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

T = TypeVar("T")


def _copier(cls: type[T]) -> Callable[..., T]:
    """What `dataclasses.replace` does for this class, at half its cost: a fold does little else."""
    names = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]
    values, places = attrgetter(*names), {name: i for i, name in enumerate(names)}

    def changed(of: T, **changes: Any) -> T:
        fresh = list(values(of))
        for name, value in changes.items():
            fresh[places[name]] = value
        return cls(*fresh)

    return changed


_state = _copier(State)
_player = _copier(Player)


def evolve(state: State, event: Event) -> State:
    """The state after one event: total, never judges."""
    match event:
        case FeePaid(seat=seat, chips=chips):
            players = _paid(state, seat, chips, weight=chips)
            return _state(state, players=players, bank=state.bank + chips)
        case BecameShort(seat=seat):
            return _state(state, players=_players(state, seat, short=True))
        case OpenerDrawn(seat=seat):
            return _state(state, origin=seat)
        case Dealt():
            return _dealt(state, event)
        case CardDropped(seat=seat, unseen=unseen, secret=secret):
            hand = _without(state, seat, secret.card)
            players = _players(state, seat, hand=hand, dropped=secret.card, dropped_unseen=unseen)
            return _state(state, players=players)
        case BiddingOpened(opener=opener):
            return _state(state, phase=Phase.BIDDING, cursor=opener, turn=state.turn + 1)
        case BlindLookedAt(seat=seat):
            grows = state.phase is Phase.BIDDING
            players = _players(state, seat, blind=False)
            return _state(state, players=players, turn=state.turn + grows)
        case BidMade(seat=seat, level=level, chips=chips):
            bids = state.players[seat].bids + 1
            return _bid(state, seat, level, chips, {"bids": bids}, high=level, high_seat=seat)
        case Levelled(seat=seat, level=level, chips=chips):
            return _bid(state, seat, level, chips, {})
        case WentAllIn(seat=seat, level=level, chips=chips):
            return _bid(state, seat, level, chips, {"short": True})
        case Folded(seat=seat):
            players = _players(state, seat, standing=Standing.FOLDED)
            return _state(state, players=players, cursor=_after(state, seat), turn=state.turn + 1)
        case BiddingClosed(leader=leader):
            return _closed(state, leader)
        case CardPlayed(seat=seat, card=card):
            players = _players(state, seat, hand=_without(state, seat, card))
            trick = (*state.trick, Play(seat, card))
            return _state(state, players=players, trick=trick, turn=state.turn + 1)
        case TrickTaken(seat=seat, leader=leader):
            players = _players(state, seat, tricks=state.players[seat].tricks + 1)
            done = (*state.tricks, Trick(state.trick, seat))
            return _state(state, players=players, tricks=done, trick=(), leader=leader)
        case AziDeclared(price=price, asked=asked):
            return _azi(state, price, asked)
        case BoughtBack(seat=seat, chips=chips):
            return _bought_back(state, seat, chips)
        case Declined(seat=seat):
            return _state(state, asked=_not_asked(state, seat), turn=state.turn + 1)
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


def _players(state: State, seat: int, **changes: Any) -> tuple[Player, ...]:
    player = _player(state.players[seat], **changes)
    return (*state.players[:seat], player, *state.players[seat + 1 :])


def _without(state: State, seat: int, card: Card) -> tuple[Card, ...]:
    return tuple(c for c in state.players[seat].hand if c != card)


def _after(state: State, seat: int) -> int:
    return (seat + 1) % len(state.players)


def _not_asked(state: State, seat: int) -> tuple[int, ...]:
    return tuple(s for s in state.asked if s != seat)


def _paid(state: State, seat: int, chips: int, weight: int, **changes: Any) -> tuple[Player, ...]:
    player = state.players[seat]
    return _players(
        state,
        seat,
        stack=player.stack - chips,
        contributed=player.contributed + chips,
        weight=player.weight + weight,
        **changes,
    )


def _bid(
    state: State, seat: int, level: int, chips: int, changes: dict[str, Any], **table: Any
) -> State:
    weight = level - state.players[seat].level
    return _state(
        state,
        players=_paid(state, seat, chips, weight, level=level, **changes),
        bank=state.bank + chips,
        cursor=_after(state, seat),
        turn=state.turn + 1,
        **table,
    )


def _dealt(state: State, event: Dealt) -> State:
    hands = dealt_hands(event)
    players: list[Player] = []
    for seat, player in enumerate(state.players):
        players.append(
            _player(
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
    return _state(
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
        _player(p, blind=False) if p.standing is Standing.LIVE else p for p in state.players
    )
    return _state(state, players=players, phase=Phase.TRICKS, leader=leader, turn=state.turn + 1)


def _azi(state: State, price: int, asked: tuple[int, ...]) -> State:
    return _state(
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
    players = _players(
        state,
        seat,
        stack=player.stack - chips,
        bought_back=player.bought_back + chips,
        standing=Standing.LIVE,
    )
    return _state(
        state,
        players=players,
        asked=_not_asked(state, seat),
        bank=state.bank + chips,
        turn=state.turn + 1,
    )


def _left(state: State, seat: int) -> State:
    grows = to_act(state) == (seat,)
    players = _players(state, seat, standing=Standing.LEFT)
    leader = state.leader
    if leader == seat and not state.trick:
        after = (*range(seat + 1, len(players)), *range(seat))
        leader = next((s for s in after if players[s].standing is Standing.LIVE), seat)
    return _state(
        state,
        players=players,
        leader=leader,
        asked=_not_asked(state, seat),
        turn=state.turn + grows,
    )


def _bank_paid(state: State, event: BankPaid) -> State:
    players = tuple(
        _player(p, stack=stack) for p, stack in zip(state.players, event.stacks, strict=True)
    )
    return _state(
        state,
        players=players,
        phase=Phase.OVER,
        bank=0,
        asked=(),
        winner=event.winner,
        payouts=event.payouts,
        turn=state.turn + 1,
    )
