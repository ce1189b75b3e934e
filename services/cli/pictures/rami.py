"""Rami as characters: combinations, the top of the discard pile, the stock, scores, hands."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from engines import rami
from engines.cards import Card
from services.cli.pictures.look import Look, plural, wrapped

DISCARDS_SHOWN = 6


def table(view: rami.View, look: Look, hands: Mapping[int, Sequence[Card]]) -> list[str]:
    """The table; `hands` are the hands to lay open."""
    lines = [f"Rami to {view.options.target}, round {view.round}: {_doing(view, look)}"]
    if view.phase is not rami.Phase.DEALING:
        shown = view.discard[::-1][:DISCARDS_SHOWN]
        under = f", under it {look.cards(shown[1:])}" if shown[1:] else ""
        more = f" and {len(view.discard) - len(shown)} more" if len(view.discard) > 6 else ""
        top = look.cards(shown[:1])
        lines.append(f"stock {view.stock}, discard pile: {top} on top{under}{more}")
    known = {held.seat: held.cards for held in view.known}
    for seat, count in enumerate(view.counts):
        lines.append(_seat(seat, count, view, look, hands.get(seat), known.get(seat, ())))
    melds = [f"{m.id} ({look.name(m.owner)}): {look.cards(m.cards)}" for m in view.melds]
    return lines + (wrapped("melds: ", melds) if melds else [])


def _seat(
    seat: int,
    count: int,
    view: rami.View,
    look: Look,
    hand: Sequence[Card] | None,
    known: Sequence[Card],
) -> str:
    score = view.scores[seat] if seat < len(view.scores) else 0
    place = "left" if seat in view.left else "dealer" if seat == view.dealer else ""
    cost = f"  (costs {view.hand_points})" if seat == view.seat and view.hand else ""
    cards = look.hand(hand, count, known)
    pointer = look.pointer(on=seat in view.to_act)
    return f" {pointer} {seat} {look.name(seat):<15}{score:>5}  {place:<7}{cards}{cost}"


def _doing(view: rami.View, look: Look) -> str:
    match view.phase:
        case rami.Phase.DEALING:
            return "dealing"
        case rami.Phase.OVER:
            won = "" if view.winner is None else f", {look.name(view.winner)} wins the match"
            return f"over{won}"
        case rami.Phase.PLAYING:
            seat = look.named(view.to_act)
        case _:
            assert_never(view.phase)
    match view.drawn:
        case None:
            return f"{seat} to draw"
        case rami.Source.STOCK:
            drew = "" if view.drew is None else f" {look.card(view.drew)}"
            return f"{seat} drew{drew} from the stock"
        case rami.Source.DISCARD:
            taken = "" if view.taken is None else f" {look.card(view.taken)}"
            return f"{seat} took{taken} from the discard pile"
        case _:
            assert_never(view.drawn)


def move(made: rami.Move, look: Look) -> str:
    """A move as a choice in words."""
    match made:
        case rami.DrawStock():
            return "draw from the stock"
        case rami.DrawDiscard():
            return "take the top of the discard pile"
        case rami.Meld(cards):
            return f"meld {look.cards(cards)}"
        case rami.LayOff(cards, meld):
            return f"lay {look.cards(cards)} off on {meld}"
        case rami.Discard(card):
            return f"discard {look.card(card)}"
        case _:
            assert_never(made)


ENDINGS = {
    rami.Ending.WENT_OUT: "goes out",
    rami.Ending.EXHAUSTED: "finds the stock empty",
    rami.Ending.GUARD: "ends a round in which nobody draws from the stock",
}


def told(happening: rami.Happening, look: Look) -> str:
    """What happened, as a sentence."""
    match happening:
        case rami.RoundDealt():
            own = f"; the hand: {look.cards(happening.hand)}" if happening.hand else ""
            return (
                f"Round {happening.round}: {look.name(happening.dealer)} deals, "
                f"{look.name(happening.starter)} begins, {look.card(happening.upcard)} starts the "
                f"discard pile{own}."
            )
        case rami.CardDrawn(seat, source, card):
            if source is rami.Source.STOCK or card is None:
                return f"{look.name(seat)} draws from the stock."
            return f"{look.name(seat)} takes {look.card(card)} from the discard pile."
        case rami.MeldLaid(seat, meld, kind, cards):
            what = kind.name.lower()
            return f"{look.name(seat)} lays the {what} {look.cards(cards)} as {meld}."
        case rami.LaidOff(seat, meld, cards):
            return f"{look.name(seat)} lays {look.cards(cards)} off on {meld}."
        case rami.Discarded(seat, card):
            return f"{look.name(seat)} discards {look.card(card)}."
        case rami.RoundScored():
            return _scored(happening, look)
        case rami.MatchWon(winner, totals):
            scores = ", ".join(f"{look.name(s)} {points}" for s, points in enumerate(totals))
            return f"{look.name(winner)} wins the match: {scores}."
        case rami.TurnExpired(seat, draws, discards):
            done = " and ".join(w for w, does in (("draws", draws), ("discards", discards)) if does)
            return f"Time is up for {look.name(seat)}: the server {done or 'ends the turn'}."
        case rami.SeatLeft(seat):
            return f"{look.name(seat)} leaves for good; a bot keeps the seat."
        case _:
            assert_never(happening)


def _scored(scored: rami.RoundScored, look: Look) -> str:
    left = ", ".join(
        f"{look.name(seat)} {points}"
        for seat, points in enumerate(scored.points)
        if seat != scored.winner
    )
    gain = plural(scored.gains[scored.winner], "point")
    totals = ", ".join(f"{look.name(s)} {points}" for s, points in enumerate(scored.totals))
    return (
        f"Round {scored.round}: {look.name(scored.seat)} {ENDINGS[scored.ending]}; "
        f"{look.name(scored.winner)} wins {gain} (hands left: {left}). Totals: {totals}."
    )
