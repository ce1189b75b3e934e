"""What to lay in a turn of Rami: the best of all ways to use the hand and the table."""

from engines.bits import members
from engines.rami import masks
from engines.rami.core import TARGET, Core

_Way = tuple[tuple[int, ...], int]
"""Moves, and the cards they leave."""


def best_lays(core: Core) -> tuple[int, ...]:
    """Combinations and lay-offs to be made one after the other by the seat that has drawn.

    They go out if that can be done in this turn, the discard included; else they leave the fewest
    points, of equals the fewest cards. With `discard_to_win` a card is kept (RAMI-19).
    """
    hand = core.hands[core.seat]
    moves, left = _best(core, hand)
    if left or not core.keep:
        return moves
    # Everything could be laid, so any card may be the one that is kept and discarded.
    ways = ((card, _best(core, hand ^ card)) for card in members(hand))
    return min(ways, key=lambda way: _cost(way[0] | way[1][1], core))[1][0]


def _best(core: Core, hand: int) -> _Way:
    """Groups and cards for the table's groups are tried in every way; of what these leave, every
    stretch that touches a run on the table is added to it, and every other of three is a run."""
    ways: list[_Way] = [((), hand)]
    ends = 0
    for number, meld in enumerate(core.melds, 1):
        near = masks.neighbours(meld)
        if masks.is_run(meld):
            ends |= near
        elif near & hand:
            added = near | number << TARGET
            ways += [((*moves, added), rest ^ near) for moves, rest in ways]
    for groups in masks.groups_in(hand):
        ways += [
            ((*moves, group), rest ^ group)
            for moves, rest in ways
            for group in groups
            if not group & ~rest
        ]
    moves, rest = min(ways, key=lambda way: _cost(_left(way[1], ends), core))
    left = _left(rest, ends)
    return (*moves, *_placed(core, rest ^ left)), left


def _left(rest: int, ends: int) -> int:
    """What remains of the cards when their stretches are laid."""
    left = rest & ~masks.run_cards(rest)
    return left & ~masks.touching(ends, rest) if left & ends else left


def _cost(left: int, core: Core) -> int:
    """What it costs to keep these cards: next to nothing when one discard goes out."""
    if left & left - 1:
        return masks.worth_of(left, masks.WORTH[core.options.ace_high])
    return left.bit_count()


def _placed(core: Core, laid: int) -> list[int]:
    """The moves that lay whole stretches, by a run of the table where one touches it."""
    moves = []
    for stretch in masks.stretches(laid):
        runs = (
            number << TARGET | stretch
            for number, meld in enumerate(core.melds, 1)
            if masks.is_run(meld) and masks.neighbours(meld) & stretch
        )
        moves.append(next(runs, stretch))
    return moves
