"""The end of a game between two, where every card is known, played out exactly.

The search asks one question, whether a goal is reached, and each position has one answer and one
set of positions that lead to it, whatever was looked at before. So a win that was proven within so
many nodes is proven again after every answer to the move that was found, within no more of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engines.bits import members
from engines.durak import HAND_SIZE
from engines.durak.core import PASS, TAKE, Core
from engines.durak.masks import RANKS, TRUMPS

NODES_MAX = 30_000
"""Positions looked at to prove a win: some fifty milliseconds."""
NULL_NODES_MAX = 12_000
"""Positions looked at to prove a null, where there is no win."""
CARDS_MAX = 22
"""With more cards in play than this the search would hardly ever come to an end."""
CHECKED = 0xFF
"""After so many nodes, a power of two less one, the time is looked at."""
WIN, NULL, LOST = 1, 0, -1


class TooDeep(Exception):
    """The search looked at more positions than it may."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a position is worth to the seat to act: 1 won, 0 null, -1 lost; and moves that keep it.

    Of a won position it is one move, of others all there are. `looks` is how many positions the
    answer to the question took whether it is won.
    """

    value: int
    moves: tuple[int, ...]
    looks: int


def solved(core: Core, allows: Callable[[], bool]) -> Solved | None:
    """What the position is worth; None when that would take too many nodes, or `allows` says no.

    No more than two seats hold cards, and no others are to draw.
    """
    cards = core.table
    for hand in core.hands:
        cards |= hand
    if cards.bit_count() + core.talon_left > CARDS_MAX:
        return None
    moves = _ordered(core)
    winning = _Search(core, allows, NODES_MAX)
    keeping = _Search(core, allows, NULL_NODES_MAX)
    if certain := winning.certain():
        return Solved(WIN, (certain,), 0)
    try:
        for move in moves:
            if winning.reaches(move, WIN):
                return Solved(WIN, (move,), NODES_MAX - winning.left)
        kept = tuple([move for move in moves if keeping.reaches(move, NULL)])
    except TooDeep:
        return None
    value, moves = (NULL, kept) if kept else (LOST, moves)
    return Solved(value, moves, NODES_MAX - winning.left)


def _ordered(core: Core) -> tuple[int, ...]:
    """The moves in the order the search looks at them: the lowest first, trumps after the others,
    and after all cards to pass or to take."""
    moves, trumps = members(core.moves()), TRUMPS[core.trump]
    return tuple(sorted(moves, key=lambda move: (move >= PASS, bool(move & trumps))))


class _Search:
    """One search from a position: what was found, and how many positions may still be looked at.

    In what follows `attacker` and `defender` are hands, `table` and `ranks` all cards on the table
    and all cards of their ranks, `talon` how many cards are left in it. A `goal` is 1 or 0: whether
    the attacker comes to win, or to a null at least.
    """

    def __init__(self, core: Core, allows: Callable[[], bool], nodes: int) -> None:
        self._core = core
        self._allows = allows
        self._throw_in = core.options.throw_in_after_take
        self._plain = ~TRUMPS[core.trump]
        self._beating = core.beating
        self._talon = core.talon
        self._found: tuple[dict[tuple[int, ...], bool], ...] = ({}, {})
        self.left = nodes

    def reaches(self, move: int, goal: int) -> bool:
        """Whether the seat to act comes to its goal with this move."""
        core = self._core
        hands, seat, table, ranks = core.hands, core.seat, core.table, core.ranks
        talon, left = core.talon_left, core.left
        if seat == core.defender:
            attacker = sum(hands) ^ hands[seat]
            if move == TAKE:
                return not self._throw(attacker, hands[seat], table, ranks, talon, 1 - goal)
            return not self._attack(
                attacker, hands[seat] ^ move, table | move, ranks | RANKS[move], talon, 1 - goal
            )
        own, defender = hands[seat], hands[core.defender]
        if move == PASS:
            if core.taking:
                return self._taken(own, defender | table, talon, goal)
            return self._beaten(own, defender, talon, goal)
        own ^= move
        if core.taking:
            cards = self._lowest_first(own & ranks)
            return self._thrown(own, defender | table | move, cards, 0, left - 1, talon, goal)
        return self._defend(own, defender, table | move, ranks | RANKS[move], move, talon, goal)

    def certain(self) -> int:
        """A move that wins as `_wins` says, 0 if that is not so."""
        core = self._core
        own = core.hands[core.seat]
        other = sum(core.hands) ^ own | core.table
        asked = core.taking or not core.table
        if not asked or core.talon_left or not self._wins(own, other):
            return 0
        safe = [card for card in self._lowest_first(own) if not other & self._beating[card]]
        return PASS if core.table else (*safe, own)[0]

    def _wins(self, attacker: int, defender: int) -> bool:
        """Whether the attacker wins by opening bout after bout with what cannot be beaten, trumps
        last, one other card at the very end, and adding nothing: what he gives beats nothing that
        follows."""
        beatable, rest = 0, attacker
        while rest:
            card = rest & -rest
            rest ^= card
            if defender & self._beating[card]:
                beatable += 1
                if beatable > 1:
                    return False
        return not beatable or bool(attacker & (attacker - 1) or defender & (defender - 1))

    def _begin(self, attacker: int, defender: int, talon: int, goal: int) -> bool:
        """A bout begins."""
        if not talon and self._wins(attacker, defender):
            return True
        return self._attack(attacker, defender, 0, 0, talon, goal)

    def _attack(
        self, attacker: int, defender: int, table: int, ranks: int, talon: int, goal: int
    ) -> bool:
        """The attacker opens, adds or passes; all cards on the table are beaten."""
        left = min(HAND_SIZE - (table.bit_count() >> 1), defender.bit_count())
        playable = attacker & ranks if table else attacker
        if not playable or not left:
            return self._beaten(attacker, defender, talon, goal)
        key = attacker, defender, table, talon
        found = self._found[goal]
        if key in found:
            return found[key]
        self._look()
        reached = False
        for card in self._lowest_first(playable):
            if self._defend(
                attacker ^ card, defender, table | card, ranks | RANKS[card], card, talon, goal
            ):
                reached = True
                break
        else:
            reached = bool(table) and self._beaten(attacker, defender, talon, goal)
        found[key] = reached
        return reached

    def _defend(
        self,
        attacker: int,
        defender: int,
        table: int,
        ranks: int,
        card: int,
        talon: int,
        goal: int,
    ) -> bool:
        """The defender beats the open card or takes."""
        self._look()
        for beat in self._lowest_first(defender & self._beating[card]):
            if not self._attack(
                attacker, defender ^ beat, table | beat, ranks | RANKS[beat], talon, goal
            ):
                return False
        return self._throw(attacker, defender, table, ranks, talon, goal)

    def _throw(
        self, attacker: int, defender: int, table: int, ranks: int, talon: int, goal: int
    ) -> bool:
        """The defender takes; the attacker adds any of the cards that fit, or none."""
        cards: list[int] = []
        left = min(HAND_SIZE - (table.bit_count() + 1 >> 1), defender.bit_count() - 1)
        if self._throw_in and left:
            cards = self._lowest_first(attacker & ranks)
        return self._thrown(attacker, defender | table, cards, 0, left, talon, goal)

    def _thrown(
        self,
        attacker: int,
        defender: int,
        cards: list[int],
        at: int,
        left: int,
        talon: int,
        goal: int,
    ) -> bool:
        """Whether adding some of the cards, from this place on, or none, leads to the goal."""
        if left and at < len(cards):
            card = cards[at]
            after = attacker ^ card, defender | card, cards, at + 1, left - 1, talon, goal
            return self._thrown(*after) or self._thrown(
                attacker, defender, cards, at + 1, left, talon, goal
            )
        return self._taken(attacker, defender, talon, goal)

    def _taken(self, attacker: int, defender: int, talon: int, goal: int) -> bool:
        """The cards are in the defender's hand, and the same seat attacks again."""
        if talon:
            attacker, defender, talon = self._drawn(attacker, defender, talon)
        return not attacker or self._begin(attacker, defender, talon, goal)

    def _beaten(self, attacker: int, defender: int, talon: int, goal: int) -> bool:
        """The cards are discarded, and the defender attacks."""
        if talon:
            attacker, defender, talon = self._drawn(attacker, defender, talon)
        if not attacker:
            return bool(defender) or goal == NULL
        return bool(defender) and not self._begin(defender, attacker, talon, 1 - goal)

    def _drawn(self, attacker: int, defender: int, talon: int) -> tuple[int, int, int]:
        """Hands and talon after the draw: the attacker first (DURAK-18)."""
        while talon and attacker.bit_count() < HAND_SIZE:
            talon -= 1
            attacker |= self._talon[talon]
        while talon and defender.bit_count() < HAND_SIZE:
            talon -= 1
            defender |= self._talon[talon]
        return attacker, defender, talon

    def _look(self) -> None:
        self.left -= 1
        if self.left < 0 or not (self.left & CHECKED or self._allows()):
            raise TooDeep

    def _lowest_first(self, cards: int) -> list[int]:
        plain = cards & self._plain
        return members(plain) + members(cards ^ plain)
