"""The end of a game of Durak for two, where every card is known, played out exactly.

Hands are masks as in `engines.durak.masks`. Values are those of the seat that attacks: 1 when the
defender is left with cards, -1 when the attacker is, 0 when nobody is.
"""

from collections.abc import Iterable, Iterator

from engines.cards import Card
from engines.durak import HAND_SIZE, Attack, Beat, Move, Pass, Phase, Take, View
from engines.durak.masks import BEATING, BIT, TRUMPS, mask, ranks_of

NODES_MAX = 15_000
"""Positions looked at before the search is given up: a few hundredths of a second."""
CARDS_MAX = 16
"""With more cards in play than this the search would hardly ever come to an end."""


class TooDeep(Exception):
    """The search looked at more positions than it may."""


def values(view: View, opponent: Iterable[Card], talon: Iterable[Card]) -> dict[Move, int] | None:
    """What each legal move is worth to the view's seat: 1 won, 0 null, -1 lost.

    `opponent` is the hand of the only other seat that still plays, `talon` what is left of the
    talon, one card at most. None when the search is too deep.
    """
    own, other, last = mask(view.hand), mask(opponent), mask(talon)
    if view.trump is None or (own | other | last).bit_count() > CARDS_MAX:
        return None
    search = _Search(view.trump, view.options.throw_in_after_take)
    table = mask(c for pair in view.table for c in (pair.attack, pair.beaten_by) if c is not None)
    left = view.limit_left
    found: dict[Move, int] = {}
    try:
        for move in view.legal:
            match move:
                case Attack(card=played):
                    bit = BIT[played]
                    after = own & ~bit, other, table | bit, last
                    if view.phase is Phase.TAKING:
                        found[move] = search.throw(*after, left - 1)
                    else:
                        found[move] = search.defend(*after, left - 1, bit)
                case Pass() if view.phase is Phase.TAKING:
                    found[move] = search.taken(own, other, table, last)
                case Pass():
                    found[move] = search.beaten(own, other, last)
                case Beat(card=played):
                    bit = BIT[played]
                    found[move] = -search.attack(other, own & ~bit, table | bit, last, left)
                case Take():
                    found[move] = -search.throw(other, own, table, last, left)
    except TooDeep:
        return None
    return found


class _Search:
    """One search: the trump, the option, what was found so far, and how many looks are left.

    `attacker` and `defender` are hands, `table` all cards on the table, `last` the talon, `left`
    how many attack cards may still come.
    """

    def __init__(self, trump: int, throw_in: bool) -> None:
        self._throw_in = throw_in
        self._trumps = TRUMPS[trump]
        self._beating = BEATING[trump]
        self._found: dict[tuple[int, ...], int] = {}
        self._looks = NODES_MAX

    def attack(self, attacker: int, defender: int, table: int, last: int, left: int) -> int:
        """The attacker opens, adds or passes; all cards on the table are beaten."""
        playable = attacker & ranks_of(table) if table else attacker
        if not playable or not left:
            return self.beaten(attacker, defender, last)
        key = (attacker, defender, table, last, left)
        if key in self._found:
            return self._found[key]
        best = self.beaten(attacker, defender, last) if table else -1
        for bit in self._lowest_first(playable):
            if best == 1:
                break
            best = max(
                best, self.defend(attacker & ~bit, defender, table | bit, last, left - 1, bit)
            )
        self._found[key] = best
        return best

    def defend(
        self, attacker: int, defender: int, table: int, last: int, left: int, open_bit: int
    ) -> int:
        """The defender beats the open card or takes."""
        key = (attacker, defender, table, last, left, open_bit)
        if key in self._found:
            return self._found[key]
        self._look()
        worst = 1
        for bit in self._lowest_first(defender & self._beating[open_bit]):
            worst = min(worst, self.attack(attacker, defender & ~bit, table | bit, last, left))
            if worst == -1:
                break
        if worst > -1:
            worst = min(worst, self.throw(attacker, defender, table, last, left))
        self._found[key] = worst
        return worst

    def throw(self, attacker: int, defender: int, table: int, last: int, left: int) -> int:
        """The defender takes; the attacker adds any of the cards that fit, or none."""
        playable = attacker & ranks_of(table) if self._throw_in and left else 0
        return self._thrown(attacker, defender, table, last, left, playable)

    def _thrown(
        self, attacker: int, defender: int, table: int, last: int, left: int, playable: int
    ) -> int:
        """The best that comes of throwing in some of the playable cards, in one order only."""
        best = self.taken(attacker, defender, table, last)
        for bit in self._lowest_first(playable if left else 0):
            if best == 1:
                break
            playable &= ~bit
            after = attacker & ~bit, defender, table | bit, last
            best = max(best, self._thrown(*after, left - 1, playable))
        return best

    def taken(self, attacker: int, defender: int, table: int, last: int) -> int:
        """The cards go into the defender's hand, and the same seat attacks again."""
        attacker, defender, last = _drawn(attacker, defender | table, last)
        if not attacker:
            return 1
        self._look()
        return self.attack(attacker, defender, 0, last, min(HAND_SIZE, defender.bit_count()))

    def beaten(self, attacker: int, defender: int, last: int) -> int:
        """The cards are discarded, and the defender attacks."""
        attacker, defender, last = _drawn(attacker, defender, last)
        if not attacker or not defender:
            return bool(defender) - bool(attacker)
        self._look()
        return -self.attack(defender, attacker, 0, last, min(HAND_SIZE, attacker.bit_count()))

    def _look(self) -> None:
        self._looks -= 1
        if self._looks < 0:
            raise TooDeep

    def _lowest_first(self, cards: int) -> Iterator[int]:
        for some in (cards & ~self._trumps, cards & self._trumps):
            rest = some
            while rest:
                bit = rest & -rest
                yield bit
                rest ^= bit


def _drawn(attacker: int, defender: int, last: int) -> tuple[int, int, int]:
    """Hands and talon after the draw: the attacker first, up to six cards (DURAK-18)."""
    if last and attacker.bit_count() < HAND_SIZE:
        return attacker | last, defender, 0
    if last and defender.bit_count() < HAND_SIZE:
        return attacker, defender | last, 0
    return attacker, defender, last
