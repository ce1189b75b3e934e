"""What a player has chosen so far: the cursor along the hand, what is kept from view to view."""

from dataclasses import replace

from services.cli.play.games import screen_of
from services.cli.play.keys import Do
from services.cli.play.scene import Picks, Scene


def kept(before: Scene, scene: Scene) -> Scene:
    """The scene with what was chosen before, in the same decision all of it."""
    picks = replace(before.picks, laying=False)
    hand = frozenset(getattr(scene.read, "hand", ()))
    if before.view.turn != scene.view.turn:
        picks = replace(picks, amount=None, marked=picks.marked & hand, suggested=0)
        return at_a_legal_card(replace(scene, picks=picks))
    return replace(scene, picks=picks, hinted=before.hinted & hand)


def at_a_legal_card(scene: Scene) -> Scene:
    """The cursor on a card that can be played, if it is not on one."""
    if scene.read is None or not scene.asked:
        return scene
    held = screen_of(scene).held(scene)
    legal = [index for index, card in enumerate(held.cards) if card in held.legal]
    if not legal or held.cursor in legal:
        return scene
    return replace(scene, picks=replace(scene.picks, cursor=legal[0]))


def moved(scene: Scene, do: Do) -> Picks:
    """The cursor moved along the hand."""
    if scene.read is None:
        return scene.picks
    last = max(0, len(screen_of(scene).held(scene).cards) - 1)
    at = min(scene.picks.cursor, last)
    match do:
        case Do.LEFT:
            at = max(0, at - 1)
        case Do.RIGHT:
            at = min(last, at + 1)
        case Do.FIRST:
            at = 0
        case _:
            at = last
    return replace(scene.picks, cursor=at)
