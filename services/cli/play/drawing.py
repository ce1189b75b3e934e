"""The whole screen of a game: bar, board, what happened, the hand, what is asked, the keys."""

from collections.abc import Sequence

from kozyr.game.v1 import view_pb2

from services.cli.pictures.look import plural
from services.cli.play import azi, cards
from services.cli.play.games import screen_of
from services.cli.play.keys import (
    BETWEEN,
    ENDED,
    EVERYWHERE,
    OF_GAMES,
    PLAYING,
    TALKING,
    Do,
    Key,
    key_for,
)
from services.cli.play.scene import Scene, Told, name_of_game
from services.cli.play.spans import (
    Line,
    Role,
    Span,
    between,
    fit,
    fitted,
    folded,
    joined,
    line,
    width,
)
from services.cli.shown import STAGES, ending

AWAY = "A bot plays for you. Press any key to play on yourself."
SHORT_OF_TIME = 10
"""Seconds from which on the clock is shown as a warning."""
SIDE = 36
"""The columns of what happened beside the game, on a wide screen."""
WIDE = 116
TOLD_LEAST = 3


def drawn(scene: Scene, columns: int, rows: int) -> list[Line]:
    """The screen of a game, exactly so many lines of so many columns."""
    if columns >= WIDE:
        return _wide(scene, columns, rows)
    top = [bar(scene, columns), (), *_board(scene, columns), ()]
    low = _low(scene, columns)
    room = rows - len(top) - len(low)
    if room < TOLD_LEAST:
        top = top[: max(1, rows - len(low) - TOLD_LEAST)]
        room = max(0, rows - len(top) - len(low))
    middle = [_rule(columns, "what happened"), *_happened(scene.memory.told, columns, room - 1)]
    return fitted([*top, *middle[: max(0, room)], *low], columns, rows)


def _wide(scene: Scene, columns: int, rows: int) -> list[Line]:
    """What happened stands at the right, the whole height."""
    main = columns - SIDE - 1
    low = _low(scene, main)
    board = fitted([(), *_board(scene, main)], main, rows - 1 - len(low))
    side = _side(scene, rows - 1)
    body = [*board, *low]
    edge = Span("│", Role.MUTED)
    lines = [
        (*fit(left, main), edge, *fit(side[row] if row < len(side) else (), SIDE))
        for row, left in enumerate(fitted(body, main, rows - 1))
    ]
    return [bar(scene, columns), *lines]


def _side(scene: Scene, rows: int) -> list[Line]:
    """What happened and, where people can talk, what they say below it."""
    said = [each for each in scene.memory.told if each.role is Role.TALK]
    happened = [each for each in scene.memory.told if each.role is not Role.TALK]
    low = rows // 3 if scene.talks else 0
    lines: list[Line] = [(Span("  what happened", Role.MUTED),)]
    lines += _happened(happened, SIDE, rows - low - 1)
    if low:
        lines += [(Span("  what is said", Role.MUTED),), *_happened(said, SIDE, low - 1)]
    return lines


def bar(scene: Scene, columns: int) -> Line:
    """The bar: the game, and what matters of it."""
    name = name_of_game(scene).capitalize()
    if scene.read is None:
        left, right = line(STAGES.get(scene.view.stage, "")), line("")
    else:
        left, right = screen_of(scene).heading(scene)
    whole = between(line(f" {name} · ", *left), line(*right, " "), columns)
    return tuple(Span(span.text, Role.BAR, span.spot) for span in whole)


def _board(scene: Scene, columns: int) -> list[Line]:
    if scene.read is None:
        return [(), line(f" {_waiting(scene)}"), (), *_seats(scene)]
    return screen_of(scene).board(scene, columns)


def _waiting(scene: Scene) -> str:
    match scene.view.stage:
        case view_pb2.STAGE_COMMITTING | view_pb2.STAGE_REVEALING:
            return "The cards are being shuffled, with a seed of every player."
        case view_pb2.STAGE_CANCELLED:
            return "The game was cancelled; all chips go back."
        case _:
            return "The cards are about to be dealt."


def _seats(scene: Scene) -> list[Line]:
    return [line(f"   {name}") for name in scene.look.names]


def _happened(told: Sequence[Told], columns: int, rows: int) -> list[Line]:
    """The last sentences that there is room for, the newest last."""
    lines: list[Line] = []
    for said in reversed(told):
        piece = folded(said.text, columns - 2, said.role, "  ")
        if len(lines) + len(piece) > rows:
            break
        lines = [*((Span(" "), *each) for each in piece), *lines]
    return lines + [()] * (rows - len(lines))


def _rule(columns: int, title: str) -> Line:
    head = f"── {title} "
    return (Span(head + "─" * (columns - len(head)), Role.MUTED),)


def _low(scene: Scene, columns: int) -> list[Line]:
    """From what a player is told down to the keys."""
    notice = [] if scene.notice is None else _notice(scene.notice, columns)
    if scene.over:
        keys = keys_line(_ended_keys(scene), columns, (Do.HELP, Do.QUIT))
        return [*notice, *_result(scene, columns), keys]
    return [
        *notice,
        *_hand(scene, columns),
        _asked(scene, columns),
        keys_line(_keys(scene), columns, (Do.HELP, Do.QUIT)),
    ]


