"""Cards as boxes three rows high, and a hand of them with what can be pressed below each."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engines.cards import Card, Suit, rank, suit
from services.cli.pictures.look import HIDDEN, Look
from services.cli.play.spans import Line, Role, Span

BOX = 4
HAND_ROWS = 4
KEYS = "1234567890ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The keys of the cards of a hand, in their order."""
RED_SUITS = (Suit.HEARTS, Suit.DIAMONDS)


@dataclass(frozen=True, slots=True)
class Frame:
    """The characters around a card: corners from the left top, bar and side."""

    corners: str
    bar: str
    side: str


ROUND = Frame("╭╮╰╯", "─", "│")
DOUBLE = Frame("╔╗╚╝", "═", "║")
ASCII_ROUND = Frame("++++", "-", "|")
ASCII_DOUBLE = Frame("####", "=", "#")


def frame(look: Look, *, chosen: bool = False) -> Frame:
    """The frame of a card, doubled where the cursor is."""
    if look.ascii:
        return ASCII_DOUBLE if chosen else ASCII_ROUND
    return DOUBLE if chosen else ROUND


def role_of(card: Card) -> Role:
    """Red or plain."""
    return Role.RED if suit(card) in RED_SUITS else Role.PLAIN


def small(card: Card, look: Look, role: Role | None = None, spot: str = "") -> Span:
    """A card in two columns."""
    return Span(look.card(card), role or role_of(card), spot)


def row(cards: Sequence[Card], look: Look) -> Line:
    """Cards in a row with a blank between them; `-` for none."""
    spans: list[Span] = []
    for card in cards:
        spans += [*([Span(" ")] if spans else []), small(card, look)]
    return tuple(spans) or (Span("-", Role.MUTED),)


def box(
    face: str,
    role: Role,
    made: Frame,
    edge: Role = Role.MUTED,
    spot: str = "",
) -> list[Line]:
    """A card four columns wide and three rows high."""
    left_top, right_top, left_low, right_low = tuple(made.corners)
    return [
        (Span(left_top + made.bar * 2 + right_top, edge, spot),),
        (Span(made.side, edge, spot), Span(face, role, spot), Span(made.side, edge, spot)),
        (Span(left_low + made.bar * 2 + right_low, edge, spot),),
    ]


def face_up(card: Card, look: Look, spot: str = "") -> list[Line]:
    """A card that lies open."""
    return box(look.card(card), role_of(card), frame(look), Role.PLAIN, spot)


def face_down(look: Look, spot: str = "") -> list[Line]:
    """The back of a card."""
    return box(HIDDEN, Role.MUTED, frame(look), Role.PLAIN, spot)


def gap(look: Look) -> list[Line]:
    """Where a card is still to come."""
    blank = (Span(" " * BOX),)
    return [blank, (Span(f" {'.' if look.ascii else '·'}  ", Role.MUTED),), blank]


def in_a_row(boxes: Sequence[Sequence[Line]], space: str = "") -> list[Line]:
    """Boxes of three rows beside each other."""
    rows: list[list[Span]] = [[], [], []]
    for number, each in enumerate(boxes):
        for index in range(3):
            if number and space:
                rows[index].append(Span(space))
            rows[index] += each[index]
    return [tuple(made) for made in rows]


@dataclass(frozen=True, slots=True)
class Held:
    """A hand as it is shown: cards in order, which can be played, marked ones, the cursor.

    `extra` are cards with a sign of their own beside the key; `cursor` is None while nothing is
    asked.
    """

    cards: tuple[Card, ...]
    legal: Collection[Card] = ()
    marked: Collection[Card] = ()
    cursor: int | None = None
    extra: Collection[Card] = ()


def hand(held: Held, look: Look, columns: int) -> list[Line]:
    """The hand in four rows: boxes, and below them the keys of those that can be played.

    A hand that does not fit becomes two rows of cards with their signs below each.
    """
    if len(held.cards) * BOX > columns - 2:
        return _dense(held, look, columns)
    boxes: list[list[Line]] = []
    labels: list[Span] = [Span(" ")]
    for index, card in enumerate(held.cards):
        edge, role = _ink(held, index)
        made = frame(look, chosen=index == held.cursor)
        boxes.append(box(look.card(card), role, made, edge, _spot(index)))
        labels.append(Span(f" {_label(held, index):<3}", _label_role(held, index), _spot(index)))
    rows = in_a_row(boxes) if boxes else [(), (Span("  no cards", Role.MUTED),), ()]
    return [*((Span(" "), *each) for each in rows), tuple(labels)]


def _dense(held: Held, look: Look, columns: int) -> list[Line]:
    """Up to two rows of small cards, each with its signs in a row below."""
    per_row = max(1, (columns - 2) // 4)
    lines: list[Line] = []
    for start in range(0, len(held.cards), per_row):
        faces: list[Span] = [Span(" ")]
        labels: list[Span] = [Span(" ")]
        for index in range(start, min(start + per_row, len(held.cards))):
            _, role = _ink(held, index)
            role = Role.CHOSEN if index == held.cursor else role
            faces += [Span(look.card(held.cards[index]), role, _spot(index)), Span("  ")]
            labels.append(Span(f"{_label(held, index):<4}", _label_role(held, index), _spot(index)))
        lines += [tuple(faces), tuple(labels)]
    return (lines + [()] * HAND_ROWS)[:HAND_ROWS]


def _spot(index: int) -> str:
    return f"card:{index}"


def _ink(held: Held, index: int) -> tuple[Role, Role]:
    """The roles of a card's edge and of its face."""
    card = held.cards[index]
    if card in held.marked:
        return Role.TURN, Role.TURN
    if card in held.legal:
        return Role.STRONG, role_of(card)
    if held.cursor is None:
        return Role.MUTED, role_of(card)
    return Role.MUTED, Role.MUTED


def _label(held: Held, index: int) -> str:
    card = held.cards[index]
    key = KEYS[index] if index < len(KEYS) else "^"
    sign = "*" if card in held.marked else "+" if card in held.extra else ""
    return (key if card in held.legal else "") + sign


def _label_role(held: Held, index: int) -> Role:
    return Role.TURN if held.cards[index] in held.marked else Role.KEY


def arranged(cards: Sequence[Card], trump: Suit | None, *, by_rank: bool) -> tuple[Card, ...]:
    """A hand in the order a player likes: by suit or by rank, trumps at the end."""

    def key(card: Card) -> tuple[bool, int, int]:
        is_trump = trump is not None and suit(card) is trump
        return (is_trump, rank(card), suit(card)) if by_rank else (is_trump, suit(card), rank(card))

    return tuple(sorted(cards, key=key))
