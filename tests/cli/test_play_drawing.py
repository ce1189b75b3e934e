"""What the screens of a game draw: over random play it fits, says all, and shows nothing hidden."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kozyr.game.v1 import variant_pb2, view_pb2
from rich.color import Color, ColorSystem

import engines.azi
import engines.durak
import engines.rami
from engines.cards import Card, text
from services.cli.pictures.look import Look
from services.cli.play import drawing, spans
from services.cli.play.clock import Left, left
from services.cli.play.games import screen_of
from services.cli.play.ink import GROUNDS, INKS, styles
from services.cli.play.keys import Do
from services.cli.play.scene import Memory, Picks, Scene, remembered, scene_of
from services.cli.play.spans import Role
from services.client.variants import Move
from services.runtime.wire import games as wire
from tests.cli.test_pictures import OPTIONS, PLAYERS, played

SIZES = ((80, 24), (124, 36))
CARD = re.compile(r"\b[2-9TJQKA][SHDC]\b")
LOOK = Look(PLAYERS, ascii=True)
LEVELS = variant_pb2.BotLevel.values()
CONTRAST_MIN = 4.5
"""What WCAG 2 asks of text (AA)."""


def games() -> list[Any]:
    """A few random games of each kind with each set of options."""
    return [
        pytest.param(game, seed, options, id=f"{game}-{seed}-{number}")
        for game, sets in OPTIONS.items()
        for number, options in enumerate(sets)
        for seed in range(2)
    ]


def scenes(game: str, seed: int, options: dict[str, Any]) -> Iterator[tuple[Scene, Any]]:
    """The scenes of one random game, each seen by the seat that is asked, and the state."""
    memory = Memory()
    for rules, state, events in played(game, seed, options):
        viewer = next(iter(rules.to_act(state)), 0)
        for event in events:
            happening = view_pb2.Happening()
            shown = wire.of(game).happening.to_wire(rules.show(event, viewer))
            getattr(happening, game).CopyFrom(shown)
            memory = remembered(memory, (happening,), LOOK)
        seats = len(rules.view(state, None).seats if game == "azi" else state.hands)
        over = rules.is_over(state)
        view = view_pb2.GameView(
            variant=wire.VARIANTS[game],
            stage=view_pb2.STAGE_FINISHED if over else view_pb2.STAGE_PLAYING,
            turn=state.turn,
            seat=viewer,
            to_act=rules.to_act(state),
            seats=[view_pb2.GameSeat(bot_level=LEVELS[number % 4]) for number in range(seats)],
        )
        seen = rules.view(state, viewer)
        getattr(view, game).CopyFrom(wire.of(game).view.to_wire(seen))
        yield replace(scene_of(view, LOOK, memory), left=Left(75, 600)), state


def lines_of(scene: Scene, columns: int, rows: int) -> list[str]:
    """The screen as text."""
    return [spans.text(line) for line in drawing.drawn(scene, columns, rows)]


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_nothing_is_cut_on_a_small_screen_or_a_large_one(
    game: str, seed: int, options: dict[str, Any]
) -> None:
    """Lines fill the screen exactly; hand, question, clock, help and leave are always there."""
    for scene, _ in scenes(game, seed, options):
        for columns, rows in SIZES:
            lines = lines_of(scene, columns, rows)
            assert len(lines) == rows
            assert {spans.width(line) for line in drawing.drawn(scene, columns, rows)} == {columns}
            assert "? help" in lines[-1]
            assert "q leave" in lines[-1]
            if scene.over:
                continue
            low = "\n".join(lines[-6:])
            assert scene.read is not None
            assert {text(card) for card in scene.read.hand} <= set(CARD.findall(low))
            assert screen_of(scene).asks(scene) in lines[-2]
            assert lines[-2].rstrip().split("│")[0].rstrip().endswith("1:15 +10:00")


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_every_card_that_can_be_played_has_a_key_below_it(
    game: str, seed: int, options: dict[str, Any]
) -> None:
    """As many keys as legal cards, without a look at a colour."""
    for scene, _ in scenes(game, seed, options):
        if scene.asked:
            held = screen_of(scene).held(scene)
            labels = lines_of(scene, 80, 24)[-3]
            rows = 2 if len(held.cards) * 4 > 78 else 1
            if held.legal and rows == 1:
                assert len(re.findall(r"[0-9A-Z^]", labels)) == len(held.legal)


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_every_legal_move_can_be_made_by_keys(
    game: str, seed: int, options: dict[str, Any]
) -> None:
    """For each move the rules allow there are keys or clicks that lead to it, and it alone."""
    for scene, _ in scenes(game, seed, options):
        for move in scene.read.legal if scene.asked and scene.read is not None else ():
            made: Picks | Move | None = None
            now = scene
            for what in presses(scene, move):
                made = screen_of(now).pressed(now, what)
                if isinstance(made, Picks):
                    now = replace(now, picks=made)
            assert made == move


def presses(scene: Scene, move: Move) -> list[str]:
    """What is pressed to make a move."""
    shown = screen_of(scene).held(scene).cards

    def at(card: Card) -> str:
        return f"card:{shown.index(card)}"

    match move:
        case engines.azi.Bid(amount):
            return [*(f"digit:{digit}" for digit in str(amount)), Do.ENTER]
        case engines.rami.Meld(cards):
            return [*map(at, cards), Do.MELD]
        case engines.rami.LayOff(cards, meld):
            return [*map(at, cards), f"meld:{meld}"]
        case engines.rami.Discard(card):
            return [at(card), Do.DISCARD]
        case engines.rami.DrawStock():
            return [Do.STOCK]
        case engines.rami.DrawDiscard():
            return [Do.TAKE]
        case engines.durak.Take():
            return [Do.TAKE]
        case engines.durak.Pass():
            return [Do.PASS]
        case (
            engines.azi.Drop(card)
            | engines.azi.PlayCard(card)
            | engines.durak.Attack(card)
            | engines.durak.Beat(card)
        ):
            return [at(card)]
        case _:
            return [next(do for do in screen_of(scene).chances(scene) if PLAIN[do] == move)]


PLAIN = {
    Do.LEVEL: engines.azi.Level(),
    Do.FOLD: engines.azi.Fold(),
    Do.ALL_IN: engines.azi.AllIn(),
    Do.LOOK: engines.azi.Look(),
    Do.DROP_LAST: engines.azi.DropLast(),
    Do.BUY_BACK: engines.azi.BuyBack(),
    Do.DECLINE: engines.azi.Decline(),
}


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_no_hidden_card_is_drawn(game: str, seed: int, options: dict[str, Any]) -> None:
    """What others hold and nobody has seen is nowhere on the screen, whatever has happened."""
    for scene, state in scenes(game, seed, options):
        azi = isinstance(state, engines.azi.State)
        hands = [player.hand for player in state.players] if azi else state.hands
        seen = scene.read
        assert seen is not None
        known = {text(c) for held in getattr(seen, "known", ()) for c in held.cards}
        public = known | {text(c) for c in seen.hand} | _shown(seen)
        hidden = {
            text(card) for seat, hand in enumerate(hands) if seat != scene.seat for card in hand
        }
        upper = "\n".join(_without_told(scene))
        assert set(CARD.findall(upper)) & hidden <= public


def _without_told(scene: Scene) -> list[str]:
    """The screen without what happened, which names cards of the past that may be held again."""
    return lines_of(replace(scene, memory=Memory()), 80, 24)


def _shown(seen: Any) -> set[str]:
    card = getattr(seen, "shown", None)
    return set() if card is None else {text(card)}


def _luminance(colour: Color) -> float:
    parts = [part / 255 for part in colour.get_truecolor()]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: Color, second: Color) -> float:
    """The ratio of two colours, as WCAG 2 has it."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", sorted(GROUNDS))