def _notice(notice: Told, columns: int) -> list[Line]:
    return [(Span(" "), *each) for each in folded(notice.text, columns - 2, notice.role)]


def _hand(scene: Scene, columns: int) -> list[Line]:
    if scene.read is None:
        return [()] * cards.HAND_ROWS
    if scene.seat is None:
        said = line(Span(f" {_watching(scene)}", Role.MUTED))
        return fitted([(), said], columns, cards.HAND_ROWS)
    if name_of_game(scene) == "azi" and (backs := azi.hidden(scene)) is not None:
        return backs
    return cards.hand(screen_of(scene).held(scene), scene.look, columns)


def _watching(scene: Scene) -> str:
    """What is said where a hand would be to who has none."""
    behind = scene.view.spectator_delay
    late = f", {plural(behind, 'decision')} behind those who play" if behind else ""
    return f"You watch this game{late}."


def _asked(scene: Scene, columns: int) -> Line:
    said = "" if scene.read is None else screen_of(scene).asks(scene)
    said = AWAY if scene.away and not scene.over else said
    mark = scene.look.pointer(on=scene.asked)
    role = Role.TURN if scene.asked or scene.away else Role.MUTED
    return between((Span(f" {mark} {said}", role),), (*clock(scene), Span(" ")), columns)


def clock(scene: Scene) -> Line:
    """The time that is left, and what the bank holds after it."""
    if scene.left is None:
        return ()
    seconds, bank = scene.left.seconds, scene.left.bank_seconds
    left = f"{seconds // 60}:{seconds % 60:02}"
    more = f" +{bank // 60}:{bank % 60:02}" if bank else ""
    urgent = scene.asked and seconds + bank <= SHORT_OF_TIME
    return (Span(left, Role.BAD if urgent else Role.STRONG), Span(more, Role.MUTED))


def _result(scene: Scene, columns: int) -> list[Line]:
    """How it came out, where the hand was."""
    finished = scene.read is not None and scene.view.stage == view_pb2.STAGE_FINISHED
    said = screen_of(scene).result(scene) if finished else ending(scene.view, scene.look)
    first, *rest = said or ["The game is over."]
    lines = [
        _rule(columns, "result"),
        line(Span(f" {first}", Role.TURN)),
        *(line(" " + r) for r in rest),
    ]
    return [*lines, ()]


def _keys(scene: Scene) -> list[Key]:
    name = name_of_game(scene)
    chances = () if scene.read is None else screen_of(scene).chances(scene)
    made = [key_for(do, OF_GAMES[name]) for do in chances]
    if scene.asked and not scene.view.no_hints:
        made.append(key_for(Do.HINT, PLAYING))
    made += TALKING if scene.talks else ()
    own = (Do.PLAYED,) if scene.seat is None else (Do.ORDER, Do.PLAYED)
    return made + [key_for(do, PLAYING) for do in own]


def _ended_keys(scene: Scene) -> list[Key]:
    if scene.watches:
        return []
    more = [key_for(Do.TOP_UP, BETWEEN)] if name_of_game(scene) == "azi" else []
    return [ENDED[0], *more, *(TALKING if scene.talks else ())]


def keys_line(keys: Sequence[Key], columns: int, last: Sequence[Do] = ()) -> Line:
    """The keys that do something now, as far as there is room; each can be clicked.

    For the keys in `last`, which stand at the end, there always is room.
    """
    ending = [_key(key_for(do, EVERYWHERE)) for do in last]
    left = columns + 1 - sum(width(entry) + 2 for entry in ending)
    shown: list[Line] = []
    for entry in map(_key, keys):
        if width(entry) + 2 <= left:
            left -= width(entry) + 2
            shown.append(entry)
    return (Span(" "), *joined([*shown, *ending]))


def _key(key: Key) -> Line:
    spot = f"key:{key.names[0]}"
    return line(Span(key.shown, Role.KEY, spot), Span(f" {key.label}", Role.MUTED, spot))


def boxed(lines: Sequence[Line], inside: int) -> list[Line]:
    """Lines in a frame, `inside` columns between its sides."""
    top, low = "╭" + "─" * (inside + 2) + "╮", "╰" + "─" * (inside + 2) + "╯"
    edge = Role.TURN
    return [
        (Span(top, edge),),
        *((Span("│ ", edge), *fit(each, inside), Span(" │", edge)) for each in lines),
        (Span(low, edge),),
    ]


def over_it(screen: Sequence[Line], box: Sequence[Line], columns: int) -> list[Line]:
    """A box laid over the middle of a screen."""
    wide = sum(len(span.text) for span in box[0])
    left = max(0, (columns - wide) // 2)
    top = max(0, (len(screen) - len(box)) // 2)
    made = list(screen)
    for row, each in enumerate(box, start=top):
        if row >= len(made):
            break
        under = _plain_columns(made[row], columns)
        made[row] = (*_slice(under, 0, left), *each, *_slice(under, left + wide, columns))
    return made


def _plain_columns(of: Line, columns: int) -> Line:
    return fit(of, columns)


def _slice(of: Line, start: int, end: int) -> Line:
    """The pieces of a line between two columns; signs of two columns do not occur on boards."""
    made: list[Span] = []
    at = 0
    for span in of:
        cut = span.text[max(0, start - at) : max(0, end - at)]
        if cut:
            made.append(Span(cut, span.role, span.spot))
        at += len(span.text)
    return tuple(made)
