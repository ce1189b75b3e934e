"""Azi on the screen: stacks, bids, bank and tricks; bids are typed, cards have a key each."""

from collections.abc import Mapping
from dataclasses import replace

from engines import azi
from engines.api import CHIPS_MAX
from engines.cards import ACE, rank, suit
from services.cli.pictures.azi import PHASES
from services.cli.pictures.look import HIDDEN
from services.cli.play import cards
from services.cli.play.cards import BOX, Held
from services.cli.play.keys import Do
from services.cli.play.scene import Picks, Scene
from services.cli.play.seats import name_of, pointer, short
from services.cli.play.spans import Line, Role, Span, beside, line
from services.client.variants import Move

LEFT = 53
AMOUNT_DIGITS = 19
TRICKS_SHOWN = 3


def _read(scene: Scene) -> azi.View:
    if not isinstance(scene.read, azi.View):
        raise TypeError("not a view of Azi")
    return scene.read


def heading(scene: Scene) -> tuple[Line, Line]:
    """What stands at the left and at the right of the bar."""
    view = _read(scene)
    azis = f" · azi {view.azis}" if view.azis else ""
    trump = "" if view.turned is None else f"trump {scene.look.suit(suit(view.turned))} · "
    left = line(f"deal {view.deal}{azis} · {PHASES[view.phase]}")
    return left, line(f"{trump}bank {view.bank}")


def board(scene: Scene, columns: int) -> list[Line]:
    """Seats with their chips at the left, trump and trick at the right, earlier tricks below."""
    view = _read(scene)
    head = f"{'':24}{'stack':>7}{'bid':>7}{'up':>3}{'won':>4}"
    left = [line(Span(head, Role.MUTED))]
    left += [_seat(scene, view, seat) for seat in view.seats]
    return beside(left, min(LEFT, columns - 27), _middle(scene, view))


def _seat(scene: Scene, view: azi.View, seat: azi.SeatView) -> Line:
    live = seat.standing is azi.Standing.LIVE
    role = Role.TURN if seat.seat in view.to_act else Role.PLAIN if live else Role.MUTED
    bid = Span(f"{chips(seat.level):>7}", Role.STRONG if view.high_seat == seat.seat else role)
    raises = f"{seat.bids_left if view.phase is azi.Phase.BIDDING and live else '':>3}"
    return (
        pointer(scene, seat.seat),
        name_of(scene, seat.seat, role),
        Span(f"{chips(seat.stack):>7}", role),
        bid,
        Span(raises, Role.MUTED),
        Span(f"{seat.tricks or '':>4} ", Role.STRONG),
        Span(_note(seat, view), Role.MUTED),
    )


def chips(count: int) -> str:
    """Chips in at most seven columns: whole below a million, then in millions and so on."""
    for unit in ("", "M", "T", "E"):
        if count < 1_000_000:
            return f"{count}{unit}"
        count //= 1_000_000
    return f"{count}!"


def _note(seat: azi.SeatView, view: azi.View) -> str:
    match seat.standing:
        case azi.Standing.FOLDED:
            return "fold"
        case azi.Standing.LEFT:
            return "left"
        case azi.Standing.ABSENT:
            return "out"
        case azi.Standing.LIVE:
            pass
    if seat.short:
        return "short"
    if seat.blind and seat.cards:
        return "blind"
    if view.phase is azi.Phase.TRICKS and view.leader == seat.seat:
        return "leads"
    return "high" if view.high_seat == seat.seat and view.phase is azi.Phase.BIDDING else ""


def _middle(scene: Scene, view: azi.View) -> list[Line]:
    """The turned card, the trick in play with names below, and the tricks before it."""
    look = scene.look
    if view.turned is None:
        return []
    trump = cards.face_up(view.turned, look)
    trick = [cards.face_up(play.card, look) for play in view.trick]
    rows = cards.in_a_row([trump, *([_apart(), *trick] if trick else [])])
    names = [Span("trump", Role.MUTED)]
    if trick:
        names = [Span(f"{'trump':<{BOX + 2}}", Role.MUTED)]
        names += [Span(f"{short(scene, play.seat, 3):<{BOX}}", Role.MUTED) for play in view.trick]
    stage = [Span("six on stage", Role.TURN)] if rank(view.turned) == ACE else []
    return [*rows, tuple(names), *_tricks(scene, view), *([tuple(stage)] if stage else [])]


