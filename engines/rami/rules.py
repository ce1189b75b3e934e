"""Rami's rules: who may do what, what comes of it, and how the match moves on.

`decide` judges; `engines.rami.table.evolve` carries out. Refusals are looked for in the order of
RAMI-29.
"""

from collections.abc import Sequence
from typing import assert_never

from engines.api import Act, Chance, Command, Leave, RuleViolation, Start, Timeout
from engines.cards import PACK_SIZE, Card, pack
from engines.rami.melds import card_points, extensions, hand_points, kind_of, melds_in
from engines.rami.model import (
    GUARD_TURNS,
    CardDrawn,
    Dealt,
    DealtSecret,
    Discard,
    Discarded,
    DrawDiscard,
    DrawStock,
    Ending,
    Event,
    LaidOff,
    LayOff,
    MatchWon,
    Meld,
    MeldLaid,
    Move,
    Options,
    Phase,
    RoundScored,
    SeatLeft,
    Source,
    State,
    TableMeld,
    TurnExpired,
)
from engines.rami.table import cards_dealt, evolve

SEATS = range(2, 5)
"""Two to four seats (RAMI-1)."""
PACK = pack("SHDC", "2")
"""The 52 cards of a deal (RAMI-1)."""


def initial(options: Options, seats: int, **carry: object) -> State:
    """The match before `Start`, nothing dealt.

    Raises ValueError for a seat count not in SEATS, or for anything carried over from an earlier
    match: Rami carries nothing.
    """
    if type(seats) is not int or seats not in SEATS:
        raise ValueError("Rami is for two to four seats (RAMI-1)")
    if carry:
        raise ValueError(f"Rami carries nothing over: {', '.join(carry)}")
    return State(options, seats, hands=((),) * seats, known=((),) * seats, scores=(0,) * seats)


def decide(state: State, command: Command[Move], chance: Chance) -> tuple[Event, ...]:
    """The events that follow from the command; raises RuleViolation and changes nothing.

    A round that ends without ending the match is followed by the next deal in the same events
    (RAMI-25).
    """
    _check_form(state, command)
    if state.phase is Phase.OVER:
        raise RuleViolation("GAME_OVER", "RAMI-25")
    match command:
        case Start():
            if state.round:
                raise RuleViolation("WRONG_PHASE", "RAMI-29")
            return (_deal(state, chance),)
        case Leave(seat):
            if seat in state.left:
                raise RuleViolation("NOT_YOUR_TURN", "RAMI-28", left=True)
            return (SeatLeft(seat),)
        case Timeout(seat):
            _check_turn(state, seat)
            return _time_out(state, seat, chance)
        case Act(seat, move):
            _check_turn(state, seat)
            _check_cards(state, move)
            return _act(state, seat, move, chance)
        case _:
            assert_never(command)


def to_act(state: State) -> tuple[int, ...]:
    """The one seat whose turn it is; empty before the first deal and when the match is over."""
    return (state.actor,) if state.phase is Phase.PLAYING else ()


def is_over(state: State) -> bool:
    """Whether the match is over (RAMI-25)."""
    return state.phase is Phase.OVER


def legal(state: State, seat: int) -> tuple[Move, ...]:
    """Every move `decide` accepts from this seat now, each once, cards ascending (RAMI-31)."""
    if seat not in to_act(state):
        return ()
    if state.drawn is None:
        return (DrawStock(), DrawDiscard()) if state.discard else (DrawStock(),)
    hand = state.hands[seat]
    most = len(hand) - state.options.discard_to_win
    melds = [Meld(cards) for cards in melds_in(hand) if len(cards) <= most]
    lay_offs = [
        LayOff(cards, meld.id)
        for meld in state.melds
        for cards in extensions(meld.cards, hand)
        if len(cards) <= most
    ]
    return (*melds, *lay_offs, *(Discard(c) for c in _discardable(state, seat)))


def timeout_move(state: State, seat: int) -> Move:
    """The first move `Timeout` makes for the seat to act (RAMI-27).

    A seat that has not drawn draws from the stock; `Timeout` then discards in the same append.
    Raises RuleViolation for a seat that is not to act.
    """
    _check_turn(state, seat)
    return DrawStock() if state.drawn is None else Discard(_timeout_discard(state, seat))


