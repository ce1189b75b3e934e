"""How the easy and the normal bot of Durak play, by rules of thumb.

Easy begins low and beats with the smallest card. Normal saves trumps, counts the discard pile and
adds ranks that the defender presumably cannot beat.
"""

from collections.abc import Iterable, Sequence
from math import comb
from random import Random

from engines.cards import KING, Card, rank, suit, text
from engines.durak import (
    PACK,
    Attack,
    Beat,
    BoutClosed,
    Happening,
    Move,
    Outcome,
    Pass,
    Phase,
    Take,
    View,
)
from services.ai.bots.choice import Choice, Level

TRUMP_WORTH = 12
"""A trump counts as so many ranks more."""
COPY_WORTH = 3.6
"""What another card of the same rank makes an attack card better, in ranks, between two: among
more, others add to the bout as well."""
UNBEATEN_WORTH = 3.0
"""What a card that the defender surely cannot beat is better to add, in ranks."""
NEW_RANK_COST = 2.7
"""What a rank new to the table costs a defender, in ranks: attackers may add it."""
GENEROUS_RANK = 5
"""The highest rank (seven) given to a defender who takes while the talon is thick."""
DUEL = 2
"""Seats that still play when there are no others to mind."""
THICK_TALON = 6
SPARING_TALON = 8
"""With more cards in the talon than this a king or ace of trumps is not spent on a defence."""
STALE_BOUTS = 3
"""After so many bouts a seat without a discard nobody takes or adds by choice, and whoever begins
does so with any card: the deal must move on."""


def choose(view: View, history: Sequence[Happening], level: Level, rng: Random) -> Choice[Move]:
    """A legal move for the seat whose view this is.

    It follows from the view alone, unless the bouts go round: then chance breaks the circle.
    """
    stale = is_stale(view, history)
    beats = [move for move in view.legal if isinstance(move, Beat)]
    attacks = [move for move in view.legal if isinstance(move, Attack)]
    if beats or Take() in view.legal:
        return _defend(view, beats, level, stale=stale)
    if stale:
        return _move_on(view, attacks, rng)
    if Pass() in view.legal:
        return _add(view, attacks, level)
    return _open(view, attacks, level)


def _move_on(view: View, attacks: Sequence[Attack], rng: Random) -> Choice[Move]:
    """Let beaten cards be gone, or begin with any card."""
    if Pass() in view.legal:
        return Choice(Pass(), "The same cards go round and round; better that some are gone.")
    return Choice(rng.choice(attacks), "The same cards go round and round; this is another one.")


def worth(view: View, card: Card) -> int:
    """How much a card is worth keeping, in ranks."""
    return rank(card) + (TRUMP_WORTH if suit(card) is view.trump else 0)


def unseen(view: View) -> frozenset[Card]:
    """The cards that do not lie open; what was taken in sight is not remembered."""
    seen = {*view.hand, *view.discarded, *_table(view)}
    if view.talon and view.shown is not None:
        seen.add(view.shown)
    return frozenset(PACK) - seen


def beaten_by(view: View, card: Card, others: Iterable[Card]) -> list[Card]:
    """Those of the other cards that beat this one (DURAK-9)."""
    return [other for other in others if _beats(view, other, card)]


def chance_unbeaten(view: View, card: Card) -> float:
    """How likely the defender holds nothing that beats the card."""
    if view.defender is None:
        return 0.0
    possible = unseen(view)
    hidden = min(max(view.counts[view.defender], 0), len(possible))
    harmless = len(possible) - len(beaten_by(view, card, possible))
    return comb(harmless, hidden) / comb(len(possible), hidden)


def _open(view: View, attacks: Sequence[Attack], level: Level) -> Choice[Move]:
    if level is Level.EASY:
        lowest = min(attacks, key=lambda move: (worth(view, move.card), move.card))
        return Choice(lowest, f"Begin low, with {text(lowest.card)}.")
    ranks = [rank(card) for card in view.hand]
    duel = len(view.counts) - len(view.out) == DUEL

    def cost(move: Attack) -> tuple[float, int]:
        copies = ranks.count(rank(move.card)) - 1 if duel else 0
        return worth(view, move.card) - COPY_WORTH * copies, move.card

    best = min(attacks, key=cost)
    return Choice(best, f"{text(best.card)} is the card I can best do without.")


def _add(view: View, attacks: Sequence[Attack], level: Level) -> Choice[Move]:
    """Add a card to the bout or pass (DURAK-11, DURAK-13)."""
    taking = view.phase is Phase.TAKING
    if level is not Level.EASY:
        attacks = [move for move in attacks if _spares(view, move.card, taking=taking)]
    if not attacks:
        return Choice(Pass(), "Nothing I could add is worth giving away.")
    if level is Level.EASY or taking:
        lowest = min(attacks, key=lambda move: (worth(view, move.card), move.card))
        return Choice(lowest, f"Add the lowest card that fits, {text(lowest.card)}.")

    def cost(move: Attack) -> tuple[float, int]:
        unbeaten = chance_unbeaten(view, move.card)
        return worth(view, move.card) - UNBEATEN_WORTH * unbeaten, move.card

    best = min(attacks, key=cost)
    return Choice(best, f"{text(best.card)} costs me little and is hard to beat.")


def _spares(view: View, card: Card, *, taking: bool) -> bool:
    """Whether the seat would rather be rid of this card than keep it."""
    if suit(card) is view.trump:
        return not view.talon and not taking
    return not (taking and view.talon > THICK_TALON) or rank(card) <= GENEROUS_RANK


def _defend(view: View, beats: Sequence[Beat], level: Level, *, stale: bool) -> Choice[Move]:
    if not beats:
        return Choice(Take(), "No card of mine beats this one.")
    if level is Level.EASY:
        smallest = min(beats, key=lambda move: (worth(view, move.card), move.card))
        return Choice(smallest, f"{text(smallest.card)} is the smallest card that beats it.")
    on_table = {rank(card) for card in _table(view)}

    def cost(move: Beat) -> tuple[float, int]:
        new = rank(move.card) not in on_table
        return worth(view, move.card) + NEW_RANK_COST * new, move.card

    best = min(beats, key=cost)
    dear = suit(best.card) is view.trump and rank(best.card) >= KING
    if dear and view.talon > SPARING_TALON and not stale:
        return Choice(Take(), "Beating it would cost a trump too high for so early.")
    return Choice(best, f"{text(best.card)} beats it at the least cost.")


def is_stale(view: View, history: Sequence[Happening]) -> bool:
    """Whether the bouts go round without a card being discarded; between two they cannot."""
    if len(view.counts) - len(view.out) == DUEL:
        return False
    bouts = 0
    for happening in reversed(history):
        if isinstance(happening, BoutClosed):
            if happening.outcome is Outcome.BEATEN:
                break
            bouts += 1
    return bouts >= STALE_BOUTS * len(view.counts)


def _beats(view: View, card: Card, attack: Card) -> bool:
    if suit(card) is suit(attack):
        return rank(card) > rank(attack)
    return suit(card) is view.trump


def _table(view: View) -> list[Card]:
    return [
        card for pair in view.table for card in (pair.attack, pair.beaten_by) if card is not None
    ]
