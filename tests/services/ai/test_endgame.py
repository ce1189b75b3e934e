"""The exact end of a game of two, against the rules themselves."""

from functools import reduce
from random import Random
from typing import Any

import pytest

from engines import durak
from engines.api import Act
from engines.cards import suit
from engines.durak.core import PASS, Core
from engines.durak.masks import BEATING, CARD
from engines.durak.projection import from_state, move
from services.ai.bots import Level
from services.ai.bots.durak import endgame
from tests.engines.laws import Decks, games
from tests.services.ai.durak_ends import (
    OPPONENTS,
    always,
    any_move,
    is_held,
    stubborn,
    won_ends,
)
from tests.services.ai.positions import Position, at_random, bot, play

FEW = 10
"""Cards in play that the rules can be asked about exhaustively."""
DECKS = Decks(0)


def outcome(core: Core, seat: int, found: dict[tuple[int, ...], int]) -> int:
    """What the rules make of a position when both play best: 1, 0 or -1 for the seat."""
    if core.seat < 0:
        return 0 if core.durak < 0 else -1 if core.durak == seat else 1
    now = (core.seat, core.open, core.table, core.left, core.taking, core.talon_left, *core.hands)
    if now not in found:
        mine = 1 if core.seat == seat else -1
        best = -1
        for move in core.legal():
            then = core.clone()
            then.apply(move)
            best = max(best, mine * outcome(then, seat, found))
            if best == 1:
                break
        found[now] = mine * best
    return found[now]


def after(state: Any, seat: int, move: durak.Move) -> Any:
    """The state after a move."""
    return reduce(durak.evolve, durak.decide(state, Act(seat, move), DECKS), state)


def ends(position: Position) -> bool:
    """Whether few enough cards are left between two seats, all of them known."""
    state = position.state
    hands = [hand for hand in state.hands if hand]
    cards = sum(map(len, hands)) + len(state.talon) + 2 * len(state.table)
    return len(state.playing) == 2 and len(state.talon) <= 1 and cards <= FEW


def played(seed: int, seats: int) -> list[Position]:
    """The decisions at the end of a game of bots and of chance."""
    options = durak.Options(throw_in_after_take=seed % 2 == 0, auto_pass=seed % 3 == 0)
    movers = [bot(Level.NORMAL, seed) if seat else at_random(seed) for seat in range(seats)]
    positions = play("durak", durak.initial(options, seats), Decks(seed), movers)
    return [p for p in positions if p.view.legal and ends(p)]


def compared(core: Core) -> set[tuple[int, int]]:
    """Asserts that the solution is what the rules lead to; kinds of moves and what they came to.

    A won position names one move that wins, any other all moves that keep what it is worth.
    """
    solved = endgame.solved(core, always)
    assert solved is not None
    found: dict[tuple[int, ...], int] = {}
    values = {}
    for code in core.legal():
        then = core.clone()
        then.apply(code)
        values[code] = outcome(then, core.seat, found)
    assert solved.value == max(values.values()), f"{solved}, {values}"
    keeping = {code for code, value in values.items() if value == solved.value}
    assert set(solved.moves) <= keeping
    assert len(solved.moves) == (1 if solved.value == 1 else len(keeping))
    return {(code if code >= PASS else 0, value) for code, value in values.items()}


def test_every_value_is_what_the_rules_lead_to() -> None:
    """Each legal move, searched through the rules move by move, comes out as was said."""
    kinds = set()
    for seed in range(games(50)):
        for position in played(seed, Random(seed).choice((2, 2, 3))):
            kinds |= compared(from_state(position.state))
    assert len(kinds) >= 7


def small(rng: Random) -> Core:
    """A bout between two begins, with few cards in the hands and a few in a talon that is known."""
    options = durak.Options(rng.random() < 0.5, rng.random() < 0.5)
    core = Core(options, 2)
    suits = rng.choice((2, 3, 4))
    pack = [bit for bit, card in CARD.items() if suit(card) < suits]
    cards = rng.sample(pack, FEW)
    own, other = rng.randint(1, 4), rng.randint(1, 4)
    core.hands = [sum(cards[:own]), sum(cards[own : own + other])]
    core.talon = tuple(cards[own + other :][: rng.choice((0, 1, 1, 2))])
    core.talon_left = len(core.talon)
    core.trump = rng.randrange(suits)
    core.beating = BEATING[core.trump]
    core.bout = 1
    core.open_bout(0)
    return core


def test_every_value_is_right_with_cards_in_the_talon() -> None:
    """In every position on the way through small bouts, whatever is drawn after them."""
    kinds = set()
    for seed in range(games(250)):
        rng = Random(f"small/{seed}")
        core = small(rng)
        while core.seat >= 0:
            kinds |= compared(core)
            core.apply(rng.choice(core.legal()))
    assert len(kinds) == 9


def test_a_proven_win_is_proven_again_after_every_answer() -> None:
    """No later proof looks at more positions than the first: a win is never lost from sight."""
    again = 0
    for seed, end in enumerate(won_ends(Random("proven"), games(10))):
        rng, state = Random(seed), end.state
        before = endgame.solved(from_state(state), always)
        while not durak.is_over(state):
            (seat,) = durak.to_act(state)
            core = from_state(state)
            if seat == end.seat:
                now = endgame.solved(core, always)
                assert now is not None
                assert before is not None
                assert now.value == 1
                assert now.looks <= before.looks
                again += len(core.legal()) > 1
                before, made = now, move(core, now.moves[0])
            else:
                made = rng.choice((stubborn, any_move))(state, rng)
            state = after(state, seat, made)
    assert again > 10


@pytest.mark.parametrize("opponent", OPPONENTS)
def test_a_won_game_is_won(opponent: str) -> None:
    """From every position that is proven won a hard bot wins, whatever the other plays."""
    ends = list(won_ends(Random(opponent), games(6)))
    assert all(is_held(end, OPPONENTS[opponent], Random(opponent)) for end in ends)