def cause(events: Sequence[Event]) -> Command[Move]:
    """The command that led to the events of one append; raises ValueError for none or a torn one.

    Cards of melds and lay-offs come back in ascending order.
    """
    match events[0] if events else None:
        case Dealt():
            return Start()
        case CardDrawn(seat, source):
            return Act(seat, DrawStock() if source is Source.STOCK else DrawDiscard())
        case Discarded(seat, card):
            return Act(seat, Discard(card))
        case RoundScored(_, seat):
            return Act(seat, DrawStock())
        case MeldLaid(seat, _, _, cards):
            return Act(seat, Meld(cards))
        case LaidOff(seat, name, cards):
            return Act(seat, LayOff(cards, name))
        case TurnExpired(seat):
            return Timeout(seat)
        case SeatLeft(seat):
            return Leave(seat)
        case MatchWon() | None:
            raise ValueError("these events are not one whole append")


def _check_form(state: State, command: object) -> None:
    """Refuse what is no command of Rami at all, whatever it is made of (RAMI-29)."""
    match command:
        case Start():
            return
        case Leave(seat) | Timeout(seat):
            formed = _is_seat(state, seat)
        case Act(seat, move):
            formed = _is_seat(state, seat) and _is_move(move)
        case _:
            formed = False
    if not formed:
        raise RuleViolation("MALFORMED", "RAMI-29")


def _is_seat(state: State, seat: object) -> bool:
    return type(seat) is int and 0 <= seat < state.seats


def _is_move(move: object) -> bool:
    match move:
        case DrawStock() | DrawDiscard():
            return True
        case Discard(card):
            return _is_card(card)
        case Meld(cards):
            return _are_cards(cards)
        case LayOff(cards, name):
            return _are_cards(cards) and type(name) is str
        case _:
            return False


def _is_card(card: object) -> bool:
    return type(card) is int and 0 <= card < PACK_SIZE


def _are_cards(cards: object) -> bool:
    return type(cards) is tuple and 0 < len(cards) <= PACK_SIZE and all(map(_is_card, cards))


def _check_turn(state: State, seat: int) -> None:
    if state.phase is not Phase.PLAYING:
        raise RuleViolation("WRONG_PHASE", "RAMI-29")
    if seat != state.actor:
        raise RuleViolation("NOT_YOUR_TURN", "RAMI-8", to_act=state.actor)


def _check_cards(state: State, move: Move) -> None:
    """Refuse cards named twice, cards not held and melds that are not on the table."""
    match move:
        case DrawStock() | DrawDiscard():
            return
        case Discard(card):
            if card not in state.hands[state.actor]:
                raise RuleViolation("CARD_NOT_IN_HAND", "RAMI-16")
            return
        case Meld(cards):
            rule = "RAMI-11"
        case LayOff(cards):
            rule = "RAMI-12"
        case _:
            assert_never(move)
    if len(set(cards)) != len(cards):
        raise RuleViolation("DUPLICATE_CARD", "RAMI-15")
    if not set(cards) <= set(state.hands[state.actor]):
        raise RuleViolation("CARD_NOT_IN_HAND", rule)
    if isinstance(move, LayOff) and move.meld and _table_meld(state, move.meld) is None:
        raise RuleViolation("UNKNOWN_MELD", "RAMI-12")


def _act(state: State, seat: int, move: Move, chance: Chance) -> tuple[Event, ...]:
    match move:
        case DrawStock() | DrawDiscard():
            if state.drawn is not None:
                raise RuleViolation("ALREADY_DRAWN", "RAMI-8")
            return _draw(state, seat, move, chance)
        case Meld() | LayOff() | Discard():
            if state.drawn is None:
                raise RuleViolation("MUST_DRAW", "RAMI-8")
    match move:
        case Meld(cards):
            return _lay(state, _meld_laid(state, seat, cards), chance)
        case LayOff(cards, name):
            return _lay(state, _laid_off(state, seat, cards, name), chance)
        case Discard(card):
            if card == _held_back(state, seat):
                raise RuleViolation("SAME_DISCARD", "RAMI-17")
            return _end_turn(state, seat, card, chance)
        case _:
            assert_never(move)


def _draw(
    state: State, seat: int, move: DrawStock | DrawDiscard, chance: Chance
) -> tuple[Event, ...]:
    if isinstance(move, DrawDiscard):
        if not state.discard:
            raise RuleViolation("EMPTY_DISCARD", "RAMI-10")
        return (CardDrawn(seat, Source.DISCARD, state.discard[-1]),)
    if not state.stock:
        return _end_round(state, seat, Ending.EXHAUSTED, chance)
    return (CardDrawn(seat, Source.STOCK, None),)


def _meld_laid(state: State, seat: int, cards: tuple[Card, ...]) -> MeldLaid:
    kind = kind_of(cards)
    if kind is None:
        raise RuleViolation("INVALID_MELD", "RAMI-11")
    return MeldLaid(seat, _next_name(state), kind, tuple(sorted(cards)))


