"""The laws every game obeys whatever is played, to be run over random play.

A game describes itself once (`Laws`); its test module then runs each of `EVERY` with sources of
random play, hypothesis' (`st.randoms(use_true_random=False)`, which shrinks) or a seeded one:

    @pytest.mark.parametrize("law", laws.EVERY, ids=laws.name)
    def test_law(law):
        for seed in range(laws.games(30)):
            law(AZI, Random(seed))

A law raises AssertionError with the step that broke it.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from random import Random
from typing import Any, Generic, TypeVar

from engines.api import Act, Command, Leave, RuleViolation, Start, Timeout
from engines.cards import Card

S = TypeVar("S")
M = TypeVar("M")
E = TypeVar("E")

Viewer = int | None


def _never(*_: object) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Laws(Generic[S, M, E]):
    """What the laws need to know of one game.

    Attributes:
        game: the engine's module (`engines.api.Game`).
        start: a state before `Start`, of any seat count, options and carry.
        seats: how many seats a state has.
        conceivable: every move a seat could name in a state, sensible or not; well-formed ones.
        covered: whether `legal` lists only a covering set of moves of this kind in this state.
        server_only: whether a timeout may make this move, though the seat may not make it itself.
        malformed: moves that are MALFORMED in every state, besides the common `JUNK`.
        pack: every card of the game, once.
        cards: every card of a state, wherever it lies; none before `Start`.
        chips: all chips of a state, or None where there are none.
        resample: another state that the viewer cannot tell from this one.
        tells: whether the command tells the viewer a card it did not know (it draws one), so that
            what it sees differs between two worlds.
        bound: the most commands a random game may take.
    """

    game: Any
    start: Callable[[Random], S]
    seats: Callable[[S], int]
    conceivable: Callable[[S, int], Iterable[M]]
    covered: Callable[[S, M], bool] = _never
    server_only: Callable[[S, M], bool] = _never
    malformed: Sequence[object] = ()
    pack: Callable[[S], Sequence[Card]]
    cards: Callable[[S], Iterable[Card]]
    chips: Callable[[S], int] | None = None
    resample: Callable[[S, Viewer, Random], S]
    tells: Callable[[S, Command[M], Viewer], bool] = _never
    bound: int


class Decks:
    """A `Chance` that shuffles from one number: the same number, the same deals."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The pack shuffled for this deal."""
        return tuple(Random(f"{self._seed}/{deal}").sample(pack, len(pack)))

    def seat(self, deal: int, label: str, bound: int) -> int:
        """A number in 0 … bound-1 for this deal and label."""
        return Random(f"{self._seed}/{deal}/{label}").randrange(bound)


@dataclass(frozen=True)
class Step(Generic[S, M, E]):
    """One accepted command: the state before, the events, the state after."""

    before: S
    command: Command[M]
    events: tuple[E, ...]
    after: S
    chance: Decks = field(repr=False)


JUNK: tuple[object, ...] = (None, 7, "fold", b"", [], {}, object(), True, Start(), Timeout(0))
JUNK_SEATS: tuple[object, ...] = (None, -1, 99, True, "0", 0.0)


def games(default: int) -> int:
    """How many random games a law is tried on: `KOZYR_LAWS_N`, or the given number."""
    return int(os.environ.get("KOZYR_LAWS_N", default))


def name(law: Callable[..., None]) -> str:
    """The law's name, for test ids."""
    return law.__name__


def walk(laws: Laws[S, M, E], rng: Random) -> Iterator[Step[S, M, E]]:
    """Plays one game of random legal moves, timeouts and leaves to its end."""
    game, state = laws.game, laws.start(rng)
    chance = Decks(rng.getrandbits(32))
    leaving, late = rng.choice((0.0, 0.0, 0.03, 0.15)), rng.choice((0.0, 0.05, 0.3))
    command: Command[M] = Start()
    for _ in range(laws.bound + 1):
        events = _outcome(laws, state, command, chance)
        if isinstance(events, RuleViolation):
            assert isinstance(command, Leave), f"{command} refused with {events} in {state}"
        else:
            after = reduce(game.evolve, events, state)
            yield Step(state, command, events, after, chance)
            state = after
        if game.is_over(state):
            return
        command = _next_command(laws, state, rng, leaving, late)
    raise AssertionError(f"not over after {laws.bound} commands: {state}")


