"""The end of a game reaches numbers, limits and table once, wherever a lobby dies in between."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import view_pb2
from kozyr.lobby.v1 import lobby_pb2

from services.kernel.envelope import Claimed
from services.lobby.ending import Ending
from services.lobby.evolve import START
from services.lobby.model import Phase
from services.lobby.reports import end_of_game
from services.lobby.stakes import Stake
from services.lobby.standings import Standings
from services.lobby.tables import Tables
from services.runtime.store.api import StoreUnavailable
from tests.services.lobby.books import HOUR
from tests.services.lobby.peers import peers
from tests.services.lobby.saga import GAME, TABLE, Fault, Rig, begin, rig
from tests.services.lobby.tables import azi_rules, game, player


@pytest.fixture
async def lobby(tmp_path: Path) -> AsyncIterator[Rig]:
    """A lobby without its server, where two persons play a game."""
    async with peers(tmp_path) as others, rig(others, lambda _n, _i: Fault.NONE) as opened:
        for number in (0, 1):
            others.bank.balances[str(player(number))] = 10_000
        await begin(opened, azi_rules(2), 2, 0)
        await opened.work()
        assert (await opened.table()).phase is Phase.PLAYING
        yield opened


class Dying:
    """Tables of a lobby that dies before or after the end is appended, for so many times."""

    def __init__(self, tables: Tables, deaths: int, *, after: bool) -> None:
        self._tables, self._deaths, self._after = tables, deaths, after

    def __getattr__(self, name: str) -> Any:
        """Everything else is as it was."""
        return getattr(self._tables, name)

    async def report(self, *given: Any) -> None:
        """Append the end, or die."""
        dies, self._deaths = self._deaths > 0, self._deaths - 1
        if self._after or not dies:
            await self._tables.report(*given)
        if dies:
            raise StoreUnavailable("died")


def ending(lobby: Rig, tables: Any = None) -> Ending:
    """What takes reports."""
    standings = Standings(lobby.engine, lambda: lobby.clock)
    return Ending(tables or lobby.tables, lobby.players, standings, lobby.stakes, lobby.book)


REPORT = lobby_pb2.ReportGameRequest(
    table_id=str(TABLE),
    game_id=str(GAME),
    stage=view_pb2.STAGE_FINISHED,
    result=view_pb2.Result(
        winner=0,
        seats=[
            view_pb2.SeatResult(
                seat=seat, player_id=str(player(seat)), stack_before=200, stack_after=after
            )
            for seat, after in enumerate((260, 140))
        ],
    ),
)


async def check_once(lobby: Rig) -> None:
    """One line a player, nothing at stake, and the table waits with the stacks of the end."""
    standings = Standings(lobby.engine, lambda: lobby.clock)
    for number, after in enumerate((260, 140)):
        (line,) = await standings.games(player(number), None, None, 9)
        assert (line.game, line.chips_in, line.chips_out, line.fresh) == (GAME, 200, after, 200)
        used = (await lobby.book.look(player(number))).usage
        assert (used.at_risk, used.brought) == (0, 200)
        assert await standings.verify(player(number), repair=False)
    table = await lobby.table()
    assert (table.phase, table.games) == (Phase.WAITING, 1)
    assert [(seat.stack, seat.fresh) for _, seat in table.taken()] == [(260, 0), (140, 0)]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("deaths", [1, 2])
async def test_a_lobby_that_dies_at_an_end_counts_it_once(
    lobby: Rig, deaths: int, after: bool
) -> None:
    """Before the table has it or after; it is told until it was taken, and once more."""
    dying = ending(lobby, Dying(lobby.tables, deaths, after=after))
    for _ in range(deaths):
        with pytest.raises(StoreUnavailable):
            await dying.report(TABLE, REPORT)
    await dying.report(TABLE, REPORT)
    await ending(lobby).report(TABLE, REPORT)
    await check_once(lobby)


async def test_an_end_an_older_release_gave_the_table_is_counted_when_it_is_told_again(
    lobby: Rig,
) -> None:
    """The table has it, the numbers do not."""
    await lobby.tables.report(TABLE, end_of_game(REPORT))
    await ending(lobby).report(TABLE, REPORT)
    await check_once(lobby)


async def test_what_is_at_stake_in_games_that_are_no_more_is_let_go(lobby: Rig) -> None:
    """An older release took an end: the sweep finds it. A game that runs stays, however long."""
    other = Stake(0, player(7), 50, 50)
    await lobby.stakes.hold(game(5), TABLE, [other])
    lobby.clock += 48 * HOUR
    assert await ending(lobby).sweep(None) is None
    assert (await lobby.book.look(player(7))).usage.at_risk == 0
    assert (await lobby.book.look(player(0))).usage.at_risk == 200
    await lobby.tables.report(TABLE, end_of_game(REPORT))
    await ending(lobby).sweep(None)
    assert (await lobby.book.look(player(0))).usage.at_risk == 0


async def test_a_start_that_is_taken_up_when_it_is_over_leaves_nothing_at_stake(lobby: Rig) -> None:
    """A replica that was frozen between looking at the table and beginning the game."""
    await lobby.stakes.hold(game(6), TABLE, [Stake(0, player(0), 50, 50)])
    await lobby.starter.handle(START, Claimed(TABLE, START, str(game(6)), 1, 0, 1))
    assert (await lobby.book.look(player(0))).usage.at_risk == 200
