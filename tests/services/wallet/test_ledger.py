"""The ledger on both engines: once is once, locks hold, time is the database's."""

import asyncio
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.runtime.database import read
from services.wallet.books import AccountKind, ReservationState
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
from services.wallet.statements import read_game, read_holding, read_statement
from services.wallet.tables import POSTINGS, REQUESTS, TRANSFERS
from tests.services.wallet.book_keeping import (
    balance,
    check_books,
    do,
    open_ledger,
    open_players,
)

HEAD = b"\x07" * 32


async def test_a_whole_game_from_stacks_to_payout(engine: AsyncEngine) -> None:
    """Reserve, pin, settle: the statement tells it with the balance before and after each line."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 1_000)
    game, r1, r2 = uuid4(), uuid4(), uuid4()
    await do(ledger, Reserve(r1, ann, game, 300, 60_000))
    await do(ledger, Reserve(r2, ben, game, 300, 60_000))
    assert (await read_holding(engine, ann)).reserved == 300
    await do(ledger, Pin(game, (Claim(r2, ben, 300), Claim(r1, ann, 300))), subject="service:game")
    await do(ledger, Settle(game, (Line(r1, 300, 0), Line(r2, 100, 400)), HEAD))
    assert (await balance(engine, ann), await balance(engine, ben)) == (700, 1_300)
    assert await balance(engine, game) == 0
    lines = await read_statement(engine, ben, None, None, 10)
    assert [(x.version, x.chips, x.before, x.after) for x in lines] == [
        (3, 600, 700, 1_300),
        (2, -300, 1_000, 700),
        (1, 1_000, 0, 1_000),
    ]
    of_game = await read_statement(engine, ben, game, None, 10)
    assert of_game == lines[:2]
    found, reservations, _ = await read_game(engine, game)
    assert found is not None
    assert found.head == HEAD
    assert [r.id for r in reservations] == [r1, r2]
    assert (await check_books(engine)).held == 0


async def test_the_same_request_is_answered_the_same(engine: AsyncEngine) -> None:
    """The stored octets come back, however the world has moved on; nothing moves again."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    first = await do(ledger, Grant(ann, 5, "x"), "once")
    await do(ledger, Grant(ann, 7, "x"))
    assert await do(ledger, Grant(ann, 5, "x"), "once") == first
    assert await balance(engine, ann) == 112


async def test_a_request_id_stands_for_one_body_a_caller(engine: AsyncEngine) -> None:
    """Another body of the same caller is refused; another caller's id is another id."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    await do(ledger, Grant(ann, 5, "x"), "once")
    with pytest.raises(Refused, match="REQUEST_ID_REUSED"):
        await do(ledger, Grant(ann, 6, "x"), "once")
    await do(ledger, Grant(ann, 6, "x"), "once", subject="operator:olga")
    assert await balance(engine, ann) == 111


async def test_a_refused_request_leaves_nothing(engine: AsyncEngine) -> None:
    """No row anywhere, and its id may be used again."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    game, reservation = uuid4(), uuid4()
    with pytest.raises(Refused, match="INSUFFICIENT_CHIPS"):
        await do(ledger, Reserve(reservation, ann, game, 101, 60_000), "r")
    assert await read_game(engine, game) == (None, (), False)
    with pytest.raises(Refused, match="ACCOUNT_NOT_FOUND"):
        await read_holding(engine, game)
    await do(ledger, Reserve(reservation, ann, game, 100, 60_000), "r")
    await check_books(engine)


async def test_a_late_reservation_cannot_leak_chips(engine: AsyncEngine) -> None:
    """A game voided before its reservation arrives refuses it; a repeat moves nothing."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    game = uuid4()
    early = Reserve(uuid4(), ann, game, 10, 60_000)
    first = await do(ledger, early, "early")
    await do(ledger, Void(game, "START_FAILED", pinned_too=False))
    assert await do(ledger, early, "early") == first
    with pytest.raises(Refused, match="GAME_VOIDED"):
        await do(ledger, Reserve(uuid4(), ann, game, 10, 60_000), "late")
    unknown = uuid4()
    await do(ledger, Void(unknown, "START_FAILED", pinned_too=False))
    with pytest.raises(Refused, match="GAME_VOIDED"):
        await do(ledger, Reserve(uuid4(), ann, unknown, 10, 60_000), "later")
    assert await balance(engine, ann) == 100
    await check_books(engine)


async def until_expired(engine: AsyncEngine, account: UUID) -> None:
    """Wait until the database's clock has passed a reservation's time."""
    for _ in range(1_000):
        if (await read_holding(engine, account)).has_expired:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_expired_chips_go_back_when_somebody_looks(engine: AsyncEngine) -> None:
    """By pinning, by reserving what they are needed for, or by the background task."""
    ledger = open_ledger(engine)
    ann, ben, eve = await open_players(ledger, 3, 100)
    games = [uuid4() for _ in range(3)]
    held = [uuid4() for _ in range(3)]
    for player, game, reservation in zip((ann, ben, eve), games, held, strict=True):
        await do(ledger, Reserve(reservation, player, game, 100, 100))
    for player in (ann, ben, eve):
        await until_expired(engine, player)
    with pytest.raises(Refused, match="RESERVATION_EXPIRED"):
        await do(ledger, Pin(games[0], (Claim(held[0], ann, 100),)))
    assert await balance(engine, ann) == 100
    await do(ledger, Reserve(uuid4(), ben, uuid4(), 100, 60_000))
    assert [r.reason for r in (await read_game(engine, games[1]))[1]] == ["EXPIRED"]
    assert await ledger.expire() == 1
    assert await balance(engine, eve) == 100
    assert await ledger.expire() == 0
    await check_books(engine)


async def test_a_pinned_reservation_outlives_its_time(engine: AsyncEngine) -> None:
    """What the game has bound, time does not release."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 100)
    game, held = uuid4(), uuid4()
    await do(ledger, Reserve(held, ann, game, 100, 1_000))
    await do(ledger, Pin(game, (Claim(held, ann, 100),)))
    await do(ledger, Reserve(uuid4(), ben, uuid4(), 1, 1_000))
    await until_expired(engine, ben)
    assert await ledger.expire() == 1
    assert [r.state for r in (await read_game(engine, game))[1]] == [ReservationState.PINNED]


