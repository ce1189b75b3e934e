"""The rules told to people: the same in every language, and as the engines have them."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path

import pytest

from engines import azi, durak, rami
from engines.azi.bank import cost, payouts
from engines.azi.model import BIDS_MAX, TRICKS_IN_A_DEAL, TRICKS_TO_WIN, Player, Standing
from engines.cards import ACE, PACK_SIZE, Suit, card, rank
from engines.rami.melds import MELD_MIN
from engines.rami.model import CARDS_FOR_MORE, CARDS_FOR_TWO, GUARD_TURNS, TARGET_MAX
from services.lobby.guides import LANGUAGES, SECTIONS, Guide, guide, spoken
from services.lobby.model import Variant
from services.lobby.variants import ENGINES, variant_info, variants_told
from services.runtime.settings import Settings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "services/lobby/guides"
GAMES = tuple(engine.NAME for engine in ENGINES.values())
SECTION_CHARS_MAX = 2_000
"""More of one section nobody reads on a telephone."""
TITLE_CHARS_MAX = 60
OPTION_CHARS_MAX = 200
ANSWER_BYTES_MAX = 65_536
"""All games in one answer: as much as the least that the transport may be set to carry."""
MARK = re.compile(r"\((\w+) = (\w+)\)")
SCRIPTS = {"en": "LATIN ", "pt": "LATIN ", "ka": "GEORGIAN LETTER "}


def guides() -> Iterator[tuple[str, str, Guide]]:
    """Every guide with its game and language."""
    for game in GAMES:
        for language in LANGUAGES:
            yield game, language, guide(game, language)


def numbers(text: str) -> list[int]:
    """The numbers of a text, as they stand."""
    return [int(found) for found in re.findall(r"\d+", text)]


def words(game: str, text: str) -> str:
    """A text without what is the same in every language: options, their values, names of them."""
    options = fields(ENGINES[Variant[game.upper()]].Options)
    choices = {str(c) for option in options for c in option.metadata["choices"] or ()}
    names = {option.name for option in options} | choices | {"true", "false"}
    return re.sub(rf"\b({'|'.join(sorted(names))})\b", "", MARK.sub("", text))


def texts(told: Guide) -> Iterator[str]:
    """Everything a guide says."""
    yield told.title
    for section in told.sections:
        yield from (section.title, section.text)
    for option in told.options.values():
        yield from (option.title, option.description or "", *option.choices.values())


def test_every_game_is_told_in_every_language_and_nothing_else_is() -> None:
    """A file a game and language, for the rules version that is played."""
    assert {p.name for p in FOLDER.glob("*.toml")} == {
        f"{game}.{language}.toml" for game in GAMES for language in LANGUAGES
    }
    for game, language, told in guides():
        assert told.rules == ENGINES[Variant[game.upper()]].RULES, (game, language)
        assert told.title


def test_guides_are_installed_with_the_package() -> None:
    """Every file of the folder is code or package data."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = [*project["tool"]["setuptools"]["package-data"]["*"], "*.py"]
    files = [p.name for p in FOLDER.iterdir() if p.is_file()]
    assert [f for f in files if not any(fnmatch(f, pattern) for pattern in patterns)] == []


def test_a_guide_has_all_sections_once_and_none_too_long() -> None:
    """The eight sections, each with a title and a text of at most 2000 characters."""
    for path in FOLDER.glob("*.toml"):
        assert list(tomllib.loads(path.read_text("utf-8"))["sections"]) == list(SECTIONS), path
    for game, language, told in guides():
        assert tuple(section.key for section in told.sections) == SECTIONS
        for section in told.sections:
            where = (game, language, section.key)
            assert 0 < len(section.title) <= TITLE_CHARS_MAX, where
            assert 40 < len(section.text) <= SECTION_CHARS_MAX, where
            assert all(part.strip() == part != "" for part in section.text.split("\n\n")), where
            assert section.text.replace("\n\n", " ").isprintable(), where


