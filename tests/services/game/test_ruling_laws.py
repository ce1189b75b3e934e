"""Random rulings on random games, with calls lost, doubled and cut off: what holds of the chips."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kozyr.game.v1 import audit_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.game.arbitration import Disputes
from services.game.compensating import Compensating
from services.game.disputes import Dispute, Standing
from services.game.model import Result, Seat, SeatResult, SeedStatus, Stage, State
from services.game.reconciling import compare_rulings
from services.game.texts import Texts
from services.kernel.errors import Refused, unavailable
from services.kernel.ids import uuid7
from services.runtime import call
from services.runtime.auth import Caller, Role
from services.runtime.database import close_engine, open_engine
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Loaded
from services.wallet.books import DISPUTE_RESERVE, AccountKind
from services.wallet.compensation import FundReserve
from services.wallet.domain import Claim, Grant, Line, OpenAccount, Pin, Reserve, Settle
from services.wallet.ledger import Ledger
from services.wallet.servicer import WalletServicer
from services.wallet.statements import read_holding
from tests.services.game.databases import ENGINES, Templates, Urls, templates
from tests.services.wallet.book_keeping import check_books, do, open_ledger

STACK = 100
ALONE = 60
OPERATORS = [Caller(Role.OPERATOR, name, 0) for name in ("olga", "omar")]
GAME = Caller(Role.SERVICE, "game", 0)
ROUNDS_MAX = 400


@dataclass
class Flaky:
    """The wallet as the game service reaches it: calls get lost before they act, or after."""

    wallet: WalletServicer
    rng: Random
    faults: float = 0.4
    short: int = 0
    """How often the reserve could not carry a ruling."""

    async def compensate(self, request: Any) -> Any:
        """Carry out a ruling."""
        return await self._call(self.wallet.Compensate, request)

    async def collect(self, request: Any) -> Any:
        """Collect a claim."""
        return await self._call(self.wallet.Collect, request)

    async def transfers(self, game_id: str) -> list[wallet_pb2.GameTransfer]:
        """A game's transfers."""
        request = wallet_pb2.ListGameTransfersRequest(game_id=game_id, page_size=200)
        page = await self._call(self.wallet.ListGameTransfers, request)
        return list(page.transfers)

    async def _call(self, method: Any, request: Any) -> Any:
        call.begin(call.Call("Compensate", "r", GAME))
        lost = self.rng.random()
        if lost < self.faults / 2:
            raise unavailable("LOST", "the request was lost")
        try:
            reply = await method(request, None)
        except Refused as refused:
            self.short += refused.reason == "DISPUTE_RESERVE_SHORT"
            raise
        if lost < self.faults:
            raise unavailable("LOST", "the answer was lost")
        return reply