def _next_command(
    laws: Laws[S, M, E], state: S, rng: Random, leaving: float, late: float
) -> Command[M]:
    roll, seats = rng.random(), laws.game.to_act(state)
    assert seats, f"not over, yet nobody may act: {state}"
    if roll < leaving:
        return Leave(rng.randrange(laws.seats(state)))
    seat = rng.choice(seats)
    if roll < leaving + late:
        return Timeout(seat)
    return Act(seat, rng.choice(laws.game.legal(state, seat)))


def _outcome(
    laws: Laws[S, M, E], state: S, command: object, chance: Decks
) -> tuple[E, ...] | RuleViolation:
    try:
        events: tuple[E, ...] = laws.game.decide(state, command, chance)
    except RuleViolation as refusal:
        return refusal
    assert isinstance(events, tuple), f"{command}: not a tuple of events"
    assert events, f"{command}: accepted without an event"
    return events


def _reason(outcome: object) -> str | None:
    return outcome.reason if isinstance(outcome, RuleViolation) else None


def replay_gives_the_live_state(laws: Laws[S, M, E], rng: Random) -> None:
    """The fold of all events over the initial state is the live state, and decide is a function."""
    state: S | None = None
    for step in walk(laws, rng):
        state = step.before if state is None else state
        assert _outcome(laws, step.before, step.command, step.chance) == step.events, step
        for event in step.events:
            state = laws.game.evolve(state, event)
        assert state == step.after, step


def legal_moves_are_accepted(laws: Laws[S, M, E], rng: Random) -> None:
    """Whatever `legal` lists is accepted; whoever may act has a move, and a timeout move."""
    for step in walk(laws, rng):
        state = step.after
        for seat in laws.game.to_act(state):
            moves = laws.game.legal(state, seat)
            assert moves, f"seat {seat} may act but has no move: {state}"
            assert len(set(moves)) == len(moves), f"a move twice in {moves}"
            late = laws.game.timeout_move(state, seat)
            for move in moves if laws.server_only(state, late) else (*moves, late):
                outcome = _outcome(laws, state, Act(seat, move), step.chance)
                assert not _reason(outcome), f"{seat} {move}: {outcome} in {state}"
            outcome = _outcome(laws, state, Timeout(seat), step.chance)
            assert not _reason(outcome), f"timeout of {seat}: {outcome} in {state}"


def accepted_moves_are_legal(laws: Laws[S, M, E], rng: Random) -> None:
    """Of every conceivable move, decide accepts what `legal` lists, covering sets aside."""
    for step in walk(laws, rng):
        state = step.after
        for seat in range(laws.seats(state)):
            moves = laws.game.legal(state, seat)
            for move in laws.conceivable(state, seat):
                accepted = not _reason(_outcome(laws, state, Act(seat, move), step.chance))
                if not laws.covered(state, move):
                    assert accepted == (move in moves), f"{seat} {move}: {accepted} in {state}"


def only_seats_to_act_can_move(laws: Laws[S, M, E], rng: Random) -> None:
    """A seat out of `to_act` has no legal move, and neither its moves nor its timeout are taken."""
    for step in walk(laws, rng):
        state = step.after
        seats = laws.game.to_act(state)
        assert tuple(sorted(set(seats))) == seats, f"to_act {seats} in {state}"
        for seat in set(range(laws.seats(state))) - set(seats):
            assert laws.game.legal(state, seat) == (), f"{seat} in {state}"
            refused = [*(Act(seat, move) for move in laws.conceivable(state, seat)), Timeout(seat)]
            for command in refused:
                outcome = _outcome(laws, state, command, step.chance)
                assert _reason(outcome), f"{command} accepted in {state}"


def a_refused_command_changes_nothing(laws: Laws[S, M, E], rng: Random) -> None:
    """After a refusal the state is what it was, and the same command is refused the same way."""
    for step in walk(laws, rng):
        state, before = step.after, repr(step.after)
        seat = rng.randrange(laws.seats(state))
        moves = list(laws.conceivable(state, seat))
        for move in rng.sample(moves, min(8, len(moves))):
            outcome = _outcome(laws, state, Act(seat, move), step.chance)
            if reason := _reason(outcome):
                assert repr(state) == before, f"{move} changed {before}"
                again = _outcome(laws, state, Act(seat, move), step.chance)
                assert _reason(again) == reason, f"{move}: {reason}, then {again}"