def _apart() -> list[Line]:
    return [(Span("  "),)] * 3


def _tricks(scene: Scene, view: azi.View) -> list[Line]:
    """Finished tricks of this deal, the last one last."""
    lines: list[Line] = []
    for number, trick in list(enumerate(view.tricks, start=1))[-TRICKS_SHOWN:]:
        spans = [Span(f"{number}. ", Role.MUTED)]
        for play in trick.plays:
            spans += [cards.small(play.card, scene.look), Span(" ")]
        lines.append((*spans, Span(f"{short(scene, trick.winner, 9)}", Role.STRONG)))
    return lines


def held(scene: Scene) -> Held:
    """The own hand, trumps at the end; backs while it is bet on blind."""
    view = _read(scene)
    trump = None if view.turned is None else suit(view.turned)
    shown = cards.arranged(view.hand, trump, by_rank=scene.picks.by_rank)
    legal = frozenset(made.card for made in view.legal if isinstance(made, azi.PlayCard | azi.Drop))
    cursor = min(scene.picks.cursor, len(shown) - 1) if legal and shown else None
    return Held(shown, legal, scene.hinted, cursor)


def hidden(scene: Scene) -> list[Line] | None:
    """The backs of a hand that is bet on blind; None for an open one."""
    view = _read(scene)
    if scene.seat is None or view.hand or not view.seats[scene.seat].cards:
        return None
    backs = [cards.face_down(scene.look, f"key:{Do.LOOK}")] * view.seats[scene.seat].cards
    label = Span(f"  {HIDDEN} closed: blind chips count double", Role.MUTED)
    return [*((Span(" "), *each) for each in cards.in_a_row(backs)), (label,)]


def asks(scene: Scene) -> str:
    """What the player is asked, or who is waited for."""
    view = _read(scene)
    if not scene.asked:
        return _others(scene, view)
    match view.phase:
        case azi.Phase.DROPPING:
            return "Drop one of your four cards."
        case azi.Phase.BIDDING:
            return _bidding(scene, view)
        case azi.Phase.TRICKS:
            return _trick(scene, view)
        case azi.Phase.BUYING_BACK:
            return f"Buy back in for {view.buy_back_price}, or stay out?"
        case azi.Phase.WAITING | azi.Phase.OVER:
            return ""


def _bidding(scene: Scene, view: azi.View) -> str:
    said = []
    if view.bid_maximum:
        what = "raise to" if view.high else "open with"
        bounds = f"{view.bid_minimum}–{view.bid_maximum}"
        said.append(f"{what} [{amount(scene)}] ({bounds}, Enter bids)")
    if any(isinstance(made, azi.Level) for made in view.legal):
        said.append(f"level for {view.level_price}")
    if any(isinstance(made, azi.AllIn) for made in view.legal):
        said.append("all in")
    if any(isinstance(made, azi.Fold) for made in view.legal):
        said.append("fold")
    *most, last = said or ["look"]
    listed = f"{', '.join(most)} or {last}" if most else last
    return listed[0].upper() + listed[1:] + "."


def _trick(scene: Scene, view: azi.View) -> str:
    if not view.trick:
        return "You lead: play any card."
    led = suit(view.trick[0].card)
    if all(suit(made.card) is led for made in view.legal if isinstance(made, azi.PlayCard)):
        return f"Follow suit: {scene.look.suit(led)}."
    assert view.turned is not None  # noqa: S101 - a card is turned before any trick
    trump = suit(view.turned)
    if all(suit(made.card) is trump for made in view.legal if isinstance(made, azi.PlayCard)):
        return f"No {scene.look.suit(led)}: play a trump."
    return "Neither suit nor trump: throw away any card."


