"""What games come to for a player, and who stands before whom. Pure.

Chips are int64, moments Unix microseconds of database time. A game counts if it was played to its
end and was not struck. Games with a bot in them are counted apart and are on no leaderboard.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from services.lobby.model import Variant
from services.lobby.periods import Period, begun

SHARE = 10**9
"""Shares are measured in this fraction, so that they are whole numbers."""
LISTED: Mapping[Variant, bool] = {Variant.AZI: False, Variant.DURAK: True, Variant.RAMI: True}
"""Who is on a leaderboard as long as he has said nothing: chips are his own affair."""
BOARDS = (Period.ALL, Period.MONTH, Period.WEEK)
"""The times there are leaderboards of."""
DURAK_GAMES_MIN: Mapping[Period, int] = {Period.ALL: 20, Period.MONTH: 10, Period.WEEK: 5}
"""How many games a share must be of to be compared."""


@dataclass(frozen=True, slots=True)
class PlayerGame:
    """What a game was to one of its players. The order of fields is the row's.

    `place` is from 1 (Azi: 1 for the winner of the bank), 0 for none; `fresh` the chips of
    `chips_in` that were not in an earlier game at the table.
    """

    player: UUID
    game: UUID
    table_id: UUID
    variant: Variant
    begun_at: int
    ended_at: int
    finished: bool
    struck: bool
    people: bool
    place: int = 0
    points: int = 0
    first: bool = False
    durak: bool = False
    nulled: bool = False
    chips_in: int = 0
    chips_out: int = 0
    fresh: int = 0

    @property
    def counts(self) -> bool:
        """Whether it is in its player's numbers."""
        return self.finished and not self.struck


@dataclass(frozen=True, slots=True)
class Numbers:
    """What games come to; a null deal of Durak is in `nulls` alone."""

    games: int = 0
    firsts: int = 0
    duraks: int = 0
    nulls: int = 0
    points: int = 0
    chips_in: int = 0
    chips_out: int = 0

    def plus(self, other: "Numbers") -> "Numbers":
        """Both together."""
        return Numbers(
            self.games + other.games,
            self.firsts + other.firsts,
            self.duraks + other.duraks,
            self.nulls + other.nulls,
            self.points + other.points,
            self.chips_in + other.chips_in,
            self.chips_out + other.chips_out,
        )


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """What numbers are of: a game, a time that began at a moment (0: all time), with bots or
    not."""

    variant: Variant
    period: Period
    begun_at: int
    people: bool


Measures = tuple[int, int, int]
"""What players are compared by, the larger the better, the first that differs decides. Whose are
all equal share a rank."""


def numbers_of(line: PlayerGame) -> Numbers:
    """What a game that counts adds."""
    if line.nulled:
        return Numbers(nulls=1)
    return Numbers(
        games=1,
        firsts=int(line.first),
        duraks=int(line.durak),
        points=line.points,
        chips_in=line.chips_in,
        chips_out=line.chips_out,
    )


def spans_of(line: PlayerGame) -> tuple[Span, ...]:
    """Where a game is counted: by when it ended; with bots of all time only."""
    periods = BOARDS if line.people else (Period.ALL,)
    return tuple(
        Span(line.variant, period, begun(period, line.ended_at), line.people) for period in periods
    )


def counted(lines: Iterable[PlayerGame]) -> dict[Span, Numbers]:
    """What a player's games come to."""
    sums: dict[Span, Numbers] = {}
    for line in lines:
        if line.counts:
            for span in spans_of(line):
                sums[span] = sums.get(span, Numbers()).plus(numbers_of(line))
    return sums


def joined(one: Mapping[Span, Numbers], other: Mapping[Span, Numbers]) -> dict[Span, Numbers]:
    """What two lots of games come to together."""
    return {
        **one,
        **{span: numbers.plus(one.get(span, Numbers())) for span, numbers in other.items()},
    }


def games_min(variant: Variant, period: Period) -> int:
    """How many games one must have played to be on a leaderboard."""
    return DURAK_GAMES_MIN[period] if variant is Variant.DURAK else 1


def measures(variant: Variant, numbers: Numbers) -> Measures:
    """What these numbers are compared by.

    Durak: the share of duraks avoided, the share of games as first out, more games. Rami: matches
    won, points, fewer games. Azi: chips won, banks won, fewer games.
    """
    games = numbers.games
    match variant:
        case Variant.DURAK:
            avoided = (games - numbers.duraks) * SHARE // max(games, 1)
            return avoided, numbers.firsts * SHARE // max(games, 1), games
        case Variant.RAMI:
            return numbers.firsts, numbers.points, -games
        case Variant.AZI:
            return numbers.chips_out - numbers.chips_in, numbers.firsts, -games


def is_ranked(span: Span, numbers: Numbers, *, listed: bool) -> bool:
    """Whether these numbers are on a leaderboard."""
    return listed and span.people and numbers.games >= games_min(span.variant, span.period)
