"""Random play of the games' cores: every legal move is listed, one is drawn, to the end."""

import random
from collections.abc import Callable
from typing import Any

from engines import azi, durak, rami
from engines.azi.codes import Stage
from engines.azi.core import Core as AziCore
from engines.durak.core import Core as DurakCore
from engines.rami.core import Core as RamiCore
from services.cli.variants import OFFLINE_STACK

Play = Callable[[random.Random], int]
"""Plays one game at random and says how many moves it had."""


def azi_core(seats: int) -> Play:
    """A bank of Azi, azis included."""
    options, stacks = azi.Options(), [OFFLINE_STACK] * seats
    dealt = seats * options.deal_size + 1

    def play(rng: random.Random) -> int:
        core, moves = AziCore(options, stacks), 0
        while core.stage is not Stage.OVER:
            if core.stage is Stage.OPENER:
                live = [seat for seat in range(seats) if core.live >> seat & 1]
                core.open_from(rng.choice(live))
            else:
                core.deal(rng.sample(azi.PACK, dealt))
                moves += _played(core, rng)
        return moves

    return play


def durak_core(seats: int) -> Play:
    """A deal of Durak."""
    options = durak.Options()

    def play(rng: random.Random) -> int:
        core = DurakCore(options, seats)
        core.deal(rng.sample(durak.PACK, len(durak.PACK)), rng.randrange(seats))
        return _played(core, rng)

    return play


def rami_core(seats: int) -> Play:
    """A match of Rami."""
    options = rami.Options()

    def play(rng: random.Random) -> int:
        core, moves = RamiCore(options, seats), 0
        while core.winner < 0:
            core.deal(rng.sample(rami.PACK, len(rami.PACK)))
            moves += _played(core, rng)
        return moves

    return play


def _played(core: Any, rng: random.Random) -> int:
    """Random moves until nobody is to act; how many there were."""
    legal, apply, draw = core.legal, core.apply, rng.random
    moves = 0
    while core.seat >= 0:
        listed = legal()
        apply(listed[int(draw() * len(listed))])
        moves += 1
    return moves
