"""Sessions: tokens traded, lost answers, thieves, signing out; what races, on both databases."""

import asyncio
from random import Random
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.lobby.players import SignedUp
from services.lobby.schema import PERSONAL, refresh_tokens, sessions
from services.lobby.sessions import (
    AGAIN_US,
    FRESH_US,
    REFRESH_US,
    SESSIONS_MAX,
    Means,
    Refreshing,
)
from services.runtime.database import read, write
from tests.services.lobby.ways import PASSWORD, Clock, Ways

BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
TRY = "a-try-nobody-guesses"


async def outcome(ways: Ways, token: str, attempt: str = "") -> str:
    """The next token, or why there is none."""
    try:
        return (await ways.players.sessions.refresh(token, attempt))[1].token
    except Refused as refused:
        return refused.reason


@BOTH
async def test_a_lost_answer_loses_no_session(ways: Ways) -> None:
    """The same try again gives the same token, and there is one session with one token."""
    made = await ways.guest()
    first = await outcome(ways, made.refresh.token, TRY)
    again = await asyncio.gather(*(outcome(ways, made.refresh.token, TRY) for _ in range(4)))
    assert set(again) == {first}
    (session,) = await ways.players.sessions.of_player(made.player.player)
    assert session.session == made.refresh.session
    second = await outcome(ways, first, TRY)
    assert len({made.refresh.token, first, second}) == 3


@pytest.mark.parametrize("thief", ["no try", "another try", "too late", "after its use"])
async def test_the_grace_for_a_lost_answer_helps_no_thief(
    ways: Ways, clock: Clock, thief: str
) -> None:
    """Whoever has the old token without its try ends the session, within the minute too; so does
    the try itself when its minute is over, or the new token was used."""
    made = await ways.guest()
    newest = await outcome(ways, made.refresh.token, TRY)
    attempt = {"no try": "", "another try": TRY + "2"}.get(thief, TRY)
    if thief == "too late":
        clock.now += AGAIN_US
    if thief == "after its use":
        newest = await outcome(ways, newest)
    assert await outcome(ways, made.refresh.token, attempt) == "REFRESH_TOKEN_REUSED"
    assert await outcome(ways, newest) == "REFRESH_TOKEN_INVALID"
    assert await ways.players.sessions.of_player(made.player.player) == ()


async def test_two_tries_at_once_are_two_holders(ways: Ways) -> None:
    """Different tries with one token, at the same moment: the session ends."""
    made = await ways.guest()
    tries = (outcome(ways, made.refresh.token, TRY + str(n)) for n in range(3))
    reasons = sorted(await asyncio.gather(*tries), key=len)
    assert "REFRESH_TOKEN_REUSED" in reasons
    assert await ways.players.sessions.of_player(made.player.player) == ()


async def test_what_follows_from_a_try_needs_the_services_key(
    ways: Ways, engine: AsyncEngine, clock: Clock
) -> None:
    """Another key gives another token; another token or try as well."""
    other = Ways(engine, clock)
    other.players.sessions._key = b"x" * 32
    made = await ways.guest()
    here, there = ways.players.sessions, other.players.sessions
    following = {
        here._following(made.refresh.token, TRY),
        there._following(made.refresh.token, TRY),
        here._following(made.refresh.token, TRY + "2"),
        here._following(made.secret, TRY),
    }
    assert len(following) == 4
    other.close()


async def test_signing_out_ends_one_session_or_all(ways: Ways) -> None:
    """The others go on; a session of somebody else is none of ours, and ending twice is once."""
    made, dato = await ways.guest(), await ways.guest("Dato")
    player, sign_out = made.player.player, ways.players.sessions.end
    _, second = await ways.players.sign_in(player, made.secret, "Phone")
    _, third = await ways.players.sign_in(player, made.secret)
    for _ in range(2):
        await sign_out(player, second.session)
    await sign_out(player, dato.refresh.session)
    assert await outcome(ways, second.token) == "REFRESH_TOKEN_INVALID"
    kept = {session.session for session in await ways.players.sessions.of_player(player)}
    assert kept == {made.refresh.session, third.session}
    await sign_out(player)
    for refresh in (made.refresh, third):
        assert await outcome(ways, refresh.token) == "REFRESH_TOKEN_INVALID"
    assert len(await outcome(ways, dato.refresh.token)) == 43


