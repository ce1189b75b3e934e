"""Pictures of tables: over random play of all games they fit, say all, and show nothing hidden."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

import engines.azi
from engines.api import Act, Leave, Start, Timeout
from engines.cards import text
from services.cli import pictures
from services.cli.deals import SeedChance
from services.cli.pictures.look import WIDTH, Look
from services.cli.variants import opening
from services.client.variants import GAMES, engine

CARD = re.compile(r"\b[2-9TJQKA][SHDC]\b")
PLAYERS = ("Ann", "Bartholomew the Second", "Cy", "Dee", "Eve", "Flo")
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "azi": [{}, {"deal_size": 4, "blind_bets": True, "azi_entry": "half_bank"}],
    "durak": [{}, {"auto_pass": False}],
    "rami": [{}],
}

Position = tuple[Any, Any, tuple[Any, ...]]
"""An engine, a state, and the events that led to it from the one before."""


def played(game: str, seed: int, options: dict[str, Any]) -> Iterator[Position]:
    """The positions of one random game, with a time-out and a leave now and then."""
    rules, rng = engine(game), random.Random(seed)
    chance = SeedChance(seed.to_bytes(32, "big"))
    seats = rng.choice(rules.SEATS)
    state = opening(game, seats, rules.Options(**options))
    command: Any = Start()
    while True:
        events = rules.decide(state, command, chance)
        for event in events:
            state = rules.evolve(state, event)
        yield rules, state, events
        if rules.is_over(state):
            return
        seat = rng.choice(rules.to_act(state))
        luck = rng.random()
        if luck < 0.02:
            command = Timeout(seat)
        elif luck < 0.022 and seat not in getattr(state, "left", ()):
            command = Leave(seat)
        else:
            legal = rules.legal(state, seat)
            # In every other game small bids keep chips in play for what comes after an azi.
            most = 10 if seed % 2 else 2**63
            small = [m for m in legal if not isinstance(m, engines.azi.Bid) or m.amount < most]
            command = Act(seat, rng.choice(small or legal))


def games() -> list[Any]:
    """A few games of each kind with each set of options."""
    return [
        pytest.param(game, seed, options, id=f"{game}-{seed}")
        for game in GAMES
        for options in OPTIONS[game]
        for seed in range(4)
    ]


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_a_picture_fits_and_shows_what_its_viewer_sees(
    game: str, seed: int, options: dict[str, Any]
) -> None:
    """Lines have at most 80 columns of ASCII, and the viewer's hand and moves are all there."""
    look = Look(PLAYERS, ascii=True)
    for rules, state, _ in played(game, seed, options):
        for viewer in (None, *range(len(getattr(state, "players", ())) or state.seats)):
            view = rules.view(state, viewer)
            lines = pictures.table(game, view, look)
            assert all(line.isascii() and len(line) <= WIDTH for line in lines)
            drawn = set(CARD.findall("\n".join(lines)))
            assert {text(card) for card in view.hand} <= drawn
            moves = [pictures.move(game, move, look) for move in view.legal]
            assert len(set(moves)) == len(moves)


@pytest.mark.parametrize(("game", "seed", "options"), games())
def test_a_closed_hand_is_never_drawn(game: str, seed: int, options: dict[str, Any]) -> None:
    """A picture for the public names no card that is in a hand and not publicly known."""
    look = Look(PLAYERS, ascii=True)
    for rules, state, _ in played(game, seed, options):
        view = rules.view(state, None)
        drawn = set(CARD.findall("\n".join(pictures.table(game, view, look))))
        known = {text(c) for held in getattr(view, "known", ()) for c in held.cards}
        azi = isinstance(state, engines.azi.State)
        hands = [player.hand for player in state.players] if azi else state.hands
        shown = {text(view.shown)} if getattr(view, "shown", None) is not None else set()
        assert {text(c) for hand in hands for c in hand} & drawn <= known | shown


def test_every_happening_has_a_sentence() -> None:
    """Over many games each kind of event comes up, and each is told in a sentence with names."""
    look = Look(PLAYERS)
    for game in GAMES:
        told: dict[str, str] = {}
        for options in OPTIONS[game]:
            for seed in range(60):
                for rules, _, events in played(game, seed, options):
                    for event in events:
                        shown = rules.show(event, 0)
                        told[type(event).__name__] = pictures.told(game, shown, look)
        assert all(said.endswith(".") and said[0].isupper() for said in told.values())
        never = {cls.__name__ for cls in get_args(engine(game).Event)} - told.keys()
        assert never <= {"DealNull"}, game


def test_all_hands_can_be_laid_open() -> None:
    """Given the hands, a picture shows every one of them."""
    rules, state, _ = next(played("rami", 1, {}))
    hands = dict(enumerate(state.hands))
    lines = pictures.table("rami", rules.view(state, None), Look(PLAYERS, ascii=True), hands)
    drawn = set(CARD.findall("\n".join(lines)))
    assert {text(card) for hand in state.hands for card in hand} <= drawn


def test_names_are_cut_to_their_column() -> None:
    """A long name is shortened, and never moves what stands beside it."""
    look = Look(PLAYERS)
    assert look.name(1) == "Bartholomew t."
    assert replace(look, names=()).name(3) == "seat 3"
