"""Judging a shuffle: fair decks pass, decks that are a little unfair do not."""

import hashlib
import math
from collections.abc import Callable
from random import Random

import pytest

from engines import azi, rami
from engines.cards import Card
from services.cli import fairness
from services.cli.evenness import Counts, findings, upper_tail
from services.cli.main import main
from services.game.deals import SeededChance

DECKS = 3_000
Shuffle = Callable[[list[Card], Random], None]


def counted(shuffle: Shuffle, seed: int) -> Counts:
    """Many decks of Azi's pack, shuffled so."""
    rng = Random(seed)
    counts = Counts(azi.PACK, 6)
    decks = []
    for _ in range(DECKS):
        deck = list(azi.PACK)
        shuffle(deck, rng)
        decks.append(deck)
    counts.add(decks, [rng.randrange(6) for _ in range(DECKS)])
    return counts


def fair(deck: list[Card], rng: Random) -> None:
    """Every order equally likely."""
    rng.shuffle(deck)


def naive(deck: list[Card], rng: Random) -> None:
    """The well-known mistake: each place exchanged with any other."""
    for i in range(len(deck)):
        j = rng.randrange(len(deck))
        deck[i], deck[j] = deck[j], deck[i]


def lazy(deck: list[Card], rng: Random) -> None:
    """A fair shuffle that leaves the pack as it is once in fifty."""
    if rng.random() > 0.02:
        rng.shuffle(deck)


def sorted_pairs(deck: list[Card], rng: Random) -> None:
    """Fair, but of some cards the lesser is put first."""
    rng.shuffle(deck)
    for _ in range(4):
        i, j = sorted(rng.sample(range(len(deck)), 2))
        deck[i], deck[j] = sorted((deck[i], deck[j]))


def test_fair_decks_have_p_values_like_chance() -> None:
    """Over many runs of each statistic they spread evenly between 0 and 1."""
    found: dict[str, list[float]] = {}
    for seed in range(24):
        for line in findings(counted(fair, seed)):
            found.setdefault(line.name, []).append(line.p)
    assert len(found) == 5
    for name, values in found.items():
        assert 0.3 < sum(values) / len(values) < 0.7, name
        assert min(values) > 1e-5, name


@pytest.mark.parametrize(
    ("shuffle", "names"),
    [
        (naive, {"position x card", "first card", "order of pairs"}),
        (lazy, {"position x card", "first two cards", "order of pairs"}),
        (sorted_pairs, {"order of pairs"}),
    ],
)
def test_unfair_decks_are_found(shuffle: Shuffle, names: set[str]) -> None:
    """Each by the statistics that look at what is unfair in it."""
    found = {line.name for line in findings(counted(shuffle, 1)) if line.p < 1e-4}
    assert names <= found


def test_decks_that_are_too_even_are_found() -> None:
    """Each card as often in each place as in every other is no chance."""
    counts = Counts(azi.PACK, 6)
    size = len(azi.PACK)
    decks = [[azi.PACK[(place + turn) % size] for place in range(size)] for turn in range(size)]
    counts.add(decks * 100, [])
    by_name = {line.name: line for line in findings(counts)}
    assert by_name["position x card"].chi_square == 0
    assert by_name["position x card"].p < 1e-9


def test_counts_are_those_of_counting_one_by_one() -> None:
    """Places, first pairs and orders of a handful of decks, by the plainest loops."""
    rng = Random(4)
    decks = [tuple(rng.sample(rami.PACK, len(rami.PACK))) for _ in range(7)]
    whole, first, second = (Counts(rami.PACK, 6) for _ in range(3))
    whole.add(decks, [1, 1, 5])
    first.add(decks[:3], [1])
    second.add(decks[3:], [1, 5])
    first.merge(second)
    assert first == whole
    for a in range(52):
        for place in range(52):
            assert whole.places[place][a] == sum(deck[place] == a for deck in decks)
        for b in range(52):
            pair = sum(deck[0] == a and deck[1] == b for deck in decks)
            before = sum(deck.index(Card(a)) < deck.index(Card(b)) for deck in decks)
            assert whole.pairs[a][b] == pair
            assert whole.before[a][b] == (before if a < b else 0)
    assert whole.draws == [0, 2, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("chi_square", "freedom", "p"),
    [(3.841459, 1, 0.05), (18.30704, 10, 0.05), (124.3421, 100, 0.05), (0.4549364, 1, 0.5)],
)
def test_the_tail_is_that_of_the_tables(chi_square: float, freedom: int, p: float) -> None:
    """Against published quantiles; far out it falls to nothing, at nothing it is all."""
    assert math.isclose(upper_tail(chi_square, freedom), p, rel_tol=1e-5)
    assert upper_tail(0, freedom) == 1
    assert upper_tail(1_000_000, freedom) == 0


def test_decks_are_dealt_by_the_code_that_deals_in_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in it would be seen: here every deck is the pack in order."""
    monkeypatch.setattr(SeededChance, "deck", lambda self, deal, pack: tuple(pack))
    arguments = ["fairness", "--decks", "1000", "--game", "rami", "--workers", "1"]
    assert main(arguments) == 1


def test_a_run_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed, the same counts, in however many processes; another seed, others."""
    seed = hashlib.sha256(b"a run").digest()
    one = fairness.counted("durak", 2_000, seed, 1, lambda _: None)
    assert fairness.counted("durak", 2_000, seed, 1, lambda _: None) == one
    assert fairness.counted("durak", 2_000, bytes(32), 1, lambda _: None) != one
    arguments = ["fairness", "--decks", "1000", "--json", "--seed", seed.hex(), "--workers", "2"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.count('"statistics"') == 3


@pytest.mark.parametrize(
    "words",
    [["--decks", "5"], ["--seed", "no"], ["--seed", "00"], ["--workers", "0"]],
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    """In a line, with the exit code of a wrong command."""
    assert main(["fairness", *words]) == 2
