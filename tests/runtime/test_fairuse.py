"""Limits by their names: each that a refusal may give is told of, and what is told of is so."""

import re
from collections.abc import Iterator
from pathlib import Path

from services.game.arbitration import DISPUTES_MAX
from services.game.shares import SHARES_MAX
from services.lobby.devices import DEVICES_MAX
from services.lobby.domain import INVITED_MAX, KICKED_MAX
from services.lobby.limitbook import CHANGES_A_DAY
from services.lobby.mutes import MUTED_MAX
from services.runtime.access import ACCESS
from services.runtime.fairuse import LIMITS, costs_table, limits_table
from services.runtime.settings import Settings

ROOT = Path(__file__).parents[2]
CONSTANTS = {
    "mutes": MUTED_MAX,
    "kicked": KICKED_MAX,
    "invited": INVITED_MAX,
    "shares": SHARES_MAX,
    "limit_changes": CHANGES_A_DAY,
    "disputes": DISPUTES_MAX,
    "devices": DEVICES_MAX,
}
BESIDE = {"TOO_MANY_WAITING", "TOO_MANY_BOUTS"}
"""Reasons that are no limit of a caller's: the wallet's queue is full; a rule of Durak."""


def words(kind: str) -> Iterator[str]:
    """Every text of the services' code that is a word in capitals of this beginning."""
    for file in (ROOT / "services").rglob("*.py"):
        yield from re.findall(rf'"({kind}[A-Z_]*)"', file.read_text("utf-8"))


def test_the_document_tells_of_every_limit_and_cost() -> None:
    """Its tables are those that settings and access rows make."""
    text = (ROOT / "docs" / "limits.md").read_text("utf-8")
    assert limits_table() in text, "write limits_table() into docs/limits.md"
    assert text.endswith(costs_table(ACCESS)), "end docs/limits.md with costs_table(ACCESS)"


def test_every_reason_of_a_limit_is_told_of() -> None:
    """Whatever is refused as too many has a row here."""
    known = {limit.reason for limit in LIMITS}
    others = {"RATE_LIMITED", "SIGN_IN_LOCKED", "SIGN_IN_BUSY"}
    assert set(words("TOO_MANY")) - BESIDE == known - others
    assert others <= set(words("RATE")) | set(words("SIGN_IN"))


def test_a_limit_has_one_name_and_is_set_somewhere() -> None:
    """By settings that there are, or by a number that is the one in the code."""
    assert len({limit.name for limit in LIMITS}) == len(LIMITS)
    for limit in LIMITS:
        assert bool(limit.settings) is not (limit.number is not None), limit.name
        assert set(limit.settings) <= set(Settings.model_fields), limit.name
    fixed = {limit.name: limit.number for limit in LIMITS if not limit.settings}
    assert fixed == CONSTANTS
