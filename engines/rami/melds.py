"""Runs and groups: what makes one, every one a hand holds, every way to extend one; card points.

Cards are `engines.cards.Card`; a meld's cards are kept in ascending order, which is S H D C for a
group and lowest to highest for a run.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import combinations

from engines.cards import ACE, PACK_SIZE, RANKS, SUITS, Card, card, rank

MELD_MIN = 3
"""The fewest cards of a run or a group (RAMI-5, RAMI-6)."""
_FIGURE = 10


class MeldKind(IntEnum):
    """What a combination on the table is."""

    RUN = 1
    GROUP = 2


def kind_of(cards: Sequence[Card]) -> MeldKind | None:
    """The kind of meld these cards make together, or None when they make none.

    A run is three to thirteen consecutive cards of one suit with the ace above the king only
    (RAMI-5); a group is three or four cards of one rank, of different suits (RAMI-6).
    """
    if len(cards) < MELD_MIN or len(set(cards)) != len(cards):
        return None
    low, high = min(cards), max(cards)
    if low // 13 == high // 13 and high - low == len(cards) - 1:
        return MeldKind.RUN
    return MeldKind.GROUP if len({rank(c) for c in cards}) == 1 else None


def melds_in(hand: Iterable[Card]) -> tuple[tuple[Card, ...], ...]:
    """Every run and group that can be laid from these cards, each ascending (RAMI-31)."""
    ordered = sorted(hand)
    return (*_runs(ordered), *_groups(ordered))


def extensions(meld: Sequence[Card], hand: Iterable[Card]) -> tuple[tuple[Card, ...], ...]:
    """Every non-empty set of hand cards that keeps this meld valid, each ascending (RAMI-31).

    A run takes consecutive cards below, above or at both ends at once; a group of three takes
    the card of the missing suit (RAMI-13).
    """
    held = frozenset(hand)
    if kind_of(meld) is MeldKind.GROUP:
        same = (card(s, rank(meld[0])) for s in range(len(SUITS)))
        return tuple((c,) for c in same if c not in meld and c in held)
    below = _growth(min(meld), -1, held)
    above = _growth(max(meld), 1, held)
    return tuple(
        (*reversed(below[:down]), *above[:up])
        for down in range(len(below) + 1)
        for up in range(len(above) + 1)
        if down + up
    )


def card_points(of: Card, ace_high: bool) -> int:
    """What a card costs in a hand: ace 1 (11 with `ace_high`), figures 10, others their number."""
    if rank(of) == ACE:
        return 11 if ace_high else 1
    return min(rank(of) + 2, _FIGURE)


_POINTS = tuple(
    tuple(card_points(c, ace_high) for c in map(Card, range(PACK_SIZE)))
    for ace_high in (False, True)
)
"""By whether the ace is high, then by card."""


def hand_points(hand: Iterable[Card], ace_high: bool) -> int:
    """The points of all cards of a hand (RAMI-23)."""
    points = _POINTS[ace_high]
    return sum([points[c] for c in hand])


def _runs(ordered: Sequence[Card]) -> list[tuple[Card, ...]]:
    runs = []
    for first in range(len(ordered) - MELD_MIN + 1):
        last = first + 1
        while last < len(ordered) and _follows(ordered[last - 1], ordered[last]):
            last += 1
            if last - first >= MELD_MIN:
                runs.append(tuple(ordered[first:last]))
    return runs


def _groups(ordered: Sequence[Card]) -> list[tuple[Card, ...]]:
    by_rank: dict[int, list[Card]] = {}
    for c in ordered:
        by_rank.setdefault(rank(c), []).append(c)
    groups: list[tuple[Card, ...]] = []
    for same in by_rank.values():
        for size in range(MELD_MIN, len(same) + 1):
            groups.extend(combinations(same, size))
    return groups


def _follows(low: Card, high: Card) -> bool:
    """Whether `high` is the next card of the same suit; nothing follows an ace."""
    return high == low + 1 and rank(low) != ACE


def _growth(end: Card, step: int, held: frozenset[Card]) -> list[Card]:
    """The held cards that continue a run from this end, nearest first."""
    grown: list[Card] = []
    while 0 <= rank(end) + step < len(RANKS) and Card(end + step) in held:
        end = Card(end + step)
        grown.append(end)
    return grown
