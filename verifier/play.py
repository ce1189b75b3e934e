"""A log executed again: every append must be what the rules make of the command behind it.

The frame around the rules (seeds, deals laid open, absence, the clock, the end) is written here
once more, from docs/fairness/README.md, on nothing but `engines`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from engines import azi, rami
from engines.api import Act, Command, RuleViolation, Start, Timeout
from engines.cards import Card
from engines.openings import cards_root
from engines.shuffle import (
    CONTRIBUTION_BYTES_MAX,
    CONTRIBUTION_BYTES_MIN,
    deal_seed,
    digest,
    drawn,
    shuffled,
)
from verifier import events as e
from verifier.chain import Row
from verifier.results import result_of
from verifier.wire import Unreadable
from verifier.wrong import Wrong

HASH_BYTES = 32
TAKEOVER_MISSED = 2
"""Turns missed in a row after which a bot takes over, where the table names no other number."""
TAKEOVER_POLICY = 2
OWN = "own"


@dataclass(frozen=True, slots=True)
class Chance:
    """Decks and draws from the server's seed and the players'."""

    server_seed: bytes
    game: UUID
    contributions: tuple[bytes | None, ...]

    def seed(self, deal: int) -> bytes:
        """The seed of a deal, from 1."""
        return deal_seed(self.server_seed, deal, self.game.bytes, self.contributions)

    def deck(self, deal: int, pack: Sequence[Card]) -> tuple[Card, ...]:
        """The deck of a deal."""
        return shuffled(self.seed(deal), pack)

    def seat(self, deal: int, label: str, bound: int) -> int:
        """A draw beside the deck."""
        return drawn(self.seed(deal), label, bound)


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat now: the seed it gave counts only while `status` is `revealed`."""

    opened: e.SeatOpened
    status: str
    hash: bytes = b""
    seed: bytes = b""
    missed: int = 0
    bot_plays: bool = False
    left: bool = False


@dataclass(frozen=True, slots=True)
class Deal:
    """A deal that was made and is not laid open."""

    deal: int
    deck: tuple[Card, ...]
    dropped: tuple[e.DroppedCard, ...] = ()


@dataclass(slots=True)
class Game:
    """A game as far as its log has been executed. `stage` is `committing`, `revealing`, `playing`
    or `finished`; moments are Unix microseconds. `banks` are the seats' time banks, microseconds,
    empty where there are none."""

    game: UUID
    server_seed: bytes
    opened: e.GameOpened | None = None
    seats: tuple[Seat, ...] = ()
    stage: str = ""
    state: Any = None
    deals: tuple[Deal, ...] = ()
    result: e.Result | None = None
    turn_at: int = 0
    credit_ms: int = 0
    banks: tuple[int, ...] = ()
    at: int = 0
    dealt: int = field(default=0)

    @property
    def engine(self) -> Any:
        """The rules this game is played by."""
        return e.RULEBOOK[self._opened.rules]

    @property
    def turn(self) -> int:
        """The number of the present decision."""
        return 0 if self.state is None else int(self.state.turn)

    @property
    def own(self) -> bool:
        """Whether cards are opened one by one, and never all of them."""
        return bool(self._opened.options.reveal == OWN)

    @property
    def _opened(self) -> e.GameOpened:
        if self.opened is None:
            raise Wrong(1, "the log does not begin with GameOpened")
        return self.opened

    @property
    def deadline(self) -> int | None:
        """When the turn time of the present decision is up, and time banks begin to run."""
        if self.stage != "playing":
            return None
        return self.turn_at + (self._opened.turn_ms + self.credit_ms) * 1_000

    @property
    def asked(self) -> tuple[int, ...]:
        """The seats that are asked now."""
        return tuple(self.engine.to_act(self.state)) if self.stage == "playing" else ()


