"""Azi as a whole: exhaustive counts, the bank's arithmetic, how games end, one written down."""

import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import engines.azi as azi
from engines.api import CHIPS_MAX, Act, Command, Leave, RuleViolation, Start, Timeout
from engines.azi import Bid, Fold, Level, PayoutKind, Phase, PlayCard, Player, Standing
from engines.azi import scenario as azi_scenario
from engines.cards import Card, suit, text
from engines.scenario import described
from tests.engines import azi_worlds, laws
from tests.engines.azi_play import Listed, Table, cards
from tests.engines.test_azi_laws import AZI

GOLDEN = Path(__file__).parent / "golden" / "azi.txt"


def bid_lines(state: azi.State, stack: int) -> int:
    """How many ways the bidding can go, over every amount and not only the listed ones."""
    if state.phase is not Phase.BIDDING:
        return 1
    (seat,) = azi.to_act(state)
    moves: list[azi.Move] = [Fold(), Level(), *(Bid(n) for n in range(1, stack + 2))]
    return sum(
        bid_lines(reduce(azi.evolve, events, state), stack)
        for move in moves
        if (events := accepted(state, seat, move))
    )


def accepted(state: azi.State, seat: int, move: azi.Move) -> tuple[azi.Event, ...]:
    """The events of a move, none if it is refused."""
    try:
        return azi.decide(state, Act(seat, move), Listed())
    except RuleViolation:
        return ()


@pytest.mark.parametrize(("stack", "ways"), [(1, 2), (2, 6), (3, 14), (6, 126), (7, 252)])
def test_count_of_all_biddings_of_two(stack: int, ways: int) -> None:
    """AZI-16, AZI-17: every rising row of bids ends by a fold or a level, up to six bids.

    Of `stack` amounts 2^stack - 1 rows can be chosen; of seven, the one row of seven bids is a bid
    too many.
    """
    state = Table(Listed(), [stack + 1] * 2, entry_fee=1).state
    assert bid_lines(state, stack) == ways


def trick_lines(state: azi.State) -> int:
    """How many ways the rest of the tricks can be played."""
    if state.phase is not Phase.TRICKS:
        return 1
    (seat,) = azi.to_act(state)
    return sum(
        trick_lines(reduce(azi.evolve, events, state))
        for number in azi.PACK
        if (events := accepted(state, seat, PlayCard(number)))
    )


def counted_plainly(
    hands: tuple[tuple[Card, ...], ...], leader: int, turned: Card, won: tuple[int, ...] = ()
) -> int:
    """The same count from the rule book's words alone, trick by trick."""
    if any(won.count(seat) == 2 for seat in won) or not any(hands):
        return 1
    order = [(leader + i) % len(hands) for i in range(len(hands))]
    total = 0
    for plays in rows(hands, order, turned):
        led, best = suit(plays[0]), 0
        for i, played in enumerate(plays):
            if suit(played) in (led, suit(turned)) and beats(played, plays[best], turned):
                best = i
        left = tuple(tuple(c for c in hand if c not in plays) for hand in hands)
        total += counted_plainly(left, order[best], turned, (*won, order[best]))
    return total


def rows(
    hands: tuple[tuple[Card, ...], ...], order: list[int], turned: Card
) -> Iterator[tuple[Card, ...]]:
    """Every way to play one trick."""
    partial: list[tuple[Card, ...]] = [()]
    for seat in order:
        longer = []
        for plays in partial:
            hand = hands[seat]
            follow = [c for c in hand if plays and suit(c) is suit(plays[0])]
            trump = [c for c in hand if plays and suit(c) is suit(turned)]
            longer += [(*plays, c) for c in follow or trump or hand]
        partial = longer
    yield from partial


def beats(one: Card, other: Card, turned: Card) -> bool:
    """Whether a card that can take the trick is higher than another that can."""
    if suit(one) is not suit(other):
        return suit(one) is suit(turned)
    ranks = "6789TJQKA" if text(turned)[0] != "A" or suit(one) is not suit(turned) else "789TJQK6"
    return ranks.index(text(one)[0]) > ranks.index(text(other)[0])


