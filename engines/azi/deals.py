"""The course of a game: what follows without anybody being asked, from deal to bank."""

from functools import reduce

from engines.api import Chance
from engines.azi.bank import buy_back_price, clockwise, live, payouts
from engines.azi.events import (
    AziDeclared,
    BankPaid,
    BecameShort,
    BiddingClosed,
    BiddingOpened,
    Dealt,
    DealtSecret,
    Event,
    FeePaid,
    OpenerDrawn,
    TrickTaken,
)
from engines.azi.model import PACK, TRICKS_IN_A_DEAL, TRICKS_TO_WIN, Phase, Standing, State
from engines.azi.replay import bidding, dropping, evolve, playing
from engines.azi.tricks import taker
from engines.cards import Card


def first_deal(state: State, chance: Chance) -> tuple[Event, ...]:
    """The fees, the opener if it has to be drawn, and the first deal (AZI-3, AZI-11, AZI-5)."""
    fees = _fees(state)
    return (*fees, *_opener_drawn(state, chance), *_deal(reduce(evolve, fees, state), chance))


def turned_card(state: State) -> Card:
    """The card that shows trump, once dealt."""
    if state.turned is None:
        raise ValueError("no deal yet")
    return state.turned


def followed(state: State, events: tuple[Event, ...], chance: Chance) -> tuple[Event, ...]:
    """The events and all that follows from them without another decision."""
    made: list[Event] = []
    while events:
        made.extend(events)
        state = reduce(evolve, events, state)
        events = _consequences(state, chance)
    return tuple(made)


def _consequences(state: State, chance: Chance) -> tuple[Event, ...]:
    """What must happen next without anybody being asked; nothing if somebody must decide."""
    if state.phase is Phase.OVER:
        return ()
    left = live(state)
    if len(left) == 1:
        return (_bank_paid(state, left[0]),)
    match state.phase:
        case Phase.DROPPING if not dropping(state):
            return (BiddingOpened(_first_live(state, state.origin)),)
        case Phase.BIDDING:
            return _broke(state) or _bidding_closed(state)
        case Phase.TRICKS:
            return _trick_taken(state) or _deal_ended(state, chance)
        case Phase.BUYING_BACK if not state.asked:
            fees = _fees(state) if state.options.azi_entry_fee else ()
            paid = reduce(evolve, fees, state)
            return (*fees, *_deal(paid, chance))
        case _:
            return ()


def _bidding_closed(state: State) -> tuple[Event, ...]:
    """Close the bidding when nobody is left to be asked (AZI-18, AZI-19, AZI-20)."""
    if bidding(state) is not None:
        return ()
    first = state.origin if state.high_seat is None else state.high_seat
    return (BiddingClosed(_first_live(state, first)),)


def _trick_taken(state: State) -> tuple[Event, ...]:
    """Take the trick when every live seat has played; a taker that left leads no more (AZI-48)."""
    if not state.trick or playing(state) is not None:
        return ()
    seat = taker(state.trick, turned_card(state))
    return (TrickTaken(seat, _first_live(state, seat)),)


def _deal_ended(state: State, chance: Chance) -> tuple[Event, ...]:
    """Pay a live seat with two tricks (AZI-35), or declare azi after three (AZI-36)."""
    for seat in live(state):
        if state.players[seat].tricks == TRICKS_TO_WIN:
            return (_bank_paid(state, seat),)
    if len(state.tricks) < TRICKS_IN_A_DEAL:
        return ()
    drawn = _opener_drawn(state, chance)
    asked = _may_buy_back(reduce(evolve, drawn, state))
    price = buy_back_price(state.bank) if asked else 0
    return (AziDeclared(state.deal, state.bank, price, asked), *drawn)


def _may_buy_back(state: State) -> tuple[int, ...]:
    """The folded seats with the chips for price and fee, in order of asking (AZI-39)."""
    if state.options.azi_entry != "half_bank":
        return ()
    fee = state.options.entry_fee if state.options.azi_entry_fee else 0
    needed = buy_back_price(state.bank) + fee
    return tuple(
        seat
        for seat in clockwise(state, state.origin)
        if state.players[seat].standing is Standing.FOLDED and state.players[seat].stack >= needed
    )


def _fees(state: State) -> tuple[Event, ...]:
    """The entry fee of every seat to be dealt in, or what it has of it (AZI-3, AZI-38)."""
    fees = ((s, min(state.players[s].stack, state.options.entry_fee)) for s in live(state))
    return tuple(FeePaid(seat, chips) for seat, chips in fees if chips)


def _broke(state: State) -> tuple[Event, ...]:
    """Seats without chips are short at once where chips are needed (AZI-24)."""
    return tuple(
        BecameShort(seat)
        for seat in live(state)
        if not (player := state.players[seat]).stack
        and not player.short
        and (state.high == 0 or player.level < state.high)
    )


def _opener_drawn(state: State, chance: Chance) -> tuple[Event, ...]:
    """Draw the next deal's opener while nobody has won at the table (AZI-11)."""
    if state.last_winner is not None:
        return ()
    seats, deal = live(state), state.deal + 1
    return (OpenerDrawn(deal, seats[chance.seat(deal, "opener", len(seats))]),)


def _deal(state: State, chance: Chance) -> tuple[Event, ...]:
    """Deal to every live seat (AZI-5)."""
    options, deal, seats = state.options, state.deal + 1, live(state)
    deck = chance.deck(deal, PACK)
    turned = deck[len(seats) * options.deal_size]
    dealt = Dealt(deal, seats, options.deal_size, turned, options.blind_bets, DealtSecret(deck))
    return (*_broke(state), dealt)


def _bank_paid(state: State, winner: int) -> BankPaid:
    paid = payouts(state.players, state.bank, winner)
    stacks = [player.stack for player in state.players]
    for payout in paid:
        stacks[payout.seat] += payout.chips
    return BankPaid(winner, state.players[winner].short, paid, tuple(stacks))


def _first_live(state: State, seat: int) -> int:
    """The seat itself if live, else the next live one clockwise."""
    return next(s for s in clockwise(state, seat) if state.players[s].standing is Standing.LIVE)
