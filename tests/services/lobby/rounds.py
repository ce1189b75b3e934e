"""Games at the tables of the decider's tests: begun, and ended."""

from services.lobby.commands import Confirm, EndGame, Line, SetReady, StartGame
from services.lobby.model import Phase, Rules, Table
from tests.services.lobby.tables import G, given, opened, player, when


def ready(number: int) -> SetReady:
    """A player says that he is ready."""
    return SetReady(player(number), True, G)


def playing(rules: Rules, *others: int) -> Table:
    """A table in the middle of game G, with player 0 and the others at it."""
    table = given(opened(rules, *others))
    for number in (0, *others):
        _, table = when(table, ready(number))
    if table.phase is Phase.WAITING:
        _, table = when(table, StartGame(player(0), G))
    _, table = when(table, Confirm(G))
    assert table.phase is Phase.PLAYING
    return table


def end(*lines: Line, winner: int | None = None, left: tuple[int, ...] = ()) -> EndGame:
    """Game G was played to its end."""
    won = None if winner is None else player(winner)
    return EndGame(G, True, lines, won, frozenset(player(n) for n in left))