def _others(scene: Scene, view: azi.View) -> str:
    if not view.to_act:
        return ""
    who = scene.look.named(view.to_act)
    match view.phase:
        case azi.Phase.DROPPING:
            return f"{who} still to drop a card."
        case azi.Phase.BIDDING:
            return f"{who} is to bid."
        case azi.Phase.TRICKS:
            return f"{who} is to {'play' if view.trick else 'lead'}."
        case azi.Phase.BUYING_BACK:
            return f"{who} may buy back in."
        case azi.Phase.WAITING | azi.Phase.OVER:
            return ""


def amount(scene: Scene) -> int:
    """The bid that is typed, the least there is while nothing is."""
    view = _read(scene)
    typed = scene.picks.amount
    return view.bid_minimum if typed is None else min(int(typed), CHIPS_MAX)


PLAIN: Mapping[str, Move] = {
    Do.LEVEL: azi.Level(),
    Do.FOLD: azi.Fold(),
    Do.ALL_IN: azi.AllIn(),
    Do.LOOK: azi.Look(),
    Do.DROP_LAST: azi.DropLast(),
    Do.BUY_BACK: azi.BuyBack(),
    Do.DECLINE: azi.Decline(),
}
"""Moves without a card or an amount, by what leads to them."""


def chances(scene: Scene) -> list[Do]:
    """The keys beside those of cards that do something now."""
    legal = _read(scene).legal
    return [Do(do) for do, made in PLAIN.items() if made in legal]


def pressed(scene: Scene, what: str) -> Picks | Move | None:
    """What a key or a click makes: another choice, a move, or nothing."""
    view = _read(scene)
    if what in PLAIN:
        return PLAIN[what]
    bids = scene.asked and view.bid_maximum > 0
    match what:
        case Do.ENTER if bids:
            return azi.Bid(amount(scene))
        case Do.UP | Do.DOWN if bids:
            step = view.options.min_bet if what == Do.UP else -view.options.min_bet
            least, most = view.bid_minimum, view.bid_maximum
            return replace(scene.picks, amount=str(min(most, max(least, amount(scene) + step))))
        case Do.BACK if bids:
            return replace(scene.picks, amount=(scene.picks.amount or "")[:-1] or None)
        case Do.ENTER:
            shown = held(scene)
            return None if shown.cursor is None else _played(scene, shown.cursor)
    kind, _, said = what.partition(":")
    if kind == "digit" and bids:
        typed = f"{scene.picks.amount or ''}{said}".lstrip("0")
        return replace(scene.picks, amount=typed[:AMOUNT_DIGITS] or None)
    return _played(scene, int(said)) if kind == "card" and scene.asked else None


def _played(scene: Scene, index: int) -> Move:
    """The move with this card, be it legal or not: the rules say why not."""
    card = held(scene).cards[index]
    return azi.Drop(card) if _read(scene).phase is azi.Phase.DROPPING else azi.PlayCard(card)


def played(scene: Scene) -> list[str]:
    """All tricks of this deal, as text."""
    view, look = _read(scene), scene.look
    lines = [f"Tricks of deal {view.deal}", ""]
    for number, trick in enumerate(view.tricks, start=1):
        plays = "  ".join(f"{look.name(play.seat)} {look.card(play.card)}" for play in trick.plays)
        lines.append(f"  {number}. {plays}  -> {look.name(trick.winner)}")
    return lines if view.tricks else [*lines, "  none yet"]


def result(scene: Scene) -> list[str]:
    """Who won the bank, and what each seat has won or lost."""
    view, look = _read(scene), scene.look
    if view.winner is None:
        return []
    own = view.winner == scene.seat
    lines = ["You win the bank." if own else f"{look.name(view.winner)} wins the bank."]
    for seat in scene.view.result.seats:
        you = "  (you)" if seat.seat == scene.seat else ""
        change = seat.stack_after - seat.stack_before
        lines.append(f"  {look.name(seat.seat):<15}{seat.stack_after:>8}  {change:+d}{you}")
    return lines
