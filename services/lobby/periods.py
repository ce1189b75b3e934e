"""Spans of time by UTC: days, weeks from Monday, calendar months. Pure.

Moments are Unix microseconds of database time.
"""

from datetime import UTC, datetime, timedelta
from enum import IntEnum

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)


class Period(IntEnum):
    """A span of time; the first three are those of leaderboards, by the numbers on the wire."""

    ALL = 1
    MONTH = 2
    WEEK = 3
    DAY = 4


def begun(period: Period, at: int) -> int:
    """When the period that holds the moment began; 0 for all time."""
    return 0 if period is Period.ALL else _micros(_first_day(period, at))


def renewed(period: Period, at: int) -> int:
    """When the next period begins after the one that holds the moment; for none but all time."""
    first = _first_day(period, at)
    match period:
        case Period.DAY:
            return _micros(first + timedelta(days=1))
        case Period.WEEK:
            return _micros(first + timedelta(days=7))
        case Period.MONTH:
            return _micros((first + timedelta(days=31)).replace(day=1))
        case Period.ALL:
            raise ValueError("all time does not end")


def _first_day(period: Period, at: int) -> datetime:
    day = (EPOCH + timedelta(microseconds=at)).replace(hour=0, minute=0, second=0, microsecond=0)
    match period:
        case Period.WEEK:
            return day - timedelta(days=day.weekday())
        case Period.MONTH:
            return day.replace(day=1)
        case _:
            return day


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // US
