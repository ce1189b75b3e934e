"""Moves as a person types them: a choice's number, a word with cards, or the card alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import engines.azi
import engines.durak
import engines.rami
from engines.cards import RANKS, SUITS, Card, card
from engines.cards import text as card_text
from services.cli.pictures.look import SIGNS
from services.client.variants import Move, View

Reader = Callable[[Sequence[str]], Move]

USAGE = {
    "azi": "bid N | level | fold | all in | look | drop CARD | drop last | play CARD | buy back |"
    " decline",
    "durak": "attack CARD | beat CARD | take | pass",
    "rami": "draw | take | meld CARDS | lay CARDS MELD | discard CARD",
}
"""What may be typed in each game."""


def read_card(text: str) -> Card:
    """A card such as `7S`, `7s`, `10h` or `T♥`; raises ValueError for anything else."""
    signs = str.maketrans(SIGNS, SUITS)
    plain = text.translate(signs).upper().replace("10", "T")
    if len(plain) != 2:
        raise ValueError(f"{text!r} is no card; a card is rank and suit, such as 7S or TH")
    rank, suit = (plain[0], plain[1]) if plain[1] in SUITS else (plain[1], plain[0])
    if rank not in RANKS or suit not in SUITS:
        raise ValueError(f"{text!r} is no card; a card is rank and suit, such as 7S or TH")
    return card(SUITS.index(suit), RANKS.index(rank))


PACKS: Mapping[str, frozenset[Card]] = {
    "azi": frozenset(engines.azi.PACK),
    "durak": frozenset(engines.durak.PACK),
}
"""The cards of the games that leave some of the 52 out."""


def read_move(game: str, text: str, view: View) -> Move:
    """The move a person means; raises ValueError saying what is not understood."""
    made = _read(game, text, view)
    named = getattr(made, "card", None)
    if named is not None and named not in PACKS.get(game, (named,)):
        raise ValueError(f"{game} is played without the {card_text(named)}")
    return made


def _read(game: str, text: str, view: View) -> Move:
    words = text.replace(",", " ").split()
    if not words:
        raise ValueError("type the number of a move, or the move itself")
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        return _numbered(int(words[0]), view.legal)
    word, rest = words[0].lower(), words[1:]
    readers = READERS[game]
    joined = f"{word} {rest[0].lower()}" if rest else ""
    if joined in readers:
        return readers[joined](rest[1:])
    if word in readers:
        return readers[word](rest)
    if re.fullmatch(rf"(10|[{RANKS}])[{SUITS}{SIGNS}]", words[0].upper()) and not rest:
        return _by_card(read_card(words[0]), view.legal)
    raise ValueError(f"{text.strip()!r} is no move; there are: {USAGE[game]}")


def _numbered(number: int, legal: Sequence[Move]) -> Move:
    if not 1 <= number <= len(legal):
        raise ValueError(f"there is no move {number}; they are numbered 1 to {len(legal)}")
    return legal[number - 1]


def _by_card(wanted: Card, legal: Sequence[Move]) -> Move:
    """The one move of a single card; if none is legal, the one the rules will refuse."""
    having = [made for made in legal if getattr(made, "card", None) == wanted]
    if having:
        return having[0]
    kinds = {type(made) for made in legal if hasattr(made, "card")}
    if len(kinds) != 1:
        raise ValueError("say what to do with the card")
    kind: Any = kinds.pop()
    made: Move = kind(wanted)
    return made


def _plain(kind: Any) -> Reader:
    def read(rest: Sequence[str]) -> Move:
        if rest:
            raise ValueError(f"nothing is expected after it: {' '.join(rest)!r}")
        made: Move = kind()
        return made

    return read


def _one_card(kind: Any) -> Reader:
    def read(rest: Sequence[str]) -> Move:
        if len(rest) != 1:
            raise ValueError("name one card")
        made: Move = kind(read_card(rest[0]))
        return made

    return read


def _bid(rest: Sequence[str]) -> Move:
    if len(rest) != 1 or not re.fullmatch(r"[0-9]{1,19}", rest[0]):
        raise ValueError("say how many chips to bid to, such as `bid 5`")
    return engines.azi.Bid(int(rest[0]))


def _meld(rest: Sequence[str]) -> Move:
    if not rest:
        raise ValueError("name the cards, such as `meld 7S 8S 9S`")
    return engines.rami.Meld(tuple(read_card(text) for text in rest))


def _lay_off(rest: Sequence[str]) -> Move:
    words = [text for text in rest if text.lower() not in ("off", "on", "to")]
    if len(words) < 2 or not re.fullmatch(r"[mM][0-9]+", words[-1]):
        raise ValueError("name the cards and the combination, such as `lay 7S m1`")
    return engines.rami.LayOff(tuple(read_card(text) for text in words[:-1]), words[-1].lower())


AZI: Mapping[str, Reader] = {
    "bid": _bid,
    "level": _plain(engines.azi.Level),
    "call": _plain(engines.azi.Level),
    "fold": _plain(engines.azi.Fold),
    "all in": _plain(engines.azi.AllIn),
    "all_in": _plain(engines.azi.AllIn),
    "look": _plain(engines.azi.Look),
    "drop": _one_card(engines.azi.Drop),
    "drop last": _plain(engines.azi.DropLast),
    "drop_last": _plain(engines.azi.DropLast),
    "buy back": _plain(engines.azi.BuyBack),
    "buy_back": _plain(engines.azi.BuyBack),
    "decline": _plain(engines.azi.Decline),
    "play": _one_card(engines.azi.PlayCard),
}
DURAK: Mapping[str, Reader] = {
    "attack": _one_card(engines.durak.Attack),
    "beat": _one_card(engines.durak.Beat),
    "take": _plain(engines.durak.Take),
    "pass": _plain(engines.durak.Pass),
}
RAMI: Mapping[str, Reader] = {
    "draw": _plain(engines.rami.DrawStock),
    "draw stock": _plain(engines.rami.DrawStock),
    "draw_stock": _plain(engines.rami.DrawStock),
    "take": _plain(engines.rami.DrawDiscard),
    "draw discard": _plain(engines.rami.DrawDiscard),
    "draw_discard": _plain(engines.rami.DrawDiscard),
    "meld": _meld,
    "lay": _lay_off,
    "lay_off": _lay_off,
    "discard": _one_card(engines.rami.Discard),
}
READERS: Mapping[str, Mapping[str, Reader]] = {"azi": AZI, "durak": DURAK, "rami": RAMI}
