"""Azi's tricks: the plain way to play, and a look at how a card does against possible hands."""

from collections.abc import Sequence
from random import Random

from engines.azi import PACK, Standing, View, strength
from engines.cards import Card, Suit, suit

WORLDS = 60
"""How many deals of the hidden cards a card is tried out on."""
TRIES = 12
"""How often a deal is thrown again that gives a seat a suit it has shown not to hold."""
TO_WIN = 2

Hands = dict[int, list[Card]]


def strongest(cards: Sequence[Card], turned: Card) -> Card:
    """The card to lead."""
    return max(cards, key=lambda card: (strength(card, turned), -card))


def weakest(cards: Sequence[Card], turned: Card) -> Card:
    """The card to lose."""
    return min(cards, key=lambda card: (strength(card, turned), card))


def follow(cards: Sequence[Card], trick: Sequence[Card], turned: Card) -> Card:
    """Of the cards that may be played the cheapest that takes the trick so far, else the lowest."""
    best = trick[0]
    for card in trick[1:]:
        if _takes(card, best, turned):
            best = card
    winners = [card for card in cards if _takes(card, best, turned)]
    return weakest(winners or cards, turned)


def tried_out(view: View, cards: Sequence[Card], rng: Random) -> Card:
    """The card that wins the bank most often when all play on the plain way (AZI-25 … AZI-36)."""
    if view.turned is None or view.seat is None:
        return cards[0]
    totals = dict.fromkeys(cards, 0.0)
    for _ in range(WORLDS):
        hands = _possible(view, rng)
        for card in cards:
            totals[card] += _played_on(view, hands, card)
    return max(cards, key=lambda c: (totals[c], -strength(c, view.turned or c), -c))


def _possible(view: View, rng: Random) -> Hands:
    """Hands the other seats may hold: the right sizes, and no suit they have shown not to have."""
    plays = [*(play for trick in view.tricks for play in trick.plays), *view.trick]
    seen = {*view.hand, *(play.card for play in plays), view.turned, view.dropped}
    pool = [card for card in PACK if card not in seen]
    others = [s for s in view.seats if s.seat != view.seat and s.standing is Standing.LIVE]
    lacking = _lacking(view)
    hands: Hands = {}
    for _ in range(TRIES):
        rng.shuffle(pool)
        rest = iter(pool)
        hands = {s.seat: [c for c, _ in zip(rest, range(s.cards), strict=False)] for s in others}
        if not any(suit(c) in lacking.get(seat, ()) for seat, hand in hands.items() for c in hand):
            break
    return hands


def _lacking(view: View) -> dict[int, set[Suit]]:
    """The suits each seat has shown in this deal not to hold (AZI-27, AZI-28)."""
    found: dict[int, set[Suit]] = {}
    for plays in (*(trick.plays for trick in view.tricks), view.trick):
        for play in plays:
            if suit(play.card) is not suit(plays[0].card):
                found.setdefault(play.seat, set()).add(suit(plays[0].card))
                if view.turned is not None and suit(play.card) is not suit(view.turned):
                    found[play.seat].add(suit(view.turned))
    return found


def _played_on(view: View, hands: Hands, card: Card) -> float:
    """What the card brings: 1 for the bank, an equal part of it for an azi, 0 for a loss."""
    own, turned = view.seat, view.turned
    if own is None or turned is None:
        return 0.0
    held = {seat: list(cards) for seat, cards in hands.items()}
    held[own] = [c for c in view.hand if c != card]
    won = {seat.seat: seat.tricks for seat in view.seats}
    order = sorted(held)
    trick = [(play.seat, play.card) for play in view.trick] + [(own, card)]
    while True:
        played = {seat for seat, _ in trick}
        for seat in _clockwise(order, trick[-1][0]):
            if seat not in played and held[seat]:
                trick.append((seat, _follow(held[seat], [c for _, c in trick], turned)))
                held[seat].remove(trick[-1][1])
        winner = _winner(trick, turned)
        won[winner] += 1
        if won[winner] == TO_WIN:
            return float(winner == own)
        if not held.get(winner):
            return 1 / max(len(order), 1)
        trick = [(winner, strongest(held[winner], turned))]
        held[winner].remove(trick[0][1])


def _follow(hand: Sequence[Card], trick: Sequence[Card], turned: Card) -> Card:
    for must in (suit(trick[0]), suit(turned)):
        able = [card for card in hand if suit(card) is must]
        if able:
            return follow(able, trick, turned)
    return weakest(hand, turned)


def _winner(trick: Sequence[tuple[int, Card]], turned: Card) -> int:
    seat, best = trick[0]
    for other, card in trick[1:]:
        if _takes(card, best, turned):
            seat, best = other, card
    return seat


def _takes(card: Card, best: Card, turned: Card) -> bool:
    """Whether a card takes a trick from the best card so far (AZI-30)."""
    if suit(card) is not suit(best) and suit(card) is not suit(turned):
        return False
    return strength(card, turned) > strength(best, turned)


def _clockwise(order: Sequence[int], after: int) -> list[int]:
    """The seats of an ascending order from the one after a seat on."""
    return [s for s in order if s > after] + [s for s in order if s <= after]
