"""From the decider's Durak to the core's and back."""

from collections.abc import Iterable

from engines.cards import Card
from engines.durak.core import PASS, TAKE, Core, following_seats
from engines.durak.masks import BEATING, BIT, CARD, mask, ranks_of
from engines.durak.model import Attack, Beat, Move, Pair, Pass, Phase, State, Take
from engines.durak.view import View


def from_state(state: State) -> Core:
    """The core that stands as a decider's state does."""
    core = Core(state.options, state.seats)
    core.hands = [mask(hand) for hand in state.hands]
    core.talon = tuple(BIT[card] for card in reversed(state.talon))
    core.talon_left = len(core.talon)
    _stand(core, state, state.emptied, state.limit - len(state.table))
    return core


def from_view(view: View) -> Core:
    """The core that stands as a view shows: hidden cards are in no hand, and the talon only counts.

    The view is of a deal that goes on.
    """
    seats = range(len(view.counts))
    core = Core(view.options, len(view.counts))
    for known in view.known:
        core.hands[known.seat] = mask(known.cards)
    if view.seat is not None:
        core.hands[view.seat] = mask(view.hand)
    core.talon_left = view.talon
    emptied = [seat for seat in seats if not view.counts[seat] and seat not in view.out]
    _stand(core, view, emptied, view.limit_left)
    return core


def _stand(core: Core, shown: State | View, emptied: Iterable[int], left: int) -> None:
    """All that is public."""
    core.discarded = mask(shown.discarded)
    core.bout = shown.bout
    core.out = shown.out
    core.following = following_seats(core.seats, shown.out)
    if shown.trump is not None:
        core.trump = int(shown.trump)
        core.beating = BEATING[core.trump]
    if shown.durak is not None:
        core.durak = shown.durak
    if shown.attacker is not None:
        core.open_bout(shown.attacker)
        core.table = mask(_cards(shown.table))
        core.ranks = ranks_of(core.table)
        core.left = left
        core.emptied = list(emptied)
        core.taking = shown.phase is Phase.TAKING
        if shown.phase is Phase.DEFENDING:
            core.open = BIT[shown.table[-1].attack]
            core.seat = core.defender
        else:
            core.place = next(p for p, s in enumerate(core.attackers) if s not in shown.passed)
            core.seat = core.attackers[core.place]


def _cards(table: Iterable[Pair]) -> Iterable[Card]:
    """All cards on the table."""
    return (c for pair in table for c in (pair.attack, pair.beaten_by) if c is not None)


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