@dataclass
class World:
    """Two databases, one finished game, and what has been asked about it."""

    rng: Random
    ledger: Ledger
    store: SqlStore
    peers: Flaky
    disputes: Disputes
    worker: Compensating
    game: UUID
    players: list[UUID]
    nets: list[int]
    granted: dict[UUID, int] = field(default_factory=dict)
    asked: list[tuple[Any, Any, Caller]] = field(default_factory=list)

    async def found(self) -> dict[UUID, Dispute]:
        """All disputes."""
        return {each.id: each.state async for each in self.disputes.about(self.game)}

    async def work(self) -> bool:
        """Do what is due, which may fail; whether anything was."""
        rows = await self.store.claim("w", 8, 60_000)
        for row in rows:
            try:
                await self.worker.handle(row.kind, row)
                if self.rng.random() < 0.8:  # else the process dies here
                    await self.store.drop(row)
                    continue
            except Refused:
                pass
            await self.store.postpone(row, 0)
        return bool(rows)

    async def ask(self, method: Any, request: Any, caller: Caller) -> None:
        """Ask for something, which may be refused; sometimes again later."""
        self.asked.append((method, request, caller))
        try:
            await method(request, caller)
        except Refused as refused:
            if refused.reason not in REFUSALS:
                raise

    async def step(self) -> None:
        """Something that an operator or the machinery does."""
        disputes = list((await self.found()).items())
        dispute, state = self.rng.choice(disputes)
        what = self.rng.choice(("rule", "rule", "approve", "withdraw", "work", "work", "again"))
        by = self.rng.choice(OPERATORS)
        name = {"request_id": uuid4().hex, "dispute_id": str(dispute)}
        match what:
            case "rule":
                await self.ask(self.disputes.rule, self._ruling(name), by)
            case "approve":
                await self.ask(self.disputes.approve, audit_pb2.ApproveRulingRequest(**name), by)
            case "withdraw":
                await self.ask(self.disputes.withdraw, audit_pb2.WithdrawRulingRequest(**name), by)
            case "again" if self.asked:
                await self.ask(*self.rng.choice(self.asked))
            case _:
                await self.work()
        if state.claims and self.rng.random() < 0.3:
            player = self.rng.choice(list(state.claims))
            claim = audit_pb2.CollectClaimRequest(**name, player_id=player)
            claim.request_id = uuid4().hex
            await self.ask(self.disputes.collect, claim, by)

    def _ruling(self, name: dict[str, str]) -> audit_pb2.ResolveDisputeRequest:
        """A ruling of any kind."""
        request = audit_pb2.ResolveDisputeRequest(explanation="So it is.")
        request.request_id, request.dispute_id = name["request_id"], name["dispute_id"]
        request.ruling = audit_pb2.RULING_UPHELD
        match self.rng.randrange(5):
            case 0:
                request.ruling = audit_pb2.RULING_DISMISSED
            case 1 | 2:
                request.remedy = audit_pb2.REMEDY_VOID
            case _:
                request.remedy = audit_pb2.REMEDY_CORRECTION
                chips = self.rng.randrange(1, 150)
                giver, taker = self.rng.sample(self.players, 2)
                request.moves.add(player_id=str(taker), chips=chips)
                request.moves.add(player_id=str(giver), chips=-chips)
        return request

    async def give(self, player: UUID, chips: int) -> None:
        """Grant chips."""
        self.granted[player] = self.granted.get(player, 0) + chips
        await do(self.ledger, Grant(player, chips, "more"))


REFUSALS = {
    *("DISPUTE_RULED", "NOTHING_TO_MOVE", "RULING_UNDER_WAY", "LOST", "SAME_OPERATOR"),
    *("NOT_AWAITING_APPROVAL", "CLAIM_NOT_FOUND", "CLAIM_CALLED"),
}
"""Why something that was asked at random may be refused."""


@pytest.fixture(scope="module", params=ENGINES)
def copied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Templates]:
    """Databases of both services to be copied, on each engine."""
    with templates(request.param, tmp_path_factory.mktemp("templates")) as made:
        yield made


@asynccontextmanager
async def world(copied: Templates, rng: Random) -> AsyncIterator[World]:
    """A game of two to four that has been settled at random, and one to three disputes."""
    with copied.copies() as urls:
        async with on(urls, rng) as made:
            yield made


@asynccontextmanager
async def on(urls: Urls, rng: Random) -> AsyncIterator[World]:
    """The same in these databases."""
    engine, books = open_engine(urls["game"]), open_engine(urls["wallet"])
    store, ledger = SqlStore(engine, None), open_ledger(books)
    try:
        game = uuid7(1_790_000_000_000, uuid4().bytes[:10])
        players = [uuid4() for _ in range(rng.randrange(2, 5))]
        nets = await settle(ledger, game, players, rng)
        games: Any = SimpleNamespace(load=loading(state_of(game, players, nets)))
        servicer = WalletServicer(ledger, SimpleNamespace(), 0, b"k" * 32)  # type: ignore[arg-type]
        peers: Any = Flaky(servicer, rng)
        disputes = Disputes(store, games, peers, Texts(engine), b"k" * 32, ALONE)
        worker = Compensating(disputes.streams, peers)
        made = World(rng, ledger, store, peers, disputes, worker, game, players, nets)
        for number in range(rng.randrange(1, 4)):
            request = audit_pb2.OpenDisputeRequest(
                request_id=f"d{number}", game_id=str(game), complaint="Hm."
            )
            player = Caller(Role.PLAYER, str(rng.choice(players)), 0)
            await disputes.open(request, player, 9)
        yield made
    finally:
        await ledger.close()
        await store.close()
        await close_engine(books)