def malformed_commands_are_refused_as_such(laws: Laws[S, M, E], rng: Random) -> None:
    """Junk of any kind, from any state, the end included, is MALFORMED and nothing else."""
    for step in walk(laws, rng):
        for move in (*JUNK, *laws.malformed):
            outcome = _outcome(laws, step.after, Act(0, move), step.chance)
            assert _reason(outcome) == "MALFORMED", f"{move!r}: {outcome} in {step.after}"
        move = laws.game.legal(step.before, 0)[:1] or tuple(laws.conceivable(step.before, 0))[:1]
        for seat in JUNK_SEATS:
            junk: Any = seat
            for command in (Act(junk, move[0]), Timeout(junk), Leave(junk), junk):
                outcome = _outcome(laws, step.after, command, step.chance)
                assert _reason(outcome) == "MALFORMED", f"{command!r}: {outcome}"


def a_finished_game_takes_nothing_more(laws: Laws[S, M, E], rng: Random) -> None:
    """Play ends within the bound; then nobody may act and every command is GAME_OVER."""
    *_, last = walk(laws, rng)
    state, game = last.after, laws.game
    assert game.is_over(state)
    assert game.to_act(state) == ()
    for seat in range(laws.seats(state)):
        assert game.legal(state, seat) == ()
        moves = [Act(seat, move) for move in laws.conceivable(state, seat)]
        for command in (*moves, Timeout(seat), Leave(seat), Start()):
            outcome = _outcome(laws, state, command, last.chance)
            assert _reason(outcome) == "GAME_OVER", f"{command}: {outcome}"


def cards_are_a_permutation_of_the_pack(laws: Laws[S, M, E], rng: Random) -> None:
    """After every event of a begun game each card of the pack lies in exactly one place."""
    for step in walk(laws, rng):
        state = step.before
        begun = bool(tuple(laws.cards(state)))
        for event in step.events:
            state = laws.game.evolve(state, event)
            cards = sorted(laws.cards(state))
            begun = begun or bool(cards)
            assert not begun or cards == sorted(laws.pack(state)), f"after {event} in {step}"
        assert begun, f"no cards after {step.command}"


def chips_are_conserved(laws: Laws[S, M, E], rng: Random) -> None:
    """No event makes or loses a chip."""
    if laws.chips is None:
        return
    total: int | None = None
    for step in walk(laws, rng):
        state = step.before
        total = laws.chips(state) if total is None else total
        for event in step.events:
            state = laws.game.evolve(state, event)
            assert laws.chips(state) == total, f"after {event} in {step}"


def nobody_sees_what_it_may_not(laws: Laws[S, M, E], rng: Random) -> None:
    """Two worlds a viewer cannot tell apart give it equal views, moves, refusals and happenings."""
    game, differed, worlds = laws.game, False, Random(rng.getrandbits(32))
    for step in walk(laws, rng):
        state = step.after
        for viewer in (None, *range(laws.seats(state))):
            other = laws.resample(state, viewer, worlds)
            assert sorted(laws.cards(other)) == sorted(laws.pack(other)), f"resampled {state}"
            differed = differed or other != state
            assert game.view(state, viewer) == game.view(other, viewer), f"{viewer}: {state}"
            assert game.history(step.events, viewer) == tuple(
                shown for e in step.events if (shown := game.show(e, viewer)) is not None
            ), f"{viewer}: history of {step.events}"
            for command in _comparable(laws, state, other, viewer, worlds):
                seen = _seen(laws, state, command, viewer, step.chance)
                assert seen == _seen(laws, other, command, viewer, step.chance), (
                    f"viewer {viewer}, {command}: {state} and {other}"
                )
    assert differed, "resample never made another world"


def _comparable(
    laws: Laws[S, M, E], state: S, other: S, viewer: Viewer, rng: Random
) -> Iterator[Command[M]]:
    """Commands whose outcome may not differ, for this viewer, between two worlds."""
    for seat in laws.game.to_act(state):
        if seat == viewer:
            moves = list(laws.conceivable(state, seat))
            tried = rng.sample(moves, min(6, len(moves)))
            own: list[Command[M]] = [*(Act(seat, move) for move in tried), Timeout(seat)]
            yield from (c for c in own if not laws.tells(state, c, viewer))
        else:
            theirs = set(laws.game.legal(other, seat))
            both = [move for move in laws.game.legal(state, seat) if move in theirs]
            if both:
                command: Command[M] = Act(seat, rng.choice(both))
                if not laws.tells(state, command, viewer):
                    yield command
    leave: Command[M] = Leave(rng.randrange(laws.seats(state)))
    if not laws.tells(state, leave, viewer):
        yield leave


def _seen(
    laws: Laws[S, M, E], state: S, command: Command[M], viewer: Viewer, chance: Decks
) -> object:
    outcome = _outcome(laws, state, command, chance)
    if isinstance(outcome, RuleViolation):
        return outcome.args
    return laws.game.history(outcome, viewer)


