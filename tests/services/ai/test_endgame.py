"""The exact end of a game of two, against the rules themselves."""

from functools import reduce
from random import Random
from typing import Any

from engines import durak
from engines.api import Act
from engines.cards import Card
from engines.durak.core import Core
from engines.durak.projection import from_state
from services.ai.bots import Level
from services.ai.bots.durak import endgame
from tests.engines.laws import Decks, games
from tests.services.ai.positions import Position, asked, at_random, bot, play

FEW = 9
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


def hidden(position: Position) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """The other seat's hand, and the talon."""
    state = position.state
    (other,) = (s for s in state.playing if s != position.seat)
    return state.hands[other], state.talon


def test_every_value_is_what_the_rules_lead_to() -> None:
    """Each legal move, searched through the rules move by move, comes out as was said."""
    compared = set()
    for seed in range(games(60)):
        for position in played(seed, Random(seed).choice((2, 2, 3))):
            values = endgame.values(position.view, *hidden(position))
            assert values is not None
            found: dict[tuple[int, ...], int] = {}
            for move, value in values.items():
                core = from_state(after(position.state, position.seat, move))
                rules = outcome(core, position.seat, found)
                assert value == rules, f"{move}: {value}, by the rules {rules}: {position.state}"
                compared.add((type(move).__name__, value, bool(position.state.talon)))
    assert len(compared) >= 8


def test_a_won_game_is_won() -> None:
    """From every position that can be won a hard bot wins against any play."""
    won = 0
    for seed in range(games(60)):
        for position in played(seed, 2)[:1]:
            values = endgame.values(position.view, *hidden(position))
            if values is None or max(values.values()) < 1:
                continue
            state, rng = position.state, Random(seed)
            while not durak.is_over(state):
                (seat,) = durak.to_act(state)
                now = Position("durak", state, (), seat)
                mine = seat == position.seat
                move = asked(now, Level.HARD, 0).move if mine else rng.choice(now.view.legal)
                state = after(state, seat, move)
            assert not state.null
            assert state.durak != position.seat
            won += 1
    assert won > 5
