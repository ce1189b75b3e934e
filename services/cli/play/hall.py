"""The lobby on the screen: the tables one may sit down at."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kozyr.lobby.v1 import lobby_pb2

from services.cli.finding import LEVEL_NAMES
from services.cli.pictures.look import plural
from services.cli.play.azi import chips
from services.cli.play.drawing import keys_line
from services.cli.play.keys import LOBBY, Do
from services.cli.play.scene import Told
from services.cli.play.spans import Line, Role, Span, between, fitted, folded, line
from services.client.variants import GAMES

NAME = 15
STATES: Mapping[int, str] = {
    lobby_pb2.TABLE_STATE_WAITING: "waiting",
    lobby_pb2.TABLE_STATE_STARTING: "starting",
    lobby_pb2.TABLE_STATE_PLAYING: "playing",
}


@dataclass(frozen=True, slots=True)
class Hall:
    """What the lobby shows: tables, the game they are narrowed to (empty: all), the cursor."""

    name: str
    tables: tuple[lobby_pb2.Table, ...] = ()
    game: str = ""
    free: bool = False
    at: int = 0
    notice: Told | None = None
    alone: bool = False
    known: bool = False
    """Whether the server has told of its tables yet."""

    @property
    def listed(self) -> tuple[lobby_pb2.Table, ...]:
        """The tables that are shown."""
        return tuple(
            table
            for table in self.tables
            if (not self.game or game_name(table) == self.game)
            and (not self.free or free_seats(table))
        )

    @property
    def chosen(self) -> lobby_pb2.Table | None:
        """The table at the cursor."""
        listed = self.listed
        return listed[min(self.at, len(listed) - 1)] if listed else None

    def moved(self, by: int) -> "Hall":
        """The cursor some tables further."""
        last = max(0, len(self.listed) - 1)
        return replace(self, at=min(last, max(0, min(self.at, last) + by)))

    def next_game(self) -> "Hall":
        """Narrowed to the next game, or to none."""
        order = ("", *GAMES)
        return replace(self, game=order[(order.index(self.game) + 1) % len(order)], at=0)


def game_name(table: lobby_pb2.Table) -> str:
    """`azi`, `durak` or `rami`; empty for a game this program does not know."""
    which: Any = table.rules.options.WhichOneof("options")
    name: str = which or ""
    return name


def free_seats(table: lobby_pb2.Table) -> int:
    """How many seats are free."""
    return sum(not seat.player_id for seat in table.seats)


def seated(table: lobby_pb2.Table, player_id: str) -> bool:
    """Whether a player sits there."""
    return any(seat.player_id == player_id for seat in table.seats)


def drawn(hall: Hall, columns: int, rows: int) -> list[Line]:
    """The lobby on a whole screen."""
    lines = [_bar(hall, columns), (), _games(hall), ()]
    foot = [] if hall.notice is None else _notice(hall.notice, columns)
    room = rows - len(lines) - len(foot) - 2
    listed = hall.listed
    at = min(hall.at, max(0, len(listed) - 1))
    first = max(0, min(at - room // 2, len(listed) - room))
    shown = [_table(hall, listed[i], i, at) for i in range(first, min(len(listed), first + room))]
    lines += [_heads(), *shown] if listed else _empty(hall)
    lines = fitted(lines, columns, rows - len(foot) - 1)
    return [*lines, *fitted(foot, columns, len(foot)), *fitted([_keys(hall, columns)], columns, 1)]


def _bar(hall: Hall, columns: int) -> Line:
    where = "without a server" if hall.alone else plural(len(hall.tables), "table")
    whole = between(line(f" Kozyr · {hall.name}"), line(f"{where} "), columns)
    return tuple(Span(span.text, Role.BAR) for span in whole)


def _games(hall: Hall) -> Line:
    spans: list[Span] = [Span(" ")]
    for name in ("", *GAMES):
        role = Role.CHOSEN if name == hall.game else Role.PLAIN
        spans += [Span(f" {name.capitalize() or 'All games'} ", role, f"game:{name}"), Span(" ")]
    free = "  free seats only" if hall.free else ""
    return (*spans, Span(free, Role.TURN))


def _heads() -> Line:
    return line(Span(f"    {'game':<7}{'host':<{NAME + 1}}{'seats':<12}at the table", Role.MUTED))


def _empty(hall: Hall) -> list[Line]:
    if not hall.known:
        return [line(Span("  Looking for tables …", Role.MUTED))]
    return [
        line("  No table is open here."),
        (),
        line(
            "  ",
            Span("n", Role.KEY, "key:n"),
            " opens one, ",
            Span("p", Role.KEY, "key:p"),
            " finds a seat at once.",
        ),
    ]


def _table(hall: Hall, table: lobby_pb2.Table, index: int, at: int) -> Line:
    """A table in one line."""
    here, spot = index == at, f"table:{index}"
    taken = len(table.seats) - free_seats(table)
    dots = "●" * taken + "○" * (len(table.seats) - taken)
    text = (
        f"{game_name(table).capitalize():<7}{_host(table):<{NAME + 1}}"
        f"{dots:<7}{f'{taken}/{len(table.seats)}':<5}{_others(table):<27.26}"
    )
    open_for_us = free_seats(table) and table.state == lobby_pb2.TABLE_STATE_WAITING
    role = Role.CHOSEN if here else Role.PLAIN if open_for_us else Role.MUTED
    return (
        Span("  ▶ " if here else "    ", Role.TURN, spot),
        Span(text, role, spot),
        Span(_state(table), Role.GOOD if open_for_us else Role.MUTED, spot),
    )


def _host(table: lobby_pb2.Table) -> str:
    named = [seat.display_name for seat in table.seats if seat.player_id == table.host_id]
    return (named[0] if named and table.host_id else "-")[:NAME]


def _others(table: lobby_pb2.Table) -> str:
    """The stakes of Azi, else who sits there."""
    if game_name(table) == "azi":
        fee = table.rules.options.azi.entry_fee or 1
        least = f", from {chips(table.rules.buy_in_min)}" if table.rules.buy_in_min else ""
        return f"fee {chips(fee)}{least}"
    bots = [seat for seat in table.seats if seat.bot_level]
    if bots:
        levels = sorted({LEVEL_NAMES[seat.bot_level] for seat in bots})
        return f"{len(bots)} {'bot' if len(bots) == 1 else 'bots'}, {'/'.join(levels)}"
    return ""


def _state(table: lobby_pb2.Table) -> str:
    if table.state == lobby_pb2.TABLE_STATE_WAITING and free_seats(table):
        return "free"
    return STATES.get(table.state, "")


def _notice(notice: Told, columns: int) -> list[Line]:
    return [(Span(" "), *each) for each in folded(notice.text, columns - 2, notice.role)]


def _keys(hall: Hall, columns: int) -> Line:
    hidden = {Do.QUICK, Do.JOIN, Do.NEXT, Do.FREE} if hall.alone else set()
    if hall.chosen is None or not hall.chosen.rules.spectators:
        hidden.add(Do.WATCH)
    keys = [key for key in LOBBY if key.do not in hidden]
    return keys_line(keys, columns, (Do.RULES, Do.HELP, Do.QUIT))
