"""Durak as characters: the pairs on the table, talon and trump, hands, roles, who is out."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from engines import durak
from engines.cards import Card
from services.cli.pictures.look import Look, plural

A_ROW = 15
"""Cards of a hand on one line."""

PHASES = {
    durak.Phase.UNDEALT: "not dealt",
    durak.Phase.ATTACKING: "attack",
    durak.Phase.DEFENDING: "defence",
    durak.Phase.TAKING: "the defender takes",
    durak.Phase.OVER: "over",
}


def table(view: durak.View, look: Look, hands: Mapping[int, Sequence[Card]]) -> list[str]:
    """The table; `hands` are the hands to lay open."""
    lines = [f"Durak, bout {view.bout}: {PHASES[view.phase]}"]
    if view.trump is not None:
        shown = "" if view.shown is None else f" (shown {look.card(view.shown)})"
        lines.append(
            f"trump {look.suit(view.trump)}{shown}, talon {view.talon},"
            f" discarded {len(view.discarded)}"
        )
    known = {hand.seat: hand.cards for hand in view.known}
    for seat, count in enumerate(view.counts):
        lines += _seat(seat, count, view, look, hands.get(seat), known.get(seat, ()))
    lines += _pairs(view, look)
    if view.phase is durak.Phase.OVER:
        lines.append(_end(view, look))
    return lines


def _seat(
    seat: int,
    count: int,
    view: durak.View,
    look: Look,
    hand: Sequence[Card] | None,
    known: Sequence[Card],
) -> list[str]:
    cards = look.hand(hand, count, known).split(" ")
    pointer = look.pointer(on=seat in view.to_act)
    head = f" {pointer} {seat} {look.name(seat):<15}{_role(seat, view):<11}{count:>3}  "
    rows = [" ".join(cards[i : i + A_ROW]) for i in range(0, len(cards), A_ROW)]
    return [head + rows[0], *(" " * len(head) + row for row in rows[1:])]


def _role(seat: int, view: durak.View) -> str:
    if seat in view.out:
        return f"out ({view.out.index(seat) + 1}.)"
    if seat == view.durak:
        return "durak"
    if seat == view.attacker:
        return "attacks"
    if seat == view.defender:
        return "defends"
    return "passed" if seat in view.passed else ""


def _pairs(view: durak.View, look: Look) -> list[str]:
    if not view.table:
        return []
    attacks = "  ".join(look.card(pair.attack) for pair in view.table)
    beaten = "  ".join(
        "--" if pair.beaten_by is None else look.card(pair.beaten_by) for pair in view.table
    )
    room = f"   (room for {view.limit_left} more)"
    return [f"attack:  {attacks}{room}", f"beaten:  {beaten}"]


def _end(view: durak.View, look: Look) -> str:
    order = f"Out in this order: {look.named(view.out)}." if view.out else ""
    if view.durak is None:
        return f"No durak. {order}".rstrip()
    return f"{look.name(view.durak)} is the durak. {order}".rstrip()


def move(made: durak.Move, look: Look) -> str:
    """A move as a choice in words."""
    match made:
        case durak.Attack(card):
            return f"attack with {look.card(card)}"
        case durak.Beat(card):
            return f"beat with {look.card(card)}"
        case durak.Take():
            return "take the cards"
        case durak.Pass():
            return "pass"
        case _:
            assert_never(made)


SERVER_MOVES = {
    durak.MoveKind.ATTACK: "its lowest card attacks",
    durak.MoveKind.TAKE: "it takes",
    durak.MoveKind.PASS: "it passes",
}


def told(happening: durak.Happening, look: Look) -> str:
    """What happened, as a sentence."""
    match happening:
        case durak.HandsDealt():
            return _dealt(happening, look)
        case durak.Attacked(seat, card):
            return f"{look.name(seat)} attacks with {look.card(card)}."
        case durak.Beaten(seat, card, attack):
            return f"{look.name(seat)} beats {look.card(attack)} with {look.card(card)}."
        case durak.Taken(seat):
            return f"{look.name(seat)} takes."
        case durak.Passed(seat, automatic):
            return f"{look.name(seat)} passes{', having nothing to add' if automatic else ''}."
        case durak.BoutClosed():
            return _closed(happening, look)
        case durak.CardsDrawn(seat, count, shown):
            last = "" if shown is None else f", the shown {look.card(shown)} among them"
            return f"{look.name(seat)} draws {plural(count, 'card')}{last}."
        case durak.SeatOut(seat, place):
            return f"{look.name(seat)} is out in place {place}."
        case durak.DurakNamed(loser, places):
            return f"{look.name(loser)} is the durak. Places: {look.named(places)}."
        case durak.DealNull(reason, _):
            nobody = reason is durak.NullReason.NOBODY_LEFT
            why = "nobody holds a card" if nobody else "too many bouts"
            return f"The deal is null: {why}."
        case durak.TurnExpired(seat, made):
            return f"Time is up for {look.name(seat)}: {SERVER_MOVES[made]}."
        case durak.SeatLeft(seat):
            return f"{look.name(seat)} leaves for good; a bot keeps the seat."
        case _:
            assert_never(happening)


def _dealt(dealt: durak.HandsDealt, look: Look) -> str:
    why = "drawn" if dealt.lowest is None else f"lowest trump {look.card(dealt.lowest)}"
    own = f"; the hand: {look.cards(dealt.hand)}" if dealt.hand else ""
    return (
        f"The cards are dealt, {look.card(dealt.shown)} is shown: trump {look.suit(dealt.trump)}; "
        f"{look.name(dealt.starter)} begins ({why}){own}."
    )


def _closed(closed: durak.BoutClosed, look: Look) -> str:
    end = "all beaten" if closed.outcome is durak.Outcome.BEATEN else "the cards are taken"
    if closed.attacker is None or closed.defender is None:
        return f"Bout {closed.bout} ends: {end}."
    attacker, defender = look.name(closed.attacker), look.name(closed.defender)
    return f"Bout {closed.bout} ends: {end}. {attacker} attacks {defender}."
