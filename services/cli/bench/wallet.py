"""`wallet`: transfers a second beside one hand-written SQL function call a transfer.

The transfer is a seat's reservation: an idempotency key, the game locked, two balances checked and
moved, two postings, a transfer, a reservation and the stored answer. The function writes the same
rows into the same tables under the same triggers, a prepared call on a connection a task. `spread`
takes chips from thousands of accounts, `hot` all from one; every game has four seats.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

from services.cli.bench import postgres
from services.cli.bench.measuring import (
    Effort,
    Report,
    Side,
    Step,
    cpu_us,
    database_us,
    drive,
    interleaved,
    rate,
    ratio,
)
from services.cli.bench.store import both_bills
from services.runtime.database import close_engine, open_engine
from services.runtime.moments import new_id
from services.wallet.batch import Request
from services.wallet.books import AccountKind, Books
from services.wallet.domain import Grant, OpenAccount, Reserve
from services.wallet.ledger import Ledger
from services.wallet.server import FOLDERS
from services.wallet.wake import Wake

NAME = "wallet"
SECONDS = 1.0
TASKS = 16
ACCOUNTS = 2_000
WHOLE, FEW = 0.25, 32
"""Shorter slices than this make do with few accounts."""
SEATS = 4
CHIPS = 10**12
"""What each account is given; a transfer moves one chip."""
TTL_MS = 3_600_000
SUBJECT = "service:lobby"
BODY_HASH = bytes(range(32))
ANSWER = bytes(150)
"""As long as the answer to a reservation."""

FUNCTION = """
CREATE FUNCTION bench_reserve(
  asked_by text, asked text, body bytea, answer bytea, transfer uuid, reservation uuid,
  holder uuid, game uuid, amount bigint, ttl_us bigint
) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
  known record;
  at bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  paying record;
  escrow record;
  seats int;
BEGIN
  SELECT r.response, r.body_hash INTO known FROM requests r
    WHERE r.subject = asked_by AND r.request_id = asked;
  IF FOUND THEN
    IF known.body_hash <> body THEN RAISE EXCEPTION 'request id reused'; END IF;
    RETURN known.response;
  END IF;
  INSERT INTO games (id, state) VALUES (game, 1) ON CONFLICT DO NOTHING;
  PERFORM FROM games g WHERE g.id = game FOR NO KEY UPDATE;
  INSERT INTO accounts (id, kind, balance, version, opened_at)
    VALUES (game, 4, 0, 0, at) ON CONFLICT DO NOTHING;
  PERFORM FROM accounts a WHERE a.id IN (holder, game) ORDER BY a.id FOR NO KEY UPDATE;
  SELECT a.balance, a.version INTO paying FROM accounts a WHERE a.id = holder;
  SELECT a.balance, a.version INTO escrow FROM accounts a WHERE a.id = game;
  IF paying.balance < amount THEN RAISE EXCEPTION 'insufficient chips'; END IF;
  SELECT count(*) INTO seats FROM reservations r WHERE r.game_id = game;
  INSERT INTO postings
    (account_id, version, transfer_id, chips, balance_before, balance_after)
    VALUES
    (holder, paying.version + 1, transfer, -amount, paying.balance, paying.balance - amount),
    (game, escrow.version + 1, transfer, amount, escrow.balance, escrow.balance + amount);
  UPDATE accounts a SET balance = a.balance + CASE a.id WHEN game THEN amount ELSE -amount END,
    version = a.version + 1 WHERE a.id IN (holder, game);
  INSERT INTO transfers (id, kind, game_id, subject, request_id, recorded_at)
    VALUES (transfer, 3, game, asked_by, asked, at);
  INSERT INTO reservations
    (id, game_id, number, account_id, chips, state, expires_at, paid_in, paid_out)
    VALUES (reservation, game, seats + 1, holder, amount, 1, at + ttl_us, 0, 0);
  INSERT INTO requests (subject, request_id, body_hash, response, recorded_at)
    VALUES (asked_by, asked, body, answer, at);
  RETURN answer;