def execute(game: UUID, server_seed: bytes, rows: Sequence[Row]) -> Game:
    """Execute a whole log; raises Wrong at the first version that is not as it must be."""
    made = Game(game, server_seed)
    for group in appends(rows):
        version = group[0].version
        if made.stage == "finished":
            raise Wrong(version, "something follows the end of the game")
        try:
            found = [e.decode(row) for row in group]
        except Unreadable as problem:
            raise Wrong(version, f"cannot be read: {problem}") from None
        _check_clock(made, group, found[0])
        try:
            expected = _expected(made, found)
        except RuleViolation as violation:
            raise Wrong(version, f"the rules refuse this move: {violation.reason}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
            raise Wrong(version, f"nothing leads here ({type(problem).__name__})") from None
        for row, event, must in zip(group, found, expected, strict=False):
            if event != must:
                raise Wrong(row.version, f"{row.name} is not what the rules make of it")
        if len(found) != len(expected):
            raise Wrong(group[-1].version, "the append has more or fewer events than it must")
        turn, asked, until = made.turn, made.asked, made.deadline
        for row, event in zip(group, found, strict=True):
            _apply(made, event, row.recorded_at)
        if until is not None:
            done = asked if made.turn != turn else set(asked) - set(made.asked)
            made.banks = _drawn(made.banks, done, group[0].recorded_at - until)
    return made


def _drawn(banks: Sequence[int], seats: Collection[int], over: int) -> tuple[int, ...]:
    """The time banks after these seats took so much longer than their turn time."""
    taken = max(0, over)
    return tuple(max(0, b - taken) if s in seats else b for s, b in enumerate(banks))


def appends(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows by append: each begins with a row that names a request."""
    group: list[Row] = []
    for row in rows:
        if row.request_id is not None and group:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _check_clock(game: Game, group: Sequence[Row], event: Any) -> None:
    """Time goes on; no move after its seat's deadline, no expiry before it."""
    first, deadline = group[0], game.deadline
    for row in group:
        if row.recorded_at < max(game.at, first.recorded_at):
            raise Wrong(row.version, "is older than what it follows")
    back = isinstance(event, e.PlayerReturned) and len(group) == 1
    if deadline is None or back or first.name.endswith((".SeatLeft", ".ClockCredited")):
        return
    deadline += dict(enumerate(game.banks)).get(getattr(event, "seat", -1), 0)
    expired = first.name.endswith(".TurnExpired")
    if expired and first.recorded_at < deadline:
        raise Wrong(first.version, "a turn expired before its time was up")
    if not expired and first.recorded_at > deadline:
        raise Wrong(first.version, "a move was taken after its time was up")


def _expected(game: Game, found: Sequence[Any]) -> list[Any]:
    """What the append must consist of, by what it begins with."""
    first = found[0]
    match first:
        case e.GameOpened():
            return _opening(game, first)
        case e.SeedCommitted():
            seat = _seat(game, first.seat)
            if game.stage != "committing" or seat.status != "awaited":
                raise ValueError("no hash is taken from this seat now")
            if len(first.hash) != HASH_BYTES:
                raise ValueError("a hash has 32 octets")
            seats = _set(game.seats, first.seat, status="committed", hash=first.hash)
            return [first, *(() if _with(seats, "awaited") else _closing(game, seats))]
        case e.CommitsClosed() if game.stage == "committing":
            return _closing(game, game.seats)
        case e.SeedRevealed():
            return _revealing(game, first)
        case e.SeedsClosed() if game.stage == "revealing":
            return _dealing(game, game.seats)
        case e.ClockCredited():
            if game.stage != "playing" or first.turn != game.turn or first.credit_ms <= 0:
                raise ValueError("there is no such clock to credit")
            return [first]
        case _ if game.stage == "playing":
            return _moving(game, found)
        case _:
            raise ValueError("no append begins so at this stage")


def _opening(game: Game, opened: e.GameOpened) -> list[Any]:
    if game.opened is not None:
        raise ValueError("a game is opened once")
    if opened.game_id != str(game.game):
        raise Wrong(1, "the game that was opened has another id")
    if digest(game.server_seed) != opened.server_seed_hash:
        raise Wrong(1, "the server's seed is not the one that was committed to")
    if opened.rules not in e.RULEBOOK:
        raise Wrong(1, f"these rules are not here: {opened.rules[:40]!r}")
    game.opened, seats = opened, _opened_seats(opened)
    return [opened, *(() if _with(seats, "awaited") else _closing(game, seats))]


def _opened_seats(opened: e.GameOpened) -> tuple[Seat, ...]:
    return tuple(
        Seat(seat, "awaited" if seat.bot_level is None else "absent") for seat in opened.seats
    )


def _full_banks(opened: e.GameOpened) -> tuple[int, ...]:
    """What each seat may take beyond its turns' time, microseconds: a bot nothing."""
    if not opened.time_bank_ms:
        return ()
    whole = opened.time_bank_ms * 1_000
    return tuple(whole if seat.bot_level is None else 0 for seat in opened.seats)


def _closing(game: Game, seats: tuple[Seat, ...]) -> list[Any]:
    """No more hashes; and the deal, if there is nothing to reveal."""
    closed = e.CommitsClosed(_with(seats, "awaited", "absent"))
    if _with(seats, "committed"):
        return [closed]
    return [closed, *_dealing(game, _absent(seats, closed.absent))]


def _revealing(game: Game, shown: e.SeedRevealed) -> list[Any]:
    seat = _seat(game, shown.seat)
    if game.stage != "revealing" or seat.status != "committed":
        raise ValueError("no seed is taken from this seat now")
    if not CONTRIBUTION_BYTES_MIN <= len(shown.seed) <= CONTRIBUTION_BYTES_MAX:
        raise ValueError("a seed has 16 to 64 octets")
    if digest(shown.seed) != seat.hash:
        raise ValueError("the seed is not that of its hash")
    seats = _set(game.seats, shown.seat, status="revealed", seed=shown.seed)
    return [shown, *(() if _with(seats, "committed") else _dealing(game, seats))]


def _dealing(game: Game, seats: tuple[Seat, ...]) -> list[Any]:
    """Seeds that were not revealed do not count; then the first deal is made."""
    closed = e.SeedsClosed(_with(seats, "committed", "absent"))
    seats = _absent(seats, closed.absent)
    return [closed, *_step(game, seats, _initial(game, seats), Start())]


def _moving(game: Game, found: Sequence[Any]) -> list[Any]:
    before, rest = [], list(found)
    if isinstance(found[0], e.PlayerReturned):
        seat = _seat(game, found[0].seat)
        if seat.left or not (seat.bot_plays or seat.missed):
            raise ValueError("this player was not away")
        before, rest = [found[0]], rest[1:]
        if not rest:
            return before
    moved = [event for event in rest if type(event).__module__.startswith("engines.")]
    command = game.engine.cause(moved)
    if before and not (isinstance(command, Act) and command.seat == before[0].seat):
        raise ValueError("a player comes back with a move of his own")
    if not before and isinstance(command, Act):
        seat = _seat(game, command.seat)
        if seat.missed and not _is_bot(seat):
            raise ValueError("a player who was away comes back first")
    return [*before, *_step(game, game.seats, game.state, command)]


def _step(game: Game, seats: tuple[Seat, ...], state: Any, command: Command[Any]) -> list[Any]:
    """What the rules decide, and what frames it."""
    engine = game.engine
    chance = _chance(game, seats)
    decided = engine.decide(state, command, chance)
    open_deals = game.deals
    for event in decided:
        open_deals = _deals_after(open_deals, event)
        state = engine.evolve(state, event)
    made = [deal for deal in open_deals if deal.deal > game.dealt]
    over = engine.is_over(state)
    found = [*decided]
    for deal in made:
        seed = chance.seed(deal.deal)
        root = cards_root(seed, deal.deck) if game.own else None
        found.append(e.DealSeeded(deal.deal, digest(seed), root))
    if isinstance(command, Timeout) and not over and _taken_over(game, seats[command.seat]):
        found.append(e.BotTookOver(command.seat))
    if not game.own:
        closed = open_deals if over else open_deals[:-1] if engine.NAME == rami.NAME else ()
        found += [e.DealRevealed(d.deal, chance.seed(d.deal), d.deck, d.dropped) for d in closed]
    if over:
        opened = [seat.opened for seat in seats]
        seed = b"" if game.own else game.server_seed
        found.append(e.GameFinished(result_of(opened, state), seed))
    return found


def _taken_over(game: Game, seat: Seat) -> bool:
    opened = game.opened
    if opened is None or opened.absent_policy != TAKEOVER_POLICY or _is_bot(seat):
        return False
    return seat.missed + 1 >= (opened.bot_after or TAKEOVER_MISSED)


def _is_bot(seat: Seat) -> bool:
    """Whether bots play for the seat now."""
    return seat.opened.bot_level is not None or seat.bot_plays or seat.left


def _apply(game: Game, event: Any, at: int) -> None:
    """What an event that is as it must be changes."""
    before = game.turn
    match event:
        case e.GameOpened():
            game.opened, game.seats, game.stage = event, _opened_seats(event), "committing"
            game.banks = _full_banks(event)
        case e.SeedCommitted():
            game.seats = _set(game.seats, event.seat, status="committed", hash=event.hash)
        case e.CommitsClosed():
            game.seats, game.stage = _absent(game.seats, event.absent), "revealing"
        case e.SeedRevealed():
            game.seats = _set(game.seats, event.seat, status="revealed", seed=event.seed)
        case e.SeedsClosed():
            game.seats, game.stage = _absent(game.seats, event.absent), "playing"
            game.state = _initial(game, game.seats)
        case e.DealSeeded():
            game.dealt = event.deal
        case e.ClockCredited():
            game.credit_ms += event.credit_ms
        case e.DealRevealed():
            game.deals = tuple(deal for deal in game.deals if deal.deal != event.deal)
        case e.BotTookOver():
            game.seats = _set(game.seats, event.seat, bot_plays=True)
        case e.PlayerReturned():
            game.seats = _set(game.seats, event.seat, bot_plays=False, missed=0)
        case e.GameFinished():
            game.result, game.stage = event.result, "finished"
        case _:
            game.state = game.engine.evolve(game.state, event)
            game.deals = _deals_after(game.deals, event)
            game.seats = _seats_after(game.seats, event)
    game.at = at
    if game.turn != before:
        game.turn_at, game.credit_ms = at, 0


def _deals_after(deals: tuple[Deal, ...], event: Any) -> tuple[Deal, ...]:
    match type(event).__name__:
        case "Dealt":
            number = event.round if isinstance(event, rami.Dealt) else event.deal
            return (*deals, Deal(number, event.secret.deck))
        case "CardDropped":
            last = deals[-1]
            dropped = e.DroppedCard(event.seat, event.secret.card)
            return (*deals[:-1], replace(last, dropped=(*last.dropped, dropped)))
        case _:
            return deals


def _seats_after(seats: tuple[Seat, ...], event: Any) -> tuple[Seat, ...]:
    match type(event).__name__:
        case "TurnExpired":
            return _set(seats, event.seat, missed=seats[event.seat].missed + 1)
        case "SeatLeft":
            return _set(seats, event.seat, left=True)
        case _:
            return seats


def _initial(game: Game, seats: tuple[Seat, ...]) -> Any:
    opened = game.opened
    if opened is None:
        raise Wrong(1, "the log does not begin with GameOpened")
    if game.engine.NAME == azi.NAME:
        stacks = tuple(seat.opened.stack for seat in seats)
        return azi.initial(
            opened.options, len(seats), stacks=stacks, last_winner=opened.last_winner
        )
    return game.engine.initial(opened.options, len(seats))


def _chance(game: Game, seats: tuple[Seat, ...]) -> Chance:
    given = tuple(seat.seed if seat.status == "revealed" else None for seat in seats)
    return Chance(game.server_seed, game.game, given)


def _seat(game: Game, number: int) -> Seat:
    if number not in range(len(game.seats)):
        raise ValueError("no such seat")
    return game.seats[number]


def _set(seats: tuple[Seat, ...], number: int, **changes: Any) -> tuple[Seat, ...]:
    return (*seats[:number], replace(seats[number], **changes), *seats[number + 1 :])


def _absent(seats: tuple[Seat, ...], absent: tuple[int, ...]) -> tuple[Seat, ...]:
    for number in absent:
        seats = _set(seats, number, status="absent")
    return seats


def _with(seats: tuple[Seat, ...], *statuses: str) -> tuple[int, ...]:
    return tuple(n for n, seat in enumerate(seats) if seat.status in statuses)
