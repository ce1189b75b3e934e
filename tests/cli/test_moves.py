"""Moves as people type them."""

import pytest

from engines import azi, durak, rami
from engines.api import Start
from engines.cards import parse
from services.cli.deals import SeedChance
from services.cli.moves import read_card, read_move
from services.cli.variants import opening
from services.client.variants import View, engine


def view_of(game: str) -> View:
    """What the seat that is to move sees after the first deal."""
    rules = engine(game)
    state = opening(game, 2)
    for event in rules.decide(state, Start(), SeedChance(bytes(32))):
        state = rules.evolve(state, event)
    view: View = rules.view(state, rules.to_act(state)[0])
    return view


@pytest.mark.parametrize("typed", ["TS", "ts", "10s", "T♠", "♠T", "S10"])
def test_a_card_may_be_written_as_people_do(typed: str) -> None:
    """Rank and suit in either order, ten as T or 10, suits as letters or signs."""
    assert read_card(typed) == parse("TS")


@pytest.mark.parametrize("typed", ["", "T", "1S", "TX", "TSS", "🂡"])
def test_what_is_no_card_is_said_to_be_none(typed: str) -> None:
    """Anything else is refused with an example of a card."""
    with pytest.raises(ValueError, match="such as 7S"):
        read_card(typed)


@pytest.mark.parametrize(
    ("game", "typed", "move"),
    [
        ("azi", "bid 7", azi.Bid(7)),
        ("azi", "BID 9223372036854775807", azi.Bid(2**63 - 1)),
        ("azi", "level", azi.Level()),
        ("azi", "all in", azi.AllIn()),
        ("azi", "drop last", azi.DropLast()),
        ("azi", "drop 6h", azi.Drop(parse("6H"))),
        ("azi", "play 6h", azi.PlayCard(parse("6H"))),
        ("azi", "buy back", azi.BuyBack()),
        ("durak", "attack 7♣", durak.Attack(parse("7C"))),
        ("durak", "beat 10c", durak.Beat(parse("TC"))),
        ("durak", "pass", durak.Pass()),
        ("rami", "draw", rami.DrawStock()),
        ("rami", "take", rami.DrawDiscard()),
        ("rami", "meld 7s, 8s, 9s", rami.Meld((parse("7S"), parse("8S"), parse("9S")))),
        ("rami", "lay 7s off on m2", rami.LayOff((parse("7S"),), "m2")),
        ("rami", "discard AS", rami.Discard(parse("AS"))),
    ],
)
def test_a_move_is_read_from_its_words(game: str, typed: str, move: object) -> None:
    """Words and cards make the move they name, legal or not: judging is the rules' business."""
    assert read_move(game, typed, view_of(game)) == move


def test_a_number_is_the_move_with_that_number() -> None:
    """Choices are numbered from 1 in the order they are shown."""
    view = view_of("durak")
    assert read_move("durak", "1", view) == view.legal[0]
    with pytest.raises(ValueError, match="numbered 1 to 6"):
        read_move("durak", "7", view)


def test_a_card_alone_is_the_move_made_with_it() -> None:
    """Where cards are played one way only the word may be left out."""
    view = view_of("durak")
    assert isinstance(view, durak.View)
    assert read_move("durak", "6s", view) == durak.Attack(parse("6S"))


@pytest.mark.parametrize("typed", ["", "bid", "bid -1", "bid ١", "bid 1e3", "fold now", "castle"])
def test_what_is_not_understood_is_a_sentence(typed: str) -> None:
    """Nonsense raises ValueError, whose text is for the person."""
    with pytest.raises(ValueError, match=r"[a-z]{3}"):
        read_move("azi", typed, view_of("azi"))
