"""From the decider's Durak to the core's and back."""

from engines.durak.core import PASS, TAKE, Core, following_seats
from engines.durak.masks import BEATING, BIT, CARD, mask, ranks_of
from engines.durak.model import Attack, Beat, Move, Pass, Phase, State, Take


def from_state(state: State) -> Core:
    """The core that stands as a decider's state does."""
    core = Core(state.options, state.seats)
    core.hands = [mask(hand) for hand in state.hands]
    core.talon = tuple(BIT[card] for card in reversed(state.talon))
    core.talon_left = len(core.talon)
    core.discarded = mask(state.discarded)
    core.bout = state.bout
    core.out = state.out
    core.following = following_seats(state.seats, state.out)
    if state.trump is not None:
        core.trump = int(state.trump)
        core.beating = BEATING[core.trump]
    if state.durak is not None:
        core.durak = state.durak
    if state.attacker is not None:
        core.open_bout(state.attacker)
        core.table = mask(
            c for pair in state.table for c in (pair.attack, pair.beaten_by) if c is not None
        )
        core.ranks = ranks_of(core.table)
        core.left = state.limit - len(state.table)
        core.emptied = list(state.emptied)
        core.taking = state.phase is Phase.TAKING
        if state.phase is Phase.DEFENDING:
            core.open = BIT[state.table[-1].attack]
            core.seat = core.defender
        else:
            core.place = next(p for p, s in enumerate(core.attackers) if s not in state.passed)
            core.seat = core.attackers[core.place]
    return core


def code(core: Core, move: Move) -> int:
    """A command's move as the core writes it."""
    match move:
        case Attack(card) | Beat(card):
            return BIT[card]
        case Pass():
            return PASS
        case Take():
            return TAKE


def move(core: Core, code: int) -> Move:
    """A move of the seat to act as its command names it."""
    if code == PASS:
        return Pass()
    if code == TAKE:
        return Take()
    return Beat(CARD[code]) if core.open else Attack(CARD[code])
