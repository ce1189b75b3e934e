"""From the decider's Rami to the core's and back."""

from engines.rami import masks
from engines.rami.core import DRAW_DISCARD, DRAW_STOCK, TARGET, Core, fits
from engines.rami.model import (
    Discard,
    DrawDiscard,
    DrawStock,
    LayOff,
    Meld,
    Move,
    Phase,
    Source,
    State,
)


def from_state(state: State) -> Core:
    """The core that stands as a decider's state does."""
    core = Core(state.options, state.seats)
    core.hands = [masks.mask(hand) for hand in state.hands]
    core.stock = tuple(1 << card for card in state.stock)
    core.discard = [1 << card for card in state.discard]
    core.melds = [masks.mask(meld.cards) for meld in state.melds]
    core.named = tuple(meld.id for meld in state.melds)
    core.fits = fits(core.melds)
    core.idle = state.idle
    core.round = state.round
    core.dealer = state.dealer
    core.scores = list(state.scores)
    if state.phase is Phase.PLAYING:
        core.seat = state.actor
        core.drawn = 0 if state.drawn is None else state.drawn.value
        if core.forbid and state.drawn is Source.DISCARD and state.drawn_card is not None:
            core.barred = 1 << state.drawn_card
    if state.winner is not None:
        core.winner = core.round_winner = state.winner
        core.gain = sum(
            masks.points(hand, state.options.ace_high)
            for seat, hand in enumerate(core.hands)
            if seat != state.winner
        )
    return core


def code(core: Core, move: Move) -> int:
    """A command's move as the core writes it; ValueError for an unknown combination."""
    match move:
        case DrawStock():
            return DRAW_STOCK
        case DrawDiscard():
            return DRAW_DISCARD
        case Meld(cards):
            return masks.mask(cards)
        case LayOff(cards, name):
            return masks.mask(cards) | names(core).index(name) + 1 << TARGET
        case Discard(card):
            return 1 << card


def move(core: Core, code: int) -> Move:
    """A move of the seat to act as its command names it, cards ascending."""
    if code == DRAW_STOCK:
        return DrawStock()
    if code == DRAW_DISCARD:
        return DrawDiscard()
    cards = masks.cards(code & masks.ALL)
    if target := code >> TARGET:
        return LayOff(cards, names(core)[target - 1])
    return Discard(cards[0]) if len(cards) == 1 else Meld(cards)


def names(core: Core) -> list[str]:
    """The names of the combinations on the table."""
    found = list(core.named)
    while len(found) < len(core.melds):
        numbers = range(len(found) + 1, 2 * len(core.melds) + 1)
        found.append(next(name for n in numbers if (name := f"m{n}") not in found))
    return found
