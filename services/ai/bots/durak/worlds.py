"""What a seat cannot see, drawn at random so that it agrees with all the seat can see.

A world is a `Core`: the hidden cards of the other hands and the talon filled in. Cards that are
publicly known to be in a hand are there, the shown card is the talon's last, no seat holds a card
of the ranks an automatic pass denied it (DURAK-26), and likelier hands come up more often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from engines.bits import members
from engines.durak import PACK, View
from engines.durak.core import Core
from engines.durak.masks import BIT, mask, of_ranks
from engines.durak.projection import code, from_view

TRIES = 8
"""Draws that may fail before the cards are matched to the seats."""
LIGHTEST = 0.02
"""No card is less likely than this where the rules allow it."""

Weights = Mapping[int, Mapping[int, float]]
"""By a seat and a card, how much likelier than chance the card is among the seat's hidden ones;
what is left out is as likely as chance has it."""


class Impossible(Exception):
    """The view shows what cannot be: there is no world."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The hidden cards of one seat.

    Attributes:
        seat: whose they are.
        count: how many they are.
        powers: by each unseen card that may be among them, 1 over its weight.
    """

    seat: int
    count: int
    powers: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Unknown:
    """All that a view leaves open.

    Attributes:
        core: the position, with what is known only.
        cards: the unseen cards.
        hidden: the seats that hold some of them, those with the least choice first.
    """

    core: Core
    cards: int
    hidden: tuple[Hidden, ...]

    @property
    def certain(self) -> bool:
        """Whether there is one world only."""
        return len(self.hidden) + (self.core.talon_left > 1) <= 1

    def world(self, rng: Random) -> Core:
        """A world, in a core of its own."""
        core = self.core.clone()
        rest = self.cards
        for hidden, drawn in zip(self.hidden, self._drawn(rng), strict=True):
            core.hands[hidden.seat] |= drawn
            rest ^= drawn
        if core.talon_left > 1:
            draw = rng.random
            core.talon = (*core.talon, *sorted(members(rest), key=lambda _: draw()))
        return core

    def _drawn(self, rng: Random) -> list[int]:
        for _ in range(TRIES):
            rest, drawn = self.cards, []
            for hidden in self.hidden:
                cards = _drawn(hidden, rest, rng)
                if cards.bit_count() < hidden.count:
                    break
                rest ^= cards
                drawn.append(cards)
            else:
                return drawn
        return _matched(self.hidden, rng)


def unknown(view: View, weights: Weights) -> Unknown:
    """What the view of a seat that is to act leaves open; raises Impossible."""
    core = _known(view)
    seen = core.discarded | core.table
    for hand in core.hands:
        seen |= hand
    if view.talon and view.shown is not None:
        core.talon = (BIT[view.shown],)
        if seen & core.talon[0]:
            raise Impossible
        seen |= core.talon[0]
    cards = mask(PACK) & ~seen
    lacking = {lack.seat: of_ranks(lack.ranks) for lack in view.lacking}
    hidden = []
    for seat, count in enumerate(view.counts):
        missing = count - core.hands[seat].bit_count()
        if missing:
            possible = members(cards & ~lacking.get(seat, 0))
            weight = weights.get(seat, {})
            powers = {card: 1 / max(weight.get(card, 1.0), LIGHTEST) for card in possible}
            hidden.append(Hidden(seat, missing, powers))
    held = sum(each.count for each in hidden)
    if held + max(view.talon - 1, 0) != cards.bit_count() or any(h.count < 0 for h in hidden):
        raise Impossible
    hidden.sort(key=lambda each: len(each.powers) - each.count)
    return Unknown(core, cards, tuple(hidden))


def _known(view: View) -> Core:
    """The position without what is hidden; raises Impossible unless it asks what the view does."""
    seats = range(len(view.counts))
    named = (*(h.seat for h in view.known), *(lack.seat for lack in view.lacking))
    if view.attacker not in seats or not all(seat in seats for seat in named):
        raise Impossible
    if all(seat in view.passed for seat in seats) or bool(view.talon) > (view.shown in BIT):
        raise Impossible
    core = from_view(view)
    if core.seat != view.seat or core.defender != view.defender:
        raise Impossible
    if core.moves() != sum(code(core, move) for move in view.legal):
        raise Impossible
    return core


def _drawn(hidden: Hidden, rest: int, rng: Random) -> int:
    """So many of the seat's possible cards as are left, the heavier the likelier.

    Each card draws a number, raised to 1 over its weight, and the greatest win: that is drawing
    them one by one by their weights.
    """
    draw = rng.random
    drawn = [(draw() ** power, card) for card, power in hidden.powers.items() if rest & card]
    drawn.sort(reverse=True)
    return sum([card for _, card in drawn[: hidden.count]])


def _matched(hidden: Sequence[Hidden], rng: Random) -> list[int]:
    """Some cards for every seat, found by letting a seat have a card that another can do without.

    Raises Impossible where there are none.
    """
    owner: dict[int, int] = {}

    def found(at: int, tried: set[int]) -> bool:
        for card in rng.sample(sorted(hidden[at].powers), len(hidden[at].powers)):
            if card not in tried:
                tried.add(card)
                if card not in owner or found(owner[card], tried):
                    owner[card] = at
                    return True
        return False

    for at, each in enumerate(hidden):
        for _ in range(each.count):
            if not found(at, set()):
                raise Impossible
    return [sum(card for card, has in owner.items() if has == at) for at in range(len(hidden))]
