"""The exact end of Durak between two, frozen: what flat Monte Carlo of the zoo plays out with.

The search asks one question, whether a goal is reached, and each position has one answer and one
set of positions that lead to it, whatever was looked at before. So a win that was proven within so
many nodes is proven again after every answer to the move that was found, within no more of them.
"""

from engines.bits import members
from engines.durak import HAND_SIZE
from engines.durak.core import PASS, TAKE, Core
from engines.durak.masks import RANKS, TRUMPS

NODES_MAX = 30_000
"""Positions looked at for one question: a few hundredths of a second."""
CARDS_MAX = 22
"""With more cards in play than this the search would hardly ever come to an end."""
WIN, NULL = 1, 0


class TooDeep(Exception):
    """The search looked at more positions than it may."""


def solved(core: Core) -> tuple[int, list[int]] | None:
    """What the position is worth; None when that would take more than so many nodes, or time.

    Two seats hold cards, and the talon has one card at most if they are not the only ones.
    """
    cards = core.table
    for hand in core.hands:
        cards |= hand
    if cards.bit_count() + core.talon_left > CARDS_MAX:
        return None
    moves = _ordered(core)
    try:
        search = _Search(core)
        for move in moves:
            if search.reaches(move, WIN):
                return WIN, [move]
        search = _Search(core)
        kept = [move for move in moves if search.reaches(move, NULL)]
    except TooDeep:
        return None
    return (NULL, kept) if kept else (-1, moves)


def _ordered(core: Core) -> list[int]:
    """The moves in the order the search looks at them: the lowest first, trumps after the others,
    and after all cards to pass or to take."""
    moves, trumps = members(core.moves()), TRUMPS[core.trump]
    return sorted(moves, key=lambda move: (move >= PASS, bool(move & trumps)))


class _Search:
    """One search from a position: what was found, and how many looks are left.

    In what follows `attacker` and `defender` are hands, `table` and `ranks` all cards on the table
    and all cards of their ranks, `talon` how many cards are left in it. A `goal` is 1 or 0: whether
    the attacker comes to win, or to a null at least.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._throw_in = core.options.throw_in_after_take
        self._plain = ~TRUMPS[core.trump]
        self._beating = core.beating
        self._talon = core.talon
        self._found: tuple[dict[tuple[int, ...], bool], ...] = ({}, {})
        self._looks = NODES_MAX

    def reaches(self, move: int, goal: int) -> bool:
        """Whether the seat to act comes to its goal with this move."""
        core = self._core
        hands, seat, table, ranks = core.hands, core.seat, core.table, core.ranks
        talon, left = core.talon_left, core.left
        if seat == core.defender:
            (attacker,) = (hand for s, hand in enumerate(hands) if hand and s != seat)
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

    def _begin(self, attacker: int, defender: int, talon: int, goal: int) -> bool:
        """A bout begins. Of an attacker whose cards, all but one, cannot be beaten the end is
        clear: he lays the others first, his trumps last, and nothing he gives beats what follows.
        """
        if not talon:
            beatable, rest, beating = 0, attacker, self._beating
            while rest:
                card = rest & -rest
                rest ^= card
                if defender & beating[card]:
                    beatable += 1
                    if beatable > 1:
                        break
            else:
                several = attacker & (attacker - 1) or defender & (defender - 1)
                return goal == NULL or not beatable or bool(several)
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
        self._looks -= 1
        if self._looks < 0:
            raise TooDeep

    def _lowest_first(self, cards: int) -> list[int]:
        plain = cards & self._plain
        return members(plain) + members(cards ^ plain)
