"""Worlds of Azi that a viewer cannot tell apart, and random tables to play at."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from engines.api import CHIPS_MAX, read_options
from engines.azi import (
    PACK,
    AllIn,
    Bid,
    BuyBack,
    Decline,
    Drop,
    DropLast,
    Fold,
    Level,
    Look,
    Move,
    Options,
    PlayCard,
    State,
    initial,
)
from engines.azi.bank import minimum_bid, reach
from engines.cards import Card, Suit, suit

TRIES = 200


def table(rng: Random, **fixed: object) -> State:
    """A table of any size, options (but for the fixed ones) and stacks, ready to start."""
    fee = rng.choice((1, 2, 5, 10))
    chosen = {
        "entry_fee": fee,
        "deal_size": rng.choice((3, 3, 4)),
        "min_bet": rng.choice((0, 1, fee + 3, 3 * fee)),
        "azi_entry": rng.choice(("survivors", "half_bank")),
        "azi_entry_fee": rng.random() < 0.7,
        "blind_bets": rng.random() < 0.4,
    }
    options = read_options(Options, {**chosen, **fixed})
    seats = rng.randint(2, 6)
    richest = fee * rng.choice((3, 12, 60, 10**6))
    stacks = [rng.randint(0, richest) for _ in range(seats)]
    for seat in rng.sample(range(seats), 2):
        stacks[seat] += fee
    winner = rng.choice((None, *range(seats)))
    return initial(options, seats, stacks=tuple(stacks), last_winner=winner)


def cards(state: State) -> Iterator[Card]:
    """Every card of a state, wherever it lies."""
    for player in state.players:
        yield from player.hand
        if player.dropped is not None:
            yield player.dropped
    yield from (play.card for trick in state.tricks for play in trick.plays)
    yield from (play.card for play in state.trick)
    yield from state.stock
    if state.turned is not None:
        yield state.turned


def chips(state: State) -> int:
    """Every chip of a state: the stacks and the bank."""
    return state.bank + sum(player.stack for player in state.players)


def conceivable(state: State, seat: int) -> Iterator[Move]:
    """Every move without an amount, and bids around each bound."""
    yield from (Level(), Fold(), AllIn(), Look(), DropLast(), BuyBack(), Decline())
    for card in PACK:
        yield Drop(card)
        yield PlayCard(card)
    player, least = state.players[seat], minimum_bid(state)
    most = reach(player)
    amounts = {1, least - 1, least, least + 1, most - 1, most, most + 1, player.stack, CHIPS_MAX}
    yield from (Bid(amount) for amount in sorted(amounts) if amount > 0)


def resample(state: State, viewer: int | None, rng: Random) -> State:
    """Another state with the same public history, and the same cards where the viewer knows them.

    Unknown are the other seats' hands (and the own one while blind), what they dropped (and what
    was dropped unseen) and the stock. Suits that a seat has shown not to hold stay out of its hand.
    """
    if not state.deal:
        return state
    unknown_hands = [s for s, p in enumerate(state.players) if s != viewer or p.blind]
    unknown_drops = [
        s
        for s, p in enumerate(state.players)
        if p.dropped is not None and (s != viewer or p.dropped_unseen)
    ]
    pool = [card for seat in unknown_hands for card in state.players[seat].hand]
    pool += [card for p in state.players for card in (p.dropped,) if card is not None]
    known = [p.dropped for s, p in enumerate(state.players) if s not in unknown_drops]
    pool = [card for card in (*pool, *state.stock) if card not in known]
    for _ in range(TRIES):
        dealt = _dealt_again(state, unknown_hands, pool, rng)
        if dealt is None:
            continue
        hands, rest = dealt
        players = list(state.players)
        for seat in unknown_hands:
            players[seat] = replace(players[seat], hand=hands[seat])
        for seat in unknown_drops:
            players[seat] = replace(players[seat], dropped=rest.pop())
        return replace(state, players=tuple(players), stock=tuple(rest))
    return state


def _dealt_again(
    state: State, seats: list[int], pool: list[Card], rng: Random
) -> tuple[dict[int, tuple[Card, ...]], list[Card]] | None:
    """Hands of the same sizes from the pool, and the rest of it; None if a hand could not be."""
    rest = rng.sample(pool, len(pool))
    hands: dict[int, tuple[Card, ...]] = {}
    lacking = {seat: _voids(state, seat) for seat in seats}
    for seat in sorted(seats, key=lambda s: -len(lacking[s])):
        size = len(state.players[seat].hand)
        hand = [card for card in rest if suit(card) not in lacking[seat]][:size]
        if len(hand) < size:
            return None
        hands[seat] = tuple(hand)
        rest = [card for card in rest if card not in hand]
    return hands, rest


def _voids(state: State, seat: int) -> set[Suit]:
    """The suits a seat has shown in this deal not to hold any more."""
    found: set[Suit] = set()
    for plays in (*(trick.plays for trick in state.tricks), state.trick):
        for play in plays:
            if play.seat == seat and suit(play.card) is not suit(plays[0].card):
                found.add(suit(plays[0].card))
                if state.turned is not None and suit(play.card) is not suit(state.turned):
                    found.add(suit(state.turned))
    return found
