"""What limits a player's play, and what a game would do to them. Pure.

Chips are int64, times milliseconds, moments Unix microseconds of database time. No limit is None.

Of losses the sum over a period counts: what was brought to games that ended in it, less what came
out of them, and never less than nothing, so that earlier winnings raise no limit. A stack on a
table of a running game counts as lost until the game has ended. A game that may begin thus keeps
every loss within its limit, whatever else runs beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import IntEnum

from services.kernel.errors import Kind, Refused, precondition
from services.lobby.periods import EPOCH, Period, begun, renewed

LOOSENS_AFTER_US = 86_400 * 1_000_000
"""How long after it was asked for a looser limit is in force."""
CHIPS_MAX = 10**15
"""The largest limit of chips."""
DAY_MS = 86_400_000
FOR_GOOD = 2**62
"""The moment at which an exclusion for good ends."""


class LimitKind(IntEnum):
    """What is limited; the numbers are those of the wire."""

    LOSS_DAY = 1
    LOSS_WEEK = 2
    LOSS_MONTH = 3
    STAKE_DAY = 4
    TIME_DAY = 5


PERIODS: Mapping[LimitKind, Period] = {
    LimitKind.LOSS_DAY: Period.DAY,
    LimitKind.LOSS_WEEK: Period.WEEK,
    LimitKind.LOSS_MONTH: Period.MONTH,
    LimitKind.STAKE_DAY: Period.DAY,
    LimitKind.TIME_DAY: Period.DAY,
}
LOSSES = (LimitKind.LOSS_DAY, LimitKind.LOSS_WEEK, LimitKind.LOSS_MONTH)


@dataclass(frozen=True, slots=True)
class Loosening:
    """That a limit becomes `amount` at a moment."""

    amount: int | None
    at: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A player's limit of a kind: his own, what it becomes later, and the house's for him."""

    own: int | None = None
    loosening: Loosening | None = None
    house: int | None = None

    def own_at(self, now: int) -> int | None:
        """His own limit at a moment."""
        due = self.loosening is not None and self.loosening.at <= now
        return self.loosening.amount if due and self.loosening else self.own

    def pending(self, now: int) -> Loosening | None:
        """What his own limit has yet to become."""
        return self.loosening if self.loosening and self.loosening.at > now else None

    def amount(self, now: int) -> int | None:
        """The limit that holds: the lower of the two."""
        given = [each for each in (self.own_at(now), self.house) if each is not None]
        return min(given, default=None)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Until when a player is excluded, by himself and by the house."""

    own: int = 0
    house: int = 0

    def until(self) -> int:
        """When both are over."""
        return max(self.own, self.house)


@dataclass(frozen=True, slots=True)
class Restraint:
    """All that limits a player."""

    limits: Mapping[LimitKind, Limit] = field(default_factory=dict)
    exclusion: Exclusion = Exclusion()

    def limit(self, kind: LimitKind) -> Limit:
        """The limit of a kind."""
        return self.limits.get(kind, Limit())


@dataclass(frozen=True, slots=True)
class Usage:
    """What a player has used up: chips lost by period (negative: won), the stacks he has in running
    games, chips brought and milliseconds played today."""

    lost: Mapping[Period, int] = field(default_factory=dict)
    at_risk: int = 0
    brought: int = 0
    played_ms: int = 0

    def used(self, kind: LimitKind) -> int:
        """How much counts towards a limit, running games aside."""
        match kind:
            case LimitKind.STAKE_DAY:
                return self.brought
            case LimitKind.TIME_DAY:
                return self.played_ms
            case _:
                return max(0, self.lost.get(PERIODS[kind], 0))

    def left(self, kind: LimitKind, amount: int) -> int:
        """What is left of a limit."""
        at_risk = self.at_risk if kind in LOSSES else 0
        return max(0, amount - self.used(kind) - at_risk)


@dataclass(frozen=True, slots=True)
class Ask:
    """A game with a stack of `chips`, `fresh` of them not from an earlier game at the table."""

    chips: int = 0
    fresh: int = 0


def with_own(limit: Limit, amount: int | None, now: int) -> Limit:
    """The limit after the player has asked for an amount of his own.

    One that is not looser than what is in force holds at once, and takes back a loosening that was
    under way. A looser one holds in a day, counted from now.
    """
    held = limit.own_at(now)
    if not _looser(amount, held):
        return replace(limit, own=amount, loosening=None)
    return replace(limit, own=held, loosening=Loosening(amount, now + LOOSENS_AFTER_US))


def withdrawn(limit: Limit, now: int) -> Limit:
    """The limit without its loosening; raises Refused NO_CHANGE_PENDING."""
    if limit.pending(now) is None:
        raise precondition("NO_CHANGE_PENDING", "this limit is not about to become looser")
    return replace(limit, own=limit.own_at(now), loosening=None)


def excluded(exclusion: Exclusion, until: int) -> Exclusion:
    """The exclusion after the player has excluded himself; raises Refused EXCLUSION_STANDS for an
    earlier end than he has chosen before."""
    if until < exclusion.own:
        raise precondition(
            "EXCLUSION_STANDS",
            "an exclusion cannot be shortened",
            end_time="" if exclusion.own == FOR_GOOD else iso(exclusion.own),
        )
    return replace(exclusion, own=until)


def refusal(restraint: Restraint, usage: Usage, ask: Ask, now: int) -> Refused | None:
    """Why the player may not begin such a game now."""
    until = restraint.exclusion.until()
    if until > now:
        return _excluded(until, now)
    for kind in (LimitKind.TIME_DAY, *LOSSES, LimitKind.STAKE_DAY):
        amount = restraint.limit(kind).amount(now)
        if amount is None:
            continue
        left, asked = usage.left(kind, amount), _asked(kind, ask)
        if asked > left:
            return _reached(kind, amount, left, asked, now)
    return None


def played_ms(spans: Iterable[tuple[int, int]], now: int) -> int:
    """How long somebody has played today: moments that lie in several spans count once."""
    today, played, reached = begun(Period.DAY, now), 0, 0
    for start, end in sorted(spans):
        since, until = max(start, today, reached), min(end, now)
        if until > since:
            played, reached = played + until - since, until
    return played // 1_000


def iso(at: int) -> str:
    """A moment as text, by UTC, seconds."""
    return (EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _looser(amount: int | None, held: int | None) -> bool:
    if held is None:
        return False
    return amount is None or amount > held


def _asked(kind: LimitKind, ask: Ask) -> int:
    """What a game takes of a limit; of time anything at all."""
    match kind:
        case LimitKind.TIME_DAY:
            return 1
        case LimitKind.STAKE_DAY:
            return ask.fresh
        case _:
            return ask.chips


def _excluded(until: int, now: int) -> Refused:
    if until >= FOR_GOOD:
        return precondition("EXCLUDED", "this player is excluded from playing")
    return Refused(
        Kind.PRECONDITION,
        "EXCLUDED",
        "this player is excluded from playing for now",
        facts={"end_time": iso(until)},
        retry_after_ms=_ms_until(until, now),
    )


def _reached(kind: LimitKind, amount: int, left: int, asked: int, now: int) -> Refused:
    renews_at = renewed(PERIODS[kind], now)
    facts = {"limit": kind.name, "amount": str(amount), "left": str(left)}
    if kind is not LimitKind.TIME_DAY:
        facts["asked"] = str(asked)
    return Refused(
        Kind.PRECONDITION,
        "LIMIT_REACHED",
        f"the limit {kind.name} leaves {left} of {amount}, until {iso(renews_at)}",
        facts=facts | {"renew_time": iso(renews_at)},
        retry_after_ms=_ms_until(renews_at, now),
    )


def _ms_until(moment: int, now: int) -> int:
    return -((now - moment) // 1_000)