@pytest.mark.parametrize(
    ("deal", "ways"),
    [
        ("KS 6D 7D  7H AD QD  9H", 16),
        ("AS KS 8S  7S 8D 9D  9H", 12),
        ("KS 6D 7D  7H AD QD  8S 9S TS  9H", None),
        ("6H KS 7D  7H AD KH  8S 9H TS  AH", None),
        ("6H KS 7D  7H AD KH  8S 9H TS  6S 7S JD  AH", None),
    ],
)
def test_count_of_all_ways_to_play(deal: str, ways: int | None) -> None:
    """AZI-27 … AZI-35: as many as the rule book's words alone give, and as counted by hand."""
    dealt = cards(deal)
    seats = len(dealt) // 3
    table = Table(Listed(deal), [100] * seats).move(0, Bid(10))
    for seat in range(1, seats):
        table.move(seat, Level())
    hands = tuple(dealt[i * 3 : i * 3 + 3] for i in range(seats))
    count = trick_lines(table.state)
    assert count == counted_plainly(hands, 0, dealt[-1])
    assert ways is None or count == ways


def player(contributed: int, *, short: bool = False, weight: int = 0, bought: int = 0) -> Player:
    """A seat that put in chips."""
    return Player(0, Standing.LIVE, short, False, 0, 0, contributed, weight or contributed, bought)


@pytest.mark.parametrize(
    ("contributed", "short", "winner", "paid"),
    [
        ((110, 110, 60), (2,), 2, {2: 180, 0: 50, 1: 50}),
        ((55, 55, 5, 25), (3,), 3, {3: 77, 0: 30, 1: 30, 2: 3}),
        ((11, 11, 3, 7), (3,), 3, {3: 22, 0: 5, 1: 4, 2: 1}),
        ((110, 60, 35), (1, 2), 1, {1: 139, 0: 50, 2: 16}),
        ((10, 110, 110), (0,), 0, {0: 30, 1: 100, 2: 100}),
        ((120, 120, 50), (2,), 2, {2: 150, 0: 70, 1: 70}),
        ((1000, 100), (1,), 1, {1: 200, 0: 900}),
        ((110, 110, 60), (2,), 0, {0: 280}),
    ],
)
def test_the_table_of_the_rule_book(
    contributed: tuple[int, ...], short: tuple[int, ...], winner: int, paid: dict[int, int]
) -> None:
    """AZI-31, AZI-32, AZI-33: the short seat is in the payout, nobody's remainder is lost."""
    players = tuple(player(c, short=i in short) for i, c in enumerate(contributed))
    made = azi.payouts(players, sum(contributed), winner)
    assert {p.seat: p.chips for p in made} == paid
    assert [p.kind for p in made] == [PayoutKind.WINNER] + [PayoutKind.RETURNED] * (len(made) - 1)


@pytest.mark.parametrize("winner", range(4))
@pytest.mark.parametrize(
    ("others", "paid"),
    [((11, 11, 3), (5, 4, 1)), ((11, 3, 11), (5, 1, 4)), ((3, 11, 11), (1, 5, 4))],
)
def test_odd_chips_go_clockwise_from_the_winner(
    winner: int, others: tuple[int, ...], paid: tuple[int, ...]
) -> None:
    """AZI-33: of equal fractions the first seat after the winner, whatever its number."""
    seats = [(winner + i) % 4 for i in range(4)]
    players = [player(7, short=True)] * 4
    for seat, chips in zip(seats[1:], others, strict=True):
        players[seat] = player(chips)
    made = {p.seat: p.chips for p in azi.payouts(tuple(players), 32, winner)}
    assert made == dict(zip(seats, (22, *paid), strict=True))


