"""Hands that the other seats of Azi may hold: as many cards as they have, none that lies elsewhere,
no suit they have shown not to hold; drawn as often as their bidding makes them likely.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from random import Random

from engines.azi import PACK, Standing, View
from engines.azi.masks import BIT, SUIT
from services.ai.bots.azi import hands

HAND_MOST = 4
"""Cards of a hand before the drop."""
TRIES = 40
"""How often hands that overlap are drawn anew, before they are drawn one after the other."""

Likely = Callable[[int, int], float]
"""From a seat and a kind of hand to how likely the seat's bidding was with it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a seat may hold: every possible hand, and their likelihoods summed up one by one."""

    seat: int
    hands: Sequence[int]
    likely: Sequence[float]

    def drawn(self, rng: Random) -> int:
        """One of the hands."""
        at = rng.random() * self.likely[-1]
        return self.hands[bisect(self.likely, at, 0, len(self.hands) - 1)]


class Worlds:
    """All there may be behind a view, of a deal whose cards are three (after the drop)."""

    def __init__(self, view: View, likely: Likely) -> None:
        pool = [BIT[card] for card in PACK if card not in _seen(view)]
        played = _played(view)
        self._holdings = [
            _holding(view, seat.seat, seat.cards, pool, played.get(seat.seat, 0), likely)
            for seat in view.seats
            if seat.seat != view.seat and seat.standing is Standing.LIVE
        ]
        self._holdings.sort(key=lambda holding: len(holding.hands))

    def drawn(self, rng: Random) -> dict[int, int] | None:
        """By seat the hand of every other live one; None if nobody can hold what the view says."""
        if not all(holding.hands for holding in self._holdings):
            return None
        for attempt in range(2 * TRIES):
            found, used = {}, 0
            for holding in self._holdings:
                hand = holding.drawn(rng)
                if hand & used and attempt >= TRIES:
                    hand = _apart(holding, used, rng)
                if hand & used:
                    break
                found[holding.seat] = hand
                used |= hand
            else:
                return found
        return None


def _apart(holding: Holding, used: int, rng: Random) -> int:
    """A hand of none of the used cards; if there is none, one with some."""
    for _ in range(TRIES):
        hand = holding.drawn(rng)
        if not hand & used:
            return hand
    return rng.choice([hand for hand in holding.hands if not hand & used] or [*holding.hands])


def _holding(
    view: View, seat: int, size: int, pool: Sequence[int], played: int, likely: Likely
) -> Holding:
    lacking = _lacking(view, seat)
    able = [card for card in pool if not card & lacking]
    possible = [sum(cards) for cards in combinations(able, min(size, HAND_MOST))]
    if played.bit_count() + size == hands.HAND and view.turned is not None:
        of = hands.kinds(view.turned)
        weights = [likely(seat, of[hand | played]) for hand in possible]
    else:
        weights = [1.0] * len(possible)
    return Holding(seat, possible, list(accumulate(weights)))


def _seen(view: View) -> set[int | None]:
    plays = [*(play for trick in view.tricks for play in trick.plays), *view.trick]
    return {*view.hand, *(play.card for play in plays), view.turned, view.dropped}


def _played(view: View) -> Mapping[int, int]:
    """By seat the cards it has played in this deal."""
    found: dict[int, int] = {}
    for plays in (*(trick.plays for trick in view.tricks), view.trick):
        for play in plays:
            found[play.seat] = found.get(play.seat, 0) | BIT[play.card]
    return found


def _lacking(view: View, seat: int) -> int:
    """The suits the seat has shown in this deal not to hold (AZI-27, AZI-28)."""
    found = 0
    for plays in (*(trick.plays for trick in view.tricks), view.trick):
        for play in plays:
            led, card = SUIT[BIT[plays[0].card]], BIT[play.card]
            if play.seat == seat and not card & led:
                found |= led
                if view.turned is not None and not card & SUIT[BIT[view.turned]]:
                    found |= SUIT[BIT[view.turned]]
    return found