async def settle(ledger: Ledger, game: UUID, players: list[UUID], rng: Random) -> list[int]:
    """Play for stacks that are all that players have; what each has won or lost."""
    held = [uuid4() for _ in players]
    for player, reservation in zip(players, held, strict=True):
        await do(ledger, OpenAccount(player, AccountKind.PLAYER, STACK))
        await do(ledger, Reserve(reservation, player, game, STACK, 60_000))
    claims = zip(held, players, strict=True)
    await do(ledger, Pin(game, tuple(Claim(r, p, STACK) for r, p in claims)))
    paid = [rng.randrange(STACK + 1) for _ in players]
    winner = rng.randrange(len(players))
    outs = [sum(paid) if seat == winner else 0 for seat in range(len(players))]
    lines = tuple(Line(r, i, o) for r, i, o in zip(held, paid, outs, strict=True))
    await do(ledger, Settle(game, lines, b"h" * 32))
    for player in players:  # some of it is soon bound elsewhere
        there = (await read_holding(ledger.engine, player)).account.balance
        if there and rng.random() < 0.5:
            chips = rng.randrange(1, there + 1)
            await do(ledger, Reserve(uuid4(), player, uuid4(), chips, 3_600_000))
    return [o - i for i, o in zip(paid, outs, strict=True)]


def state_of(game: UUID, players: list[UUID], nets: list[int]) -> State:
    """The finished game as its log would have it."""
    seats = tuple(Seat(str(p), None, STACK, str(uuid4()), SeedStatus.ABSENT) for p in players)
    lines = tuple(
        SeatResult(n, str(player), STACK, STACK + net, 0, 0)
        for n, (player, net) in enumerate(zip(players, nets, strict=True))
    )
    result = Result(None, None, False, lines)
    return State(game_id=game, stage=Stage.FINISHED, seats=seats, result=result)


def loading(state: State) -> Any:
    """What games are loaded with."""

    async def load(game_id: UUID) -> Loaded[State]:
        return Loaded(state, 9, b"h" * 32, 1)

    return load


@dataclass
class Tally:
    """What came about in a run of the property."""

    worlds: int = 0
    claims: int = 0
    """Claims that arose: what the reserve paid for a player."""
    collected: int = 0
    """Claims of which something came in."""


