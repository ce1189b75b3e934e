"""A hard bot's bids: mixed as the table says, so that no answer to them is better than another."""

from collections.abc import Sequence
from functools import cache
from random import Random

from engines.azi import Happening, View
from engines.azi.core import Core
from engines.azi.masks import mask
from services.ai.bots.azi import hands, reading, tables
from services.ai.bots.azi.reading import DOUBT
from services.ai.bots.azi.situation import Act, acts, key
from services.ai.bots.azi.worlds import Likely

SURE = 0.95
"""A hand that wins so much of the bank is never folded."""
ODDLY_KEPT = 0.03
"""How often of four cards three are kept that are not the best ones."""
NEAR = 3
"""From how many ranks away a mix may be taken where a rank has none of its own."""


def bid(view: View, core: Core, rng: Random) -> int | None:
    """A bid, a level, a fold, a look, as the core writes it; None where the table was never in."""
    known, players = tables.tables(), players_of(core.live)
    kind = _kind(view)
    own = tables.DARK if kind is None else known.ranks[view.options.deal_size][players][kind]
    mix = _mix(key(core, core.seat), own)
    if mix is None:
        return None
    able = acts(core, core.seat)
    weights = _spread(mix, [act for act, _ in able])
    if kind is not None and known.worth(players, kind) >= SURE and able[0][0] == Act.FOLD:
        weights[0] = 0
    return rng.choices(able, weights)[0][1] if any(weights) else None


def players_of(live: int) -> int:
    """How many seats a set has, as many as the tables know at least."""
    return max(live.bit_count(), tables.PLAYERS.start)


def _kind(view: View) -> int | None:
    """The kind of the own hand; None if it is not three open cards."""
    return None if view.turned is None else hands.kinds(view.turned).get(mask(view.hand))


def likely(view: View, history: Sequence[Happening]) -> Likely:
    """How likely a seat's bidding is with a kind of hand, were it played by the table."""
    told = reading.told(view, history)
    known = tables.tables()
    ranks = known.ranks[view.options.deal_size]

    @cache
    def likelihood(seat: int, kind: int) -> float:
        weight = known.kept[kind] + ODDLY_KEPT if view.options.deal_size > hands.HAND else 1.0
        for each in told[seat]:
            mix = known.mix(each.situation, ranks[max(each.live, tables.PLAYERS.start)][kind])
            if mix is not None:
                weight *= DOUBT + (1 - DOUBT) * mix[each.act] / tables.MIXED
        return weight

    return likelihood


def _mix(situation: int, rank: int) -> Sequence[int] | None:
    """The mix of this rank, or of the nearest one that has any."""
    known = tables.tables()
    if rank == tables.DARK:
        return known.mix(situation, rank)
    for away in range(NEAR + 1):
        for near in (rank - away, rank + away):
            if 0 <= near < tables.DARK and (mix := known.mix(situation, near)) is not None:
                return mix
    return None


def _spread(mix: Sequence[int], able: Sequence[int]) -> list[int]:
    """The weights of the acts there are; a bid that cannot be made goes to the nearest one."""
    weights = dict.fromkeys(able, 0)
    bids = [act for act in able if act >= Act.LEAST]
    for act, part in enumerate(mix):
        if act in weights:
            weights[act] += part
        elif part and bids and act >= Act.LEAST:
            weights[min(bids, key=lambda other: (abs(other - act), other))] += part
        elif part and act >= Act.LEAST and Act.STAY in weights:
            weights[Act.STAY] += part
    return list(weights.values())