@pytest.mark.parametrize("colours", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
def test_all_that_is_written_can_be_read(theme: Any, colours: ColorSystem) -> None:
    """Every role stands out from its ground by 4.5 at least, with 256 colours as well."""
    for role, style in styles(theme).items():
        assert style.color is not None, role
        assert style.bgcolor is not None, role
        ratio = contrast(style.color.downgrade(colours), style.bgcolor.downgrade(colours))
        assert ratio >= CONTRAST_MIN, (role, ratio)


def test_without_colours_nothing_has_a_colour() -> None:
    """Bold and reversed are left."""
    made = styles("none")
    assert all(style.color is None and style.bgcolor is None for style in made.values())
    assert made[Role.CHOSEN].reverse


def test_every_theme_knows_every_role() -> None:
    """No piece of a screen is without looks in a theme."""
    assert all(set(inks) == set(Role) for inks in INKS.values())


def test_a_large_hand_stays_whole() -> None:
    """Thirty cards of Durak are all shown, with a key below each that can be played."""
    for scene, _ in scenes("durak", 1, {}):
        view = scene.read
        assert isinstance(view, engines.durak.View)
        cards = tuple(engines.durak.PACK[:30])
        large = replace(view, hand=cards, legal=tuple(engines.durak.Attack(c) for c in cards))
        lines = lines_of(replace(scene, read=large), 80, 24)[-6:-2]
        assert set(CARD.findall("\n".join(lines))) == set(map(text, cards))
        assert len(re.findall(r"\b[0-9A-Z]\b", lines[1] + lines[3])) == len(cards)
        return


def test_time_runs_from_what_the_server_said_and_then_from_the_bank() -> None:
    """No clock of this machine is asked; the bank shown is that of whoever is asked."""
    view = view_pb2.GameView(seat=1, to_act=[0])
    assert left(view, 0) is None
    view.clock.deadline_time.FromSeconds(1)
    view.clock.remaining_ms = 30_000
    assert left(view, 10_400) == Left(20)
    for bank_ms in (60_000, 5_000):
        view.clock.seats.add(bank_ms=bank_ms)
    assert left(view, 0) == Left(30, 60)
    assert left(view, 50_000) == Left(0, 40)
    view.to_act[:] = [0, 1]
    assert left(view, 31_000) == Left(0, 4)
    assert left(view, 99_000) == Left(0, 0)
    view.to_act[:] = []
    assert left(view, 0) is None


def test_chips_fit_their_column_however_many() -> None:
    """Six columns are enough for every number of chips there can be."""
    from services.cli.play.azi import chips

    for count in (0, 999_999, 1_000_000, 123_456_789, 2**53, 2**63 - 1):
        assert len(chips(count)) <= 7
