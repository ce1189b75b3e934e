"""The demo's checks can fail: on what is wrong, and on having nothing to look at."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kozyr.game.v1 import variant_pb2, view_pb2

from services.cli import demo_checks
from services.cli.demo_checks import Checks, Played, check_streams
from services.client.calls import Caller
from services.client.driving import Seen
from tests.verifier.played import played as fair_game

NOBODY = cast(Caller, None)


def played(*versions: int, dropped: int = 0, gaps: tuple[int, ...] = ()) -> Played:
    """A game whose client saw these versions, and dropped so many messages that came again."""
    player: Any = SimpleNamespace(dropped=Counter({"g": dropped}))
    views = {version: view_pb2.GameView(version=version) for version in versions}
    return Played(player, "g", Seen(views, gaps=list(gaps)))


def azi(before: int, after: int) -> Played:
    """A game of Azi in which the player's stack went from one number to another."""
    game = played(1)
    game.view.variant = variant_pb2.VARIANT_AZI
    game.view.result.seats.add(stack_before=before, stack_after=after)
    return game


def held(checks: Checks) -> list[bool]:
    """How the checks came out."""
    return [check.held for check in checks.done]


def test_streams_hold_only_without_gaps_and_repetitions() -> None:
    """A message that the client had to drop is one too many."""
    checks = Checks(quiet=True)
    for game in (played(1, 2), played(1, 2, dropped=1), played(1, 2, gaps=(2,)), played()):
        check_streams(checks, [game])
    assert held(checks) == [True, False, False, False]
    assert "1 messages came again" in checks.done[1].detail


def test_no_check_holds_of_nothing() -> None:
    """Without games there is nothing that could have been right."""
    checks = Checks(quiet=True)

    async def look() -> None:
        check_streams(checks, [])
        demo_checks.check_seeds(checks, [])
        await demo_checks.check_ledger(checks, [])
        await demo_checks.check_replays(checks, NOBODY, [])
        await demo_checks.check_audits(checks, NOBODY, [])
        await demo_checks.check_receipts(checks, NOBODY, [])

    asyncio.run(look())
    assert held(checks) == [False] * 6


def test_a_receipt_must_hold_and_be_of_the_log_that_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that holds, of another log; one that was changed."""
    checks = Checks(quiet=True)
    whole = fair_game("rami", 1)
    documents = [whole.receipt(), whole.receipt(), whole.receipt().replace(b'"ended": true', b"1")]

    async def receipt(*_: Any) -> Any:
        return documents.pop(0)

    monkeypatch.setattr(demo_checks, "receipt", receipt)
    seen, other = played(1), played(1)
    seen.view.head = whole.rows[-1].hash
    for game in (seen, other, seen):
        asyncio.run(demo_checks.check_receipts(checks, NOBODY, [game]))
    assert held(checks) == [True, False, False]


def test_a_statement_without_lines_agrees_with_no_game(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with one in which no chip was won or lost."""
    checks, lines = Checks(quiet=True), [[], [SimpleNamespace(chips=0)], [SimpleNamespace(chips=1)]]

    async def statement(*_: Any, **__: Any) -> Any:
        return lines.pop(0)

    monkeypatch.setattr(demo_checks, "statement", statement)
    for _ in range(3):
        asyncio.run(demo_checks.check_ledger(checks, [azi(20, 20)]))
    assert held(checks) == [False, True, False]


def test_a_replay_without_a_state_seen_live_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of which the client saw none are not compared with anything."""
    checks = Checks(quiet=True)

    async def steps_of(*_: Any) -> Any:
        return []

    monkeypatch.setattr(demo_checks, "steps_of", steps_of)
    asyncio.run(demo_checks.check_replays(checks, NOBODY, [played()]))
    assert held(checks) == [False]
