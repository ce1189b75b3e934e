"""What must hold at a table before something may happen there. Pure."""

from uuid import UUID

from services.kernel.errors import FieldProblem, Kind, Refused, denied, invalid, precondition
from services.lobby.evolve import STACK_BELOW_ENTRY_FEE, rules_of
from services.lobby.model import BotLevel, Phase, Rules, Seat, Table


class Moot(Exception):
    """Work that is not needed any more: the table has moved on."""


def seat_of(table: Table, player: UUID) -> tuple[int, Seat]:
    """The player's seat; raises Refused NOT_SEATED."""
    number = table.seat_of(player)
    seat = table.seats[number] if number is not None else None
    if number is None or seat is None:
        raise precondition("NOT_SEATED", "the player does not sit at this table")
    return number, seat


def idle_seat(table: Table, player: UUID) -> int:
    """The player's seat, which must not be in a running game."""
    number, _ = seat_of(table, player)
    if in_game(table, number):
        raise running()
    return number


def in_game(table: Table, number: int) -> bool:
    """Whether the seat takes part in a game that is being opened or played."""
    return table.phase in {Phase.STARTING, Phase.PLAYING} and number in table.playing


def free_seat(table: Table, wanted: int | None) -> int:
    """The seat that is wanted, or any free one; raises Refused."""
    free = table.free()
    if wanted is None:
        if not free:
            raise precondition("TABLE_FULL", "every seat is taken")
        return free[0]
    if not 0 <= wanted < len(table.seats):
        raise invalid("seat", f"must be 0 to {len(table.seats) - 1}")
    if wanted not in free:
        raise precondition("SEAT_TAKEN", "the seat is taken", seat=str(wanted))
    return wanted


def buy_in(rules: Rules, chips: int) -> int:
    """The stack to sit down with; raises Refused BUY_IN_OUT_OF_BOUNDS."""
    stack = chips or rules.buy_in_min
    require_bounds(rules, stack)
    return stack


def require_bounds(rules: Rules, stack: int) -> None:
    """Raise Refused unless the table's bounds allow this stack."""
    low, high = rules.buy_in_min, rules.buy_in_max
    if not low <= stack <= high:
        raise precondition(
            "BUY_IN_OUT_OF_BOUNDS",
            f"a stack must be {low} to {high} chips",
            low=str(low),
            high=str(high),
        )


def require_fee(table: Table, seat: Seat) -> None:
    """Raise Refused unless the seat can pay the entry fee."""
    fee = rules_of(table).entry_fee
    if seat.stack < fee:
        raise precondition(
            STACK_BELOW_ENTRY_FEE,
            "top up to pay the entry fee",
            fee=str(fee),
            stack=str(seat.stack),
        )


def require_host(table: Table, player: UUID) -> None:
    """Raise Refused NOT_HOST for anybody else."""
    if table.host != player:
        raise denied("NOT_HOST", "only the host may do this")


def require_person(seat: Seat) -> None:
    """Raise Refused NOT_A_PERSON for a bot."""
    if seat.bot is not BotLevel.PERSON:
        raise precondition("NOT_A_PERSON", "a bot sits there")


def require_bots_allowed(rules: Rules) -> None:
    """Raise Refused BOTS_NOT_ALLOWED, naming the rule, where there are to be none."""
    if rules.no_bots:
        raise Refused(
            Kind.PRECONDITION,
            "BOTS_NOT_ALLOWED",
            "no bots are allowed at this table",
            fields=(FieldProblem("rules.no_bots", "allows none"),),
        )


def require_waiting(table: Table) -> None:
    """Raise Refused GAME_RUNNING unless the table is between games."""
    if table.phase in {Phase.STARTING, Phase.PLAYING}:
        raise running()


def running() -> Refused:
    """Between games it would be possible."""
    return precondition("GAME_RUNNING", "a game is running; between games this is possible")
