"""Limits as they are kept: no order of games, changes and days breaks them, on either database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from services.kernel.errors import Refused
from services.lobby.limitbook import CHANGES_A_DAY, Action, Change
from services.lobby.limits import FOR_GOOD, Ask, LimitKind
from services.lobby.stakes import Stake
from services.runtime.store.api import RequestReused
from tests.services.lobby.books import (
    DATABASES,
    GAMES_MAX,
    HOUR,
    TABLE,
    Library,
    azi_end,
    library,
)
from tests.services.lobby.tables import game

DAYS = {LimitKind.LOSS_DAY, LimitKind.STAKE_DAY, LimitKind.TIME_DAY}


@pytest.fixture(params=DATABASES)
async def books(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Library]:
    """Two replicas' books on each database."""
    async with library(tmp_path, request.param) as opened:
        yield opened


def changed(player: UUID, number: int, **given: Any) -> Change:
    """A change of a player's own limit, or as it is given."""
    action = given.pop("action", Action.SET)
    return Change(player, action, number.to_bytes(32, "big"), bytes(32), **given)


@dataclass
class Played:
    """A game on paper."""

    begun: int
    stacks: dict[UUID, tuple[int, int]]
    """Each player's chips, and those of them that are fresh."""
    ended: int | None = None
    out: dict[UUID, int] = field(default_factory=dict)


@dataclass
class Paper:
    """Games and limits as one would keep them on paper."""

    games: dict[UUID, Played] = field(default_factory=dict)
    limits: dict[tuple[UUID, LimitKind], int] = field(default_factory=dict)

    def may(self, player: UUID, chips: int, fresh: int, now: int) -> bool:
        """Whether a player may begin a game."""
        mine = [each for each in self.games.values() if player in each.stacks]
        return sum(each.ended is None for each in mine) < GAMES_MAX and all(
            self.takes(kind, chips, fresh) + self.used(player, kind, now) <= amount
            for (whose, kind), amount in self.limits.items()
            if whose == player
        )

    def takes(self, kind: LimitKind, chips: int, fresh: int) -> int:
        """What a game takes of a limit."""
        match kind:
            case LimitKind.STAKE_DAY:
                return fresh
            case LimitKind.TIME_DAY:
                return 1
            case _:
                return chips or -(1 << 60)

    def used(self, player: UUID, kind: LimitKind, now: int) -> int:
        """What is used of a limit, stacks of running games included."""
        mine = [each for each in self.games.values() if player in each.stacks]
        match kind:
            case LimitKind.STAKE_DAY:
                today = [each for each in mine if name(each.begun, kind) == name(now, kind)]
                return sum(each.stacks[player][1] for each in today)
            case LimitKind.TIME_DAY:
                return len({hour for each in mine for hour in hours(each, now)}) * 3_600_000
            case _:
                ended = [g for g in mine if g.ended and name(g.ended, kind) == name(now, kind)]
                lost = sum(each.stacks[player][0] - each.out[player] for each in ended)
                risk = sum(each.stacks[player][0] for each in mine if each.ended is None)
                return max(0, lost) + risk


