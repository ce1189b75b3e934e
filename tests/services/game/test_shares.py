"""Links as they are kept: one a request, ended, revoked, erased, bounded; on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from services.game.server import FOLDERS
from services.game.shares import REVOKED_TIMES, Share, Shares
from services.kernel.errors import Kind, Refused
from services.runtime.database import close_engine, open_engine
from tests import postgres

GAME, OTHER = UUID(int=1), UUID(int=2)
KEEP_MS, MOST = 60_000, 3


class Clock:
    """A clock that is turned, Unix microseconds."""

    now = 1_700_000_000_000_000

    def __call__(self) -> int:
        """The time it shows."""
        return self.now


@pytest.fixture(params=["sqlite", "postgresql"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """An empty migrated game database on each engine, as the service's role."""
    url = f"sqlite+aiosqlite:///{tmp_path}/game.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    opened = open_engine(await postgres.migrated(url, FOLDERS))
    yield opened
    await close_engine(opened)


async def refusal(asking: object) -> Refused:
    """How this is refused."""
    with pytest.raises(Refused) as caught:
        await asking  # type: ignore[misc] # any call
    return caught.value


async def test_a_link_opens_until_it_ends_is_revoked_or_its_player_is_erased(
    engine: AsyncEngine,
) -> None:
    """And then is like one that never was; a player ends his own alone. The same request gives the
    same link, at once and from another process, and no new one once that has been revoked."""
    clock = Clock()
    shares, other = (Shares(engine, bytes(32), KEEP_MS, MOST, clock) for _ in range(2))
    made = await asyncio.gather(*(each.make(GAME, "a", "r") for each in (shares, other) * 3))
    ((share, token),) = set(made)
    assert (share.game, share.ends_at - share.made_at) == (GAME, KEEP_MS * 1_000)
    assert await other.opened(token) == share
    assert (await refusal(shares.make(OTHER, "a", "r"))).reason == "REQUEST_ID_REUSED"
    theirs, also = await shares.make(GAME, "b", "r")
    assert also != token
    assert (await refusal(shares.revoke(share.share, "b"))).kind is Kind.NOT_FOUND
    assert [await shares.of(who) for who in "abc"] == [[share], [theirs], []]
    for _ in range(2):
        await shares.revoke(share.share, "a")
    for gone in (token, "", "x" * 43):
        assert (await refusal(shares.opened(gone))).reason == "SHARE_NOT_FOUND"
    assert (await refusal(shares.make(GAME, "a", "r"))).reason == "SHARE_NOT_FOUND"
    later, third = await shares.make(GAME, "a", "s")
    clock.now += KEEP_MS * 1_000 - 1
    assert {await shares.opened(each) for each in (also, third)} == {theirs, later}
    await shares.erase("b")
    assert (await refusal(shares.opened(also))).reason == "SHARE_NOT_FOUND"
    clock.now += 1
    assert (await refusal(shares.opened(third))).reason == "SHARE_NOT_FOUND"
    assert await shares.of("a") == []
    await shares.sweep()
    clock.now -= 1
    assert (await refusal(shares.opened(third))).reason == "SHARE_NOT_FOUND"


async def test_so_many_links_of_a_player_open_at_once(engine: AsyncEngine) -> None:
    """Also where they are made at the same moment; one that is revoked makes room, and a request
    that made one and is repeated makes none more."""
    shares = Shares(engine, bytes(32), KEEP_MS, MOST)
    at_once = await asyncio.gather(
        *(shares.make(GAME, "c", f"r{n}") for n in range(6)), return_exceptions=True
    )
    assert sum(isinstance(each, tuple) for each in at_once) == MOST
    first, _ = await shares.make(GAME, "a", "first")
    outcomes = await asyncio.gather(
        *(shares.make(GAME, "a", f"r{n}") for n in range(6)), return_exceptions=True
    )
    refused = [each for each in outcomes if isinstance(each, Refused)]
    assert len(refused) == len(outcomes) - (MOST - 1)
    assert {(r.reason, r.facts["limit"]) for r in refused} == {("TOO_MANY_SHARES", "shares")}
    assert len(await shares.of("a")) == MOST
    assert (await shares.make(GAME, "a", "first"))[0] == first
    await shares.make(GAME, "b", "r")
    await shares.revoke(first.share, "a")
    made, _ = await shares.make(GAME, "a", "again")
    assert isinstance(made, Share)


async def test_an_ended_link_is_given_to_nobody_before_or_after_it_is_swept(
    engine: AsyncEngine,
) -> None:
    """The request that made it is answered as for one that was revoked: it has served."""
    clock = Clock()
    shares = Shares(engine, bytes(32), KEEP_MS, MOST, clock)
    await shares.make(GAME, "a", "r")
    clock.now += KEEP_MS * 1_000
    assert (await refusal(shares.make(GAME, "a", "r"))).reason == "SHARE_NOT_FOUND"


async def test_links_that_are_made_and_revoked_again_and_again_are_bounded(
    engine: AsyncEngine,
) -> None:
    """Each is kept until it would have ended, so that its request makes no other."""
    shares = Shares(engine, bytes(32), KEEP_MS, MOST)
    for number in range(MOST * REVOKED_TIMES):
        made, _ = await shares.make(GAME, "a", f"r{number}")
        await shares.revoke(made.share, "a")
    refused = await refusal(shares.make(GAME, "a", "more"))
    assert (refused.reason, refused.facts["limit"]) == ("TOO_MANY_SHARES", "shares")
    assert (await refusal(shares.make(GAME, "a", "r0"))).reason == "SHARE_NOT_FOUND"
    await shares.make(GAME, "b", "more")
