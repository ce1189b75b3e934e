"""Durak on the screen: seats, the pairs on the table, the last bout; cards played by a key each."""

from dataclasses import replace

from engines import durak
from engines.cards import Card, Suit, suit
from services.cli.pictures.look import plural
from services.cli.play import cards
from services.cli.play.cards import Held
from services.cli.play.keys import Do
from services.cli.play.scene import Picks, Scene
from services.cli.play.seats import name_of, pointer
from services.cli.play.spans import Line, Role, Span, beside, line
from services.client.variants import Move

LEFT = 44
KNOWN_SHOWN = 2
ROLE = 9


def _read(scene: Scene) -> durak.View:
    if not isinstance(scene.read, durak.View):
        raise TypeError("not a view of Durak")
    return scene.read


def heading(scene: Scene) -> tuple[Line, Line]:
    """What stands at the left and at the right of the bar."""
    view = _read(scene)
    trump = "" if view.trump is None else f"trump {scene.look.suit(view.trump)}"
    shown = "" if view.shown is None else f" ({scene.look.card(view.shown)})"
    return (
        line(f"bout {view.bout}"),
        line(f"{trump}{shown} · talon {view.talon} · discarded {len(view.discarded)}"),
    )


def board(scene: Scene, columns: int) -> list[Line]:
    """Seats at the left, the bout at the right, the last bout below."""
    view = _read(scene)
    left = [_seat(scene, view, seat) for seat in range(len(view.counts))]
    lines = beside(left, min(LEFT, columns // 2 + 4), _pairs(scene, view))
    return [*lines, _last_bout(scene)]


def _seat(scene: Scene, view: durak.View, seat: int) -> Line:
    role = Role.TURN if seat in view.to_act else Role.PLAIN
    what = _role(view, seat)
    count = Span(f"{view.counts[seat]:>3} ", Role.STRONG if seat not in view.out else Role.MUTED)
    return (
        pointer(scene, seat),
        name_of(scene, seat, role),
        count,
        Span(f"{what:<{ROLE}}", Role.TURN if what == "defends" else Role.MUTED),
        *_known(scene, view, seat),
    )


def _role(view: durak.View, seat: int) -> str:
    if seat in view.out:
        return f"out {view.out.index(seat) + 1}."
    if seat == view.durak:
        return "durak"
    if seat == view.attacker:
        return "attacks"
    if seat == view.defender:
        return "takes" if view.phase is durak.Phase.TAKING else "defends"
    return "passed" if seat in view.passed else ""


def _known(scene: Scene, view: durak.View, seat: int) -> Line:
    """Cards everybody knows another seat to hold, as many as there is room for."""
    if seat == scene.seat:
        return ()
    held = next((hand.cards for hand in view.known if hand.seat == seat), ())
    more = [Span("…", Role.MUTED)] if len(held) > KNOWN_SHOWN else []
    return (*(cards.row(held[:KNOWN_SHOWN], scene.look) if held else ()), *more)


def _pairs(scene: Scene, view: durak.View) -> list[Line]:
    look = scene.look
    if not view.table:
        if view.phase is durak.Phase.OVER:
            return []
        return [(), (), line(Span(f"  {_waiting(scene, view)}", Role.MUTED))]
    attacks = cards.in_a_row([cards.face_up(pair.attack, look) for pair in view.table], " ")
    answers = cards.in_a_row(
        [
            cards.gap(look) if pair.beaten_by is None else cards.face_up(pair.beaten_by, look)
            for pair in view.table
        ],
        " ",
    )
    room = "no more cards" if not view.limit_left else f"room for {view.limit_left} more"
    return [*attacks, *answers, line(Span(f" {room}", Role.MUTED))]


def _waiting(scene: Scene, view: durak.View) -> str:
    if view.attacker is None or view.defender is None:
        return "nothing on the table"
    return f"{scene.look.name(view.attacker)} attacks {scene.look.name(view.defender)}"


def _last_bout(scene: Scene) -> Line:
    last = scene.memory.last_bout
    if last is None:
        return ()
    how = "beaten" if last.outcome is durak.Outcome.BEATEN else "taken"
    spans: list[Span] = [Span(f" last bout, {how}: ", Role.MUTED)]
    for number, pair in enumerate(last.pairs):
        spans.append(Span("  " if number else ""))
        spans.append(cards.small(pair.attack, scene.look))
        if pair.beaten_by is not None:
            spans += [Span("-", Role.MUTED), cards.small(pair.beaten_by, scene.look)]
    return tuple(spans)


def held(scene: Scene) -> Held:
    """The own hand, trumps at the end."""
    view = _read(scene)
    shown = cards.arranged(view.hand, view.trump, by_rank=scene.picks.by_rank)
    cards_of = (made for made in view.legal if isinstance(made, durak.Attack | durak.Beat))
    legal = frozenset(made.card for made in cards_of)
    cursor = min(scene.picks.cursor, len(shown) - 1) if legal and shown else None
    return Held(shown, legal, scene.hinted, cursor)


def asks(scene: Scene) -> str:
    """What the player is asked, or who is waited for."""
    view = _read(scene)
    look = scene.look
    if not scene.asked:
        return _others(scene, view)
    if view.phase is durak.Phase.DEFENDING:
        attack = look.card(view.table[-1].attack)
        can = any(isinstance(made, durak.Beat) for made in view.legal)
        return f"Beat {attack} or take." if can else f"You cannot beat {attack}: take it."
    if not view.table:
        defender = "" if view.defender is None else f" {look.name(view.defender)}"
        return f"Attack{defender} with any card."
    can = any(isinstance(made, durak.Attack) for made in view.legal)
    whom = "" if view.defender is None else look.name(view.defender)
    what = f"{whom} takes; give" if view.phase is durak.Phase.TAKING else "Add"
    return f"{what} another card or pass." if can else "You have nothing to add: pass."


def _others(scene: Scene, view: durak.View) -> str:
    if view.phase is durak.Phase.OVER or not view.to_act:
        return ""
    who = scene.look.named(view.to_act)
    if view.phase is durak.Phase.DEFENDING:
        return f"{who} is to beat {scene.look.card(view.table[-1].attack)} or take."
    return f"{who} is to attack." if not view.table else f"{who} may add a card."


def chances(scene: Scene) -> list[Do]:
    """The keys beside those of cards that do something now."""
    view = _read(scene)
    found = {durak.Take: Do.TAKE, durak.Pass: Do.PASS}
    return [do for kind, do in found.items() if any(isinstance(m, kind) for m in view.legal)]


def pressed(scene: Scene, what: str) -> Picks | Move | None:
    """What a key or a click makes: another choice, a move, or nothing."""
    view = _read(scene)
    match what:
        case Do.TAKE:
            return durak.Take()
        case Do.PASS:
            return durak.Pass()
        case Do.ENTER:
            shown = held(scene)
            return None if shown.cursor is None else _played(view, shown.cards[shown.cursor])
    kind, _, index = what.partition(":")
    if kind == "card" and scene.asked:
        return _played(view, held(scene).cards[int(index)])
    return None


def _played(view: durak.View, card: Card) -> Move:
    """The move with this card, be it legal or not: the rules say why not."""
    return durak.Beat(card) if view.phase is durak.Phase.DEFENDING else durak.Attack(card)


def suggested(picks: Picks, move: Move) -> Picks:
    """Choices that lead to a move: the cursor stays where it is, a card needs no more."""
    return replace(picks, marked=frozenset())


def played(scene: Scene) -> list[str]:
    """All that is out of play, suit by suit, as text."""
    view = _read(scene)
    lines = [f"Discarded: {plural(len(view.discarded), 'card')}", ""]
    for of in Suit:
        of_suit = sorted(card for card in view.discarded if suit(card) is of)
        lines.append(f"  {scene.look.suit(of):<11} {scene.look.cards(of_suit)}")
    return lines


def result(scene: Scene) -> list[str]:
    """How it came out, the player's own part first."""
    view, look = _read(scene), scene.look
    if view.null:
        return ["Nobody is the durak: the deal is null."]
    lines = []
    if view.durak is not None:
        own = view.durak == scene.seat
        lines.append("You are the durak." if own else f"{look.name(view.durak)} is the durak.")
    for place, seat in enumerate(view.out, start=1):
        you = "  (you)" if seat == scene.seat else ""
        lines.append(f"  {place}.  {look.name(seat)}{you}")
    return lines
