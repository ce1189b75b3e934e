"""How players stand, as it is kept: counted once, ranked as it is written, on either database."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from sqlalchemy import update

from services.kernel.errors import Refused
from services.lobby import standing
from services.lobby.erasures import Erasures, Step, Wish
from services.lobby.forgetting import Playing
from services.lobby.model import Variant
from services.lobby.periods import Period
from services.lobby.schema import standings as standings_table
from services.lobby.stakes import Stake
from services.lobby.standing import Numbers, PlayerGame
from services.lobby.standings import GameEnd, Leader, SeatEnd, board
from services.runtime.database import read, write
from tests.services.lobby.books import DATABASES, HOUR, TABLE, Library, azi_end, library
from tests.services.lobby.tables import game

AZI, DURAK, RAMI = Variant.AZI, Variant.DURAK, Variant.RAMI


@pytest.fixture(params=DATABASES)
async def books(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Library]:
    """Two replicas' books on each database."""
    async with library(tmp_path, request.param) as opened:
        yield opened


def random_end(rng: Random, number: int, people: list[UUID]) -> GameEnd:
    """A game of any kind, with or without bots, finished or cancelled."""
    variant, seats = rng.choice(list(Variant)), rng.sample(people, rng.randint(2, 4))
    nulled = variant is DURAK and rng.random() < 0.2
    finished = rng.random() < 0.9
    places = list(range(1, len(seats) + 1))
    rng.shuffle(places)
    ends = tuple(
        SeatEnd(
            player=player,
            place=0 if nulled else place,
            points=rng.randrange(150) if variant is RAMI else 0,
            first=place == 1 and not nulled,
            durak=variant is DURAK and place == len(seats) and not nulled,
            chips_in=200 if variant is AZI else 0,
            chips_out=rng.randrange(400) if variant is AZI else 0,
        )
        for player, place in zip(seats, places, strict=True)
    )
    people_only = rng.random() < 0.8
    return GameEnd(
        game(number), TABLE, variant, finished, people_only, nulled, ends if finished else ()
    )


def sums(ends: list[GameEnd], player: UUID, variant: Variant, *, people: bool) -> Numbers:
    """What a player's games come to, added up by hand."""
    mine = [
        (end, seat)
        for end in ends
        for seat in end.seats
        if (end.variant, end.people, seat.player) == (variant, people, player)
    ]
    played = [seat for end, seat in mine if not end.nulled]
    return Numbers(
        games=len(played),
        firsts=sum(seat.first for seat in played),
        duraks=sum(seat.durak for seat in played),
        nulls=len(mine) - len(played),
        points=sum(seat.points for seat in played),
        chips_in=sum(seat.chips_in for seat in played),
        chips_out=sum(seat.chips_out for seat in played),
    )


@pytest.mark.parametrize("seed", [1])
async def test_numbers_are_the_sums_of_games_each_counted_once(books: Library, seed: int) -> None:
    """Ends are told several times at once to two replicas, some games are struck and counted again,
    and each replica shows the sums that were added up by hand."""
    rng = Random(seed)
    people = [await books.person(f"P{n}") for n in range(5)]
    ends = [random_end(rng, number, people) for number in range(36)]
    for start in range(0, len(ends), 6):
        told = ends[start : start + 6] * 2
        rng.shuffle(told)
        counted = await asyncio.gather(
            *(books.replicas[n % 2].standings.record(end) for n, end in enumerate(told))
        )
        assert sum(counted) == sum(bool(end.seats) for end in ends[start : start + 6])
        books.clock.now += 40 * HOUR
    struck = rng.sample([end for end in ends if end.seats], 10)
    for end in struck:
        assert await books.books.standings.strike(end.game, struck=True) == len(end.seats)
        assert await books.books.standings.strike(end.game, struck=True) == 0
    for end in struck[:5]:
        await books.books.standings.strike(end.game, struck=False)
    valid = [end for end in ends if end not in struck[5:]]
    for player in people:
        found = await books.replicas[1].standings.statistics(player)
        assert [(each.variant, each.listed) for each in found] == [
            *((AZI, False), (DURAK, True), (RAMI, True))
        ]
        for each in found:
            assert each.people == sums(valid, player, each.variant, people=True)
            assert each.with_bots == sums(valid, player, each.variant, people=False)
        assert await books.books.standings.verify(player, repair=False)


