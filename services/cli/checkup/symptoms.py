"""What a check of a running installation found, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a check ended. Only `BAD` makes the command exit with 1."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One line of the report: which check, how it ended, what was seen, and what to do."""

    check: str
    level: Level
    said: str
    advice: str = ""


def ok(check: str, said: str) -> Symptom:
    """All is well."""
    return Symptom(check, Level.OK, said)


def warn(check: str, said: str, advice: str) -> Symptom:
    """Not looked at, or not as it should be, while service goes on."""
    return Symptom(check, Level.WARN, said, advice)


def bad(check: str, said: str, advice: str) -> Symptom:
    """Something is out of order."""
    return Symptom(check, Level.BAD, said, advice)


def age(milliseconds: float) -> str:
    """A span in the largest unit of which there are two or more: `90 s`, `3 h`."""
    seconds = max(0, round(milliseconds / 1_000))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
