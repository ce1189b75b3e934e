"""What a Rami seat cannot see, dealt again so that it fits all the seat has seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from engines.cards import PACK_SIZE, Card
from engines.rami import (
    Discarded,
    Happening,
    RoundDealt,
    View,
    card_points,
    masks,
)

TRIES = 15
"""So often unlikely hands are dealt anew."""
PACK = tuple(map(Card, range(PACK_SIZE)))


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a view leaves open.

    `cards` lie in other hands or in the stock; by seat, `known` cards were taken for all to see
    and are still held, and `wanted` is how many more there are.
    """

    cards: tuple[Card, ...]
    known: tuple[tuple[Card, ...], ...]
    wanted: tuple[int, ...]

    def hands(self, deck: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """The seats and what of a deck is dealt to each; the rest is the stock, top first."""
        at = 0
        for seat, wanted in enumerate(self.wanted):
            yield seat, deck[at : at + wanted]
            at += wanted

    @property
    def dealt(self) -> int:
        """How many cards of a deck are dealt to hands."""
        return sum(self.wanted)


def hidden(view: View) -> Hidden:
    """What the view of a seat leaves open."""
    known: list[tuple[Card, ...]] = [()] * len(view.counts)
    for hand in view.known:
        if hand.seat != view.seat:
            known[hand.seat] = hand.cards
    seen = {*view.hand, *view.discard}
    seen.update(card for meld in view.melds for card in meld.cards)
    seen.update(card for cards in known for card in cards)
    wanted = [
        0 if seat == view.seat else count - len(cards)
        for seat, (count, cards) in enumerate(zip(view.counts, known, strict=True))
    ]
    unseen = tuple(card for card in PACK if card not in seen)
    return Hidden(unseen, tuple(known), tuple(wanted))


def decks(
    view: View, history: Sequence[Happening], open_: Hidden, number: int, rng: Random
) -> list[bytes]:
    """So many orders of the hidden cards, hands first.

    Hands that nobody would hold who plays like most are dealt anew, within reason: others lay at
    once what they can, so there is no combination in their hands and no card that fits one on the
    table; and they hold no lonely card that is dearer than the last one they threw away.
    """
    fits = 0
    for meld in view.melds:
        fits |= masks.neighbours(masks.mask(meld.cards))
    known = [masks.mask(cards) for cards in open_.known]
    dearer = _DEARER[view.options.ace_high]
    thrown = _last_discards(history)
    too_dear = [dearer[thrown[s]] if s in thrown else 0 for s in range(len(known))]

    def likely(deck: bytes) -> bool:
        at = 0
        for wanted, has, dear in zip(open_.wanted, known, too_dear, strict=True):
            if wanted:
                hand = has | masks.mask(deck[at : at + wanted])
                at += wanted
                if hand & fits or masks.run_cards(hand) or masks.groups_in(hand):
                    return False
                if hand & dear & ~has and hand & dear & ~has & ~masks.paired(hand):
                    return False
        return True

    found = []
    for _ in range(number):
        tries = TRIES
        while not likely(deck := _shuffled(open_.cards, rng)) and tries:
            tries -= 1
        found.append(deck)
    return found


def _last_discards(history: Sequence[Happening]) -> dict[int, Card]:
    """By seat what it discarded last in this round."""
    thrown: dict[int, Card] = {}
    for happening in history:
        match happening:
            case RoundDealt():
                thrown.clear()
            case Discarded(seat, card):
                thrown[seat] = card
            case _:
                pass
    return thrown


_DEARER = [
    [
        masks.mask(c for c in PACK if card_points(c, ace_high) > card_points(card, ace_high))
        for card in PACK
    ]
    for ace_high in (False, True)
]
"""Without and with `ace_high`, by card those that cost more."""


def _shuffled(cards: Sequence[int], rng: Random) -> bytes:
    """A random order; two in a thousand pairs of cards keep theirs, which costs nobody anything."""
    keys = memoryview(rng.randbytes(2 * len(cards))).cast("H")
    return bytes([card for _, card in sorted(zip(keys, cards, strict=True))])
