"""The best way to lay in a turn of Rami, against every order of every lay there is."""

from random import Random

from engines import rami
from engines.cards import Card, parse
from engines.rami import masks
from engines.rami.core import TARGET, Core, fits
from engines.rami.laying import best_lays
from tests.engines import laws


def position(rng: Random) -> Core:
    """A seat that has drawn, with combinations on the table; few ranks, so that much fits."""
    options = rami.Options(ace_high=rng.random() < 0.5, discard_to_win=rng.random() < 0.5)
    first = rng.randint(0, 13 - 5)
    ranks = range(first, rng.choice((first + 5, 13)))
    pool = [Card(suit * 13 + rank) for suit in range(4) for rank in ranks]
    core = Core(options, 2)
    rest = masks.mask(pool)
    for _ in range(rng.randint(0, 5)):
        if melds := [m for m in masks.melds_in(rest) if m.bit_count() < 5]:
            core.melds.append(rng.choice(melds))
            rest ^= core.melds[-1]
    core.fits = fits(core.melds)
    held = masks.cards(rest)
    core.hands[0] = masks.mask(rng.sample(held, min(len(held), rng.randint(1, 9))))
    core.seat, core.drawn = 0, 1
    return core


def cost(core: Core, hand: int) -> tuple[int, int]:
    """Points and cards of a hand; those of a single card, which goes out, do not matter."""
    out = hand.bit_count() <= 1
    return 0 if out else masks.points(hand, core.options.ace_high), hand.bit_count()


def least(core: Core, seen: dict[tuple[int, ...], tuple[int, int]]) -> tuple[int, int]:
    """The least that any sequence of legal lays leaves."""
    key = (core.hands[0], *sorted(core.melds))
    if key not in seen:
        found = cost(core, core.hands[0])
        for move in core.lays() if core.seat == 0 else ():
            after = core.clone()
            after.apply(move)
            found = min(found, least(after, seen))
        seen[key] = found
    return seen[key]


def test_no_order_of_lays_leaves_less() -> None:
    """The moves are legal one after the other, and nothing else goes out or leaves less."""
    lays = added = out = 0
    for seed in range(laws.games(300)):
        core = position(Random(seed))
        wanted = least(core, {})
        for move in best_lays(core):
            assert move in core.lays()
            core.apply(move)
            lays += 1
            added += move >> TARGET > 0
        assert cost(core, core.hands[0]) == wanted, seed
        out += core.hands[0].bit_count() <= 1
    assert min(lays - added, added, out) > 10


def test_a_card_may_be_kept_where_the_last_must_be_discarded() -> None:
    """RAMI-19: of five cards that could all be laid, the end of the run is kept."""
    for keep, moves in ((False, 1), (True, 1)):
        core = Core(rami.Options(discard_to_win=keep), 2)
        core.hands[0] = masks.mask(parse(c) for c in ["4H", "5H", "6H", "7H"])
        core.seat, core.drawn = 0, 1
        found = best_lays(core)
        assert len(found) == moves
        assert found[0].bit_count() == (3 if keep else 4)
