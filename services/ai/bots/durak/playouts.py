"""How a position may go on: every seat by one quick rule, to the end of the deal.

The rule is a plain player's: begin with the lowest card, beat with the lowest, add what is no
trump; trumps come last everywhere. `rule` makes one move of it, `playout` all that are left at
once; both lead to the same end.
"""

from engines.durak.core import PASS, TAKE, Core
from engines.durak.masks import RANKS, TRUMPS
from engines.durak.model import BOUTS_MAX, HAND_SIZE

DUEL = 2
"""Seats that still play when there are no others to mind."""
SUITS = 4
GENEROUS = 0xFF
"""The sixes and sevens: all that is given to a defender who takes while the talon is thick."""
THICK_TALON = 6
BOUTS = 60
"""Far more bouts than the rule needs for a deal, unless it goes round in circles."""


def rule(core: Core) -> int:
    """The move of the seat that is to act."""
    hand = core.hands[core.seat]
    trumps = TRUMPS[core.trump]
    if core.open:
        beating = hand & core.beating[core.open]
        low = beating & ~trumps or beating
        return low & -low or TAKE
    if not core.table:
        low = hand & ~trumps or hand
        return low & -low
    low = hand & core.ranks & _added(core, trumps)
    return low & -low or PASS


def _added(core: Core, trumps: int) -> int:
    """The cards that are added if they fit."""
    if core.taking:
        return GENEROUS & ~trumps if core.talon_left > THICK_TALON else ~trumps
    return ~trumps if core.talon_left else -1


def playout(core: Core) -> int:
    """The durak, or -1 for a null, if all seats go on by the rule; the core is left undefined.

    Among three and more the rule may hand the same cards round for ever: then whoever holds most.
    """
    last = core.bout + BOUTS
    while core.seat >= 0:
        if len(core.attackers) == 1:
            return duel(core)
        if core.bout > last:
            return max(range(core.seats), key=lambda seat: core.hands[seat].bit_count())
        core.apply(rule(core))
    return core.durak


def duel(core: Core) -> int:
    """`playout` for the last two seats: the same moves, without the core in between."""
    (attacker,), defender = core.attackers, core.defender
    hands, talon = core.hands, core.talon
    a, d = hands[attacker], hands[defender]
    table, ranks, card, left = core.table, core.ranks, core.open, core.left
    taking, talon_left, bout = core.taking, core.talon_left, core.bout
    beating, cards_of = core.beating, RANKS
    plain = ~TRUMPS[core.trump]
    throw_in = core.options.throw_in_after_take
    while True:
        if not table:
            card = a & plain or a
            card &= -card
            a ^= card
            table = card
            ranks = cards_of[card]
            left = min(HAND_SIZE, d.bit_count()) - 1
        while True:
            if card:
                beats = d & beating[card]
                if not beats:
                    card = 0
                    taking = True
                    if not throw_in:
                        break
                else:
                    beats = beats & plain or beats
                    beats &= -beats
                    d ^= beats
                    table |= beats
                    ranks |= cards_of[beats]
                    card = 0
            if taking:
                low = a & ranks & plain
                if talon_left > THICK_TALON:
                    low &= GENEROUS
                while low and left:
                    left -= 1
                    bit = low & -low
                    low ^= bit
                    a ^= bit
                    table |= bit
                break
            if not left:
                break
            low = a & ranks
            if talon_left:
                low &= plain
            if not low:
                break
            left -= 1
            card = low & -low
            a ^= card
            table |= card
            ranks |= cards_of[card]
        if taking:
            d |= table
        table = 0
        if talon_left:
            missing = HAND_SIZE - a.bit_count()
            while missing > 0 and talon_left:
                talon_left -= 1
                missing -= 1
                a |= talon[talon_left]
            missing = HAND_SIZE - d.bit_count()
            while missing > 0 and talon_left:
                talon_left -= 1
                missing -= 1
                d |= talon[talon_left]
        if not a:
            return defender if d else -1
        if not d:
            return attacker
        bout += 1
        if bout > BOUTS_MAX:
            return -1
        if taking:
            taking = False
        else:
            a, d = d, a
            attacker, defender = defender, attacker
