"""Every game's core moves as its decider does, whatever is played."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from random import Random
from typing import Any, TypeVar

import pytest

import engines.azi.projection as azi_projection
import engines.durak.projection as durak_projection
import engines.rami.projection as rami_projection
from engines import azi, durak, rami
from engines.api import Act, Start
from engines.azi.bank import may_bid, minimum_bid, reach
from engines.cards import parse
from tests.engines import azi_worlds, durak_positions, laws, rami_play
from tests.engines.cores import Tie, play
from tests.engines.durak_worlds import DURAK
from tests.engines.test_azi_laws import AZI
from tests.engines.test_rami_laws import OPTIONS, RAMI

S = TypeVar("S")


def told_azi(core: Any, events: Sequence[azi.Event]) -> None:
    """Openers that are drawn, and deals."""
    for event in events:
        match event:
            case azi.OpenerDrawn(seat=seat):
                core.open_from(seat)
            case azi.Dealt(secret=secret):
                core.deal(secret.deck)
            case _:
                pass


def told_durak(core: Any, events: Sequence[durak.Event]) -> None:
    """The deal."""
    for event in events:
        if isinstance(event, durak.Dealt):
            core.deal(event.secret.deck, event.starter)


def told_rami(core: Any, events: Sequence[rami.Event]) -> None:
    """Deals; what the round that ends with one has brought is judged before it is forgotten."""
    for event in events:
        match event:
            case rami.RoundScored(winner=winner, gains=gains, totals=totals):
                assert core.round_winner == winner
                assert core.gain == gains[winner]
                assert core.scores == list(totals)
            case rami.Dealt(secret=secret):
                assert core.seat == core.winner == -1
                core.deal(secret.deck)
            case _:
                pass


def any_bid(state: azi.State, seat: int, rng: Random) -> Iterator[azi.Move]:
    """One bid from the whole span of those that are accepted."""
    if state.phase is azi.Phase.BIDDING and may_bid(state, state.players[seat]):
        yield azi.Bid(rng.randint(minimum_bid(state), reach(state.players[seat])))


AZI_TIE = Tie(
    laws=AZI,
    projection=azi_projection,
    told=told_azi,
    standing=lambda core: {},
    others=any_bid,
)
DURAK_TIE = Tie(
    laws=DURAK,
    projection=durak_projection,
    told=told_durak,
    standing=lambda core: dict.fromkeys(("talon", "talon_left"), core.talon[: core.talon_left]),
)
RAMI_TIE = Tie(
    laws=RAMI,
    projection=rami_projection,
    told=told_rami,
    standing=lambda core: {
        **dict.fromkeys(("stock", "taken"), core.stock[core.taken :]),
        "named": rami_projection.names(core),
    },
)


def revealing(state: S, rng: Random) -> S:
    """The state at a table that lays decks open or does not (AZI-56, DURAK-31, RAMI-35)."""
    table: Any = state
    options = replace(table.options, reveal=rng.choice(("full", "own")))
    revealed: S = replace(table, options=options)
    return revealed


def azi_family(rng: Random, *, cards: int, blind: bool) -> azi.State:
    """A table of Azi that deals so many cards."""
    return revealing(azi_worlds.table(rng, deal_size=cards, blind_bets=blind), rng)


def azi_chains(rng: Random) -> azi.State:
    """A full table where folded seats may buy back, rich and with small bids."""
    return azi.initial(
        azi.Options(azi_entry="half_bank", azi_entry_fee=rng.random() < 0.5),
        6,
        stacks=tuple(rng.choice((20, 200, 10**6)) for _ in range(6)),
        last_winner=rng.choice((None, 3)),
    )


def durak_family(rng: Random, *, seats: int) -> durak.State:
    """Durak for so many, with any options."""
    options = durak.Options(rng.random() < 0.5, rng.random() < 0.5)
    return revealing(durak.initial(options, seats), rng)


def rami_family(rng: Random, *, seats: int) -> rami.State:
    """Rami for so many, with any options."""
    return revealing(rami.initial(rng.choice(OPTIONS), seats), rng)


FAMILIES: dict[str, tuple[Tie[Any, Any, Any], Callable[[Random], Any], int]] = {
    **{
        f"azi, {n} cards{', blind' * blind}": (
            AZI_TIE,
            partial(azi_family, cards=n, blind=blind),
            60,
        )
        for n in (3, 4)
        for blind in (False, True)
    },
    "azi, half bank": (AZI_TIE, azi_chains, 80),
    **{f"durak for {n}": (DURAK_TIE, partial(durak_family, seats=n), 8) for n in durak.SEATS},
    **{f"rami for {n}": (RAMI_TIE, partial(rami_family, seats=n), 10) for n in rami.SEATS},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_core_moves_as_the_rules_do(family: str) -> None:
    """Same legal moves, same successors, same end, over random games with timeouts and leaves."""
    tie, start, number = FAMILIES[family]
    described = replace(tie.laws, start=start)
    compared = 0
    for seed in range(laws.games(number)):
        rng = Random(f"core/{family}/{seed}")
        compared += play(tie, laws.walk(described, rng), rng)
    assert compared > 100


@pytest.mark.parametrize("game", ["azi", "durak", "rami"])
def test_the_law_is_tried_with_every_option(game: str) -> None:
    """Each option of a game takes more than one value among the tables that are played at."""
    starts = [start for name, (_, start, _) in FAMILIES.items() if name.startswith(game)]
    played = [start(Random(seed)).options for start in starts for seed in range(30)]
    alike = [f.name for f in fields(played[0]) if len({getattr(o, f.name) for o in played}) < 2]
    assert alike == []


def steps(
    tie: Tie[Any, Any, Any], state: Any, policy: Callable[[Any, Random], Any], seed: int = 1
) -> Iterator[laws.Step[Any, Any, Any]]:
    """A game played on from a state, each seat to act by the policy."""
    game, chance, rng = tie.laws.game, laws.Decks(seed), Random(seed)
    while not game.is_over(state):
        seat = game.to_act(state)[0]
        command = Act(seat, policy(state, rng))
        events = game.decide(state, command, chance)
        after = reduce(game.evolve, events, state)
        yield laws.Step(state, command, events, after, chance)
        state = after


@pytest.mark.parametrize("seats", rami.SEATS)
def test_a_core_moves_as_the_rules_do_in_keen_rami(seats: int) -> None:
    """With many combinations on the table, of both kinds, and rounds that are gone out of."""
    for seed in range(laws.games(6)):
        options, rng = OPTIONS[(5 * seed + seats) % len(OPTIONS)], Random(seed)
        begun = rami_play.after(rami.initial(options, seats), Start())
        play(RAMI_TIE, steps(RAMI_TIE, begun, rami_play.keen, seed), rng)


def eager(state: durak.State, rng: Random) -> durak.Move:
    """Adds and beats whenever it can, so that bouts are long and hands run empty."""
    moves = durak.legal(state, durak.to_act(state)[0])
    cards = [m for m in moves if isinstance(m, durak.Attack | durak.Beat)]
    return rng.choice(cards or moves)


@pytest.mark.parametrize("seats", durak.SEATS)
def test_a_core_moves_as_the_rules_do_in_eager_durak(seats: int) -> None:
    """Bouts up to the limit, and hands that are empty while there is a talon to draw from."""
    for seed in range(laws.games(10)):
        rng = Random(seed)
        undealt = durak_family(rng, seats=seats)
        begun = reduce(durak.evolve, durak.decide(undealt, Start(), laws.Decks(seed)), undealt)
        play(DURAK_TIE, steps(DURAK_TIE, begun, eager, seed), rng)


def bold(state: azi.State, rng: Random) -> azi.Move:
    """Folds or raises seldom, so that most deals come to the tricks and many to an azi."""
    moves = azi.legal(state, azi.to_act(state)[0])
    mild = [m for m in moves if isinstance(m, azi.Level | azi.PlayCard | azi.BuyBack | azi.AllIn)]
    return rng.choice(mild if mild and rng.random() < 0.8 else moves)


def test_a_core_moves_as_the_rules_do_in_chains_of_azi() -> None:
    """Deal after deal for one bank, with seats that are short, and folded ones that buy back."""
    azis = 0
    for seed in range(laws.games(60)):
        rng = Random(seed)
        begun = reduce(
            azi.evolve, azi.decide(state := azi_chains(rng), Start(), laws.Decks(seed)), state
        )
        told = list(steps(AZI_TIE, begun, bold, seed))
        azis += told[-1].after.azis
        play(AZI_TIE, told, rng)
    assert azis > 10


def test_a_core_stops_where_the_guards_stop_the_decider() -> None:
    """DURAK-24 and RAMI-22: cards handed round for ever end a deal and a round."""
    hands = tuple(tuple(durak.PACK[i] for i in pair) for pair in ((0, 7), (10, 17), (20, 24)))
    handed = replace(
        durak_positions.bout(("6S", "6H", "6D")),
        hands=hands,
        discarded=tuple(c for c in durak.PACK if not any(c in hand for hand in hands)),
        limit=2,
        known=((),) * 3,
    )

    def giving_up(state: durak.State, _: Random) -> durak.Move:
        return durak.timeout_move(state, durak.to_act(state)[0])

    *_, last = told = list(steps(DURAK_TIE, handed, giving_up))
    assert last.after.null
    play(DURAK_TIE, told, Random(0))

    def taking(state: rami.State, _: Random) -> rami.Move:
        moves = rami.legal(state, state.actor)
        return moves[1] if state.drawn is None else moves[-1]

    begun = rami_play.begun(2, target=1)
    *_, last = told = list(steps(RAMI_TIE, begun, taking))
    assert any(getattr(e, "ending", None) is rami.Ending.GUARD for e in last.events)
    play(RAMI_TIE, told, Random(0))


@pytest.mark.parametrize(("hand", "left"), [("5H 6H 7H", "9C"), ("5H 6H 7H 9D", "9D")])
def test_a_taken_card_may_go_back_only_when_it_is_alone(hand: str, left: str) -> None:
    """RAMI-17: the core bars the card that was taken, unless nothing else is in the hand."""
    state = rami_play.at(hand, "2S 2D", discard=["9C"])
    run = rami.Meld(rami_play.cards("5H 6H 7H"))
    state = rami_play.after(state, Act(0, rami.DrawDiscard()), Act(0, run))
    core = rami_projection.from_state(state)
    listed = [rami_projection.move(core, code) for code in core.legal()]
    assert listed == list(rami.legal(state, 0)) == [rami.Discard(parse(left))]
