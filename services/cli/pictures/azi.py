"""Azi as characters: seats with stacks and bids, the bank, the turned card, tricks."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from engines import azi
from engines.cards import ACE, Card, rank, suit
from services.cli.pictures.look import Look, plural, wrapped

PHASES = {
    azi.Phase.WAITING: "not begun",
    azi.Phase.DROPPING: "dropping a card",
    azi.Phase.BIDDING: "bidding",
    azi.Phase.TRICKS: "tricks",
    azi.Phase.BUYING_BACK: "buying back",
    azi.Phase.OVER: "over",
}


def table(view: azi.View, look: Look, hands: Mapping[int, Sequence[Card]]) -> list[str]:
    """The table; `hands` are the hands to lay open."""
    azis = f", after {plural(view.azis, 'azi')}" if view.azis else ""
    lines = [f"Azi, deal {view.deal}{azis}: {PHASES[view.phase]}, bank {view.bank}"]
    lines += _turned(view, look)
    lines.append("   seat                stack  bid to  raises  paid in  tricks  cards")
    lines += [_seat(seat, view, look, hands) for seat in view.seats]
    for number, trick in enumerate(view.tricks, 1):
        plays = _plays(trick.plays, look)
        lines += wrapped(f"trick {number}: ", [*plays, f"-> {look.name(trick.winner)}"])
    if view.trick:
        lines += wrapped("on the table: ", _plays(view.trick, look))
    if view.phase is azi.Phase.OVER and view.winner is not None:
        lines.append(f"{look.name(view.winner)} wins the bank")
    return lines


def _turned(view: azi.View, look: Look) -> list[str]:
    if view.turned is None:
        return []
    stage = ", six on stage: the six of trumps is the highest card"
    turned = f"turned {look.card(view.turned)}: trump {look.suit(suit(view.turned))}"
    return [turned + (stage if rank(view.turned) == ACE else "")]


def _seat(
    seat: azi.SeatView, view: azi.View, look: Look, hands: Mapping[int, Sequence[Card]]
) -> str:
    bid = str(seat.level) if seat.level else "-"
    cards = look.hand(hands.get(seat.seat), seat.cards)
    notes = _notes(seat, view)
    return (
        f" {look.pointer(on=seat.seat in view.to_act)} {seat.seat} {look.name(seat.seat):<14}"
        f"{seat.stack:>9}{bid:>8}{seat.bids_left:>8}{seat.contributed + seat.bought_back:>9}"
        f"{seat.tricks:>8}  {cards}{notes}"
    )


def _notes(seat: azi.SeatView, view: azi.View) -> str:
    notes = []
    if seat.standing is not azi.Standing.LIVE:
        notes.append(seat.standing.name.lower())
    if seat.short:
        notes.append("short")
    if seat.blind and seat.cards:
        notes.append("blind")
    if view.high_seat == seat.seat and view.phase is azi.Phase.BIDDING:
        notes.append("high")
    if view.leader == seat.seat and view.phase is azi.Phase.TRICKS:
        notes.append("leads")
    return f" ({', '.join(notes)})" if notes else ""


def _plays(plays: Sequence[azi.Play], look: Look) -> list[str]:
    return [f"{look.name(play.seat)} {look.card(play.card)}" for play in plays]


def move(made: azi.Move, look: Look) -> str:
    """A move as a choice in words."""
    match made:
        case azi.Bid(amount):
            return f"bid {amount}"
        case azi.Level():
            return "level the bid"
        case azi.Fold():
            return "fold"
        case azi.AllIn():
            return "all in"
        case azi.Look():
            return "look at the cards"
        case azi.Drop(card):
            return f"drop {look.card(card)}"
        case azi.DropLast():
            return "drop the last card unseen"
        case azi.BuyBack():
            return "buy back in"
        case azi.Decline():
            return "stay out"
        case azi.PlayCard(card):
            return f"play {look.card(card)}"
        case _:
            assert_never(made)


SERVER_MOVES = {
    azi.ServerMove.DROP_LAST: "its last card is dropped",
    azi.ServerMove.FOLD: "it folds",
    azi.ServerMove.DECLINE: "it stays out",
    azi.ServerMove.PLAY_LOWEST: "its lowest card is played",
}


def told(happening: azi.Happening, look: Look) -> str:
    """What happened, as a sentence."""
    match happening:
        case azi.FeePaid(seat, chips):
            return f"{look.name(seat)} pays the fee of {chips}."
        case azi.BecameShort(seat):
            return f"{look.name(seat)} has no chips and is short from now on."
        case azi.OpenerDrawn(_, seat):
            return f"Nobody has won here yet: {look.name(seat)} is drawn to open."
        case azi.DealtShown():
            return _dealt(happening, look)
        case azi.CardDroppedShown(seat, unseen, card):
            what = "its last card unseen" if unseen else "a card"
            return f"{look.name(seat)} drops {what if card is None else look.card(card)}."
        case azi.BiddingOpened(opener):
            return f"The bidding begins with {look.name(opener)}."
        case azi.BlindLookedAt(seat):
            return f"{look.name(seat)} looks at the cards and is blind no more."
        case azi.BidMade(seat, level, chips):
            return f"{look.name(seat)} bids {level}, putting in {chips}."
        case azi.Levelled(seat, level, chips):
            return f"{look.name(seat)} levels {level}, putting in {chips}."
        case azi.WentAllIn(seat, level, chips):
            return f"{look.name(seat)} goes all in with {chips}, bid to {level}."
        case azi.Folded(seat):
            return f"{look.name(seat)} folds."
        case azi.BiddingClosed(leader):
            return f"The bidding is over; {look.name(leader)} leads."
        case azi.CardPlayed(seat, card):
            return f"{look.name(seat)} plays {look.card(card)}."
        case azi.TrickTaken(seat, leader):
            leads = "" if seat == leader else f"; {look.name(leader)} leads"
            return f"{look.name(seat)} takes the trick{leads}."
        case azi.AziDeclared():
            return _azi(happening, look)
        case azi.BoughtBack(seat, chips):
            return f"{look.name(seat)} buys back in for {chips}."
        case azi.Declined(seat):
            return f"{look.name(seat)} stays out."
        case azi.BankPaid():
            return _paid(happening, look)
        case azi.TurnExpired(seat, made):
            return f"Time is up for {look.name(seat)}: {SERVER_MOVES[made]}."
        case azi.SeatLeft(seat):
            return f"{look.name(seat)} leaves for good."
        case _:
            assert_never(happening)


def _dealt(dealt: azi.DealtShown, look: Look) -> str:
    own = f"; the hand: {look.cards(dealt.hand)}" if dealt.hand else ""
    blind = ", hands closed" if dealt.blind else ""
    turned = f"{look.card(dealt.turned)} is turned"
    return (
        f"Deal {dealt.deal}: {plural(dealt.cards, 'card')} each to {look.named(dealt.seats)}"
        f"{blind}; {turned}{own}."
    )


def _azi(azied: azi.AziDeclared, look: Look) -> str:
    carried = f"Azi: no winner in deal {azied.deal}, the bank of {azied.bank} is carried on"
    if not azied.asked:
        return f"{carried}."
    return f"{carried}; {look.named(azied.asked)} may buy back for {azied.price}."


def _paid(paid: azi.BankPaid, look: Look) -> str:
    parts = [
        f"{look.name(payout.seat)} {payout.chips}"
        + (" returned" if payout.kind is azi.PayoutKind.RETURNED else "")
        for payout in paid.payouts
    ]
    short = ", being short," if paid.short else ""
    stacks = ", ".join(f"{look.name(seat)} {chips}" for seat, chips in enumerate(paid.stacks))
    return f"{look.name(paid.winner)}{short} wins: {', '.join(parts)}. Stacks: {stacks}."