def the_same_seeds_give_the_same_game(laws: Laws[S, M, E], rng: Random) -> None:
    """A game is a function of its seeds and its commands."""
    seed = rng.getrandbits(32)
    first = [step.events for step in walk(laws, Random(seed))]
    assert first == [step.events for step in walk(laws, Random(seed))]


def events_name_their_cause(laws: Laws[S, M, E], rng: Random) -> None:
    """From the events of one append the command is known again (the move a timeout made aside)."""
    for step in walk(laws, rng):
        assert laws.game.cause(step.events) == step.command, step


def the_turn_number_grows_with_each_decision(laws: Laws[S, M, E], rng: Random) -> None:
    """The turn never falls, and has grown when another decision is asked than of one seat before.

    It stays when somebody else leaves without changing who is asked.
    """
    for step in walk(laws, rng):
        before: Any = step.before
        after: Any = step.after
        asked, asks = laws.game.to_act(before), laws.game.to_act(after)
        assert after.turn >= before.turn, step
        if len(asked) == 1 and asks != asked:
            assert after.turn > before.turn, step
        if isinstance(step.command, Leave) and step.command.seat not in asked and asks == asked:
            assert after.turn == before.turn, step


def late_moves_are_the_servers(laws: Laws[S, M, E], rng: Random) -> None:
    """A timeout has its own first event, then begins with the events of the move itself."""
    for step in walk(laws, rng):
        state = step.after
        for seat in laws.game.to_act(state):
            late = _outcome(laws, state, Timeout(seat), step.chance)
            assert not isinstance(late, RuleViolation), f"timeout of {seat}: {late} in {state}"
            assert type(late[0]).__name__ == "TurnExpired", f"{late} in {state}"
            move = laws.game.timeout_move(state, seat)
            if not laws.server_only(state, move):
                own = _outcome(laws, state, Act(seat, move), step.chance)
                assert not isinstance(own, RuleViolation), f"{move}: {own} in {state}"
                assert late[1 : 1 + len(own)] == own, f"{late} for {move} in {state}"


def views_say_whose_turn_it_is(laws: Laws[S, M, E], rng: Random) -> None:
    """Every view names its viewer, the turn, the seats to act and the viewer's legal moves; made
    from what the public sees it is the same, and adds nothing for the public itself."""
    for step in walk(laws, rng):
        state: Any = step.after
        public = laws.game.view(state, None)
        for viewer in (None, *range(laws.seats(state))):
            view = laws.game.view(state, viewer)
            assert view.seat == viewer
            assert view.turn == state.turn
            assert view.to_act == laws.game.to_act(state)
            moves = () if viewer is None else laws.game.legal(state, viewer)
            assert view.legal == moves
            again = laws.game.view(state, viewer, public)
            assert view == again
            assert hash(view) == hash(again)


def cheap_laws_hold_at_every_state(laws: Laws[S, M, E], rng: Random) -> tuple[int, int]:
    """In one walk: cards and chips are all there after every event, exactly the seats to act have
    moves, the turn never falls, and play ends within the bound. Returns deals and states seen."""
    deals = states = 0
    brought: int | None = None
    for step in walk(laws, rng):
        state: Any = step.before
        brought = laws.chips(state) if laws.chips and brought is None else brought
        for event in step.events:
            turn = state.turn
            state = laws.game.evolve(state, event)
            states += 1
            deals += type(event).__name__ == "Dealt"
            cards = sorted(laws.cards(state))
            assert not cards or cards == sorted(laws.pack(state)), f"after {event} in {step}"
            assert laws.chips is None or laws.chips(state) == brought, f"after {event} in {step}"
            assert state.turn >= turn, f"after {event} in {step}"
        asked = laws.game.to_act(state)
        assert bool(asked) != laws.game.is_over(state), state
        moving = tuple(n for n in range(laws.seats(state)) if laws.game.legal(state, n))
        assert moving == asked, state
    return deals, states


EVERY: tuple[Callable[[Laws[Any, Any, Any], Random], None], ...] = (
    replay_gives_the_live_state,
    legal_moves_are_accepted,
    accepted_moves_are_legal,
    only_seats_to_act_can_move,
    a_refused_command_changes_nothing,
    malformed_commands_are_refused_as_such,
    a_finished_game_takes_nothing_more,
    cards_are_a_permutation_of_the_pack,
    chips_are_conserved,
    nobody_sees_what_it_may_not,
    the_same_seeds_give_the_same_game,
    events_name_their_cause,
    the_turn_number_grows_with_each_decision,
    late_moves_are_the_servers,
    views_say_whose_turn_it_is,
)
