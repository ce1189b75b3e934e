"""An oracle of cards: what each seat may know by now, worked out from the full state alone.

It shares nothing with the views: a card may be shown to a viewer once it has lain face up in the
present deal, or while it is in the viewer's own open hand.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from engines import azi, durak, rami
from engines.cards import Card, suit
from services.game.model import EngineEvent, Event, State
from tests.engines import azi_worlds, durak_worlds

CARD = "kozyr.cards.v1.Card"
LAID_OPEN = {"deal_revealed"}
"""Happenings that may show any card of a deal that is over."""

Known = tuple[frozenset[Card], ...]
"""What each seat may know, and last what everybody may."""


def nothing(seats: int) -> Known:
    """Before the first deal."""
    return (frozenset[Card](),) * (seats + 1)


def learned(known: Known, event: Event, after: State) -> Known:
    """What is known after one more event; a new deal makes all that was known worthless."""
    if not isinstance(event, EngineEvent) or after.engine is None:
        return known
    face_up = frozenset(open_cards(after.engine))
    if type(event.event).__name__ == "Dealt":
        known = nothing(len(known) - 1)
        face_up |= shown_first(after.engine)
    hands = (own(after.engine, seat) for seat in range(len(known) - 1))
    return (*(k | face_up | hand for k, hand in zip(known, hands, strict=False)),
            known[-1] | face_up)  # fmt: skip


def open_cards(engine: Any) -> Iterator[Card]:
    """The cards that lie face up."""
    match engine:
        case azi.State():
            if engine.turned is not None:
                yield engine.turned
            for trick in engine.tricks:
                yield from (play.card for play in trick.plays)
            yield from (play.card for play in engine.trick)
        case durak.State():
            if engine.shown is not None:
                yield engine.shown
            yield from engine.discarded
            for pair in engine.table:
                yield pair.attack
                if pair.beaten_by is not None:
                    yield pair.beaten_by
        case rami.State():
            yield from engine.discard
            for meld in engine.melds:
                yield from meld.cards


def shown_first(engine: Any) -> frozenset[Card]:
    """The lowest trump dealt in Durak: who attacks first shows why (DURAK-5)."""
    if not isinstance(engine, durak.State):
        return frozenset()
    trumps = (card for hand in engine.hands for card in hand if suit(card) == engine.trump)
    return frozenset(sorted(trumps)[:1])


def own(engine: Any, seat: int) -> frozenset[Card]:
    """The cards a seat holds and may look at."""
    if isinstance(engine, azi.State):
        player = engine.players[seat]
        hand = () if player.blind else player.hand
        dropped = player.dropped is not None and not player.dropped_unseen
        return frozenset((*hand, player.dropped) if dropped and player.dropped else hand)
    return frozenset(engine.hands[seat]) if engine.hands else frozenset()


def all_cards(engine: Any) -> list[Card]:
    """Every card of a state, wherever it lies."""
    match engine:
        case azi.State():
            return list(azi_worlds.cards(engine))
        case durak.State():
            return list(durak_worlds.cards(engine))
        case _:
            piles = (*engine.hands, engine.stock, engine.discard, *(m.cards for m in engine.melds))
            return [card for pile in piles for card in pile]


def pack_of(engine: Any) -> tuple[Card, ...]:
    """The game's pack."""
    match engine:
        case azi.State():
            return tuple(azi.PACK)
        case durak.State():
            return tuple(durak.PACK)
        case _:
            return tuple(rami.PACK)


def shown_in(message: Any) -> Iterator[Card]:
    """Every card that a message names, deals laid open aside."""
    for field, value in message.ListFields():
        if field.name in LAID_OPEN:
            continue
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in values:
                if isinstance(inner, Message):
                    yield from shown_in(inner)
        elif field.type == FieldDescriptor.TYPE_ENUM and field.enum_type.full_name == CARD:
            yield from (Card(number - 1) for number in values if number)
