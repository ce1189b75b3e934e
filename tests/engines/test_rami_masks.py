"""Rami's combinations on masks, against lists (`engines.rami.melds`)."""

from random import Random

from engines.cards import PACK_SIZE, RANKS, SUITS, Card
from engines.rami import extensions, hand_points, kind_of, masks, melds_in
from engines.rami.melds import MeldKind
from tests.engines import laws


def cards(rng: Random, most: int) -> tuple[Card, ...]:
    """Some cards of the pack, mostly of a few ranks, so that combinations are many and overlap."""
    ranks = rng.sample(range(len(RANKS)), rng.choice((4, 5, 7, len(RANKS))))
    pool = [Card(s * len(RANKS) + r) for s in range(len(SUITS)) for r in ranks]
    return tuple(sorted(rng.sample(pool, min(rng.randint(1, most), len(pool)))))


def test_a_mask_is_its_cards() -> None:
    """Both ways, and with what they cost."""
    for seed in range(laws.games(300)):
        rng = Random(seed)
        held = cards(rng, 14)
        assert masks.cards(masks.mask(held)) == held
        for ace_high in (False, True):
            assert masks.points(masks.mask(held), ace_high) == hand_points(held, ace_high)


def test_melds_and_extensions_are_those_of_lists() -> None:
    """RAMI-31: every run and group of a hand, every way to add to one, each once."""
    for seed in range(laws.games(500)):
        rng = Random(seed)
        hand = cards(rng, 14)
        melds = melds_in(hand)
        assert sorted(masks.melds_in(masks.mask(hand))) == sorted(map(masks.mask, melds))
        for meld in melds:
            laid = masks.mask(meld)
            held = tuple(c for c in cards(rng, 12) if c not in meld)
            listed = sorted(map(masks.mask, extensions(meld, held)))
            assert sorted(masks.extensions(laid, masks.mask(held))) == listed
            single = [c for c in range(PACK_SIZE) if kind_of((*meld, Card(c))) is not None]
            assert masks.neighbours(laid) == sum(1 << c for c in single)
            assert masks.is_run(laid) == (kind_of(meld) is MeldKind.RUN)


def test_paired_cards_lack_one_for_a_combination() -> None:
    """Two of a rank, or two of a suit at most two ranks apart."""
    for seed in range(laws.games(300)):
        hand = cards(Random(seed), 14)
        pairs = [(one, two) for one in hand for two in hand if one != two]
        lacking = {
            one
            for one, two in pairs
            if any(kind_of((one, two, Card(third))) is not None for third in range(PACK_SIZE))
        }
        assert set(masks.cards(masks.paired(masks.mask(hand)))) == lacking
