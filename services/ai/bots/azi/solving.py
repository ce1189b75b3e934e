"""Azi's tricks with all cards open, played out exactly.

Cards are bits as `engines.azi.masks` numbers them. The seats at the tricks are called by their
places: 0, 1, 2 … clockwise, without those that are out.
"""

from collections.abc import Sequence

from engines.azi.masks import SUIT
from engines.azi.model import TRICKS_TO_WIN
from engines.bits import members

Worth = Sequence[Sequence[float]]
"""By the place that wins the bank what each place has of it; a last row for an azi."""


def equal_worth(places: int) -> Worth:
    """The bank is 1: the winner has all of it, and everybody an equal part after an azi."""
    won = [[float(place == winner) for place in range(places)] for winner in range(places)]
    return [*won, [1 / places] * places]


class Solver:
    """One deal at its tricks, every place's cards known.

    Everybody plays for the most it can have itself; whom that leaves a choice takes what is worst
    for `own` (with two places that is minimax); who has found the most there is for it looks no
    further. `nodes` counts the cards that were tried.
    """

    __slots__ = (
        "_hands",
        "_most",
        "_nothing",
        "_own",
        "_places",
        "_taken",
        "_taking",
        "_trumps",
        "_worth",
        "nodes",
    )

    def __init__(self, trumps: int, taking: dict[int, int], worth: Worth, own: int) -> None:
        self._trumps = trumps
        self._taking = taking
        self._worth = worth
        self._own = own
        self._places = len(worth) - 1
        self._most = [max(column) for column in zip(*worth, strict=True)]
        self._nothing: Sequence[float] = [-1.0] * self._places
        self._hands: list[int] = []
        self._taken: list[int] = []
        self.nodes = 0

    def led(self, hands: Sequence[int], taken: Sequence[int], leader: int) -> Sequence[float]:
        """What everybody has in the end if `leader` is to lead with these hands."""
        self._hands, self._taken = list(hands), list(taken)
        return self._lead(leader)

    def played(
        self,
        hands: Sequence[int],
        taken: Sequence[int],
        trick: tuple[int, int, int, int],
        card: int,
    ) -> Sequence[float]:
        """What everybody has in the end if `own` plays a card now.

        `trick` is the suit led (0: the card leads), the best card, whose it is, and how many
        places are to play after `own`.
        """
        self._hands, self._taken = list(hands), list(taken)
        led, best, best_place, left = trick
        own = self._own
        self._hands[own] ^= card
        if not led:
            led, best, best_place = SUIT[card], card, own
        elif self._taking[best] & card:
            best, best_place = card, own
        return self._follow(self._next(own), led, best, best_place, left)

    def _next(self, place: int) -> int:
        return place + 1 if place + 1 < self._places else 0

    def _lead(self, place: int) -> Sequence[float]:
        hands, own, after = self._hands, self._own, self._next(place)
        hand, left, most = hands[place], self._places - 1, self._most[place]
        found = self._nothing
        for card in members(hand):
            hands[place] = hand ^ card
            worth = self._follow(after, SUIT[card], card, place, left)
            if worth[place] > found[place]:
                found = worth
                if worth[place] == most:
                    break
            elif worth[place] == found[place] and worth[own] < found[own]:
                found = worth
        hands[place] = hand
        return found

    def _follow(
        self, place: int, led: int, best: int, best_place: int, left: int
    ) -> Sequence[float]:
        if not left:
            return self._take(best_place)
        hands, own, takers = self._hands, self._own, self._taking[best]
        hand, after, most = hands[place], self._next(place), self._most[place]
        found = self._nothing
        for card in members(hand & led or hand & self._trumps or hand):
            self.nodes += 1
            hands[place] = hand ^ card
            if takers & card:
                worth = self._follow(after, led, card, place, left - 1)
            else:
                worth = self._follow(after, led, best, best_place, left - 1)
            if worth[place] > found[place]:
                found = worth
                if worth[place] == most:
                    break
            elif worth[place] == found[place] and worth[own] < found[own]:
                found = worth
        hands[place] = hand
        return found

    def _take(self, place: int) -> Sequence[float]:
        taken = self._taken
        if taken[place] + 1 == TRICKS_TO_WIN:
            return self._worth[place]
        if not self._hands[place]:
            return self._worth[self._places]
        taken[place] += 1
        worth = self._lead(place)
        taken[place] -= 1
        return worth