async def test_leaders_are_all_that_are_listed_in_the_written_order(
    books: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each board of each time is what sorting by hand gives, whatever the pages; bots' games,
    those who are not listed and those with too few games are not on it."""
    low = {Period.ALL: 6, Period.MONTH: 4, Period.WEEK: 2}
    monkeypatch.setattr(standing, "DURAK_GAMES_MIN", low)
    rng = Random(5)
    people = [await books.person(f"P{n}") for n in range(8)]
    for player in people[:6]:
        await books.books.standings.set_listed(player, AZI, listed=True)
    await books.books.standings.set_listed(people[0], DURAK, listed=False)
    ended: list[tuple[int, GameEnd]] = []
    for number in range(60):
        end = random_end(rng, number, people)
        ended.append((books.clock.now, end))
        await books.replicas[number % 2].standings.record(end)
        if number in (15, 30):
            books.clock.now += 8 * 24 * HOUR  # another week, and then another month
    recent = [end for at, end in ended if at == books.clock.now]
    for period, ends in ((Period.ALL, [end for _, end in ended]), (Period.WEEK, recent)):
        for variant in Variant:
            listed = {AZI: people[:6], DURAK: people[1:], RAMI: people}[variant]
            least = low[period] if variant is DURAK else 1
            numbers = {p: sums(ends, p, variant, people=True) for p in listed}
            expected = sorted(
                ((by_hand(variant, n), p) for p, n in numbers.items() if n.games >= least),
                reverse=True,
            )
            found = await pages(books, variant, period, rng.randint(1, 4))
            assert [leader.player for leader in found] == [player for _, player in expected]
            assert [leader.numbers for leader in found] == [numbers[p] for _, p in expected]
            assert expected


def by_hand(variant: Variant, numbers: Numbers) -> tuple[float, float, float]:
    """The written order, in fractions."""
    match variant:
        case Variant.AZI:
            return numbers.chips_out - numbers.chips_in, numbers.firsts, -numbers.games
        case Variant.DURAK:
            duraks, firsts = numbers.duraks / numbers.games, numbers.firsts / numbers.games
            return 1 - duraks, firsts, numbers.games
        case Variant.RAMI:
            return numbers.firsts, numbers.points, -numbers.games


async def pages(books: Library, variant: Variant, period: Period, size: int) -> list[Leader]:
    """A whole leaderboard, page by page, from both replicas in turn."""
    found: list[Leader] = []
    for number in range(100):
        after = found[-1] if found else None
        replica = books.replicas[number % 2].standings
        _, page = await replica.leaders(variant, period, after, size)
        found += page
        if len(page) < size:
            return found
    raise AssertionError("the pages do not end")


async def test_a_page_of_a_leaderboard_is_read_from_its_index(books: Library) -> None:
    """In its order, from where the page begins: no page sorts or passes over what is before it."""
    last = Leader(game(1), (5, 4, 3), Numbers())
    for after in (None, last):
        query = board(DURAK, Period.MONTH, 7, after).limit(20)
        async with read(books.books.engine) as connection:
            engine = connection.dialect
            text = str(query.compile(dialect=engine, compile_kwargs={"literal_binds": True}))
            if engine.name == "sqlite":
                rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")
            else:
                await connection.exec_driver_sql("SET enable_seqscan = off")
                await connection.exec_driver_sql("SET enable_bitmapscan = off")
                rows = await connection.exec_driver_sql(f"EXPLAIN {text}")
            plan = "\n".join(str(row[-1]) for row in rows)
        assert "standings_ranked" in plan, plan
        assert "B-TREE" not in plan, plan
        assert "Sort" not in plan, plan
        if after is not None:
            assert "ROW(" in plan or "(measure,measure_next" in plan, plan


async def test_a_new_week_begins_with_nobody_on_its_board(books: Library) -> None:
    """The last week's numbers stay in those of all time."""
    nino, dato = await books.person("Nino"), await books.person("Dato")
    await books.books.standings.set_listed(nino, AZI, listed=True)
    await books.books.standings.record(azi_end(game(1), (nino, 10, 20), (dato, 20, 10)))
    assert [each.player for each in await pages(books, AZI, Period.WEEK, 5)] == [nino]
    books.clock.now += 7 * 24 * HOUR
    assert await pages(books, AZI, Period.WEEK, 5) == []
    assert [each.player for each in await pages(books, AZI, Period.ALL, 5)] == [nino]


async def test_whoever_wishes_so_is_off_every_board_at_once(books: Library) -> None:
    """And on them again with all he played meanwhile."""
    nino, dato = await books.person("Nino"), await books.person("Dato")
    for number in range(3):
        end = azi_end(game(number), (nino, 10, 20), (dato, 20, 10))
        await books.books.standings.record(end)
        await books.books.standings.set_listed(nino, AZI, listed=number != 1)
        shown = [each.numbers.games for each in await pages(books, AZI, Period.MONTH, 5)]
        assert shown == ([] if number == 1 else [number + 1])


async def test_a_cancelled_game_leaves_a_line_that_counts_nowhere(books: Library) -> None:
    """For those who had begun it; nothing was brought or lost, the time was played."""
    nino = await books.person()
    await books.books.stakes.hold(game(1), TABLE, [Stake(0, nino, 70, 70)])
    books.clock.now += HOUR
    end = GameEnd(game(1), TABLE, AZI, False, True, False, ())
    assert await books.books.standings.record(end)
    assert not await books.replicas[1].standings.record(end)
    began = books.clock.now - HOUR
    line = PlayerGame(
        nino, game(1), TABLE, AZI, began, books.clock.now, finished=False, struck=False, people=True
    )
    assert await books.books.standings.games(nino, None, None, 5) == [line]
    assert (await books.books.standings.statistics(nino))[0].people == Numbers()
    usage = (await books.books.limits.look(nino)).usage
    assert (usage.at_risk, usage.brought, usage.played_ms) == (0, 0, 3_600_000)


async def test_games_are_listed_page_by_page_latest_first(books: Library) -> None:
    """Of one kind or of all; those that ended in the same moment too."""
    rng, nino = Random(2), await books.person()
    others = [await books.person(f"P{n}") for n in range(3)]
    ends = [random_end(rng, number, [nino, *others]) for number in range(30)]
    for number, end in enumerate(ends):
        await books.books.standings.record(end)
        books.clock.now += HOUR * (number % 3 == 0)
    for variant in (None, DURAK):
        mine = [
            end.game
            for end in ends
            if nino in {seat.player for seat in end.seats} and variant in (None, end.variant)
        ]
        found: list[PlayerGame] = []
        while page := await books.books.standings.games(
            nino, variant, (found[-1].ended_at, found[-1].game) if found else None, 4
        ):
            found += page
        assert sorted(line.game for line in found) == sorted(mine)
        order = [(line.ended_at, line.game) for line in found]
        assert order == sorted(order, reverse=True)


async def test_what_somebody_wrote_into_the_sums_is_found_and_counted_anew(books: Library) -> None:
    """A number changed, a row too many or missing: each is found, and repaired only if asked."""
    rng = Random(3)
    people = [await books.person(f"P{n}") for n in range(4)]
    for number in range(20):
        await books.books.standings.record(random_end(rng, number, people))
    found = await books.books.standings.counted_players(None, 3)
    found += await books.books.standings.counted_players(found[-1], 3)
    assert found == sorted(people)
    player = people[0]
    before = await books.books.standings.statistics(player)
    mine = standings_table.c.player_id == player
    for change in (
        update(standings_table).where(mine).values(games=standings_table.c.games + 1),
        update(standings_table).where(mine).values(ranked=True, measure=10**9),
        standings_table.delete().where(mine),
    ):
        async with write(books.books.engine) as connection:
            await connection.execute(change)
        assert not await books.books.standings.verify(player, repair=False)
        assert not await books.books.standings.verify(player, repair=True)
        assert await books.books.standings.verify(player, repair=False)
        assert await books.books.standings.statistics(player) == before


async def test_an_erased_player_leaves_nothing_and_gets_nothing(books: Library) -> None:
    """Not even from a game whose end is told late; who plays on keeps his own line."""
    nino, dato = await books.person("Nino"), await books.person("Dato")
    await books.books.standings.set_listed(nino, AZI, listed=True)
    await books.books.standings.record(azi_end(game(1), (nino, 10, 20), (dato, 20, 10)))
    erasures = Erasures(books.books.engine, 10_000, books.clock)
    wish = Wish(nino, "Nino", "", give_up_chips=True, leave_claims=False)
    erasure = await erasures.begin(wish)
    await books.books.standings.record(azi_end(game(2), (nino, 10, 20), (dato, 20, 10)))
    assert len(await books.books.standings.games(nino, None, None, 9)) == 2
    for step in (Step.AGREED, Step.EMPTIED, Step.FORGOTTEN):
        erasure = await erasures.advance(erasure, step)
    await books.books.standings.record(azi_end(game(3), (nino, 10, 20), (dato, 20, 10)))
    await Playing(books.books.engine).erase(nino)
    await erasures.remove(erasure, 1_000)
    await books.replicas[1].standings.record(azi_end(game(4), (nino, 1, 2), (dato, 2, 1)))
    assert await books.books.standings.games(nino, None, None, 9) == []
    assert await books.books.standings.counted_players(None, 9) == [dato]
    assert await pages(books, AZI, Period.ALL, 5) == []
    assert len(await books.books.standings.games(dato, None, None, 9)) == 4
    with pytest.raises(Refused, match="BEING_ERASED"):
        await books.books.standings.set_listed(nino, DURAK, listed=False)
