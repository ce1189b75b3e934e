"""Azi's rulings: what a command leads to, or why it is refused."""

from collections.abc import Sequence
from typing import assert_never

from engines.api import CHIPS_MAX, Act, Chance, Command, Leave, RuleViolation, Start, Timeout
from engines.azi.bank import cost, is_short_now, may_bid, minimum_bid, reach
from engines.azi.deals import first_deal, followed, turned_card
from engines.azi.events import (
    BidMade,
    BlindLookedAt,
    BoughtBack,
    CardDropped,
    CardDroppedSecret,
    CardPlayed,
    Declined,
    Event,
    FeePaid,
    Folded,
    Levelled,
    SeatLeft,
    TurnExpired,
    WentAllIn,
)
from engines.azi.model import (
    BIDS_MAX,
    PACK,
    SEATS,
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
    Phase,
    PlayCard,
    Player,
    ServerMove,
    Standing,
    State,
)
from engines.azi.replay import to_act
from engines.azi.tricks import lowest, obliged, playable
from engines.cards import Card, suit

NAME = "azi"
RULES = "azi 1.0.0"


def initial(
    options: Options, seats: int, *, stacks: tuple[int, ...], last_winner: int | None = None
) -> State:
    """The state before `Start`.

    `stacks` holds each seat's chips before the fee; `last_winner` is the seat that won the last
    bank at this table (AZI-10), None if nobody has. A seat that cannot pay the fee is absent
    (AZI-4). Raises ValueError, naming the argument, for a number of seats, stacks or a winner that
    no table has: fewer than two seats able to pay, or more chips than can be counted (AZI-51).
    """
    if type(seats) is not int or seats not in SEATS:
        raise ValueError(f"seats: must be {SEATS.start} to {SEATS.stop - 1}")
    if len(stacks) != seats or any(type(s) is not int or s < 0 for s in stacks):
        raise ValueError("stacks: must be a whole number of chips for each seat")
    if sum(stacks) > (CHIPS_MAX // 2 if options.blind_bets else CHIPS_MAX):
        raise ValueError("stacks: more chips in all than can be counted")
    if last_winner is not None and (type(last_winner) is not int or not 0 <= last_winner < seats):
        raise ValueError("last_winner: no such seat")
    paying = [s >= options.entry_fee for s in stacks]
    if sum(paying) < SEATS.start:
        raise ValueError("stacks: fewer than two seats can pay the entry fee")
    return State(
        options=options,
        players=tuple(
            Player(stack, Standing.LIVE if pays else Standing.ABSENT)
            for stack, pays in zip(stacks, paying, strict=True)
        ),
        last_winner=last_winner,
        origin=0 if last_winner is None else (last_winner + 1) % seats,
    )


def decide(state: State, command: Command[Move], chance: Chance) -> tuple[Event, ...]:
    """The events a command leads to; raises RuleViolation and changes nothing (AZI-50)."""
    _check_form(state, command)
    if state.phase is Phase.OVER:
        raise RuleViolation("GAME_OVER", "AZI-50")
    match command:
        case Start():
            events = _start(state, chance)
        case Act(seat=seat, move=move):
            _check_turn(state, seat, move)
            events = _act(state, seat, move)
        case Timeout(seat=seat):
            events = _timeout(state, seat)
        case Leave(seat=seat):
            events = _leave(state, seat)
        case _:
            assert_never(command)
    return followed(state, events, chance)


def is_over(state: State) -> bool:
    """Whether the bank is paid."""
    return state.phase is Phase.OVER


def legal(state: State, seat: int) -> tuple[Move, ...]:
    """Moves `decide` accepts from this seat now: all, but of the bids a covering set (AZI-53)."""
    if seat not in to_act(state):
        return ()
    player = state.players[seat]
    look: tuple[Move, ...] = (Look(),) if player.blind else ()
    match state.phase:
        case Phase.DROPPING:
            return (*look, DropLast()) if look else tuple(Drop(c) for c in sorted(player.hand))
        case Phase.BIDDING:
            return (*look, *_legal_bidding(state, player))
        case Phase.BUYING_BACK:
            return (BuyBack(), Decline())
        case _:
            cards = playable(player.hand, state.trick, turned_card(state))
            return tuple(PlayCard(c) for c in cards)


def timeout_move(state: State, seat: int) -> Move:
    """The move `Timeout(seat)` makes, for a seat in `to_act` (AZI-46).

    In the bidding it folds even the opener, who could not fold itself.
    """
    player = state.players[seat]
    match state.phase:
        case Phase.DROPPING:
            return DropLast() if player.blind else Drop(player.hand[-1])
        case Phase.BIDDING:
            return Fold()
        case Phase.BUYING_BACK:
            return Decline()
        case _:
            turned = turned_card(state)
            return PlayCard(lowest(playable(player.hand, state.trick, turned), turned))


def cause(events: Sequence[Event]) -> Command[Move]:
    """The command that led to the events of one append; ValueError if none can have."""
    match events[0] if events else None:
        case FeePaid():
            return Start()
        case TurnExpired(seat=seat):
            return Timeout(seat)
        case SeatLeft(seat=seat):
            return Leave(seat)
        case CardDropped(seat=seat, unseen=unseen, secret=secret):
            return Act(seat, DropLast() if unseen else Drop(secret.card))
        case BlindLookedAt(seat=seat):
            return Act(seat, Look())
        case BidMade(seat=seat, level=level):
            return Act(seat, Bid(level))
        case Levelled(seat=seat):
            return Act(seat, Level())
        case WentAllIn(seat=seat):
            return Act(seat, AllIn())
        case Folded(seat=seat):
            return Act(seat, Fold())
        case BoughtBack(seat=seat):
            return Act(seat, BuyBack())
        case Declined(seat=seat):
            return Act(seat, Decline())
        case CardPlayed(seat=seat, card=card):
            return Act(seat, PlayCard(card))
        case other:
            raise ValueError(f"no command begins with {type(other).__name__}")


def _check_form(state: State, command: object) -> None:
    """Refuse whatever is no command of this game at all (AZI-50)."""
    ok = isinstance(command, Start)
    if isinstance(command, Act | Timeout | Leave):
        seat = command.seat
        ok = type(seat) is int and 0 <= seat < len(state.players)
        if isinstance(command, Act):
            ok = ok and _is_move(command.move)
    if not ok:
        raise RuleViolation("MALFORMED", "AZI-50")


def _is_move(move: object) -> bool:
    match move:
        case Bid(amount=amount):
            return type(amount) is int and amount > 0
        case Drop(card=card) | PlayCard(card=card):
            return type(card) is int and card in _PACK
        case _:
            return isinstance(move, Level | Fold | AllIn | Look | DropLast | BuyBack | Decline)


def _check_turn(state: State, seat: int, move: Move) -> None:
    """Refuse a move whose kind nobody may make now, then one by a seat not asked (AZI-50)."""
    phases: tuple[Phase, ...]
    match move:
        case Bid() | Level() | Fold() | AllIn():
            phases = (Phase.BIDDING,)
        case Look():
            phases = (Phase.DROPPING, Phase.BIDDING) if state.options.blind_bets else ()
        case Drop():
            phases = (Phase.DROPPING,)
        case DropLast():
            phases = (Phase.DROPPING,) if state.options.blind_bets else ()
        case BuyBack() | Decline():
            phases = (Phase.BUYING_BACK,)
        case PlayCard():
            phases = (Phase.TRICKS,)
        case _:
            assert_never(move)
    if state.phase not in phases:
        raise RuleViolation("WRONG_PHASE", "AZI-50", phase=state.phase.name.lower())
    if seat not in to_act(state):
        raise RuleViolation("NOT_YOUR_TURN", "AZI-50", to_act=to_act(state))


def _act(state: State, seat: int, move: Move) -> tuple[Event, ...]:
    player = state.players[seat]
    match move:
        case Bid(amount=amount):
            return _bid(state, seat, amount)
        case Level():
            _check_opened(state, player)
            if is_short_now(state, player):
                raise RuleViolation("INSUFFICIENT_CHIPS", "AZI-23", maximum=reach(player))
            return (Levelled(seat, state.high, cost(player, state.high)),)
        case Fold():
            _check_opened(state, player)
            return (Folded(seat),)
        case AllIn():
            _check_opened(state, player)
            if not is_short_now(state, player):
                raise RuleViolation("MUST_LEVEL", "AZI-26", level=state.high)
            return (WentAllIn(seat, reach(player), player.stack),)
        case Look():
            if not player.blind:
                raise RuleViolation("ALREADY_LOOKED", "AZI-43")
            return (BlindLookedAt(seat),)
        case Drop(card=card):
            if player.blind or card not in player.hand:
                raise RuleViolation("CARD_NOT_IN_HAND", "AZI-44" if player.blind else "AZI-7")
            return (CardDropped(seat, False, CardDroppedSecret(card)),)
        case DropLast():
            if not player.blind:
                raise RuleViolation("ALREADY_LOOKED", "AZI-44")
            return (CardDropped(seat, True, CardDroppedSecret(player.hand[-1])),)
        case BuyBack():
            return (BoughtBack(seat, state.price),)
        case Decline():
            return (Declined(seat),)
        case PlayCard(card=card):
            return _play(state, seat, card)
        case _:
            assert_never(move)


def _check_opened(state: State, player: Player) -> None:
    """Refuse anything but a bid by the seat that has the duty to open (AZI-12)."""
    if state.high == 0 and not is_short_now(state, player):
        raise RuleViolation("MUST_BID", "AZI-12", minimum=minimum_bid(state))


def _bid(state: State, seat: int, amount: int) -> tuple[Event, ...]:
    player = state.players[seat]
    if amount < minimum_bid(state):
        raise RuleViolation(
            "BID_TOO_LOW", "AZI-16" if state.high else "AZI-12", minimum=minimum_bid(state)
        )
    if player.bids >= BIDS_MAX:
        raise RuleViolation("BID_LIMIT", "AZI-17", limit=BIDS_MAX)
    if amount > reach(player):
        raise RuleViolation("INSUFFICIENT_CHIPS", "AZI-16", maximum=reach(player))
    return (BidMade(seat, amount, cost(player, amount)),)


def _play(state: State, seat: int, card: Card) -> tuple[Event, ...]:
    hand, turned = state.players[seat].hand, turned_card(state)
    if card not in hand:
        raise RuleViolation("CARD_NOT_IN_HAND", "AZI-50")
    must = obliged(hand, state.trick, turned)
    if must is not None and suit(card) is not must:
        if must is suit(state.trick[0].card):
            raise RuleViolation("MUST_FOLLOW_SUIT", "AZI-27", suit=must.name.lower())
        raise RuleViolation("MUST_TRUMP", "AZI-28", suit=must.name.lower())
    return (CardPlayed(seat, card),)


def _legal_bidding(state: State, player: Player) -> tuple[Move, ...]:
    if state.high == 0 and not is_short_now(state, player):
        return _covering_bids(state, player)
    if is_short_now(state, player):
        return (Fold(), AllIn())
    return (Fold(), Level(), *_covering_bids(state, player))


def _covering_bids(state: State, player: Player) -> tuple[Move, ...]:
    """The least bid, one more, one of the size of the pot, and everything (AZI-53)."""
    if not may_bid(state, player):
        return ()
    least, most = minimum_bid(state), reach(player)
    pot = state.high + state.bank + (cost(player, state.high) if state.high else 0)
    amounts = {least, min(least + 1, most), max(least, min(pot, most)), most}
    return tuple(Bid(amount) for amount in sorted(amounts))


def _start(state: State, chance: Chance) -> tuple[Event, ...]:
    if state.phase is not Phase.WAITING:
        raise RuleViolation("WRONG_PHASE", "AZI-50", phase=state.phase.name.lower())
    return first_deal(state, chance)


def _timeout(state: State, seat: int) -> tuple[Event, ...]:
    """The server's move for a seat, marked as such (AZI-46)."""
    if state.phase is Phase.WAITING:
        raise RuleViolation("WRONG_PHASE", "AZI-50", phase=state.phase.name.lower())
    if seat not in to_act(state):
        raise RuleViolation("NOT_YOUR_TURN", "AZI-50", to_act=to_act(state))
    player = state.players[seat]
    match timeout_move(state, seat):
        case Fold():
            return (TurnExpired(seat, ServerMove.FOLD), Folded(seat))
        case Decline():
            return (TurnExpired(seat, ServerMove.DECLINE), Declined(seat))
        case PlayCard(card=card):
            return (TurnExpired(seat, ServerMove.PLAY_LOWEST), CardPlayed(seat, card))
        case _:
            dropped = CardDropped(seat, player.blind, CardDroppedSecret(player.hand[-1]))
            return (TurnExpired(seat, ServerMove.DROP_LAST), dropped)


def _leave(state: State, seat: int) -> tuple[Event, ...]:
    """Leaving is possible at any moment of a running game, once (AZI-47)."""
    if state.phase is Phase.WAITING:
        raise RuleViolation("WRONG_PHASE", "AZI-50", phase=state.phase.name.lower())
    if state.players[seat].standing is Standing.LEFT:
        raise RuleViolation("NOT_YOUR_TURN", "AZI-47", to_act=to_act(state))
    return (SeatLeft(seat),)


_PACK = frozenset(PACK)
