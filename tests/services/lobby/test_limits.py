"""Limits by themselves: what holds when, what a game would take of them, against plain words."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from services.kernel.errors import Refused
from services.lobby.limits import (
    FOR_GOOD,
    LOOSENS_AFTER_US,
    Ask,
    Exclusion,
    Limit,
    LimitKind,
    Restraint,
    Usage,
    excluded,
    played_ms,
    refusal,
    with_own,
    withdrawn,
)
from services.lobby.periods import EPOCH, Period, begun, renewed
from tests.services.lobby.books import HOUR, NOON

AMOUNTS = (None, 0, 1, 50, 100, 5_000)


def looser(one: int | None, other: int | None) -> bool:
    """Whether the first lets one play more."""
    return (1 << 62 if one is None else one) > (1 << 62 if other is None else other)


@dataclass
class Plain:
    """A limit as one would keep it on paper: looked at every hour."""

    amount: int | None = None
    next: tuple[int | None, int] | None = None

    def hour(self, now: int) -> None:
        """An hour has passed."""
        if self.next is not None and self.next[1] <= now:
            self.amount, self.next = self.next[0], None

    def ask(self, amount: int | None, now: int) -> None:
        """The player asks for a limit."""
        if looser(amount, self.amount):
            self.next = (amount, now + 24 * HOUR)
        else:
            self.amount, self.next = amount, None


@pytest.mark.parametrize("seed", range(60))
def test_a_limit_does_what_one_kept_on_paper_does(seed: int) -> None:
    """Set, loosened, withdrawn, left alone, in any order, looked at every hour or not for days."""
    rng, now, limit, paper = Random(seed), NOON, Limit(), Plain()
    asked: list[tuple[int, int | None]] = []
    for _ in range(200):
        match rng.randrange(4):
            case 0:
                amount = rng.choice(AMOUNTS)
                limit, asked = with_own(limit, amount, now), [*asked, (now, amount)]
                paper.ask(amount, now)
                assert not looser(limit.own_at(now), amount)
            case 1 if paper.next is not None:
                limit, paper.next = withdrawn(limit, now), None
            case 1:
                with pytest.raises(Refused, match="NO_CHANGE_PENDING"):
                    withdrawn(limit, now)
            case _:
                for _ in range(rng.choice((1, 5, 23, 24, 25, 70))):
                    now += HOUR
                    paper.hour(now)
        pending = limit.pending(now)
        assert limit.own_at(now) == paper.amount
        assert (pending and (pending.amount, pending.at)) == paper.next
        for at, amount in asked:  # whatever was asked for within a day, nothing looser holds
            if at > now - LOOSENS_AFTER_US:
                assert not looser(limit.own_at(now), amount)


def test_a_day_of_reflection_is_exact() -> None:
    """A microsecond before its day is over the tighter limit holds."""
    limit = with_own(with_own(Limit(), 100, NOON), None, NOON)
    assert limit.own_at(NOON + LOOSENS_AFTER_US - 1) == 100
    assert limit.own_at(NOON + LOOSENS_AFTER_US) is None


def test_asking_for_more_again_begins_the_day_anew() -> None:
    """Also where less is asked for than before; a tighter one takes the loosening back."""
    limit = with_own(with_own(Limit(own=100), 500, NOON), 300, NOON + HOUR)
    assert limit.pending(NOON + HOUR) is not None
    assert limit.own_at(NOON + LOOSENS_AFTER_US) == 100
    assert limit.own_at(NOON + LOOSENS_AFTER_US + HOUR) == 300
    assert with_own(limit, 100, NOON + 2 * HOUR) == Limit(own=100)


def test_the_lower_of_the_players_and_the_houses_limit_holds() -> None:
    """Neither loosens the other's."""
    assert Limit(own=100, house=50).amount(NOON) == 50
    assert Limit(own=100, house=500).amount(NOON) == 100
    assert Limit(house=5).amount(NOON) == 5
    assert with_own(Limit(own=100, house=50), 20, NOON).amount(NOON) == 20
    assert Limit().amount(NOON) is None


def test_an_exclusion_is_only_ever_lengthened() -> None:
    """The same end again changes nothing; for good is for good."""
    out = excluded(Exclusion(), NOON + HOUR)
    assert excluded(out, NOON + HOUR) == out
    for shorter in (0, NOON, NOON + HOUR - 1):
        with pytest.raises(Refused, match="EXCLUSION_STANDS"):
            excluded(out, shorter)
    for_good = excluded(out, FOR_GOOD)
    with pytest.raises(Refused, match="EXCLUSION_STANDS"):
        excluded(for_good, NOON + 10_000 * HOUR)
    assert Exclusion(own=NOON, house=NOON + 1).until() == NOON + 1