def test_chips_follow_the_log_and_the_rulings_that_stand(copied: Templates) -> None:
    """The ledger sums to zero; each player has what log and rulings say, and what the reserve gave
    for him stands as a claim; each ruling that stands moved its chips once, no other any. In every
    world somebody cannot pay."""
    tally = Tally()

    @settings(max_examples=20 if copied.engine == "sqlite" else 8, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def holds(seed: int) -> None:
        asyncio.run(judged(copied, Random(seed), tally))

    holds()
    assert tally.claims >= tally.worlds
    assert tally.collected > tally.worlds / 4


async def judged(copied: Templates, rng: Random, tally: Tally) -> None:
    """Steps of all kinds, then enough chips and calm for whatever is left, then somebody who cannot
    pay, then the judgement."""
    async with world(copied, rng) as here:
        for _ in range(rng.randrange(5, 40)):
            await here.step()
            if rng.random() < 0.2:
                await do(here.ledger, FundReserve(rng.randrange(1, 100), "a little"))
            if rng.random() < 0.1:
                await here.give(rng.choice(here.players), rng.randrange(1, 50))
        here.peers.faults = 0.1
        await do(here.ledger, FundReserve(100_000, "enough"))
        await settled(here)
        await cannot_pay(here)
        await settled(here)
        if rng.random() < 0.7:
            await collect(here)
        found = (await here.found()).values()
        tally.worlds += 1
        tally.claims += sum(len(state.claims) for state in found)
        tally.collected += sum(1 for state in found if any(state.collected.values()))
        assert any(state.claims for state in found)
        assert here.peers.short
        await judge(here)


async def settled(here: World) -> None:
    """Let the machinery work until nothing is due."""
    for _ in range(ROUNDS_MAX):
        if not await here.work():
            return
    raise AssertionError("there is always something due")


async def cannot_pay(here: World) -> None:
    """A player's chips are bound elsewhere, then a ruling takes more from him than the reserve has,
    until it is funded."""
    poor, rich = here.rng.sample(here.players, 2)
    there = (await read_holding(here.ledger.engine, poor)).account.balance
    if there:
        await do(here.ledger, Reserve(uuid4(), poor, uuid4(), there, 3_600_000))
    opening = audit_pb2.OpenDisputeRequest(
        request_id="poor", game_id=str(here.game), complaint="He owes me."
    )
    opened = await here.disputes.open(opening, Caller(Role.PLAYER, str(rich), 0), 9)
    reserve = (await read_holding(here.ledger.engine, DISPUTE_RESERVE)).account.balance
    chips = reserve + here.rng.randrange(1, ALONE)
    ruling = audit_pb2.ResolveDisputeRequest(
        request_id="poor",
        dispute_id=opened.dispute_id,
        explanation="So he does.",
        ruling=audit_pb2.RULING_UPHELD,
        remedy=audit_pb2.REMEDY_CORRECTION,
    )
    ruling.moves.add(player_id=str(rich), chips=chips)
    ruling.moves.add(player_id=str(poor), chips=-chips)
    for _ in range(ROUNDS_MAX):
        dispute = (await here.found())[UUID(opened.dispute_id)]
        if dispute.paid is not None:
            return
        if dispute.standing is Standing.OPEN:
            ruling.request_id = uuid4().hex
            await here.ask(here.disputes.rule, ruling, OPERATORS[0])
        if dispute.standing is Standing.AWAITING_APPROVAL:
            approval = audit_pb2.ApproveRulingRequest(
                request_id=uuid4().hex, dispute_id=opened.dispute_id
            )
            await here.ask(here.disputes.approve, approval, OPERATORS[1])
        await here.work()
        if dispute.refused:
            await do(here.ledger, FundReserve(chips, "for him"))
    raise AssertionError("the ruling was never carried out")


async def collect(here: World) -> None:
    """Those who owe come by chips, and their claims are collected."""
    for player in here.players:
        await here.give(player, here.rng.randrange(1, 200))
    for dispute, state in (await here.found()).items():
        for owing in state.claims:
            claim = audit_pb2.CollectClaimRequest(
                request_id=uuid4().hex, dispute_id=str(dispute), player_id=owing
            )
            await here.ask(here.disputes.collect, claim, OPERATORS[1])
            await settled(here)


async def judge(here: World) -> None:
    """What must hold once nothing is due."""
    found = await here.found()
    assert not any(state.standing is Standing.PAYING for state in found.values())
    assert not any(state.called for state in found.values())
    here.peers.faults = 0
    transfers = await here.peers.transfers(str(here.game))
    paid = {key: state for key, state in found.items() if state.paid is not None}
    assert compare_rulings(paid, transfers) == []
    trial = await check_books(here.ledger.engine)
    assert trial.sound
    open_claims = 0
    for player, net in zip(here.players, here.nets, strict=True):
        holding = await read_holding(here.ledger.engine, player)
        has = holding.account.balance + holding.reserved
        ruled = sum(
            move.chips
            for state in paid.values()
            for move in (state.ruled.moves if state.ruled else ())
            if move.player_id == str(player)
        )
        owed = sum(state.outstanding(str(player)) for state in paid.values())
        assert owed >= 0
        assert has == STACK + here.granted.get(player, 0) + net + ruled + owed
        open_claims += owed
    reserve = (await read_holding(here.ledger.engine, DISPUTE_RESERVE)).account.balance
    given = sum(
        -posting.chips
        for transfer in await here.peers.transfers(str(here.game))
        for posting in transfer.postings
        if posting.account_id == str(DISPUTE_RESERVE)
    )
    assert given == open_claims
    assert reserve >= 0
