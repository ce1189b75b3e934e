"""Durak's rules: who may do what, what follows, and what it changes."""

from collections.abc import Sequence
from typing import assert_never

from engines.api import Act, Chance, Command, Leave, RuleViolation, Start, Timeout
from engines.cards import Card, rank, suit
from engines.durak.bout import adding, asked, beats, closing, passes_itself, ranks_on_table
from engines.durak.deal import deal
from engines.durak.fold import evolve
from engines.durak.model import (
    PACK,
    Attack,
    Attacked,
    Beat,
    Beaten,
    Dealt,
    Event,
    Move,
    MoveKind,
    Options,
    Pass,
    Passed,
    Phase,
    SeatLeft,
    State,
    Take,
    Taken,
    TurnExpired,
)

NAME = "durak"
RULES = "durak 1.0.0"
SEATS = range(2, 7)
"""How many seats may play (DURAK-1)."""

_PACK = frozenset(PACK)
_ASKED_IN: dict[type, frozenset[Phase]] = {
    Attack: frozenset({Phase.ATTACKING, Phase.TAKING}),
    Pass: frozenset({Phase.ATTACKING, Phase.TAKING}),
    Beat: frozenset({Phase.DEFENDING}),
    Take: frozenset({Phase.DEFENDING}),
}


def initial(options: Options, seats: int, **carry: object) -> State:
    """The state before `Start`; raises ValueError unless there are 2 … 6 seats.

    A deal of Durak carries nothing over from an earlier one, so `carry` must be empty (DURAK-25).
    """
    if seats not in SEATS:
        raise ValueError(f"seats: durak is for 2 to 6, not {seats}")
    if carry:
        raise ValueError(f"{min(carry)}: durak carries nothing over")
    nothing: tuple[tuple[Card, ...], ...] = ((),) * seats
    return State(
        options=options,
        seats=seats,
        turn=0,
        deal=1,
        phase=Phase.UNDEALT,
        hands=nothing,
        talon=(),
        trump=None,
        shown=None,
        discarded=(),
        table=(),
        attacker=None,
        defender=None,
        limit=0,
        bout=0,
        passed=(),
        emptied=(),
        known=nothing,
        lacking=((),) * seats,
        out=(),
        left=(),
        durak=None,
        null=False,
    )


# What may be done


def decide(state: State, command: Command[Move], chance: Chance) -> tuple[Event, ...]:
    """The events that follow from a command, up to the next decision (DURAK-29).

    Raises RuleViolation for what the rules refuse, malformed commands included; ValueError only
    if `chance` gives no deck of the 36 cards.
    """
    _check_form(state, command)
    if state.phase is Phase.OVER:
        raise RuleViolation("GAME_OVER", "DURAK-29")
    match command:
        case Start():
            if state.phase is not Phase.UNDEALT:
                raise RuleViolation("WRONG_PHASE", "DURAK-29", phase=state.phase.name)
            return (deal(state, chance),)
        case Act(seat, move):
            _check_turn(state, seat, _ASKED_IN[type(move)])
            return _with_consequences(state, (_made(state, seat, move),))
        case Timeout(seat):
            _check_turn(state, seat, frozenset(Phase) - {Phase.UNDEALT})
            move = timeout_move(state, seat)
            expired = TurnExpired(seat, _kind(move))
            return _with_consequences(state, (expired, _made(state, seat, move)))
        case Leave(seat):
            if seat in state.left:
                raise RuleViolation("NOT_YOUR_TURN", "DURAK-28", left=True)
            return (SeatLeft(seat),)
        case _:
            assert_never(command)


def to_act(state: State) -> tuple[int, ...]:
    """The one seat that is asked, or none (DURAK-13)."""
    seat = asked(state)
    return () if seat is None else (seat,)


def legal(state: State, seat: int) -> tuple[Move, ...]:
    """Exactly the moves that `decide` accepts from this seat now; none if it is not asked."""
    if seat != asked(state):
        return ()
    hand = sorted(state.hands[seat])
    if state.phase is Phase.DEFENDING:
        attack = state.table[-1].attack
        return (*(Beat(c) for c in hand if beats(state, c, attack)), Take())
    if not state.table:
        return tuple(Attack(c) for c in hand)
    if len(state.table) >= state.limit:
        return (Pass(),)
    ranks = ranks_on_table(state)
    return (*(Attack(c) for c in hand if rank(c) in ranks), Pass())


