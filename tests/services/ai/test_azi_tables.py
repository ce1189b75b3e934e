"""Azi's tables: what their kinds of hands are, and that they are made by the code beside them."""

import json
from base64 import b64decode
from importlib.resources import files
from itertools import combinations
from random import Random
from typing import Any

import pytest

from engines import azi
from engines.azi.masks import BIT, TAKING, mask
from engines.cards import parse, suit
from services.ai.bots.azi import building, hands, measuring, tables
from services.ai.bots.azi.situation import Act
from services.ai.bots.azi.solving import Solver, equal_worth

KNOWN = tables.tables()


def stored() -> dict[str, Any]:
    """The tables as they lie in the package."""
    found: dict[str, Any] = json.loads(
        files("services.ai.bots.azi").joinpath(tables.NAME).read_text("utf-8")
    )
    return found


@pytest.mark.parametrize("players", tables.PLAYERS)
def test_a_sample_of_the_worths_is_measured_again_to_the_same_octet(players: int) -> None:
    """The table can be made again, number by number."""
    rng, kept = Random(players), stored()
    for leads, name in ((True, "leads"), (False, "follows")):
        octets = b64decode(kept[name][str(players)])
        for kind in rng.sample(range(hands.KINDS), 6 if players < 4 else 2):
            worth = measuring.equity(building.SEED, players, leads, kind)
            assert octets[kind] == round(worth * tables.FULL)


def test_a_short_training_learns_what_it_did_when_the_table_was_made() -> None:
    """The bids of the table come from this code: its beginning is run again and compared."""
    assert building.proof(building.known(KNOWN)) == stored()["proof"]


def test_what_is_left_of_four_cards_is_measured_again() -> None:
    """From the worths of the table to the octet, but for roundings."""
    worth = [KNOWN.worth(building.KEPT_PLAYERS, kind) for kind in range(hands.KINDS)]
    again = building.kept(worth)
    far = [k for k in range(hands.KINDS) if abs(again[k] - KNOWN.kept[k]) > 0.1]
    assert len(far) < hands.KINDS // 20


def test_hands_of_one_kind_win_alike() -> None:
    """Turned the same way about, a deal is the same deal, whatever suit is trump."""
    rng = Random(1)
    for _ in range(40):
        kind_of: dict[tuple[int, ...], set[int]] = {}
        numbers = rng.sample(range(hands.CARDS), 3 * hands.HAND)
        for turned in rng.sample(azi.PACK, 6):
            bit_of = {number: bit for bit, number in hands.numbers(turned).items()}
            dealt = [
                sum(bit_of[1 << number] for number in numbers[at : at + hands.HAND])
                for at in range(0, len(numbers), hands.HAND)
            ]
            kinds = tuple(hands.kinds(turned)[hand] for hand in dealt)
            solver = Solver(hands.trumps(turned), TAKING[turned], equal_worth(3), 0)
            ended = solver.led(dealt, [0, 0, 0], 1)
            kind_of.setdefault(kinds, set()).add(ended.index(max(ended)) if 1 in ended else -1)
        assert [len(ways) for ways in kind_of.values()] == [1]


def test_every_hand_has_a_kind_and_every_kind_a_hand() -> None:
    """Of the 2,600 hands under a turned card; its example is of it."""
    for turned in (azi.PACK[0], azi.PACK[8], azi.PACK[20]):
        of = hands.kinds(turned)
        rest = [BIT[card] for card in azi.PACK if card != turned]
        assert set(of) == {sum(hand) for hand in combinations(rest, hands.HAND)}
        assert [of[hands.example(kind, turned)] for kind in range(hands.KINDS)] == [
            *range(hands.KINDS)
        ]


def test_a_six_on_stage_is_the_highest_trump_of_a_kind() -> None:
    """AZI-6: with an ace turned up the six is worth what else the ace is."""
    plain = mask([parse("7H"), parse("8D")])
    six, ace = parse("6S"), parse("AS")
    assert suit(six) is suit(ace)
    kind = hands.kinds(ace)[plain | BIT[six]]
    assert kind == hands.kinds(six)[plain | BIT[ace]]
    assert hands.trumps_in(kind) == 1


def test_the_best_hands_have_the_highest_rank_and_are_worth_the_bank() -> None:
    """Three top trumps win whoever plays; three low plain cards next to never."""
    turned = parse("7S")
    best = hands.kinds(turned)[mask([parse("AS"), parse("KS"), parse("QS")])]
    worst = hands.kinds(turned)[mask([parse("6H"), parse("7H"), parse("8H")])]
    for players in tables.PLAYERS:
        assert KNOWN.worth(players, best) == 1
        assert KNOWN.worth(players, worst) < 0.2
        for size in (3, 4):
            assert KNOWN.ranks[size][players][best] >= len(tables.RANKS) - 1
            assert KNOWN.ranks[size][players][worst] < tables.DARK // 3


def test_the_table_folds_more_the_weaker_a_hand_is() -> None:
    """Wherever nearly every rank was met often."""
    compared = 0
    for situation in KNOWN.mixes:
        rows = [KNOWN.mix(situation, rank) for rank in range(tables.DARK)]
        known = [row for row in rows if row is not None]
        if len(known) < tables.DARK - 2 or not known[0][Act.FOLD]:
            continue
        compared += 1
        half = len(known) // 2
        weak, strong = (sum(row[Act.FOLD] for row in part) for part in (known[:half], known[half:]))
        assert weak + 3 >= strong
    assert compared > 20


def test_a_mix_is_a_whole() -> None:
    """Its fifteenths add up, but for roundings."""
    for situation in KNOWN.mixes:
        for rank in range(tables.RANKED):
            mix = KNOWN.mix(situation, rank)
            assert mix is None or abs(sum(mix) - tables.MIXED) <= 3


def test_the_file_is_small() -> None:
    """It is read by every worker."""
    assert len(json.dumps(stored())) < 200_000