END $$
"""
CALL = "SELECT bench_reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"


def respond(_after: Books) -> bytes:
    """The answer that is stored with a command."""
    return ANSWER


async def measure(effort: Effort, server_url: str, tell: Callable[[str], None]) -> Report:
    """All of the wallet's numbers."""
    report = Report(NAME)
    seconds = effort.slice(SECONDS)
    async with postgres.database(server_url, FOLDERS) as url:
        engine = open_engine(url)
        ledger = Ledger(engine, Wake())
        opened = await postgres.connections(url, TASKS)
        await opened[0].execute(FUNCTION)
        sessions = postgres.Sessions(opened[0], embedded=effort.database_url is None)
        tell("accounts")
        accounts = await open_accounts(ledger, ACCOUNTS if effort.slice(SECONDS) >= WHOLE else FEW)
        hot, accounts = accounts[:1], accounts[1:]
        calls = [await connection.prepare(CALL) for connection in opened]

        def sides_of(name: str, holders: list[UUID]) -> dict[str, Side]:
            each = [seats(holders, start) for start in range(TASKS)]
            ours = [reserving(ledger, each[n]) for n in range(TASKS)]
            theirs = [calling(calls[n], each[n]) for n in range(TASKS)]
            return {
                name: partial(both_bills, ours, seconds, sessions),
                f"{name} function": partial(both_bills, theirs, seconds, sessions),
            }

        sides = sides_of("spread", accounts) | sides_of("hot", hot)
        sides["grants"] = partial(
            drive, [granting(ledger, seats(accounts, n)) for n in range(TASKS)], seconds
        )
        tell("transfers")
        try:
            found = await interleaved(sides, effort.rounds)
        finally:
            await postgres.close(opened)
            await ledger.close()
            await close_engine(engine)
    for name in ("spread", "hot"):
        report.ratios[f"wallet.{name}_vs_function"] = ratio(found[name], found[f"{name} function"])
    report.ratios["wallet.hot_vs_spread"] = ratio(found["hot"], found["spread"])
    for name in ("spread", "spread function", "hot", "hot function"):
        key = f"wallet.{name.replace(' ', '_')}"
        report.absolute[f"{key}_cpu_us"] = cpu_us(found[name])
        report.absolute[f"{key}_database_cpu_us"] = database_us(found[name])
    for name, slices in found.items():
        report.absolute[f"wallet.{name.replace(' ', '_')}_per_s"] = rate(slices)
    return report


async def open_accounts(ledger: Ledger, count: int) -> list[UUID]:
    """Players' accounts with chips, opened side by side."""
    accounts = [new_id() for _ in range(count)]
    waiting = iter(accounts)

    async def step() -> int:
        account = next(waiting, None)
        if account is None:
            return -1
        command = OpenAccount(account, AccountKind.PLAYER, CHIPS)
        await ledger.execute(command, Request(SUBJECT, f"open:{account}", BODY_HASH), respond)
        return 1

    await drive([step] * TASKS, 600.0)
    return accounts


def seats(accounts: list[UUID], start: int) -> Iterator[tuple[UUID, UUID]]:
    """Accounts and games without end, four different accounts a game where there are so many."""
    step = TASKS if len(accounts) > TASKS else 1
    holders = itertools.cycle(accounts[start % len(accounts) :: step] or accounts)
    while True:
        game = new_id()
        for _ in range(SEATS):
            yield next(holders), game


def reserving(ledger: Ledger, places: Iterator[tuple[UUID, UUID]]) -> Step:
    """A step of ours."""

    async def step() -> int:
        account, game = next(places)
        reservation = new_id()
        command = Reserve(reservation, account, game, 1, TTL_MS)
        await ledger.execute(command, Request(SUBJECT, str(reservation), BODY_HASH), respond)
        return 1

    return step


def calling(statement: Any, places: Iterator[tuple[UUID, UUID]]) -> Step:
    """A step of the function's."""

    async def step() -> int:
        account, game = next(places)
        reservation = new_id()
        await statement.fetchval(
            *(SUBJECT, str(reservation), BODY_HASH, ANSWER, new_id(), reservation),
            *(account, game, 1, TTL_MS * 1_000),
        )
        return 1

    return step


def granting(ledger: Ledger, places: Iterator[tuple[UUID, UUID]]) -> Step:
    """A grant: every one goes through the issuing account."""

    async def step() -> int:
        account, _ = next(places)
        request = Request("operator:bench", str(new_id()), BODY_HASH)
        await ledger.execute(Grant(account, 1, "bench"), request, respond)
        return 1

    return step
