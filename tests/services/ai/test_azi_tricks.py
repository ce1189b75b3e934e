"""Azi's tricks: the solver against the rules' own core, and cards that are found with it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engines import azi
from engines.azi import projection
from engines.azi.core import Core
from engines.azi.masks import TAKING
from engines.cards import Card, suit
from services.ai.bots import Budget, Level, choose
from services.ai.bots.azi import hands, playing, showdown
from services.ai.bots.azi.solving import Solver, equal_worth
from tests.engines.laws import Decks
from tests.services.ai.positions import Mover, Position, at_random, play


def levels(position: Position) -> azi.Move:
    """Stays in as cheaply as may be, so that all come to the tricks."""
    legal = position.view.legal
    return azi.Level() if azi.Level() in legal else legal[0]


def stays_in(seed: int) -> Mover:
    """Stays in, and plays any card."""
    chance = at_random(seed)

    def mover(position: Position) -> Any:
        tricks = position.state.phase is azi.Phase.TRICKS
        return chance(position) if tricks else levels(position)

    return mover


def at_tricks(seats: int, seed: int) -> Iterator[Position]:
    """Positions of a game's tricks, everybody in, cards played at random."""
    state = azi.initial(azi.Options(), seats, stacks=(50,) * seats)
    for position in play("azi", state, Decks(seed), [stays_in(seed)] * seats):
        if position.state.phase is azi.Phase.TRICKS:
            yield position


def slow(core: Core, own: int) -> list[float]:
    """What each seat has in the end when all play as the solver has them, by the core alone."""
    if core.winner >= 0:
        return [float(seat == core.winner) for seat in range(core.seats)]
    if core.azis:
        return [1 / core.seats] * core.seats
    place, found = core.seat, [-1.0] * core.seats
    for move in core.legal():
        after = core.clone()
        after.apply(move)
        ended = slow(after, own)
        if ended[place] > found[place]:
            found = ended
            if ended[place] == 1:
                break
        elif ended[place] == found[place] and ended[own] < found[own]:
            found = ended
    return found


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_the_solver_finds_what_trying_everything_by_the_rules_finds(seats: int) -> None:
    """In every position of random deals' tricks, for the seat that is to play."""
    compared = 0
    for seed in range(40 if seats < 4 else 8):
        for position in at_tricks(seats, seed):
            state = position.state
            if state.azis:
                break
            core = projection.from_state(replace(state, last_winner=0))
            own, turned = core.seat, state.turned
            assert turned is not None
            solver = Solver(hands.trumps(turned), TAKING[turned], equal_worth(seats), own)
            best = core.best_seat if core.led else own
            trick = (core.led, core.best, best, core.waiting.bit_count() - 1)
            for move in core.legal():
                after = core.clone()
                after.apply(move)
                found = solver.played(core.hands, core.taken, trick, move)
                assert list(found) == slow(after, own)
                compared += 1
            if not core.led:
                led = solver.led(core.hands, core.taken, own)
                assert list(led) == slow(core, own)
    assert compared > 100


def test_a_short_seat_plays_for_its_part_and_others_for_what_is_returned() -> None:
    """AZI-32, AZI-33: what is won is counted by the rules' own payouts."""
    core = Core(azi.Options(entry_fee=10), [110, 110, 60], 2)
    core.deal(azi.PACK)
    for move in (projection.code(core, azi.Bid(100)), -2, -3):
        core.apply(move)
    assert core.bank == 280
    assert showdown.paid(core, 2) == [50, 50, 180]
    assert showdown.paid(core, 0) == [280, 0, 0]
    assert playing.worth(core, [0, 1, 2])[-1] == pytest.approx([110, 110, 60])


def hard(position: Position) -> azi.Move:
    """A hard bot that tries few worlds, and stays in."""
    if position.state.phase is not azi.Phase.TRICKS:
        return levels(position)
    view, rng = position.view, Random(position.state.turn)
    move: azi.Move = choose("azi", view, position.history, Level.HARD, rng, Budget(4)).move
    return move


def top_two(hand: Sequence[Card], turned: Card) -> bool:
    """Whether a hand has the two highest trumps."""
    trumps = [card for card in azi.PACK if suit(card) is suit(turned) and card != turned]
    trumps.sort(key=lambda card: azi.strength(card, turned))
    return {*trumps[-2:]} <= {*hand}


@pytest.mark.parametrize("seats", [2, 3, 5])
def test_who_has_the_two_highest_trumps_wins_whatever_is_led(seats: int) -> None:
    """With the fewest worlds and against any play."""
    won = 0
    for seed in range(1_500):
        decks = Decks(seed)
        deck = decks.deck(1, azi.PACK)
        if not top_two(deck[:3], deck[3 * seats]):
            continue
        state = azi.initial(azi.Options(), seats, stacks=(50,) * seats, last_winner=seed % seats)
        *_, last = play("azi", state, decks, [hard, *(stays_in(seed) for _ in range(1, seats))])
        assert last.state.winner == 0
        won += 1
    assert won > 8


def test_more_worlds_are_better_cards() -> None:
    """Cards found on many worlds are those found on very many more often than cards on few."""
    alike = {3: 0, 60: 0}
    asked = 0
    for seed in range(25):
        for position in at_tricks(2, seed):
            view = position.view
            if len(view.legal) < 2:
                continue
            asked += 1
            cards = {
                worlds: playing.best_card(
                    view, position.history, lambda *_: 1.0, Random(seed), Budget(worlds)
                )
                for worlds in (3, 60, 400)
            }
            for worlds in alike:
                alike[worlds] += cards[worlds] == cards[400]
    assert asked > 30
    assert alike[60] > alike[3]
