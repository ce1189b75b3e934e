"""From the decider's Azi to the core's and back."""

from engines.azi.codes import (
    ALL_IN,
    BID,
    BUY_BACK,
    DECLINE,
    DROP_LAST,
    FOLD,
    LEVEL,
    LOOK,
    NOBODY,
    Stage,
)
from engines.azi.core import Core
from engines.azi.masks import BIT, CARD, SUIT, TAKING, mask
from engines.azi.model import (
    BIDS_MAX,
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
    Phase,
    PlayCard,
    Standing,
    State,
)
from engines.azi.replay import to_act
from engines.azi.tricks import taker
from engines.azi.view import View

_STAGES = {
    Phase.DROPPING: Stage.DROPPING,
    Phase.BIDDING: Stage.BIDDING,
    Phase.TRICKS: Stage.TRICKS,
    Phase.BUYING_BACK: Stage.BUYING_BACK,
    Phase.OVER: Stage.OVER,
}
_CODES: dict[Move, int] = {
    Fold(): FOLD,
    Level(): LEVEL,
    AllIn(): ALL_IN,
    Look(): LOOK,
    DropLast(): DROP_LAST,
    BuyBack(): BUY_BACK,
    Decline(): DECLINE,
}
_MOVES = {number: move for move, number in _CODES.items()}


def from_state(state: State) -> Core:
    """The core that stands as a decider's state does."""
    players = state.players
    core = Core(state.options, [player.stack for player in players], state.last_winner)
    if state.phase not in _STAGES:
        return core
    core.stage = _STAGES[state.phase]
    core.live = sum(1 << s for s, p in enumerate(players) if p.standing is Standing.LIVE)
    core.folded = sum(1 << s for s, p in enumerate(players) if p.standing is Standing.FOLDED)
    core.short = sum(1 << s for s, p in enumerate(players) if p.short)
    core.blind = sum(1 << s for s, p in enumerate(players) if p.blind)
    core.levels = [player.level for player in players]
    core.bids = [player.bids for player in players]
    core.contributed = [player.contributed for player in players]
    core.weights = [player.weight for player in players]
    core.bought = [player.bought_back for player in players]
    core.hands = [mask(player.hand) for player in players]
    core.taken = [player.tricks for player in players]
    core.origin = state.origin
    core.bank = state.bank
    core.azis = state.azis
    core.high = state.high
    core.high_seat = NOBODY if state.high_seat is None else state.high_seat
    core.tricks = len(state.tricks)
    if state.turned is not None:
        core.trumps = SUIT[BIT[state.turned]]
        core.taking = TAKING[state.turned]
    core.seat = next(iter(to_act(state)), NOBODY)
    _project_stage(core, state)
    return core


def from_view(view: View, origin: int = 0) -> Core:
    """The core as far as a seat's view knows it.

    The hands of the others are empty, nobody's last-dealt card is known, and of a drawn opener
    only the history tells (`origin`, where nobody has won at the table yet).
    """
    seats = view.seats
    core = Core(view.options, [seat.stack for seat in seats], view.last_winner)
    core.stage = _STAGES.get(view.phase, core.stage)
    core.live = sum(1 << s.seat for s in seats if s.standing is Standing.LIVE)
    core.folded = sum(1 << s.seat for s in seats if s.standing is Standing.FOLDED)
    core.short = sum(1 << s.seat for s in seats if s.short)
    core.blind = sum(1 << s.seat for s in seats if s.blind)
    core.levels = [seat.level for seat in seats]
    core.bids = [BIDS_MAX - seat.bids_left for seat in seats]
    core.contributed = [seat.contributed for seat in seats]
    core.weights = [seat.weight for seat in seats]
    core.bought = [seat.bought_back for seat in seats]
    core.taken = [seat.tricks for seat in seats]
    if view.last_winner is None:
        core.origin = origin
    core.bank, core.azis = view.bank, view.azis
    core.high = view.high
    core.high_seat = NOBODY if view.high_seat is None else view.high_seat
    core.tricks = len(view.tricks)
    core.price = view.buy_back_price
    core.winner = NOBODY if view.winner is None else view.winner
    if view.seat is not None:
        core.hands[view.seat] = mask(view.hand)
    core.seat = next(iter(view.to_act), NOBODY)
    if view.turned is not None:
        core.trumps = SUIT[BIT[view.turned]]
        core.taking = TAKING[view.turned]
    if core.stage is Stage.DROPPING:
        core.dropping = sum(1 << seat for seat in view.to_act)
    _put_trick(core, view)
    return core


def _put_trick(core: Core, view: View) -> None:
    """The trick on the table and who has still to play to it."""
    if core.stage is not Stage.TRICKS or view.turned is None:
        return
    played = sum(1 << play.seat for play in view.trick)
    core.waiting = core.live & ~played
    if view.trick:
        core.best_seat = taker(view.trick, view.turned)
        core.best = next(BIT[p.card] for p in view.trick if p.seat == core.best_seat)
        core.led = SUIT[BIT[view.trick[0].card]]


def _project_stage(core: Core, state: State) -> None:
    """What only one stage has."""
    match core.stage:
        case Stage.DROPPING:
            core.dropping = sum(1 << seat for seat in to_act(state))
            core.last = [
                BIT[player.hand[-1]] if core.dropping >> seat & 1 else 0
                for seat, player in enumerate(state.players)
            ]
        case Stage.TRICKS:
            played = {play.seat for play in state.trick}
            core.waiting = sum(
                1 << s for s in range(core.seats) if core.live >> s & 1 and s not in played
            )
            if state.trick and state.turned is not None:
                core.best_seat = taker(state.trick, state.turned)
                core.best = next(BIT[p.card] for p in state.trick if p.seat == core.best_seat)
                core.led = SUIT[BIT[state.trick[0].card]]
        case Stage.BUYING_BACK:
            core.asked, core.price = state.asked, state.price
        case Stage.OVER if state.winner is not None:
            core.winner = state.winner
        case _:
            pass


def code(core: Core, move: Move) -> int:
    """A command's move as the core writes it."""
    match move:
        case Bid(amount):
            return BID + amount
        case Drop(card) | PlayCard(card):
            return BIT[card]
        case _:
            return _CODES[move]


def move(core: Core, code: int) -> Move:
    """A move of the seat to act as its command names it."""
    if code > BID:
        return Bid(code - BID)
    if code < 0:
        return _MOVES[code]
    return Drop(CARD[code]) if core.stage is Stage.DROPPING else PlayCard(CARD[code])