async def test_parallel_reservations_never_overdraw(engine: AsyncEngine) -> None:
    """Fifty at once from an account that can pay for twenty: exactly twenty are held."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 205)
    wanted = [Reserve(uuid4(), ann, uuid4(), 10, 60_000) for _ in range(50)]
    outcomes = await asyncio.gather(*(do(ledger, w) for w in wanted), return_exceptions=True)
    reasons = [o.reason if isinstance(o, Refused) else o for o in outcomes]
    assert sum(isinstance(o, bytes) for o in outcomes) == 20
    assert reasons.count("INSUFFICIENT_CHIPS") == 30
    assert await balance(engine, ann) == 5
    assert (await check_books(engine)).held == 20


async def test_parallel_repeats_act_once(engine: AsyncEngine) -> None:
    """Ten copies of each request at once: one effect, one answer."""
    ledger = open_ledger(engine)
    ann, ben = await open_players(ledger, 2, 100)
    game, r1, r2, bot = uuid4(), uuid4(), uuid4(), uuid4()
    commands: list[tuple[Command, str]] = [
        (OpenAccount(bot, AccountKind.BOT, 0), "open"),
        (Grant(ann, 7, "x"), "grant"),
        (Reserve(r1, ann, game, 107, 60_000), "reserve-1"),
        (Reserve(r2, ben, game, 100, 60_000), "reserve-2"),
    ]
    for batch in (commands[:2], commands[2:]):
        copies = [do(ledger, command, name) for command, name in batch for _ in range(10)]
        answers = await asyncio.gather(*copies)
        assert len(set(answers)) == len(batch)
    assert (await balance(engine, ann), await balance(engine, ben)) == (0, 0)
    assert await balance(engine, game) == 207
    await check_books(engine)


async def test_crossing_games_neither_deadlock_nor_lose_chips(engine: AsyncEngine) -> None:
    """Players who sit in each other's games, reserved, pinned and ended at the same time."""
    ledger = open_ledger(engine)
    players = await open_players(ledger, 4, 1_000)

    async def play(number: int) -> None:
        game = uuid4()
        seats = [(uuid4(), p) for p in (players if number % 2 else reversed(players))]
        await asyncio.gather(*(do(ledger, Reserve(r, p, game, 50, 60_000)) for r, p in seats))
        if number % 3 == 0:
            await do(ledger, Void(game, "START_FAILED", pinned_too=False))
            return
        await do(ledger, Pin(game, tuple(Claim(r, p, 50) for r, p in seats)))
        lines = [Line(r, 50, 0) for r, _ in seats[:-1]]
        await do(ledger, Settle(game, (*lines, Line(seats[-1][0], 50, 200)), HEAD))

    await asyncio.gather(*(play(n) for n in range(9)))
    totals = [await balance(engine, p) for p in players]
    assert sum(totals) == 4_000
    assert (await check_books(engine)).held == 0


async def test_a_cancelled_caller_does_not_tear_a_command(engine: AsyncEngine) -> None:
    """What was begun ends whole, and the same request tells how."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    tasks = [asyncio.create_task(do(ledger, Grant(ann, 1, "x"), f"g-{n}")) for n in range(20)]
    for turns, task in enumerate(tasks):
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await ledger.close()
    for n in range(20):
        await do(ledger, Grant(ann, 1, "x"), f"g-{n}")
    assert await balance(engine, ann) == 120
    await check_books(engine)


async def test_who_asked_stands_beside_every_transfer(engine: AsyncEngine) -> None:
    """Caller and request id; the wallet itself where time did it."""
    ledger = open_ledger(engine)
    (ann,) = await open_players(ledger, 1, 100)
    await do(ledger, Grant(ann, 5, "sorry"), "g-1", subject="operator:olga")
    await do(ledger, Reserve(uuid4(), ann, uuid4(), 5, 100))
    await until_expired(engine, ann)
    await ledger.expire()
    async with read(engine) as connection:
        ours = sa.select(TRANSFERS).join(POSTINGS, POSTINGS.c.transfer_id == TRANSFERS.c.id)
        rows = await connection.execute(
            ours.where(POSTINGS.c.account_id == ann).order_by(POSTINGS.c.version)
        )
        asked = [(r.subject, r.request_id, r.reason) for r in rows]
        stored = await connection.execute(sa.select(sa.func.count()).select_from(REQUESTS))
        assert stored.scalar_one() == 3
    assert asked[1] == ("operator:olga", "g-1", "sorry")
    assert asked[3] == ("service:wallet", None, "EXPIRED")