def _laid_off(state: State, seat: int, cards: tuple[Card, ...], name: str) -> LaidOff:
    target = _table_meld(state, name)
    if target is None:
        raise RuleViolation("TARGET_REQUIRED", "RAMI-12")
    if kind_of((*target.cards, *cards)) is None:
        raise RuleViolation("INVALID_MELD", "RAMI-12")
    return LaidOff(seat, name, tuple(sorted(cards)))


def _lay(state: State, laid: MeldLaid | LaidOff, chance: Chance) -> tuple[Event, ...]:
    """Put cards on the table; the last card goes out, or must be kept for the discard."""
    if len(laid.cards) < len(state.hands[laid.seat]):
        return (laid,)
    if state.options.discard_to_win:
        raise RuleViolation("MUST_KEEP_CARD", "RAMI-19")
    return (laid, *_end_round(evolve(state, laid), laid.seat, Ending.WENT_OUT, chance))


def _end_turn(state: State, seat: int, card: Card, chance: Chance) -> tuple[Event, ...]:
    discarded = Discarded(seat, card)
    if len(state.hands[seat]) > 1 and state.idle + 1 < GUARD_TURNS:
        return (discarded,)  # a round cannot end with it, whatever follows
    after = evolve(state, discarded)
    if not after.hands[seat]:
        return (discarded, *_end_round(after, seat, Ending.WENT_OUT, chance))
    if after.idle >= GUARD_TURNS:
        return (discarded, *_end_round(after, seat, Ending.GUARD, chance))
    return (discarded,)


def _time_out(state: State, seat: int, chance: Chance) -> tuple[Event, ...]:
    """Draw if that is due, then discard; ask the empty stock if there is nothing to draw."""
    if state.drawn is not None:
        discard = _timeout_discard(state, seat)
        return (TurnExpired(seat, False, True), *_end_turn(state, seat, discard, chance))
    drawn = _draw(state, seat, DrawStock(), chance)
    if not state.stock:
        return (TurnExpired(seat, True, False), *drawn)
    after = evolve(state, drawn[0])
    discard = _timeout_discard(after, seat)
    return (TurnExpired(seat, True, True), *drawn, *_end_turn(after, seat, discard, chance))


def _timeout_discard(state: State, seat: int) -> Card:
    """The card drawn from the stock if still held, else the dearest that may go (RAMI-27)."""
    allowed = _discardable(state, seat)
    if state.drawn is Source.STOCK and state.drawn_card in allowed:
        return state.drawn_card
    return min(allowed, key=lambda c: (-card_points(c, state.options.ace_high), c))


def _discardable(state: State, seat: int) -> tuple[Card, ...]:
    """The hand cards the seat may discard, ascending; never empty for a hand that is not."""
    held_back = _held_back(state, seat)
    return tuple(sorted(c for c in state.hands[seat] if c != held_back))


def _held_back(state: State, seat: int) -> Card | None:
    """The card the seat took from the discard pile and may not put back in this turn (RAMI-17)."""
    if not state.options.forbid_same_discard or state.drawn is not Source.DISCARD:
        return None
    return state.drawn_card if len(state.hands[seat]) > 1 else None


def _end_round(state: State, seat: int, ending: Ending, chance: Chance) -> tuple[Event, ...]:
    """Score the round, then end the match or deal the next round."""
    points = tuple(hand_points(hand, state.options.ace_high) for hand in state.hands)
    winner = seat if ending is Ending.WENT_OUT else points.index(min(points))
    gain = sum(points) - points[winner]
    gains = tuple(gain if s == winner else 0 for s in range(state.seats))
    totals = tuple(a + b for a, b in zip(state.scores, gains, strict=True))
    scored = RoundScored(state.round, seat, ending, winner, points, gains, totals)
    if totals[winner] >= state.options.target:
        return (scored, MatchWon(winner, totals))
    return (scored, _deal(evolve(state, scored), chance))


def _deal(state: State, chance: Chance) -> Dealt:
    """The next round: seat 0 deals the first, then the deal moves clockwise (RAMI-3)."""
    number = state.round + 1
    dealer = (state.dealer + 1) % state.seats if state.round else 0
    deck = chance.deck(number, PACK)
    upcard = deck[cards_dealt(state.seats)]
    starter = (dealer + 1) % state.seats
    return Dealt(number, state.seats, dealer, starter, upcard, DealtSecret(deck))


def _table_meld(state: State, name: str) -> TableMeld | None:
    return next((meld for meld in state.melds if meld.id == name), None)


def _next_name(state: State) -> str:
    """The name of the next meld of the round: m1, m2, … (RAMI-32)."""
    taken = {meld.id for meld in state.melds}
    number = len(taken) + 1
    while f"m{number}" in taken:
        number += 1
    return f"m{number}"
