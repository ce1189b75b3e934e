"""Rami on the screen: scores, stock and discard pile, combinations; cards are marked, then laid."""

from dataclasses import replace

from engines import rami
from engines.cards import Card
from services.cli.pictures.look import plural
from services.cli.play import cards
from services.cli.play.cards import Held
from services.cli.play.keys import Do
from services.cli.play.scene import Picks, Scene
from services.cli.play.seats import BOT, name_of, pointer
from services.cli.play.spans import Line, Role, Span, beside, fit, line, width
from services.client.variants import Move

LEFT = 47
UNDER_SHOWN = 5
MELD_COLUMNS = 39


def _read(scene: Scene) -> rami.View:
    if not isinstance(scene.read, rami.View):
        raise TypeError("not a view of Rami")
    return scene.read


def heading(scene: Scene) -> tuple[Line, Line]:
    """What stands at the left and at the right of the bar."""
    view = _read(scene)
    return line(f"round {view.round}"), line(
        f"to {view.options.target} points · stock {view.stock}"
    )


def board(scene: Scene, columns: int) -> list[Line]:
    """Seats at the left, stock and discard pile at the right, combinations below."""
    view = _read(scene)
    left = [line(Span(f"{'':24}{'score':>6}{'cards':>7}", Role.MUTED))]
    left += [_seat(scene, view, seat) for seat in range(len(view.counts))]
    upper = beside(left, min(LEFT, columns - 33), _piles(scene, view))
    return [*upper, *_melds(scene, view, columns)]


def _seat(scene: Scene, view: rami.View, seat: int) -> Line:
    role = Role.TURN if seat in view.to_act else Role.PLAIN
    score = view.scores[seat] if seat < len(view.scores) else 0
    notes = ["dealer"] if seat == view.dealer else []
    return (
        pointer(scene, seat),
        name_of(scene, seat, role),
        Span(f"{score:>6}", Role.STRONG),
        Span(f"{view.counts[seat]:>7}  ", role),
        Span(" ".join(notes), Role.MUTED),
    )


def _piles(scene: Scene, view: rami.View) -> list[Line]:
    look = scene.look
    if view.phase is not rami.Phase.PLAYING:
        return []
    drawing = scene.asked and view.drawn is None
    edge = Role.TURN if drawing else Role.PLAIN
    made = cards.frame(look)
    stock = cards.box("##" if view.stock else "  ", Role.MUTED, made, edge, "pile:stock")
    if view.discard:
        top = view.discard[-1]
        pile = cards.box(look.card(top), cards.role_of(top), made, edge, "pile:discard")
    else:
        pile = cards.box("  ", Role.MUTED, made, spot="pile:discard")
    rows = cards.in_a_row([stock, pile], "   ")
    under = view.discard[-2 : -2 - UNDER_SHOWN : -1]
    if under:
        more = [Span(" …", Role.MUTED)] if len(view.discard) > UNDER_SHOWN + 1 else []
        rows[1] = (*rows[1], Span("  "), *cards.row(under, look), *more)
    names = f"{'stock':<7}discards {len(view.discard)}"
    return [(), *rows, line(Span(names, Role.MUTED))]


