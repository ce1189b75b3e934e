"""What the judge is worth: a service that breaks a promise is found out by some seed."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from services.game import steps, views, watching
from services.game.games import Games
from services.game.model import State
from services.game.outages import Outages
from services.game.peers import Peers
from services.runtime.store.sql import SqlStore
from services.runtime.wire.framing import numeral
from tests.sim.run import simulate

Breaks = Callable[[pytest.MonkeyPatch], None]

SEEDS = 20
"""How many seeds are tried."""


def forgets_requests(patch: pytest.MonkeyPatch) -> None:
    """Repeated requests are not recognised."""

    async def find(_store: SqlStore, _stream: UUID, _request: str) -> None:
        return None

    patch.setattr(SqlStore, "find_request", find)


def credits_no_outage(patch: pytest.MonkeyPatch) -> None:
    """Outages count for nothing."""

    async def since(_outages: Outages, _at: int) -> int:
        return 0

    patch.setattr(Outages, "since", since)


def forgets_banks(patch: pytest.MonkeyPatch) -> None:
    """A seat is expired when its turn time is up, whatever is left of its time bank."""
    patch.setattr(State, "deadline_of", lambda state, _seat: state.deadline)


def lays_no_tombstone(patch: pytest.MonkeyPatch) -> None:
    """A start that was given up may open later."""

    async def cancel(_games: Games, _game: UUID, _request: Any) -> bool:
        return False

    patch.setattr(Games, "cancel", cancel)


def shows_the_next_hand(patch: pytest.MonkeyPatch) -> None:
    """Everybody is shown the next seat's cards."""
    own = views.own_octets

    def of_another(state: Any, viewer: int | None) -> bytes:
        seats = len(state.seats)
        other = own(state, None if viewer is None else (viewer + 1) % seats)
        return other if viewer is None else other + numeral(views.SEAT, viewer)

    def octets(shared: views.Shared, state: Any, viewer: int | None) -> bytes:
        return shared.common + of_another(state, viewer)

    patch.setattr(views, "own_octets", of_another)
    patch.setattr(views, "view_octets", octets)


def loses_steps(patch: pytest.MonkeyPatch) -> None:
    """A watcher who resumes misses a step."""
    sign = watching.Signed._sign

    def ahead(signed: watching.Signed, version: int) -> bytes:
        return sign(signed, version + 1)

    patch.setattr(watching.Signed, "_sign", ahead)


def shares_across_seats(patch: pytest.MonkeyPatch) -> None:
    """What was made for one viewer of a step is sent to the next one as well."""

    def told(step: steps.Step, viewer: int | None, now: int | None) -> bytes:
        first = next(iter(step._told), viewer)
        return made(step, first, now)

    made = steps.Step.told
    patch.setattr(steps.Step, "told", told)


def never_pays(patch: pytest.MonkeyPatch) -> None:
    """Finished games are not settled."""

    async def settle(_peers: Peers, _request: Any) -> None:
        return None

    patch.setattr(Peers, "settle", settle)


@pytest.mark.parametrize(
    ("breaks", "acts", "words"),
    [
        (forgets_requests, (), ("TABLE_EXISTS", "and stored", "stored twice")),
        (credits_no_outage, ("outage",), ("left of its time bank", "expired after")),
        (forgets_banks, ("grow",), ("in the bank",)),
        (lays_no_tombstone, ("outage",), ("may open",)),
        (shows_the_next_hand, ("grow",), ("hidden cards",)),
        (loses_steps, ("grow",), ("version",)),
        (shares_across_seats, ("grow",), ("seat",)),
        (never_pays, ("grow",), ("held",)),
    ],
)
def test_a_broken_promise_is_found(
    monkeypatch: pytest.MonkeyPatch,
    breaks: Breaks,
    acts: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    """One of a few seeds shows it, and says what was broken, in one of the ways it can show."""
    breaks(monkeypatch)
    for seed in range(1, SEEDS + 1):
        problem = simulate(seed, *acts).problem
        if problem is not None:
            assert any(word in problem for word in words), problem
            return
    raise AssertionError("no seed shows it")
