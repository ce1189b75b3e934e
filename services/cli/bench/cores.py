"""Random play of the games' cores: every legal move is listed, one is drawn, to the end."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from engines import azi, durak, rami
from engines.azi.codes import Stage
from engines.azi.core import Core as AziCore
from engines.bits import members
from engines.cards import Card
from engines.durak.core import Core as DurakCore
from engines.rami.core import Core as RamiCore
from services.cli.variants import OFFLINE_STACK

Play = Callable[[random.Random], int]
"""Plays one game at random and says how many moves it had."""


def azi_core(seats: int) -> Play:
    """A bank of Azi, azis included."""
    options = azi.Options()
    table = AziCore(options, [OFFLINE_STACK] * seats)
    dealt = seats * options.deal_size + 1

    def play(rng: random.Random) -> int:
        core, moves = table.clone(), 0
        while core.stage is not Stage.OVER:
            if core.stage is Stage.OPENER:
                live = members(core.live)
                core.open_from(live[int(rng.random() * len(live))].bit_length() - 1)
            else:
                core.deal(_shuffled(azi.PACK, dealt, rng))
                moves += _played(core, rng)
        return moves

    return play


def durak_core(seats: int) -> Play:
    """A deal of Durak."""
    table = DurakCore(durak.Options(), seats)

    def play(rng: random.Random) -> int:
        core = table.clone()
        core.deal(_shuffled(durak.PACK, len(durak.PACK), rng), rng.randrange(seats))
        return _played(core, rng)

    return play


def rami_core(seats: int) -> Play:
    """A match of Rami."""
    table = RamiCore(rami.Options(), seats)

    def play(rng: random.Random) -> int:
        core, moves = table.clone(), 0
        while core.winner < 0:
            core.deal(_shuffled(rami.PACK, len(rami.PACK), rng))
            moves += _played(core, rng)
        return moves

    return play


def _shuffled(pack: Sequence[Card], first: int, rng: random.Random) -> list[Card]:
    """The first cards of a shuffled pack."""
    cards, draw = list(pack), rng.random
    for place in range(first):
        other = place + int(draw() * (len(cards) - place))
        cards[place], cards[other] = cards[other], cards[place]
    return cards[:first]


def _played(core: Any, rng: random.Random) -> int:
    """Random moves until nobody is to act; how many there were."""
    legal, apply, draw = core.legal, core.apply, rng.random
    moves = 0
    while core.seat >= 0:
        listed = legal()
        apply(listed[int(draw() * len(listed))])
        moves += 1
    return moves