def _melds(scene: Scene, view: rami.View, columns: int) -> list[Line]:
    """Combinations in columns; those that the marked cards may be laid on are set off."""
    if not view.melds:
        return [line(Span(" Nothing is laid yet.", Role.MUTED))]
    targets = {made.meld for made in _lay_offs(scene, view)}
    each = max(1, columns // (MELD_COLUMNS + 1))
    entries = [_meld(scene, meld, chosen=meld.id in targets) for meld in view.melds]
    lines: list[Line] = []
    row: list[Line] = []
    for entry in entries:
        if width(entry) > MELD_COLUMNS or len(row) == each:
            lines += [_side_by_side(row)] if row else []
            row = []
        if width(entry) > MELD_COLUMNS:
            lines.append(entry)
        else:
            row.append(entry)
    return [*lines, *([_side_by_side(row)] if row else [])]


def _side_by_side(row: list[Line]) -> Line:
    return tuple(span for entry in row for span in fit(entry, MELD_COLUMNS + 1))


def _meld(scene: Scene, meld: rami.TableMeld, *, chosen: bool) -> Line:
    spot = f"meld:{meld.id}"
    role = Role.CHOSEN if chosen and scene.picks.laying else Role.TURN if chosen else Role.KEY
    owner = scene.look.name(meld.owner).removesuffix(BOT)[:9]
    faces: list[Span] = []
    for card in meld.cards:
        faces += [cards.small(card, scene.look, spot=spot), Span(" ", spot=spot)]
    return (Span(" "), Span(meld.id, role, spot), Span(f" {owner:<10}", Role.MUTED, spot), *faces)


def held(scene: Scene) -> Held:
    """The own hand: all may be discarded; those that can be laid have a sign of their own."""
    view = _read(scene)
    shown = cards.arranged(view.hand, None, by_rank=scene.picks.by_rank)
    if not scene.asked or view.drawn is None:
        return Held(shown, (), scene.picks.marked | scene.hinted)
    layable = {
        card
        for made in view.legal
        if isinstance(made, rami.Meld | rami.LayOff)
        for card in made.cards
    }
    legal = layable | {made.card for made in view.legal if isinstance(made, rami.Discard)}
    cursor = min(scene.picks.cursor, len(shown) - 1) if shown else None
    return Held(shown, legal, scene.picks.marked | scene.hinted, cursor, layable)


def asks(scene: Scene) -> str:
    """What the player is asked, or who is waited for."""
    view = _read(scene)
    if not scene.asked:
        who = scene.look.named(view.to_act)
        if not who:
            return ""
        return f"{who} is to draw." if view.drawn is None else f"{who} is to lay or discard."
    if view.drawn is None:
        if not view.discard:
            return "Draw from the stock."
        empty = " (empty: it ends the round)" if not view.stock else ""
        return f"Draw from the stock{empty}, or take {scene.look.card(view.discard[-1])}."
    if scene.picks.laying:
        names = ", ".join(made.meld for made in _lay_offs(scene, view))
        return f"Lay them on which: {names}? Press its number."
    new = view.drew if view.drew is not None else view.taken
    drew = "" if new is None else f"You have drawn {scene.look.card(new)}. "
    return _with_marked(scene, view) or f"{drew}Mark cards to lay, or discard one."


def _with_marked(scene: Scene, view: rami.View) -> str:
    """What the marked cards can do; empty while none is marked."""
    marked = _marked(scene)
    if not marked:
        return ""
    said = scene.look.cards(marked)
    if rami.Meld(marked) in view.legal:
        return f"{said}: m melds them."
    on = " or ".join(made.meld for made in _lay_offs(scene, view))
    if on:
        discards = ", d discards it" if len(marked) == 1 else ""
        return f"{said}: l lays {'it' if len(marked) == 1 else 'them'} on {on}{discards}."
    if len(marked) == 1:
        return f"{said}: d discards it; or mark more to lay."
    return f"{said} make no combination yet; Esc takes the marks away."


def chances(scene: Scene) -> list[Do]:
    """The keys beside those of cards that do something now."""
    view = _read(scene)
    if not scene.asked:
        return []
    if view.drawn is None:
        return [Do.STOCK, Do.TAKE] if view.discard else [Do.STOCK]
    made = [Do.MARK, Do.DISCARD]
    if any(isinstance(move, rami.Meld) for move in view.legal):
        made = [Do.MELD, *made]
    if any(isinstance(move, rami.LayOff) for move in view.legal):
        made = [Do.LAY, *made]
    if Do.MELD in made or Do.LAY in made:
        made.append(Do.NEXT)
    return made


def _lay_offs(scene: Scene, view: rami.View) -> list[rami.LayOff]:
    """Where exactly the marked cards may be laid."""
    marked = scene.picks.marked
    return [
        made for made in view.legal if isinstance(made, rami.LayOff) and set(made.cards) == marked
    ]


def pressed(scene: Scene, what: str) -> Picks | Move | None:
    """What a key or a click makes: another choice, a move, or nothing."""
    view, picks = _read(scene), scene.picks
    if not scene.asked:
        return None
    kind, _, said = what.partition(":")
    if view.drawn is None:
        if what in (Do.STOCK, "pile:stock"):
            return rami.DrawStock()
        return rami.DrawDiscard() if what in (Do.TAKE, "pile:discard") else None
    if picks.laying and kind in ("digit", "meld"):
        wanted = said if kind == "meld" else f"m{said}"
        return rami.LayOff(_marked(scene), wanted)
    match what:
        case Do.MELD:
            return rami.Meld(_marked(scene))
        case Do.LAY:
            return _lay_off(scene, view)
        case Do.DISCARD | "pile:discard":
            return _discard(scene)
        case Do.MARK | Do.ENTER:
            return _toggled(scene, held(scene).cursor)
        case Do.NEXT:
            return _next(scene, view)
        case Do.BACK:
            return replace(picks, marked=frozenset(), laying=False)
    match kind:
        case "card":
            return _toggled(scene, int(said))
        case "meld" if picks.marked:
            return rami.LayOff(_marked(scene), said)
    return None


def _marked(scene: Scene) -> tuple[Card, ...]:
    return tuple(sorted(scene.picks.marked))


def _toggled(scene: Scene, index: int | None) -> Picks | None:
    shown = held(scene).cards
    if index is None or index >= len(shown):
        return None
    marked = scene.picks.marked ^ {shown[index]}
    return replace(scene.picks, marked=marked, cursor=index, laying=False)


def _lay_off(scene: Scene, view: rami.View) -> Picks | Move:
    """Onto the only combination that takes the marked cards, else the person is asked which."""
    fitting = _lay_offs(scene, view)
    if len(fitting) > 1:
        return replace(scene.picks, laying=True)
    return fitting[0] if fitting else rami.LayOff(_marked(scene), "")


def _discard(scene: Scene) -> Move | None:
    """The one marked card, or the one at the cursor while none is."""
    marked, shown = _marked(scene), held(scene)
    if len(marked) == 1:
        return rami.Discard(marked[0])
    if marked or shown.cursor is None:
        return None
    return rami.Discard(shown.cards[shown.cursor])


def _next(scene: Scene, view: rami.View) -> Picks | None:
    """Mark the cards of the next combination that could be laid or added to."""
    layable = [made for made in view.legal if isinstance(made, rami.Meld | rami.LayOff)]
    sets = list(dict.fromkeys(frozenset(made.cards) for made in layable))
    if not sets:
        return None
    number = scene.picks.suggested % len(sets)
    return replace(scene.picks, marked=sets[number], suggested=number + 1, laying=False)


def played(scene: Scene) -> list[str]:
    """The discard pile from the top, as text."""
    view, look = _read(scene), scene.look
    lines = [f"Discard pile, the top first: {plural(len(view.discard), 'card')}", ""]
    pile = view.discard[::-1]
    lines += [f"  {look.cards(pile[start : start + 13])}" for start in range(0, len(pile), 13)]
    for known in view.known:
        lines += ["", f"{look.name(known.seat)} took and still holds: {look.cards(known.cards)}"]
    return lines


def result(scene: Scene) -> list[str]:
    """Who won the match, and all totals."""
    view, look = _read(scene), scene.look
    if view.winner is None:
        return []
    own = view.winner == scene.seat
    won = "You win the match." if own else f"{look.name(view.winner)} wins the match."
    order = sorted(range(len(view.scores)), key=lambda seat: -view.scores[seat])
    lines = [won]
    for seat in order:
        you = "  (you)" if seat == scene.seat else ""
        lines.append(f"  {look.name(seat):<15}{plural(view.scores[seat], 'point'):>12}{you}")
    return lines