def test_every_language_quotes_the_same_numbers_and_options() -> None:
    """Section by section, however a language orders its words."""
    for game, language, told in guides():
        for section, english in zip(told.sections, guide(game, "en").sections, strict=True):
            where = (game, language, section.key)
            assert Counter(numbers(section.text)) == Counter(numbers(english.text)), where
            assert MARK.findall(section.text) == MARK.findall(english.text), where
            assert section.text.count("\n\n") == english.text.count("\n\n"), where


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_option_and_its_default_stand_in_the_text(variant: Variant, language: str) -> None:
    """Each once or more as `(name = default)`, and none that the engine does not have."""
    info = variant_info(variant, language)
    marks = {mark for section in info.sections for mark in MARK.findall(section.text)}
    assert marks == {(option.name, option.default) for option in info.options}
    values = {c for option in info.options for c in option.choices if not c.isdigit()}
    text = " ".join(section.text for section in info.sections)
    assert [value for value in sorted(values) if not re.search(rf"\b{value}\b", text)] == []


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_option_and_each_of_its_values_has_a_name(variant: Variant, language: str) -> None:
    """And a description in the answer's language; English ones are the engine's own."""
    told = guide(ENGINES[variant].NAME, language)
    declared = {option.name: option.metadata for option in fields(ENGINES[variant].Options)}
    assert list(told.options) == list(declared)
    for option in variant_info(variant, language).options:
        assert 0 < len(option.title) <= TITLE_CHARS_MAX
        assert 0 < len(option.description) <= OPTION_CHARS_MAX
        assert (language == "en") == (option.description == declared[option.name]["doc"])
        assert option.description.endswith(".")
        assert list(told.options[option.name].choices) == list(option.choices)
        assert all(0 < len(title) <= TITLE_CHARS_MAX for title in option.choice_titles)


def test_texts_are_composed_utf_8_in_their_own_script() -> None:
    """NFC; every letter Latin or Georgian but for the names of options and of their values."""
    for path in FOLDER.glob("*.toml"):
        text = path.read_bytes().decode("utf-8")
        assert unicodedata.is_normalized("NFC", text), path
    for game, language, told in guides():
        letters = {c for text in texts(told) for c in words(game, text) if c.isalpha()}
        strange = [c for c in sorted(letters) if SCRIPTS[language] not in unicodedata.name(c)]
        assert strange == [], (game, language)


def test_no_text_is_left_in_another_language() -> None:
    """No section, description or name of a value is the same in two languages."""
    for game in GAMES:
        for one, other in combinations(LANGUAGES, 2):
            same = {text for text in texts(guide(game, one)) if len(text) > 20} & {
                *texts(guide(game, other))
            }
            assert same == set(), (game, one, other)


def stock(players: int) -> int:
    """What is left of Rami's pack when the cards are dealt and one is turned over."""
    hand = CARDS_FOR_TWO if players == 2 else CARDS_FOR_MORE
    return len(rami.PACK) - players * hand - 1


def short_example() -> list[int]:
    """110, 110 and a short 60 as the bank pays them: what each put in, and what each gets."""
    put = (110, 110, 60)
    players = tuple(
        Player(0, Standing.LIVE, contributed=p, weight=p, short=p == min(put)) for p in put
    )
    paid = [payout.chips for payout in payouts(players, sum(put), 2)]
    assert paid[1] == paid[2]
    return [110, 60, 60, sum(put) - 60, 60, 110, paid[0], paid[1]]


def blind_example() -> list[int]:
    """Three at a fee of 10; the levels 20 come to 10 chips where they are blind."""
    blind, seen = (Player(100, Standing.LIVE, blind=b) for b in (True, False))
    dark = cost(blind, 20)
    return [10, 20, dark, cost(seen, 20), dark, 3 * 10 + dark + cost(seen, 20) + dark]


def points(of: int, *, ace_high: bool = False) -> int:
    """What the card of this rank in spades counts in a hand."""
    return rami.card_points(card(Suit.SPADES, of), ace_high)