@pytest.mark.parametrize("kind", [LimitKind.LOSS_DAY, LimitKind.LOSS_WEEK, LimitKind.LOSS_MONTH])
def test_stacks_on_tables_count_as_lost_and_winnings_raise_no_limit(kind: LimitKind) -> None:
    """The refusal names the limit, what is asked for, what is left, and when it renews."""
    restraint = Restraint({kind: Limit(own=100)})
    periods = dict.fromkeys((Period.DAY, Period.WEEK, Period.MONTH), 30)
    used = Usage(lost=periods, at_risk=50)
    assert refusal(restraint, used, Ask(chips=20), NOON) is None
    why = refusal(restraint, used, Ask(chips=21), NOON)
    assert why is not None
    renews = renewed({1: Period.DAY, 2: Period.WEEK, 3: Period.MONTH}[kind], NOON)
    assert why.facts == {
        "limit": kind.name,
        "amount": "100",
        "left": "20",
        "asked": "21",
        "renew_time": (EPOCH + timedelta(microseconds=renews)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert why.retry_after_ms == (renews - NOON) // 1_000
    won = Usage(lost=dict.fromkeys(periods, -1_000), at_risk=50)
    assert refusal(restraint, won, Ask(chips=50), NOON) is None
    assert refusal(restraint, won, Ask(chips=51), NOON) is not None
    broke = Usage(lost=dict.fromkeys(periods, 500))
    assert refusal(restraint, broke, Ask(), NOON) is None  # no chips are played for


def test_a_stake_counts_what_was_not_played_before() -> None:
    """Chips that lay in an earlier game at the table are played on with."""
    restraint = Restraint({LimitKind.STAKE_DAY: Limit(own=100)})
    used = Usage(brought=90)
    assert refusal(restraint, used, Ask(chips=5_000, fresh=10), NOON) is None
    assert refusal(restraint, used, Ask(chips=5_000, fresh=11), NOON) is not None
    assert refusal(restraint, Usage(brought=500), Ask(chips=7, fresh=0), NOON) is None


def test_time_is_used_up_to_the_last_millisecond() -> None:
    """As long as some is left a game may begin."""
    restraint = Restraint({LimitKind.TIME_DAY: Limit(own=1_000)})
    assert refusal(restraint, Usage(played_ms=999), Ask(), NOON) is None
    why = refusal(restraint, Usage(played_ms=1_000), Ask(), NOON)
    assert why is not None
    assert (why.facts["limit"], why.facts["left"]) == ("TIME_DAY", "0")


def test_who_is_excluded_plays_nothing() -> None:
    """Until it ends, by whichever of the two ends later; for good there is nothing to wait for."""
    out = Restraint(exclusion=Exclusion(own=NOON + HOUR, house=NOON + 2 * HOUR))
    why = refusal(out, Usage(), Ask(), NOON)
    assert why is not None
    assert (why.reason, why.retry_after_ms) == ("EXCLUDED", 2 * 3_600_000)
    assert refusal(out, Usage(), Ask(), NOON + 2 * HOUR) is None
    good = refusal(Restraint(exclusion=Exclusion(own=FOR_GOOD)), Usage(), Ask(), NOON)
    assert good is not None
    assert good.retry_after_ms is None


def test_time_at_several_tables_counts_once_and_only_todays() -> None:
    """Spans that overlap, touch, lie in each other, began yesterday, or still run."""
    midnight = begun(Period.DAY, NOON)
    spans = [
        (midnight - HOUR, midnight + HOUR),
        (midnight + HOUR, midnight + 2 * HOUR),
        (midnight + 90 * HOUR // 60, midnight + 100 * HOUR // 60),
        (midnight + 5 * HOUR, midnight + 7 * HOUR),
        (midnight + 6 * HOUR, NOON),
        (midnight - 9 * HOUR, midnight - 8 * HOUR),
        (NOON, NOON + HOUR),
    ]
    for seed in range(20):
        Random(seed).shuffle(spans)
        assert played_ms(spans, NOON) == 9 * 3_600_000
    assert played_ms([], NOON) == 0


@pytest.mark.parametrize("seed", range(40))
def test_periods_are_those_of_the_calendar(seed: int) -> None:
    """Day, week from Monday and month of any moment, and the first moment after them."""
    rng = Random(seed)
    at = rng.randrange(0, 4_000_000_000 * 1_000_000)

    def calendar(moment: int) -> datetime:
        return datetime.fromtimestamp(moment // 1_000_000, UTC)

    names: dict[Period, Callable[[datetime], object]] = {
        Period.DAY: lambda day: day.date(),
        Period.WEEK: lambda day: day.isocalendar()[:2],
        Period.MONTH: lambda day: (day.year, day.month),
    }
    for period, name in names.items():
        start, end = begun(period, at), renewed(period, at)
        assert start <= at < end
        assert name(calendar(start)) == name(calendar(at)) == name(calendar(end - 1))
        assert name(calendar(start - 1)) != name(calendar(at)) != name(calendar(end))
    assert begun(Period.ALL, at) == 0