@BOTH
async def test_signing_out_catches_a_token_that_is_just_being_traded(ways: Ways) -> None:
    """Whoever trades as fast as he can while everything is ended holds nothing afterwards."""
    made = await ways.guest()
    held, over = [made.refresh.token], asyncio.Event()

    async def trade() -> None:
        while not over.is_set() and len(held[-1]) == 43:
            held.append(await outcome(ways, held[-1]))

    for session in (None, made.refresh.session):
        _, fresh = await ways.players.sign_in(made.player.player, made.secret)
        held.append(fresh.token)
        trading = asyncio.create_task(trade())
        while len(held) % 7:
            await asyncio.sleep(0)
        await ways.players.sessions.end(made.player.player, session and fresh.session)
        async with asyncio.timeout(10):
            await trading
        assert held[-1] == "REFRESH_TOKEN_INVALID"


async def test_another_secret_ends_the_one_before_and_all_other_sessions(
    ways: Ways, clock: Clock
) -> None:
    """In a fresh session that goes on; in an older one, or one that was ended, there is none."""
    made = await ways.guest()
    player, mine = made.player.player, str(made.refresh.session)
    _, other = await ways.players.sign_in(player, made.secret)
    secret = await ways.players.renew_secret(player, mine)
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await ways.players.sign_in(player, made.secret)
    assert await outcome(ways, other.token) == "REFRESH_TOKEN_INVALID"
    (kept,) = await ways.players.sessions.of_player(player)
    assert kept.session == made.refresh.session
    _, fresh = await ways.players.sign_in(player, secret)
    async with write(ways.engine) as connection:  # as release 0.1.0 ends a session
        gone = delete(refresh_tokens).where(refresh_tokens.c.family == fresh.session)
        await connection.execute(gone)
    for session in (str(fresh.session), str(other.session)):
        with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH"):
            await ways.players.renew_secret(player, session)
    clock.now += FRESH_US
    with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH"):
        await ways.players.renew_secret(player, mine)


async def test_a_session_says_how_it_began_and_when_it_was_renewed(
    ways: Ways, clock: Clock
) -> None:
    """In the player's own list; a session of the release before says when it ends alone."""
    made = await ways.guest()
    player = made.player.player
    clock.now += 5_000_000
    _, refresh = await ways.players.sign_in(player, made.secret, "Phone")
    began = clock.now
    clock.now += 5_000_000
    await ways.players.sessions.refresh(refresh.token)
    first, second = await ways.players.sessions.of_player(player)
    assert (first.means, first.device_name, first.renewed_at) == (Means.SIGN_UP, "", None)
    assert (second.means, second.device_name) == (Means.SECRET, "Phone")
    assert (second.started_at, second.renewed_at) == (began, clock.now)
    assert second.expires_at == clock.now + REFRESH_US


async def test_a_player_has_a_bounded_number_of_sessions(
    ways: Ways, clock: Clock, engine: AsyncEngine
) -> None:
    """One more ends the one that was renewed longest ago; of those that ran out nothing is left."""
    made = await ways.guest()
    player = made.player.player
    begun = [made.refresh]
    for _ in range(SESSIONS_MAX):
        clock.now += 1_000_000
        begun.append((await ways.players.sign_in(player, made.secret))[1])
    kept = {session.session for session in await ways.players.sessions.of_player(player)}
    assert kept == {refresh.session for refresh in begun[1:]}
    clock.now += REFRESH_US
    await ways.players.sign_in(player, made.secret)
    async with read(engine) as connection:
        for table in (sessions, refresh_tokens):
            count = select(func.count()).select_from(table)
            assert (await connection.execute(count)).scalar_one() == 1


class Model:
    """A player's sessions by the rules: which tokens serve, and what the spent ones gave."""

    def __init__(self, made: SignedUp) -> None:
        self.made = made
        self.password = ""
        self.live: dict[UUID, str] = {}
        self.spent: list[tuple[UUID, str, str, str]] = []
        self.erased = False
        self.began(made.refresh)

    def began(self, refresh: Refreshing) -> None:
        """A session more."""
        self.live[refresh.session] = refresh.token

    async def step(self, ways: Ways, rng: Random) -> None:
        """Something happens, and is answered as it must be."""
        player = self.made.player.player
        match rng.choice(("secret", "password", "trade", "trade", "again", "reuse", "out", "all")):
            case "secret":
                self.began((await ways.players.sign_in(player, self.made.secret))[1])
            case "password" if not self.password:
                _, refresh = await ways.players.sign_in(player, self.made.secret)
                self.password = PASSWORD
                asked = SignedUp(self.made.player, "", refresh)
                await ways.choose(asked, f"nino{player.hex[-8:]}", PASSWORD)
                self.live = {refresh.session: refresh.token}
            case "password":
                login = f"NINO{player.hex[-8:]}".casefold()
                self.began((await ways.logins.sign_in(login, PASSWORD, "h"))[1])
            case "trade" if self.live:
                session = rng.choice(sorted(self.live))
                attempt = rng.choice(("", ways.request()))
                new = await outcome(ways, self.live[session], attempt)
                assert len(new) == 43
                self.spent.append((session, self.live[session], attempt, new))
                self.live[session] = new
            case "again" if self.spent:
                session, token, attempt, new = rng.choice(self.spent)
                if attempt and self.live.get(session) == new:
                    assert await outcome(ways, token, attempt) == new
            case "reuse" if self.spent:
                session, token, _, _ = rng.choice(self.spent)
                reason = "REUSED" if session in self.live else "INVALID"
                assert await outcome(ways, token, ways.request()) == f"REFRESH_TOKEN_{reason}"
                self.live.pop(session, None)
            case "out" if self.live:
                session = rng.choice(sorted(self.live))
                await ways.players.sessions.end(player, session)
                del self.live[session]
            case "all" if rng.random() < 0.3:
                await ways.players.sessions.end(player)
                self.live = {}

    async def check(self, ways: Ways, rng: Random) -> None:
        """What is listed is what lives; and nothing lives of whoever was erased."""
        found = await ways.players.sessions.of_player(self.made.player.player)
        assert {session.session for session in found} == set(self.live)
        if self.erased:
            for token in (*(spent[1] for spent in self.spent), self.made.refresh.token):
                assert await outcome(ways, token) == "REFRESH_TOKEN_INVALID"
            with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
                await ways.players.sign_in(self.made.player.player, self.made.secret)


