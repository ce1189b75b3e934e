"""What Durak shows to whom, and a whole game to read."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

import engines.durak as durak
from engines import scenario
from engines.api import Act, Command, Leave, Start, Timeout
from engines.cards import Card, Suit, parse, text, texts
from engines.durak.model import PACK, Attack, Beat, Event, Move, Options, Take
from engines.shuffle import Stream, drawn, shuffled
from tests.engines.durak_positions import Listed, after, bout, cards, refusal, told

PLAYTHROUGH = Path(__file__).parent / "golden" / "durak.txt"


def test_a_view_holds_the_viewers_hand_and_nobody_elses() -> None:
    """Cards of other hands and of the talon stand nowhere in a view (DURAK-26)."""
    state = after(durak.initial(Options(), 3), Start(), chance=Listed(PACK))
    view = durak.view(state, 1)
    assert view.hand == tuple(sorted(state.hands[1]))
    assert view.counts == (6, 6, 6)
    assert view.talon == 18
    public = durak.view(state, None)
    assert (public.hand, public.legal, public.seat) == ((), (), None)
    assert replace(view, seat=None, hand=(), legal=()) == public


def test_the_deal_is_shown_without_the_deck() -> None:
    """Of Dealt a viewer gets his own cards, the public none (DURAK-26)."""
    (dealt,) = told(durak.initial(Options(), 3), Start(), Listed(PACK))
    shown = durak.show(dealt, 2)
    assert isinstance(shown, durak.HandsDealt)
    assert shown.hand == PACK[2:18:3]
    public = durak.history((dealt,), None)
    assert public == (durak.HandsDealt(1, 3, 0, None, Suit.DIAMONDS, parse("6D"), ()),)


def test_taken_cards_stay_known_until_they_are_played() -> None:
    """What the defender took from the table everybody has seen (DURAK-26)."""
    state = after(bout(["8S 6D", "7S KD", "9S 9D"]), Act(0, Attack(parse("8S"))), Act(1, Take()))
    assert durak.view(state, 0).known == (durak.Hand(1, cards("8S")),)
    state = after(state, Act(2, Attack(parse("9D"))), Act(0, Take()))
    state = after(state, Act(1, Attack(parse("8S"))))
    assert durak.view(state, None).known == (durak.Hand(0, cards("9D")),)


def test_who_drew_the_trump_card_is_told_and_known() -> None:
    """The last draw names the shown card, and it is known to be in that hand (DURAK-19)."""
    state = after(bout(["8S 6D", "9S KD"], talon="7H TC"), Act(0, Attack(parse("8S"))))
    events = told(state, Act(1, Beat(parse("9S"))))
    assert durak.CardsDrawn(0, 2, parse("TC")) in events
    after_draw = reduce(durak.evolve, events, state)
    assert durak.view(after_draw, 1).known == (durak.Hand(0, cards("TC")),)
    assert durak.view(after_draw, 1).shown == parse("TC")


def test_an_automatic_pass_tells_what_a_hand_lacks_until_it_draws() -> None:
    """Lacking ranks last while the hand takes no unseen card (DURAK-14, DURAK-26)."""
    hands = ["8S 6D 7D JD QD AD", "9S KD KH KS AS AH", "6H 7H TD JH QH TS"]
    state = after(
        bout(hands, talon="7C TC"), Act(0, Attack(parse("8S"))), Act(1, Beat(parse("9S")))
    )
    assert durak.Lack(2, (6, 7)) in durak.view(state, 0).lacking
    assert durak.Lack(0, (6, 7)) not in durak.view(state, 1).lacking


def test_a_server_move_is_named_as_such() -> None:
    """TurnExpired says what the server did, then the move follows as any other (DURAK-27)."""
    state = bout(["8S 6D", "9S KD"])
    assert told(state, Timeout(0)) == (
        durak.TurnExpired(0, durak.MoveKind.ATTACK),
        durak.Attacked(0, parse("6D")),
    )
    late = told(after(state, Timeout(0)), Timeout(1))
    assert late[:2] == (durak.TurnExpired(1, durak.MoveKind.TAKE), durak.Taken(1))


def test_a_left_seat_is_on_record_and_still_asked() -> None:
    """A bot keeps the seat with all its rights (DURAK-28)."""
    state = after(bout(["8S 6D", "9S KD"]), Leave(0))
    assert durak.view(state, None).left == (0,)
    assert durak.to_act(state) == (0,)
    assert refusal(state, Leave(0)) == "NOT_YOUR_TURN"


@pytest.mark.parametrize("events", [(), (durak.SeatOut(0, 1),), (durak.Passed(0, True),)])
def test_what_no_command_begins_has_no_cause(events: tuple[Event, ...]) -> None:
    """An append that starts with a consequence is a forgery."""
    with pytest.raises(ValueError, match="command"):
        durak.cause(events)


# A whole game to read


class Seeded:
    """A `Chance` from one deal seed, as in play."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The shuffled pack."""
        return shuffled(self._seed, pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        """The labelled draw."""
        return drawn(self._seed, label, bound)


def playthrough() -> str:
    """A game of three, move by move, with every hand open."""
    chance, pick = Seeded(b"durak playthrough, a deal seed.."), Stream(b"moves", "play")
    state = durak.initial(Options(), 3)
    command: Command[Move] = Start()
    out = []
    while True:
        out.append(f"> {written(command)}")
        for event in durak.decide(state, command, chance):
            fields = scenario.described(event)
            name = fields.pop("name")
            fields.pop("secret", None)
            out.append(f"  {name} " + " ".join(f"{k}={v}" for k, v in fields.items()))
            state = durak.evolve(state, event)
        hands = " | ".join(texts(sorted(hand)) or "-" for hand in state.hands)
        out.append(f"  [{state.turn}] {state.phase.name} {hands} ; talon {texts(state.talon)}")
        if durak.is_over(state):
            return "\n".join(out) + "\n"
        (seat,) = durak.to_act(state)
        moves = durak.legal(state, seat)
        late = pick.below(20) == 0
        command = Timeout(seat) if late else Act(seat, moves[pick.below(len(moves))])


def written(command: Command[Move]) -> str:
    """A command as a line."""
    match command:
        case Act(seat, Attack(card) | Beat(card) as move):
            return f"{seat} {type(move).__name__.lower()} {text(card)}"
        case Act(seat, move):
            return f"{seat} {type(move).__name__.lower()}"
        case Timeout(seat):
            return f"{seat} timeout"
        case _:
            return type(command).__name__.lower()


def test_a_whole_game_reads_as_it_did() -> None:
    """The committed playthrough, made anew with KOZYR_GOLDEN=write, is unchanged."""
    if os.environ.get("KOZYR_GOLDEN") == "write":
        PLAYTHROUGH.write_text(playthrough(), "utf-8")
    assert playthrough() == PLAYTHROUGH.read_text("utf-8")
