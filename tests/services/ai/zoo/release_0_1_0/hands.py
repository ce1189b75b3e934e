"""A Rami hand taken apart: what of it can be laid, and what its cards may become.

Sets of cards are bit masks over the sorted hand where speed asks for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engines.cards import ACE, RANKS, SUITS, Card, card, rank, suit
from engines.rami import LayOff, Meld, TableMeld, card_points, extensions, kind_of, melds_in


@dataclass(frozen=True, slots=True)
class Plan:
    """What to lay in this turn, and the cards that stay in the hand, ascending."""

    lays: tuple[Meld | LayOff, ...]
    kept: tuple[Card, ...]
    points: int
    """What the kept cards would cost."""

    @property
    def goes_out(self) -> bool:
        """Whether the hand is empty after the plan and a discard."""
        return len(self.kept) <= 1


def best_plan(
    hand: Iterable[Card],
    melds: Sequence[TableMeld],
    *,
    ace_high: bool,
    keep: int,
    lay_offs: bool = True,
) -> Plan:
    """The way to lay that goes out, or else leaves the fewest points (RAMI-12, RAMI-13).

    At least `keep` cards stay in the hand (1 where the last card must be discarded, RAMI-19).
    Without `lay_offs` the melds on the table stay as they are.
    """
    cards = tuple(sorted(hand))
    lays: list[Meld | LayOff] = [Meld(each) for each in melds_in(cards)]
    if lay_offs:
        lays += [LayOff(each, m.id) for m in melds for each in extensions(m.cards, cards)]
    bits = {held: 1 << index for index, held in enumerate(cards)}
    masks = [sum(bits[held] for held in lay.cards) for lay in lays]
    ways: dict[int, tuple[int, ...]] = {0: ()}
    for index, mask in enumerate(masks):
        for laid, way in list(ways.items()):
            if not laid & mask:
                ways.setdefault(laid | mask, (*way, index))
    plans = (
        _plan(cards, bits, laid, [lays[i] for i in way], ace_high) for laid, way in ways.items()
    )
    return min((p for p in plans if len(p.kept) >= keep), key=_preference)


def points(of: Card, *, ace_high: bool) -> int:
    """What a card costs in a hand (RAMI-23)."""
    return card_points(of, ace_high)


def outs(of: Card, hand: Iterable[Card], seen: frozenset[Card]) -> int:
    """How many unseen cards would make a meld of this card and another of the hand."""
    found: set[Card] = set()
    for other in hand:
        if other != of:
            found.update(_completing(of, other))
    return len(found - seen)


def neighbours(of: Card) -> frozenset[Card]:
    """The cards that can stand in a meld of three with this one."""
    ranks = range(max(rank(of) - 2, 0), min(rank(of) + 2, ACE) + 1)
    run = {card(suit(of), r) for r in ranks}
    group = {card(s, rank(of)) for s in range(len(SUITS))}
    return frozenset((run | group) - {of})


def fits(of: Card, melds: Iterable[TableMeld]) -> bool:
    """Whether somebody could add the card to a meld on the table."""
    return any(kind_of(tuple(sorted((*meld.cards, of)))) is not None for meld in melds)


def _plan(
    cards: Sequence[Card],
    bits: dict[Card, int],
    laid: int,
    lays: Sequence[Meld | LayOff],
    ace_high: bool,
) -> Plan:
    kept = tuple(held for held in cards if not bits[held] & laid)
    return Plan(tuple(lays), kept, sum(points(held, ace_high=ace_high) for held in kept))


def _preference(plan: Plan) -> tuple[bool, int, int, tuple[Card, ...]]:
    return not plan.goes_out, plan.points, len(plan.kept), plan.kept


def _completing(one: Card, two: Card) -> frozenset[Card]:
    """The cards that make a meld of three with these two."""
    if rank(one) == rank(two):
        return frozenset(card(s, rank(one)) for s in range(len(SUITS))) - {one, two}
    low, high = min(one, two), max(one, two)
    if suit(low) is not suit(high) or high - low > 2:
        return frozenset()
    if high - low == 2:
        return frozenset((Card(low + 1),))
    ends = [r for r in (rank(low) - 1, rank(high) + 1) if 0 <= r < len(RANKS)]
    return frozenset(card(suit(low), r) for r in ends)