AZI_RANKS = sorted({rank(c) + 2 for c in azi.PACK} & set(range(11)))
DURAK_RANKS = sorted({rank(c) + 2 for c in durak.PACK} & set(range(11)))
RAMI_RANKS = sorted({rank(c) + 2 for c in rami.PACK} & set(range(11)))
SIX, TEN = 6, 10
SUITS = len(Suit)
QUOTED: dict[str, dict[str, list[int]]] = {
    "azi": {
        "goal": [TRICKS_TO_WIN, TRICKS_IN_A_DEAL],
        "preparation": [
            *(azi.SEATS[0], azi.SEATS[-1], len(azi.PACK), AZI_RANKS[0], *AZI_RANKS),
            *(azi.Options().entry_fee, azi.SEATS[0]),
            *(3, 4, azi.Options().deal_size, 4, 4 - TRICKS_IN_A_DEAL, SIX, SIX),
        ],
        "course": [0, 0],
        "allowed": [BIDS_MAX, 0],
        "score": short_example(),
        "end": [1, TRICKS_IN_A_DEAL, TRICKS_TO_WIN],
        "special": [20 // cost(Player(20, Standing.LIVE, blind=True), 20), 4, *blind_example()],
        "bots": [],
    },
    "durak": {
        "goal": [],
        "preparation": [
            *(durak.SEATS[0], durak.SEATS[-1], len(durak.PACK), DURAK_RANKS[0], *DURAK_RANKS),
            *(durak.HAND_SIZE, len(durak.PACK) // durak.HAND_SIZE),
        ],
        "course": [1, 1, 2, durak.HAND_SIZE, durak.HAND_SIZE],
        "allowed": [durak.HAND_SIZE],
        "score": [1, 1],
        "end": [1],
        "special": [durak.BOUTS_MAX, SIX, PACK_SIZE],
        "bots": [],
    },
    "rami": {
        "goal": [],
        "preparation": [
            *(rami.SEATS[0], rami.SEATS[-1], len(rami.PACK), *RAMI_RANKS),
            *(2, CARDS_FOR_TWO, 3, 4, CARDS_FOR_MORE, stock(2), stock(3), stock(4), 2, 3, 4),
            *(MELD_MIN, MELD_MIN, SUITS),
        ],
        "course": [1, 1],
        "allowed": [2, 3, 2, RAMI_RANKS[0], MELD_MIN, ACE + 1, SUITS],
        "score": [
            *(points(ACE), points(ACE, ace_high=True), TEN, points(ACE - 1)),
            *(rami.Options().target, 1, TARGET_MAX),
        ],
        "end": [GUARD_TURNS],
        "special": [2, 51],
        "bots": [],
    },
}
"""The numbers of the English texts in their order, from where the engines have them."""


@pytest.mark.parametrize("game", GAMES)
def test_every_number_of_a_text_is_the_engines(game: str) -> None:
    """Hand sizes, limits, points, examples; nothing is quoted that is not listed here."""
    told = {section.key: numbers(section.text) for section in guide(game, "en").sections}
    assert told == QUOTED[game]
    assert {option.metadata["choices"] for option in fields(azi.Options)} >= {(3, 4)}
    assert len({points(r) for r in range(ACE - 4, ACE)}) == 1


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        ([], "en"),
        (["pt"], "pt"),
        (["pt-BR"], "pt"),
        (["KA-Geor-GE"], "ka"),
        (["pt_PT"], "pt"),
        (["de", "fr-CH", "ka", "pt"], "ka"),
        (["en", "pt"], "en"),
        (["xx"], "en"),
        (["", "-", "*", "x-pt", "ptx", "../pt", "p" * 1_024], "en"),
    ],
)
def test_the_first_language_there_is_gets_spoken(wanted: list[str], language: str) -> None:
    """By the tags' first subtags, in the order of the reader; English if none is there."""
    assert spoken(wanted) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_games_fit_into_one_message(language: str) -> None:
    """However the transport is set: its least bound is `message_max_bytes` at its lowest."""
    (least,) = (
        m.ge for m in Settings.model_fields["message_max_bytes"].metadata if hasattr(m, "ge")
    )
    assert least == ANSWER_BYTES_MAX
    assert variants_told(language).ByteSize() <= ANSWER_BYTES_MAX