def name(at: int, kind: LimitKind) -> object:
    """The period of a kind that a moment lies in."""
    day = datetime.fromtimestamp(at // 1_000_000, UTC)
    if kind in DAYS:
        return day.date()
    return day.isocalendar()[:2] if kind is LimitKind.LOSS_WEEK else (day.year, day.month)


def hours(played: Played, now: int) -> range:
    """The hours of today in which a game ran; all moments of these tests are full hours."""
    midnight = now // (24 * HOUR) * 24
    end = (now if played.ended is None else played.ended) // HOUR
    return range(max(played.begun // HOUR, midnight), end)


@pytest.mark.parametrize("seed", range(2))
async def test_a_game_begins_exactly_when_the_limits_on_paper_allow_it(
    books: Library, seed: int
) -> None:
    """Random players, stacks, results, limits and hours, on two replicas; nothing is ever lost
    beyond a limit, however the stacks of running games end."""
    rng, paper, clock = Random(seed), Paper(), books.clock
    people = [await books.person(f"P{n}") for n in range(3)]
    running: list[UUID] = []
    for number in range(70):
        replica = rng.choice(books.replicas)
        match rng.randrange(5):
            case 0:
                player, kind = rng.choice(people), rng.choice(list(LimitKind))
                amount = rng.choice((0, 60, 200, 700)) * (1 if kind < 5 else 30_000)
                held = paper.limits.get((player, kind))
                if held is None or amount <= held:
                    paper.limits[player, kind] = amount
                    await replica.limits.change(changed(player, number, kind=kind, amount=amount))
            case 1 if running:
                ended = running.pop(rng.randrange(len(running)))
                played, clock.now = paper.games[ended], clock.now + HOUR
                played.ended = clock.now
                played.out = {p: rng.randrange(2 * c + 1) for p, (c, _) in played.stacks.items()}
                lines = [(p, c, played.out[p]) for p, (c, _) in played.stacks.items()]
                assert await replica.standings.record(azi_end(ended, *lines))
            case 2:
                clock.now += rng.choice((1, 2, 5, 30)) * HOUR
            case _:
                chosen = rng.sample(people, rng.randint(1, 3))
                stacks = {p: fresh_stack(rng) for p in chosen}
                given = [
                    Stake(seat, player, chips, fresh)
                    for seat, (player, (chips, fresh)) in enumerate(stacks.items())
                ]
                over = tuple(
                    s.seat for s in given if not paper.may(s.player, s.chips, s.fresh, clock.now)
                )
                assert await replica.stakes.hold(game(number), TABLE, given) == over
                if not over:
                    running.append(game(number))
                    paper.games[game(number)] = Played(clock.now, stacks)
        await check(books, paper, rng.choice(people))


def fresh_stack(rng: Random) -> tuple[int, int]:
    """A stack, and how much of it was not played before."""
    chips = rng.choice((0, 20, 50, 120))
    return chips, rng.randint(0, chips)


async def check(books: Library, paper: Paper, player: UUID) -> None:
    """What is shown of a player's limits is what paper says."""
    now = books.clock.now
    held = await books.books.limits.look(player)
    for kind in LimitKind:
        amount = held.restraint.limit(kind).amount(now)
        assert amount == paper.limits.get((player, kind))
        if amount is not None:
            used = paper.used(player, kind, now)
            assert held.usage.left(kind, amount) == max(0, amount - used)


@pytest.mark.parametrize("kind", [LimitKind.LOSS_DAY, LimitKind.STAKE_DAY])
async def test_games_begun_at_once_on_two_replicas_stay_within_a_limit(
    books: Library, kind: LimitKind
) -> None:
    """Of twenty tables that begin a game at the same moment as many do as the limit has room for;
    a seat that may not play keeps its neighbour's chips untouched."""
    nino, dato = await books.person("Nino"), await books.person("Dato")
    await books.books.limits.change(changed(nino, 1, kind=kind, amount=70))

    async def begin(number: int) -> tuple[int, ...]:
        replica = books.replicas[number % 2]
        seats = [Stake(0, dato, 20, 20), Stake(3, nino, 20, 20)]
        return await replica.stakes.hold(game(number), TABLE, seats)

    answers = await asyncio.gather(*(begin(number) for number in range(20)))
    assert sorted(answers) == [()] * 3 + [(3,)] * 17
    assert (await books.books.limits.look(dato)).usage.at_risk == 60
    with pytest.raises(Refused, match="LIMIT_REACHED"):
        await books.replicas[1].limits.require(nino, Ask(20, 20))
    begun = next(number for number, answer in enumerate(answers) if not answer)
    await books.books.stakes.release(game(begun))
    await books.replicas[1].limits.require(nino, Ask(20, 20))


async def test_games_begun_at_once_on_two_replicas_are_no_more_than_one_may_play(
    books: Library,
) -> None:
    """Twenty tables of one player, all of which begin at the same moment: as many do as he may
    play, and a player whom nothing holds back is in none of the others. An end makes room."""
    nino = await books.person()
    others = [await books.person(f"P{n}") for n in range(20)]

    async def begin(number: int, seats: Sequence[Stake]) -> tuple[int, ...]:
        return await books.replicas[number % 2].stakes.hold(game(number), TABLE, seats)

    tables = [(Stake(1, other, 20, 20), Stake(2, nino, 0, 0)) for other in others]
    answers = await asyncio.gather(*(begin(n, seats) for n, seats in enumerate(tables)))
    assert sorted(answers) == [()] * GAMES_MAX + [(2,)] * (20 - GAMES_MAX)
    begun = [number for number, answer in enumerate(answers) if not answer]
    assert [await begin(number, tables[number]) for number in begun] == [()] * GAMES_MAX
    for number, other in enumerate(others):
        held = await books.books.limits.look(other)
        assert held.usage.at_risk == (20 if number in begun else 0)
    with pytest.raises(Refused, match="TOO_MANY_GAMES") as caught:
        await books.books.stakes.require_room(nino)
    assert caught.value.facts == {"limit": "games", "most": str(GAMES_MAX)}
    ended = azi_end(game(begun[0]), (nino, 0, 0), (others[begun[0]], 20, 20))
    assert await books.books.standings.record(ended)
    await books.replicas[1].stakes.require_room(nino)
    late = [begin(n, tables[n]) for n in range(20) if n not in begun]
    assert sorted(await asyncio.gather(*late)) == [(), *[(2,)] * (19 - GAMES_MAX)]


async def test_a_limit_tightened_while_games_begin_holds_for_all_that_come_after(
    books: Library,
) -> None:
    """Whichever is first at the database: afterwards no game begins that the limit forbids."""
    nino = await books.person()
    for number in range(8):
        first, second = books.replicas if number % 2 else books.replicas[::-1]
        seat = Stake(0, nino, 10, 10)
        asked = changed(nino, number, kind=LimitKind.LOSS_DAY, amount=10 * number)
        over, held = await asyncio.gather(
            first.stakes.hold(game(100 + number), TABLE, [seat]), second.limits.change(asked)
        )
        amount = held.restraint.limit(LimitKind.LOSS_DAY).amount(books.clock.now)
        assert amount == 0
        assert over in ((), (0,))
        assert await first.stakes.hold(game(200 + number), TABLE, [seat]) == (0,)
        assert not number or over == (0,)


async def test_a_game_begins_once_and_never_again_after_its_end(books: Library) -> None:
    """A start that is taken up again changes nothing, also if the limit is used up meanwhile, and
    leaves nothing at stake where the game was played already."""
    nino = await books.person()
    seat, one, two = Stake(0, nino, 50, 50), *books.replicas
    assert await one.stakes.hold(game(1), TABLE, [seat]) == ()
    await one.limits.change(changed(nino, 1, kind=LimitKind.LOSS_DAY, amount=0))
    assert await two.stakes.hold(game(1), TABLE, [seat]) == ()
    assert (await one.limits.look(nino)).usage.at_risk == 50
    await one.standings.record(azi_end(game(1), (nino, 50, 40)))
    assert await two.stakes.hold(game(1), TABLE, [seat]) == ()
    usage = (await one.limits.look(nino)).usage
    assert (usage.at_risk, usage.brought, usage.used(LimitKind.LOSS_WEEK)) == (0, 50, 10)


async def test_a_change_is_made_once_and_stands_in_the_record(books: Library) -> None:
    """The same request again, on another replica too; another one under its name is refused. What
    came to nothing leaves no trace."""
    nino, (one, two) = await books.person(), books.replicas
    tight = changed(nino, 1, kind=LimitKind.TIME_DAY, amount=1_000)
    await asyncio.gather(*(book.limits.change(tight) for book in (one, two) * 3))
    loose = changed(nino, 2, kind=LimitKind.TIME_DAY, amount=None)
    await one.limits.change(loose)
    books.clock.now += HOUR
    again = await two.limits.change(loose)
    pending = again.restraint.limit(LimitKind.TIME_DAY).pending(books.clock.now)
    assert pending is not None
    assert pending.at == books.clock.now + 23 * HOUR  # the day does not begin anew
    with pytest.raises(RequestReused):
        await one.limits.change(Change(nino, Action.SET, tight.request, b"\1" * 32, tight.kind, 5))
    nothing = changed(nino, 3, action=Action.WITHDRAWN, kind=LimitKind.LOSS_DAY)
    with pytest.raises(Refused, match="NO_CHANGE_PENDING"):
        await one.limits.change(nothing)
    by_house = changed(
        nino, 4, action=Action.EXCLUDED_BY_HOUSE, until=1, operator="olga", reason="He asked."
    )
    await two.limits.change(by_house)
    noted = await one.limits.changes(nino, None, 10)
    assert [(each.number, each.change) for each in noted] == [(3, by_house), (2, loose), (1, tight)]
    assert [each.number for each in await one.limits.changes(nino, 3, 1)] == [2]
    assert noted[1].effect_at - noted[1].changed_at == 24 * HOUR


async def test_a_player_changes_his_limits_so_often_a_day_and_no_more(books: Library) -> None:
    """Each change is kept; who wants to be excluded for good always may, and so may the house."""
    nino, kind = await books.person(), LimitKind.LOSS_DAY
    for number in range(CHANGES_A_DAY):
        await books.books.limits.change(changed(nino, number, kind=kind, amount=1_000 - number))
    over = changed(nino, 500, kind=kind, amount=5)
    with pytest.raises(Refused, match="TOO_MANY_CHANGES") as caught:
        await books.books.limits.change(over)
    assert caught.value.retry_after_ms == 12 * 3_600_000
    await books.books.limits.change(changed(nino, 0, kind=kind, amount=1_000))  # made before
    house = changed(
        nino, 501, action=Action.SET_BY_HOUSE, kind=kind, amount=1, operator="olga", reason="x"
    )
    await books.books.limits.change(house)
    for_good = changed(nino, 502, action=Action.EXCLUDED, until=FOR_GOOD)
    await books.books.limits.change(for_good)
    books.clock.now += 12 * HOUR
    await books.books.limits.change(over)


async def test_only_persons_that_there_are_have_limits(books: Library) -> None:
    """Somebody unknown is refused."""
    with pytest.raises(Refused, match="PLAYER_NOT_FOUND"):
        await books.books.limits.change(changed(game(1), 1, kind=LimitKind.LOSS_DAY, amount=1))
    assert not await books.books.limits.limited(game(1))
    await books.books.limits.require(game(1), Ask(10**12, 10**12))


async def test_games_that_began_long_ago_are_found_page_by_page(books: Library) -> None:
    """Each once, oldest first; those of the last minutes are left alone."""
    people = [await books.person(f"P{n}") for n in range(2)]
    for number in range(5):
        seats = [Stake(seat, player, 0, 0) for seat, player in enumerate(people)]
        await books.books.stakes.hold(game(number), TABLE, seats)
        books.clock.now += HOUR
    books.clock.now -= HOUR
    found = await books.books.stakes.stale(None, 3)
    assert [each.game for each in found] == [game(0), game(1), game(2)]
    assert [each.game for each in await books.books.stakes.stale(found[-1], 3)] == [game(3)]