def test_a_buy_back_returns_whole_and_weights_measure() -> None:
    """AZI-34, AZI-45: 2 chips in blind weigh 3 of 7; 5 paid to buy back come home untouched."""
    players = (player(2, short=True, weight=3, bought=5), player(7), player(7))
    made = {p.seat: p.chips for p in azi.payouts(players, 21, 0)}
    assert made == {0: 7 + 14 * 3 // 7, 1: 4, 2: 4}


seat_chips = st.tuples(
    st.one_of(st.integers(0, 50), st.integers(0, CHIPS_MAX // 6)),
    st.integers(0, 10**6),
    st.booleans(),
)


@given(chips=st.lists(seat_chips, min_size=2, max_size=6), blind=st.booleans(), data=st.data())
def test_the_bank_is_paid_exactly_and_fairly(
    chips: list[tuple[int, int, bool]], blind: bool, data: st.DataObject
) -> None:
    """AZI-31 … AZI-34, AZI-45: all of it; the winner's part is exact, the rest within one chip."""
    players = tuple(
        player(c, short=short, weight=c + (c // 2 if blind else 0), bought=bought if c else 0)
        for c, bought, short in chips
    )
    paying = [s for s, p in enumerate(players) if p.contributed]
    assume(paying)
    winner = data.draw(st.sampled_from(paying))
    bank = sum(p.contributed + p.bought_back for p in players)
    paid = {p.seat: p.chips for p in azi.payouts(players, bank, winner)}
    assert sum(paid.values()) == bank
    assert all(amount > 0 for amount in paid.values())
    wins = players[winner]
    if not wins.short:
        assert set(paid) <= {winner}
        return
    own = wins.contributed + wins.bought_back
    greatest = max(p.weight for p in players)
    part = Fraction((bank - own) * wins.weight, greatest)
    assert paid[winner] == own + int(part)
    rest = bank - own - int(part)
    others = sum(p.contributed for s, p in enumerate(players) if s != winner)
    for seat, p in enumerate(players):
        if seat != winner and others:
            assert abs(paid.get(seat, 0) - Fraction(rest * p.contributed, others)) < 1


def test_the_three_highest_trumps_take_every_trick() -> None:
    """AZI-41: whoever leads and whatever is played, so that such a deal is no azi."""
    for hands in permutations(["AH KH QH", "6S 7D JH", "TS AD 9H"]):
        deal = "  ".join((*hands, "8H"))
        table = Table(Listed(deal), [100] * 3).move(0, Bid(10)).move(1, Level()).move(2, Level())
        high = hands.index("AH KH QH")
        assert set(winners(table.state)) == {high}


def winners(state: azi.State) -> Iterator[int | None]:
    """Who wins each way to play the tricks; None for azi."""
    if state.phase is not Phase.TRICKS or state.azis:
        yield state.winner
        return
    (seat,) = azi.to_act(state)
    for move in azi.legal(state, seat):
        yield from winners(reduce(azi.evolve, accepted(state, seat, move), state))


def test_games_end_even_when_everybody_plays_for_azi() -> None:
    """AZI-41: three broke seats that avoid a second trick where they can still end, and soon."""
    deals = []
    for seed in range(40):
        chance = laws.Decks(seed)
        state = azi.initial(azi.Options(entry_fee=10), 3, stacks=(10, 10, 10))
        state = reduce(azi.evolve, azi.decide(state, Start(), chance), state)
        while not azi.is_over(state):
            (seat,) = azi.to_act(state)
            events = avoiding(state, seat, chance)
            state = reduce(azi.evolve, events, state)
        deals.append(state.deal)
    assert max(deals) < 100
    assert max(deals) > 1


def avoiding(state: azi.State, seat: int, chance: laws.Decks) -> tuple[azi.Event, ...]:
    """A move that does not give anybody the bank at once, if there is one."""
    lines = [azi.decide(state, Act(seat, move), chance) for move in azi.legal(state, seat)]
    going_on = [line for line in lines if not isinstance(line[-1], azi.BankPaid)]
    return (going_on or lines)[0]


def shown_cards(value: Any, hint: Any = None) -> Iterator[Card]:
    """Every card in a view or happening, told by the declared types; moves aside."""
    if isinstance(value, tuple):
        for item in value:
            yield from shown_cards(item, hint)
    elif is_dataclass(value):
        hints = get_type_hints(type(value))
        for field in fields(value):
            if field.name != "legal":
                yield from shown_cards(getattr(value, field.name), hints[field.name])
    elif value is not None and "Card" in str(hint):
        yield value


def test_no_viewer_is_shown_another_seats_card() -> None:
    """AZI-52, AZI-9: in any view or happening of any game: own and played cards, and the trump."""
    for seed in range(laws.games(40)):
        for step in laws.walk(AZI, Random(seed)):
            state = step.after
            played = {p.card for t in state.tricks for p in t.plays} | {p.card for p in state.trick}
            for viewer in (None, *range(len(state.players))):
                own: set[Card] = set()
                if viewer is not None:
                    seat = state.players[viewer]
                    own = set() if seat.blind else set(seat.hand)
                    if seat.dropped is not None and not seat.dropped_unseen:
                        own.add(seat.dropped)
                seen = set(shown_cards(azi.view(state, viewer)))
                assert seen <= played | own | {state.turned}


def test_winner_takes_all_only_if_never_short() -> None:
    """AZI-31: over random games, whoever gets less than the bank was short, and the reverse."""
    for seed in range(laws.games(150)):
        *_, last = laws.walk(AZI, Random(seed))
        paid = last.events[-1]
        assert isinstance(paid, azi.BankPaid)
        assert paid.stacks == tuple(p.stack for p in last.after.players)
        assert paid.short == last.after.players[paid.winner].short
        assert last.after.players[paid.winner].standing is Standing.LIVE
        if not paid.short:
            assert [p.seat for p in paid.payouts] == [paid.winner]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_every_seat_count_and_option_comes_to_an_end(seed: int) -> None:
    """All of 2 to 6 seats with each choice of every option."""
    rng = Random(seed)
    for size in (3, 4):
        for entry in ("survivors", "half_bank"):
            for fee in (False, True):
                for blind in (False, True):
                    chosen: dict[str, Any] = {
                        "deal_size": size,
                        "azi_entry": entry,
                        "azi_entry_fee": fee,
                        "blind_bets": blind,
                    }
                    start = partial(azi_worlds.table, **chosen)
                    *_, last = laws.walk(replace(AZI, start=start), rng)
                    assert azi.is_over(last.after)


def written(command: Command[azi.Move]) -> str:
    """A command as a person would say it."""
    match command:
        case Act(seat=seat, move=move):
            return f"seat {seat}: {azi_scenario.write_move(move)}"
        case Timeout(seat=seat):
            return f"seat {seat}: time is up"
        case Leave(seat=seat):
            return f"seat {seat}: leaves"
        case Start():
            return "start"


def told(seed: int) -> str:
    """A whole game as text: each command's events as seen by all, and secrets in brackets."""
    lines: list[str] = []
    at_the_table = replace(
        AZI,
        start=lambda _: azi.initial(
            azi.Options(entry_fee=10, deal_size=4, azi_entry="half_bank", blind_bets=True),
            5,
            stacks=(600, 400, 300, 200, 45),
            last_winner=None,
        ),
    )
    for step in laws.walk(at_the_table, Random(seed)):
        lines.append(f"> {written(step.command)}")
        for event in step.events:
            entry = described(event)
            name, secret = entry.pop("name"), entry.pop("secret", None)
            words = " ".join(f"{key}={value}" for key, value in entry.items())
            lines.append(f"  {name} {words}" + (f" [{secret}]" if secret else ""))
        state = step.after
        lines.append(
            f"  {state.phase.name.lower()} deal {state.deal} turn {state.turn} bank {state.bank}"
            f" stacks {[p.stack for p in state.players]} to act {list(azi.to_act(state))}"
        )
    return "\n".join(lines) + "\n"


def test_golden_playthrough() -> None:
    """A whole game comes out as it was written down; KOZYR_GOLDEN=write writes it anew."""
    text_of_game = told(GOLDEN_SEED)
    if os.environ.get("KOZYR_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text_of_game, "utf-8")
    assert GOLDEN.read_text("utf-8") == text_of_game


GOLDEN_SEED = 5871
"""A game with an azi, a buy-back, a short seat, blind bets and a late move."""
