"""Flat Monte Carlo for Durak: every move in the same 300 worlds, played out by a plain rule.

Knows what is public, weighs nothing, and grows no tree. The end between two is solved where every
card is known. Frozen: stands on the engine's core and on nothing the bots may change.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from engines.bits import members
from engines.cards import rank
from engines.durak import PACK, View
from engines.durak.core import PASS, TAKE, Core
from engines.durak.masks import BIT, RANKS, TRUMPS, mask
from engines.durak.model import BOUTS_MAX, HAND_SIZE
from engines.durak.projection import from_view, move
from tests.services.ai.zoo import durak_solver

WORLDS = 300
GENEROUS = 0xFF
THICK_TALON = 6
TRIES = 50


def flat(game: str, view: View, history: Sequence[Any], rng: Random) -> Any:
    """The move that loses least often."""
    if len(view.legal) == 1:
        return view.legal[0]
    core, unseen = _known(view)
    moves = core.legal()
    seats = [s for s, n in enumerate(view.counts) if n > core.hands[s].bit_count()]
    if len(seats) + (view.talon > 1) <= 1:
        lying_open = _world(core, view, unseen, rng)
        found = durak_solver.solved(lying_open) if sum(map(bool, lying_open.hands)) == 2 else None
        if found is not None:
            value, moves = found
            if value > 0:
                return move(core, moves[0])
    won = dict.fromkeys(moves, 0.0)
    for _ in range(WORLDS):
        world = _world(core, view, unseen, rng)
        for code in moves:
            after = world.clone()
            after.apply(code)
            durak = _ended(after)
            won[code] += 0.5 if durak < 0 else durak != view.seat
    return move(core, max(moves, key=lambda code: won[code]))


def _known(view: View) -> tuple[Core, list[int]]:
    """The core without hidden cards, and those."""
    core = from_view(view)
    seen = core.discarded | core.table | sum(core.hands)
    if view.talon and view.shown is not None:
        core.talon = (BIT[view.shown],)
        seen |= BIT[view.shown]
    return core, members(mask(PACK) & ~seen)


def _world(known: Core, view: View, unseen: list[int], rng: Random) -> Core:
    """The hidden cards dealt at random, without ranks a seat is known to lack if that is found."""
    lacking = {lack.seat: lack.ranks for lack in view.lacking}
    core, rest = known, unseen
    for attempt in range(TRIES):
        core, rest, fits = known.clone(), sorted(unseen, key=lambda _: rng.random()), True
        for seat, count in enumerate(view.counts):
            missing = count - known.hands[seat].bit_count()
            barred = mask(c for c in PACK if rank(c) in lacking.get(seat, ()))
            drawn = [card for card in rest if not card & barred][:missing]
            fits = fits and len(drawn) == missing
            if attempt == TRIES - 1:
                drawn = rest[:missing]
            core.hands[seat] |= sum(drawn)
            rest = [card for card in rest if card not in drawn]
        if fits:
            break
    core.talon = (*core.talon, *rest)
    return core


def _ended(core: Core) -> int:
    """The durak if all go on by the rule, or -1."""
    while core.seat >= 0:
        if len(core.attackers) == 1:
            return _duel(core)
        core.apply(_rule(core))
    return core.durak


def _rule(core: Core) -> int:
    """Begin with the lowest card, beat with the lowest, add what is no trump; trumps last."""
    hand, trumps = core.hands[core.seat], TRUMPS[core.trump]
    if core.open:
        beating = hand & core.beating[core.open]
        low = beating & ~trumps or beating
        return low & -low or TAKE
    if not core.table:
        low = hand & ~trumps or hand
        return low & -low
    low = hand & core.ranks
    if core.taking or core.talon_left:
        low &= ~trumps
    if core.taking and core.talon_left > THICK_TALON:
        low &= GENEROUS
    return low & -low or PASS


def _duel(core: Core) -> int:
    """The durak if two seats go on by the rule, or -1."""
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