def timeout_move(state: State, seat: int) -> Move:
    """The server's move for a seat in `to_act`: open low, pass, or take (DURAK-27).

    Lowest is: before trumps, by rank, then spades, hearts, diamonds, clubs.
    """
    if state.phase is Phase.DEFENDING:
        return Take()
    if state.table:
        return Pass()
    return Attack(min(state.hands[seat], key=lambda c: (suit(c) == state.trump, rank(c), c)))


def is_over(state: State) -> bool:
    """Whether the deal has ended (DURAK-22 to DURAK-24)."""
    return state.phase is Phase.OVER


def cause(events: Sequence[Event]) -> Command[Move]:
    """The command that led to the events of one append; raises ValueError if none can have."""
    match events[0] if events else None:
        case Dealt():
            return Start()
        case TurnExpired(seat):
            return Timeout(seat)
        case SeatLeft(seat):
            return Leave(seat)
        case Attacked(seat, card):
            return Act(seat, Attack(card))
        case Beaten(seat, card):
            return Act(seat, Beat(card))
        case Taken(seat):
            return Act(seat, Take())
        case Passed(seat, automatic=False):
            return Act(seat, Pass())
        case _:
            raise ValueError("no command begins with these events")


def _check_form(state: State, command: object) -> None:
    match command:
        case Start():
            return
        case Act(seat, move) if _is_seat(state, seat) and _is_move(move):
            return
        case Timeout(seat) | Leave(seat) if _is_seat(state, seat):
            return
        case _:
            raise RuleViolation("MALFORMED", "DURAK-29")


def _is_seat(state: State, seat: object) -> bool:
    return type(seat) is int and 0 <= seat < state.seats


def _is_move(move: object) -> bool:
    if type(move) not in _ASKED_IN:
        return False
    match move:
        case Attack(card) | Beat(card):
            return type(card) is int and card in _PACK
        case _:
            return True


def _check_turn(state: State, seat: int, phases: frozenset[Phase]) -> None:
    if state.phase not in phases:
        raise RuleViolation("WRONG_PHASE", "DURAK-29", phase=state.phase.name)
    if seat != (turn := asked(state)):
        raise RuleViolation("NOT_YOUR_TURN", "DURAK-13", to_act=turn)


def _made(state: State, seat: int, move: Move) -> Event:
    """The event of a move by the seat that is asked; raises RuleViolation."""
    if isinstance(move, Attack | Beat) and move.card not in state.hands[seat]:
        raise RuleViolation("CARD_NOT_IN_HAND", "DURAK-29")
    match move:
        case Attack(card):
            if state.table and rank(card) not in ranks_on_table(state):
                raise RuleViolation("RANK_NOT_ON_TABLE", "DURAK-11")
            if len(state.table) >= state.limit:
                raise RuleViolation("ATTACK_LIMIT", "DURAK-12", limit=state.limit)
            return Attacked(seat, card)
        case Pass():
            if not state.table:
                raise RuleViolation("MUST_ATTACK", "DURAK-8")
            return Passed(seat, automatic=False)
        case Beat(card):
            attack = state.table[-1].attack
            if not beats(state, card, attack):
                raise RuleViolation("DOES_NOT_BEAT", "DURAK-9")
            return Beaten(seat, card, attack)
        case Take():
            return Taken(seat)
        case _:
            assert_never(move)


def _kind(move: Move) -> MoveKind:
    match move:
        case Attack():
            return MoveKind.ATTACK
        case Pass():
            return MoveKind.PASS
        case Take():
            return MoveKind.TAKE
        case Beat():
            raise ValueError("the server never beats")
        case _:
            assert_never(move)


# What follows by itself


def _with_consequences(state: State, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events and all that the rules make of them: automatic passes, the end of the bout."""
    for event in events:
        state = evolve(state, event)
    if state.phase is Phase.DEFENDING:
        return events
    taken_whole = state.phase is Phase.TAKING and not state.options.throw_in_after_take
    if taken_whole or len(state.table) == state.limit:
        return (*events, *closing(state))
    passed: list[Event] = []  # they change nothing that is looked at here
    for seat in adding(state):
        if not passes_itself(state, seat):
            return (*events, *passed)
        passed.append(Passed(seat, automatic=True))
    return (*events, *passed, *closing(state))