@BOTH
@pytest.mark.parametrize("seed", range(2))
async def test_any_order_of_what_happens_is_answered_by_the_rules(
    engine: AsyncEngine, clock: Clock, seed: int
) -> None:
    """Three players sign in, trade, repeat, reuse, sign out and are erased, at two replicas at
    once: each by his own rules, whatever the others do; a spent token never serves."""
    rng, replicas = Random(seed), [Ways(engine, clock, numbers=n * 10**5) for n in (1, 2)]
    models = [Model(await replicas[0].guest(f"Nino {n}")) for n in range(3)]

    async def live(number: int, model: Model) -> None:
        mine = Random(seed * 10 + number)
        for _ in range(60):
            await model.step(mine.choice(replicas), mine)
        if number < 2:
            await mine.choice(replicas).erase(model.made)
            model.live, model.erased = {}, True

    await asyncio.gather(*(live(n, model) for n, model in enumerate(models)))
    for model in models:
        await model.check(rng.choice(replicas), rng)
    async with read(engine) as connection:
        for table in (refresh_tokens, *PERSONAL):
            owners = set((await connection.execute(select(table.c.player_id))).scalars())
            assert owners <= {models[2].made.player.player}
    for each in replicas:
        each.close()


async def count(ways: Ways) -> tuple[int, int]:
    """How many refresh tokens and sessions there are rows of."""
    async with read(ways.engine) as connection:
        return (
            await connection.scalar(select(func.count()).select_from(refresh_tokens)) or 0,
            await connection.scalar(select(func.count()).select_from(sessions)) or 0,
        )


@BOTH
async def test_nothing_is_kept_of_tokens_for_longer_than_they_serve(
    ways: Ways, clock: Clock
) -> None:
    """Whether their player comes back or not. Until then a spent one that is used ends the
    session, a sweep or not; what is swept is answered like one that never was."""
    stays, goes = await ways.guest(), await ways.guest("Dato")
    newest = await outcome(ways, stays.refresh.token)
    await outcome(ways, goes.refresh.token)
    for _ in range(3):
        clock.now += REFRESH_US // 4
        await ways.players.sessions.sweep()
        newest = await outcome(ways, newest)
    assert await count(ways) == (7, 2)
    clock.now += REFRESH_US // 4
    await ways.players.sessions.sweep()
    assert await count(ways) == (3, 1)
    assert await outcome(ways, stays.refresh.token) == "REFRESH_TOKEN_INVALID"
    newest = await outcome(ways, newest)
    (session,) = await ways.players.sessions.of_player(stays.player.player)
    assert session.session == stays.refresh.session
    clock.now += REFRESH_US
    await ways.players.sessions.sweep()
    assert await count(ways) == (0, 0)


async def test_spent_tokens_go_sooner_where_that_is_asked_for(ways: Ways, clock: Clock) -> None:
    """Those that can still be used stay."""
    ways.players.sessions._spent_keep_us = AGAIN_US
    made = await ways.guest()
    second = await outcome(ways, made.refresh.token, TRY)
    clock.now += AGAIN_US - 1
    await ways.players.sessions.sweep()
    assert await outcome(ways, made.refresh.token, TRY) == second
    clock.now += 1
    await ways.players.sessions.sweep()
    assert await outcome(ways, made.refresh.token, TRY) == "REFRESH_TOKEN_INVALID"
    assert await outcome(ways, second) != "REFRESH_TOKEN_INVALID"
