"""The worlds a hard bot of Durak thinks in, and how it plays them out."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engines import durak
from engines.bits import members
from engines.cards import Suit, parse, rank, text
from engines.durak.core import Core
from engines.durak.masks import CARD, mask
from engines.durak.projection import from_state, from_view
from services.ai.bots import Level
from services.ai.bots.durak import beliefs, playouts, worlds
from tests.engines.durak_positions import cards
from tests.engines.laws import Decks, games
from tests.services.ai.positions import Position, at_random, bot, play, table


def decisions(number: int) -> Iterator[Position]:
    """Every decision of games at any table, between bots that think little and random players."""
    for seed in range(games(number)):
        rng = Random(f"worlds/{seed}")
        some = (bot(Level.EASY, seed), bot(Level.NORMAL, seed), at_random(seed))
        movers = [rng.choice(some) for _ in range(6)]
        played = play("durak", table("durak", rng), Decks(seed), movers)
        yield from (position for position in played if position.view.legal)


def unknown(position: Position) -> worlds.Unknown:
    """What the seat to act does not know, with all it believes."""
    view = position.view
    return worlds.unknown(view, beliefs.weights(position.seat, position.history, view.options))


def as_seen(state: durak.State, world: Core, seat: int) -> durak.View:
    """What the seat would see if its world were the truth."""
    hands = tuple(tuple(CARD[bit] for bit in members(hand)) for hand in world.hands)
    talon = tuple(CARD[bit] for bit in reversed(world.talon))
    return durak.view(replace(state, hands=hands, talon=talon), seat)


def test_a_world_looks_as_the_view_does() -> None:
    """In every phase, at every table: no card twice, none missing, and the same view."""
    phases: Counter[tuple[Any, ...]] = Counter()
    rng = Random(1)
    for position in decisions(12):
        state, view, hidden = position.state, position.view, unknown(position)
        for _ in range(3):
            world = hidden.world(rng)
            places = [*world.hands, world.table, world.discarded, *world.talon]
            assert sum(places) == mask(durak.PACK)
            assert sum(place.bit_count() for place in places) == len(durak.PACK)
            assert as_seen(state, world, position.seat) == view
            for known in view.known:
                assert mask(known.cards) & ~world.hands[known.seat] == 0
            for lack in view.lacking:
                public = next((h.cards for h in view.known if h.seat == lack.seat), ())
                held = world.hands[lack.seat] & ~mask(public)
                assert not any(rank(CARD[bit]) in lack.ranks for bit in members(held))
        phases[view.phase, state.seats, view.talon > 1] += 1
    assert len(phases) > 15


def test_a_view_alone_sets_up_what_is_public() -> None:
    """The core of a view is that of the state, but for the cards nobody has seen."""
    for position in decisions(8):
        core, shown = from_state(position.state), from_view(position.view)
        for seat in range(core.seats):
            assert shown.hands[seat] & ~core.hands[seat] == 0
        assert shown.hands[position.seat] == core.hands[position.seat]
        differing = {n for n in core.__slots__ if getattr(core, n) != getattr(shown, n)}
        assert differing <= {"hands", "talon", "emptied"}
        assert set(core.emptied) == set(shown.emptied)


def test_seats_that_lack_much_are_dealt_what_is_left() -> None:
    """Where drawing at random would hardly ever fit, cards are matched to the seats."""
    cards = [1 << place for place in range(10)]
    tight = tuple(
        worlds.Hidden(seat, 2, dict.fromkeys(cards[2 * seat :], 1.0)) for seat in range(5)
    )
    core = Core(durak.Options(), 5)
    for seed in range(50):
        world = worlds.Unknown(core, sum(cards), tight).world(Random(seed))
        assert sum(world.hands) == sum(cards)
        for hidden in tight:
            held = members(world.hands[hidden.seat])
            assert len(held) == 2
            assert set(held) <= set(hidden.powers)
    only = worlds.Hidden(0, 2, dict.fromkeys(cards[:3], 1.0))
    other = replace(only, seat=1)
    with pytest.raises(worlds.Impossible):
        worlds.Unknown(core, sum(cards[:4]), (only, other)).world(Random(1))


def test_what_does_not_fit_together_has_no_world() -> None:
    """A view that was made up is refused, whatever is wrong with it."""
    rng = Random(3)
    for position in decisions(2):
        view = position.view
        wrong = rng.choice(
            (
                replace(view, talon=view.talon + 1),
                replace(view, counts=(view.counts[0] + 1, *view.counts[1:])),
                replace(view, attacker=None),
                replace(view, attacker=view.defender),
                replace(view, known=(durak.Hand(9, ()),)),
                replace(view, lacking=(durak.Lack(-1, ()),)),
                replace(view, passed=tuple(range(len(view.counts)))),
                replace(view, seat=(position.seat + 1) % len(view.counts)),
                replace(view, legal=view.legal[:1]) if len(view.legal) > 1 else None,
            )
        )
        if wrong is not None:
            with pytest.raises(worlds.Impossible):
                worlds.unknown(wrong, {}).world(rng)


@pytest.mark.parametrize("seats", durak.SEATS)
def test_a_playout_is_the_rule_move_by_move(seats: int) -> None:
    """From every position of random games the quick way comes to the same end as the rules.

    Where the rule goes round in circles, the loser is a seat with the most cards.
    """
    ended: Counter[bool] = Counter()
    for seed in range(games(25)):
        rng = Random(f"{seats}/{seed}")
        core = Core(durak.Options(rng.random() < 0.5, rng.random() < 0.5), seats)
        core.deal(rng.sample(durak.PACK, len(durak.PACK)))
        while core.seat >= 0:
            slow = core.clone()
            while slow.seat >= 0 and slow.bout <= core.bout + playouts.BOUTS:
                move = playouts.rule(slow)
                assert move & slow.moves()
                slow.apply(move)
            loser = playouts.playout(core.clone())
            if slow.seat < 0:
                assert loser == slow.durak
            else:
                assert slow.hands[loser].bit_count() == max(map(int.bit_count, slow.hands))
            ended[slow.durak < 0] += 1
            core.apply(rng.choice(core.legal()))
    assert all(ended.values())


def believed(*happenings: durak.Happening, auto_pass: bool = True) -> dict[str, float]:
    """What seat 0 believes of seat 1 after these happenings; clubs are trump."""
    hand = cards("6S 6H 6D 8S 8H 8D")
    deal = durak.HandsDealt(1, 2, 0, None, Suit.CLUBS, parse("AC"), hand)
    options = durak.Options(auto_pass=auto_pass)
    weights = beliefs.weights(0, (deal, *happenings), options)[1]
    return {text(CARD[bit]): weight for bit, weight in weights.items()}


def test_who_takes_hardly_holds_what_beats() -> None:
    """Cards that beat are unlikely, but for the highest trumps while the talon is thick."""
    told = believed(durak.Attacked(0, parse("8S")), durak.Taken(1))
    beating = {"9S", "TS", "JS", "QS", "KS", "AS", "6C", "7C", "8C", "9C", "TC", "JC", "QC"}
    assert set(told) == beating
    assert all(0 < weight < 0.6 for weight in told.values())


def test_who_beats_dearly_hardly_holds_what_is_cheap() -> None:
    """A trump on a plain card denies the suit, and smaller trumps."""
    told = believed(durak.Attacked(0, parse("QS")), durak.Beaten(1, parse("8C"), parse("QS")))
    assert set(told) == {"KS", "AS", "6C", "7C"}
    assert all(0 < weight < 0.6 for weight in told.values())


def test_who_begins_high_hardly_holds_what_is_low() -> None:
    """Lower plain cards are less likely; with a trump all plain cards are."""
    assert set(believed(durak.Attacked(1, parse("8C")))) > {"6C", "7C", "AS", "AH", "AD"}
    low = believed(durak.Attacked(1, parse("9H")))
    assert {name[0] for name in low} == set("678")
    assert "6C" not in low


def test_who_passes_though_he_was_asked_saves_a_trump() -> None:
    """Where everybody is asked (DURAK-14 off) a pass is no sign of one."""
    bout = (durak.Attacked(0, parse("8S")), durak.Passed(1, automatic=False))
    asked_if_able, always_asked = believed(*bout), believed(*bout, auto_pass=False)
    assert asked_if_able["8C"] > 1
    assert "8C" not in always_asked
    assert asked_if_able["8H"] == always_asked["8H"] < 1


def test_a_draw_dilutes_what_is_believed() -> None:
    """Half of the cards being new, half of the doubt is gone."""
    attacked, taken = durak.Attacked(0, parse("8S")), durak.Taken(1)
    before = believed(attacked, taken)["9S"]
    after = believed(attacked, taken, durak.CardsDrawn(1, 6, None))["9S"]
    assert after == pytest.approx((before + 1) / 2)


def test_an_automatic_pass_is_remembered_after_a_draw() -> None:
    """The ranks it denied stay unlikely among the cards that are older than the draw."""
    passed = (
        durak.Attacked(0, parse("8S")),
        durak.Beaten(1, parse("9S"), parse("8S")),
        durak.Passed(1, automatic=True),
        durak.CardsDrawn(1, 1, None),
    )
    told = believed(*passed)
    assert told["9H"] < 0.3
    assert told["9H"] == told["8C"]


def test_likelier_cards_are_drawn_more_often() -> None:
    """By their weights, one card after the other."""
    hidden = worlds.Hidden(1, 1, {1: 1.0, 2: 1 / 3.0, 4: 1 / 0.05})
    core = Core(durak.Options(), 2)
    core.talon, core.talon_left = (8,), 3
    found: Counter[int] = Counter()
    for seed in range(2_000):
        found[worlds.Unknown(core, 7, (hidden,)).world(Random(seed)).hands[1]] += 1
    assert found[2] > 2 * found[1] > 10 * found[4]
    assert found[4] > 0
