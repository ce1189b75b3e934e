"""The ledger beside a tiny model: random commands, repeated, reordered and all at once."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID, uuid4, uuid5

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.wallet.books import AccountKind
from services.wallet.domain import (
    Claim,
    Command,
    Grant,
    Line,
    OpenAccount,
    Pin,
    Reserve,
    Settle,
    Void,
)
from services.wallet.ledger import Ledger
from services.wallet.statements import read_game, read_holding
from tests.services.wallet.book_keeping import check_books, do, open_ledger
from tests.services.wallet.conftest import Bench

PLAYERS, GAMES, SEATS = 3, 3, 3
HEAD = b"h" * 32

Step = tuple[str, int, int, int]
"""A kind of command, a player, a game, and a number that means what the kind makes of it."""

STEP = st.tuples(
    st.sampled_from(("open", "grant", "reserve", "reserve", "pin", "settle", "void", "undo")),
    st.integers(0, PLAYERS - 1),
    st.integers(0, GAMES - 1),
    st.integers(0, 12),
)
STEPS = st.lists(STEP, min_size=1, max_size=30)
ORDERS = st.lists(st.integers(0, 29), max_size=15)
"""Which of the steps are sent again, at the end, as a slow network would."""


@dataclass
class Table:
    """A game in the model: stacks by seat, and how far it has come."""

    stacks: dict[int, tuple[int, int]] = field(default_factory=dict)
    stage: str = "open"


@dataclass
class Model:
    """What should be: balances by player, and the games."""

    chips: dict[int, int] = field(default_factory=dict)
    games: dict[int, Table] = field(default_factory=dict)

    def apply(self, step: Step) -> bool:
        """Do a step unless it is impossible; whether it was done (or had been)."""
        kind, player, number, n = step
        game = self.games.get(number, Table())
        if kind == "open":
            self.chips.setdefault(player, 10)
        elif kind == "grant":
            if n == 0 or player not in self.chips:
                return False
            self.chips[player] += n
        elif kind == "reserve":
            return self._reserve(player, number, n)
        elif kind == "pin":
            if not game.stacks or game.stage not in ("open", "pinned"):
                return False
            game.stage = "pinned"
        elif kind == "settle":
            return self._settle(game, n)
        else:
            return self._void(number, pinned_too=kind == "undo")
        return True

    def _reserve(self, player: int, number: int, n: int) -> bool:
        game, seat = self.games.get(number, Table()), n % SEATS
        held = game.stacks.get(seat)
        if n == 0 or player not in self.chips:
            return held == (player, n) and game.stage in ("open", "pinned")
        if held is not None:
            return held == (player, n) and game.stage in ("open", "pinned")
        if game.stage != "open" or self.chips[player] < n:
            return False
        self.chips[player] -= n
        self.games[number] = game
        game.stacks[seat] = (player, n)
        return True

    def _settle(self, game: Table, n: int) -> bool:
        if game.stage == f"settled {n}":
            return True
        if game.stage != "pinned":
            return False
        for player, paid in payouts(game.stacks, n).values():
            self.chips[player] += paid
        game.stage = f"settled {n}"
        return True

    def _void(self, number: int, *, pinned_too: bool) -> bool:
        game = self.games.get(number, Table())
        if game.stage.startswith("settled") or (game.stage == "pinned" and not pinned_too):
            return False
        if game.stage != "voided":
            for player, n in game.stacks.values():
                self.chips[player] += n
        game.stage = "voided"
        self.games[number] = game
        return True


def payouts(stacks: dict[int, tuple[int, int]], n: int) -> dict[int, tuple[int, int]]:
    """What every seat ends with: seat `n` wins one chip of each."""
    winner = sorted(stacks)[n % len(stacks)]
    bank = len(stacks)
    return {
        seat: (player, chips - 1 + (bank if seat == winner else 0))
        for seat, (player, chips) in stacks.items()
    }


@dataclass
class World:
    """Names for a run: the same numbers are the same ids."""

    name: UUID

    def id(self, *words: object) -> UUID:
        """An id for a thing of this run."""
        return uuid5(self.name, repr(words))

    def command(self, step: Step, model: Model) -> Command:
        """The step as the wallet is asked for it."""
        kind, player, number, n = step
        game, account = self.id("game", number), self.id("player", player)
        stacks = model.games.get(number, Table()).stacks
        if kind == "open":
            return OpenAccount(account, AccountKind.PLAYER, 10)
        if kind == "grant":
            return Grant(account, n, "x")
        if kind == "reserve":
            return Reserve(self.id("seat", number, n % SEATS), account, game, n, 600_000)
        seats = {
            s: (self.id("seat", number, s), self.id("player", p), c) for s, (p, c) in stacks.items()
        }
        if kind == "pin":
            return Pin(game, tuple(Claim(*seat) for seat in seats.values()))
        if kind == "settle" and stacks:
            winner = sorted(stacks)[n % len(stacks)]
            lines = (
                Line(r, 1, len(stacks) if s == winner else 0) for s, (r, _, _) in seats.items()
            )
            return Settle(game, tuple(lines), HEAD[:-1] + bytes([n]))
        if kind == "settle":
            return Settle(game, (), HEAD)
        return Void(game, "X", pinned_too=kind == "undo")


async def run(engine: AsyncEngine, steps: list[Step], again: list[int], name: UUID) -> None:
    """Steps, then some of them again, on ledger and model; they agree at every one."""
    ledger, model, world = open_ledger(engine), Model(), World(name)
    sent: list[tuple[Command, str, bytes | None]] = []
    for number, step in enumerate(steps):
        command, words = world.command(step, model), f"{name}-{number}"
        answer = await attempt(ledger, command, words)
        assert (answer is not None) == model.apply(step), step
        sent.append((command, words, answer))
    for number in again:
        command, words, answer = sent[number % len(sent)]
        if answer is not None:
            assert await attempt(ledger, command, words) == answer
    await agree(engine, model, world)


async def run_at_two(
    engine: AsyncEngine, steps: list[tuple[Step, bool]], again: list[int], name: UUID
) -> None:
    """Steps at either of two wallets, then some of them again at the other: what one of them
    remembers is nothing that the other could have changed."""
    wallets, model, world = (open_ledger(engine), open_ledger(engine)), Model(), World(name)
    sent: list[tuple[Command, str, bool, bytes | None]] = []
    for number, (step, second) in enumerate(steps):
        command, words = world.command(step, model), f"{name}-{number}"
        answer = await attempt(wallets[second], command, words)
        assert (answer is not None) == model.apply(step), step
        sent.append((command, words, second, answer))
    for number in again:
        command, words, second, answer = sent[number % len(sent)]
        if answer is not None:
            assert await attempt(wallets[not second], command, words) == answer
    await agree(engine, model, world)


async def run_at_once(engine: AsyncEngine, steps: list[Step], name: UUID) -> None:
    """All steps twice and at the same time, in whatever order they come: the books hold."""
    ledger, model, world = open_ledger(engine), Model(), World(name)
    for player in range(PLAYERS):
        await do(ledger, world.command(("open", player, 0, 0), model))
    commands = []
    for number, step in enumerate(steps):
        commands.append((world.command(step, model), f"{name}-{number}"))
        model.apply(step)
    both = await asyncio.gather(*(attempt(ledger, c, w) for c, w in (*commands, *commands)))
    first, second = both[: len(commands)], both[len(commands) :]
    for one, other in zip(first, second, strict=True):
        assert one is None or other is None or one == other
    await check_books(engine)


async def run_in_batches(engine: AsyncEngine, batches: list[list[Step]], name: UUID) -> None:
    """Batches of steps that arrive together, each step twice: its outcome is the model's, the same
    both times if it was done, and what is refused in a batch leaves the rest of it alone."""
    ledger, model, world = open_ledger(engine), Model(), World(name)
    for number, steps in enumerate(batches):
        sent: list[tuple[Step, Command, str, bool]] = []
        for place, step in enumerate(steps):
            command, words = world.command(step, model), f"{name}-{number}-{place}"
            sent.append((step, command, words, model.apply(step)))
        twice = [each for each in sent for _ in range(1 + each[3])]
        answers = await asyncio.gather(*(attempt(ledger, c, w) for _, c, w, _ in twice))
        told: dict[str, bytes | None] = {}
        for (step, _, words, done), answer in zip(twice, answers, strict=True):
            assert (answer is not None) == done, step
            assert told.setdefault(words, answer) == answer
    await agree(engine, model, world)


async def attempt(ledger: Ledger, command: Command, words: str) -> bytes | None:
    """The answer, or None when refused."""
    try:
        return await do(ledger, command, words)
    except Refused as refused:
        if refused.reason in ("CONTENTION", "REQUEST_ID_REUSED"):
            raise
        return None


async def agree(engine: AsyncEngine, model: Model, world: World) -> None:
    """Ledger and model hold the same chips, and the books are sound."""
    for player, chips in model.chips.items():
        account = world.id("player", player)
        holding = await read_holding(engine, account)
        held = sum(
            stack
            for game in model.games.values()
            if game.stage in ("open", "pinned")
            for owner, stack in game.stacks.values()
            if owner == player
        )
        assert (holding.account.balance, holding.reserved) == (chips, held)
    for number, game in model.games.items():
        found, reservations, _ = await read_game(engine, world.id("game", number))
        assert found is not None
        assert len(reservations) == len(game.stacks)
        assert found.state.name.lower() == game.stage.split()[0]
    await check_books(engine)


BATCHES = st.lists(STEPS, min_size=1, max_size=4)
EXAMPLES = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(steps=STEPS, again=ORDERS)
def test_the_ledger_does_what_the_model_does(
    bench: Bench, steps: list[Step], again: list[int]
) -> None:
    """Command by command the same outcome; repeats change nothing; chips are where they belong."""
    bench.run(run(bench.engine, steps, again, uuid4()))


@EXAMPLES
@given(steps=st.lists(st.tuples(STEP, st.booleans()), min_size=1, max_size=30), again=ORDERS)
def test_two_wallets_are_one(
    bench: Bench, steps: list[tuple[Step, bool]], again: list[int]
) -> None:
    """Whichever of them is asked: the outcome is the model's, and a repeat gets the same answer."""
    bench.run(run_at_two(bench.engine, steps, again, uuid4()))


@EXAMPLES
@given(steps=STEPS)
def test_any_order_at_once_keeps_the_books(bench: Bench, steps: list[Step]) -> None:
    """Double entry, floors, chains and idempotency hold whoever comes first."""
    bench.run(run_at_once(bench.engine, steps, uuid4()))


@EXAMPLES
@given(batches=BATCHES)
def test_a_batch_is_its_commands_one_after_another(bench: Bench, batches: list[list[Step]]) -> None:
    """Whatever arrives together: each command as if it had come alone, after those before it."""
    bench.run(run_in_batches(bench.engine, batches, uuid4()))
