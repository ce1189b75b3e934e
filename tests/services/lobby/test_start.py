"""A start, whatever goes wrong with it: all of it happens, or nothing is left of it."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from services.kernel.errors import Kind, Refused, invalid, precondition
from services.kernel.seats import AbsentPolicy
from services.lobby.commands import EndGame, LeaveSeat, Open, Rematch, SetReady, TakeSeat
from services.lobby.evolve import FILL, TAG_OPEN, UNREADY, Limits
from services.lobby.model import BotLevel, Phase, Table, Wish
from services.lobby.schema import stakes
from services.lobby.start import SERVICES_UNAVAILABLE, game_request, reservation_id
from services.runtime.database import read
from tests.services.lobby.peers import WELCOME, Peers, peers
from tests.services.lobby.saga import GAME, TABLE, TRIES_MAX, Fault, Rig, Script, begin, rig
from tests.services.lobby.tables import azi_rules, bot, durak_rules, player

STEPS = ("OpenAccount", "Reserve", "GetAccount", "Grant", "CreateGame", "CancelGame", "Void")
BACKWARD = ("CancelGame", "Void")
PERMANENT = precondition("INVALID_OPTIONS", "never")


@pytest.fixture
async def others(tmp_path: Path) -> AsyncIterator[Peers]:
    """A wallet and a game service."""
    async with peers(tmp_path) as served:
        yield served


def no_fault(_name: str, _number: int) -> Fault:
    """All goes well."""
    return Fault.NONE


def first_call(step: str, fault: Fault) -> Script:
    """The first call of a step meets the fault."""
    return lambda name, number: fault if (name, number) == (step, 0) else Fault.NONE


def in_order(faults: Iterator[Fault]) -> Script:
    """The nth call of all meets the nth fault."""
    return lambda _name, _number: next(faults, Fault.NONE)


async def staked(lobby: Rig) -> list[Any]:
    """Who has begun the game, as it stands in the lobby's books."""
    async with read(lobby.engine) as connection:
        query = select(stakes).where(stakes.c.game_id == GAME)
        return list(await connection.execute(query))


async def check(lobby: Rig) -> Table:
    """What must hold when a start has come to its end, however it went."""
    table, bank, hall = await lobby.table(), lobby.peers.bank, lobby.peers.hall
    assert bank.total() == 0
    assert table.abandoned == ""
    assert table.game == GAME
    begun = {row.player_id for row in await staked(lobby)}
    persons = {seat.player for _, seat in table.people()}
    assert begun == (persons if table.phase is Phase.PLAYING else set())
    if table.phase is Phase.PLAYING:
        assert str(GAME) in hall.opened
        assert str(GAME) not in bank.voided
        seats = hall.opened[str(GAME)].seats
        held = bank.open_for(str(GAME))
        paid = {s.player_id: s.stack for s in seats if s.reservation_id}
        assert {account: h.chips for account, h in held.items()} == paid
        assert all(s.reservation_id in bank.held for s in seats if s.reservation_id)
    else:
        assert table.phase is Phase.WAITING
        assert table.failure
        assert str(GAME) not in hall.opened
        assert str(GAME) in hall.cancelled
        assert bank.open_for(str(GAME)) == {}
        assert not all(seat is not None and seat.ready for seat in table.seats)
    return table


async def test_a_start_reserves_every_stack_and_opens_the_game(others: Peers) -> None:
    """Bots are funded first; the game is told every seat, stack and reservation."""
    async with rig(others, no_fault) as lobby:
        await begin(lobby, azi_rules(3), persons=2, bots=1)
        await lobby.work()
        table = await check(lobby)
    assert table.phase is Phase.PLAYING
    created = others.hall.opened[str(GAME)]
    assert [s.player_id for s in created.seats] == [
        str(player(0)),
        str(player(1)),
        str(bot(0).player),
    ]
    assert [s.bot_level for s in created.seats] == [0, 0, BotLevel.EASY]
    assert [s.stack for s in created.seats] == [200, 200, 200]
    assert [s.reservation_id for s in created.seats] == [
        str(reservation_id(GAME, n)) for n in range(3)
    ]
    assert created.options.azi.entry_fee == 10
    assert not created.HasField("last_winner")
    assert others.bank.balances[str(player(0))] == WELCOME - 200


async def test_a_game_without_chips_asks_the_wallet_for_nothing(others: Peers) -> None:
    """Durak and Rami move none."""
    async with rig(others, no_fault) as lobby:
        await begin(lobby, durak_rules(2), persons=1, bots=1)
        await lobby.work()
        table = await check(lobby)
    assert table.phase is Phase.PLAYING
    assert others.bank.calls == []


async def test_a_failed_start_without_chips_asks_the_wallet_for_nothing(others: Peers) -> None:
    """There is nothing to give back."""
    others.hall.refusing["CreateGame"] = PERMANENT
    async with rig(others, no_fault) as lobby:
        await begin(lobby, durak_rules(2), persons=2, bots=0)
        await lobby.work()
        table = await check(lobby)
    assert table.failure == "INVALID_OPTIONS"
    assert others.bank.calls == []


async def test_who_lacks_chips_stops_the_start_and_is_named(others: Peers) -> None:
    """The others get theirs back and stay ready."""
    async with rig(others, no_fault) as lobby:
        await begin(lobby, azi_rules(3, fee=1_000), persons=2, bots=1, stack=20_000)
        others.bank.balances[str(player(1))] = 30_000
        others.bank.issued += 30_000
        await lobby.work()
        table = await check(lobby)
    assert table.failure == "INSUFFICIENT_CHIPS"
    assert [s and (s.ready, s.problem) for s in table.seats] == [
        (False, "INSUFFICIENT_CHIPS"),
        (True, ""),
        (True, ""),
    ]
    assert others.bank.balances[str(player(0))] == WELCOME
    assert others.bank.balances[str(player(1))] == 30_000


@pytest.mark.parametrize("step", [s for s in STEPS if s not in BACKWARD])
async def test_a_refusal_for_good_at_any_step_undoes_the_start(
    others: Peers, tmp_path: Path, step: str
) -> None:
    """The table says why, and can start again once it is asked."""
    denied = Refused(Kind.DENIED, "NOT_YOU", "no")
    for refused in (PERMANENT, invalid("seats", "wrong"), denied):
        again = others.afresh(f"sqlite+aiosqlite:///{tmp_path}/{refused.reason}.db")
        where = again.hall if step == "CreateGame" else again.bank
        where.refusing[step] = refused
        async with rig(again, no_fault) as lobby:
            await begin(lobby, azi_rules(2), persons=1, bots=1)
            await lobby.work()
            table = await check(lobby)
        assert table.failure == refused.reason


@pytest.mark.parametrize("step", [s for s in STEPS if s not in BACKWARD])
async def test_a_service_that_stays_away_makes_the_start_fail(others: Peers, step: str) -> None:
    """After a bounded number of tries, by the same way back."""
    async with rig(others, lambda n, _i: Fault.UNSENT if n == step else Fault.NONE) as lobby:
        await begin(lobby, azi_rules(2), persons=1, bots=1)
        await lobby.work()
        table = await check(lobby)
        assert lobby.counts[step] <= 2 * TRIES_MAX
    assert table.failure == SERVICES_UNAVAILABLE


@pytest.mark.parametrize("step", STEPS)
async def test_one_fault_at_any_step_is_survived(others: Peers, tmp_path: Path, step: str) -> None:
    """A lost call, a lost answer or the death of the lobby costs time and nothing else."""
    for fault in (f for f in Fault if f is not Fault.NONE):
        again = others.afresh(f"sqlite+aiosqlite:///{tmp_path}/{fault.name}.db")
        if step in BACKWARD:
            again.hall.refusing["CreateGame"] = PERMANENT
        async with rig(again, first_call(step, fault)) as lobby:
            await begin(lobby, azi_rules(3), persons=2, bots=1)
            await lobby.work()
            table = await check(lobby)
            assert lobby.counts[step] >= 1, "the fault never struck"
            assert lobby.lives == (2 if fault in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER} else 1)
        assert table.phase is (Phase.WAITING if step in BACKWARD else Phase.PLAYING)


async def test_a_game_that_opened_although_the_start_was_given_up_goes_on(others: Peers) -> None:
    """CreateGame acts every time and every answer is lost: CancelGame tells the truth."""

    def script(name: str, _number: int) -> Fault:
        return Fault.UNANSWERED if name == "CreateGame" else Fault.NONE

    async with rig(others, script) as lobby:
        await begin(lobby, azi_rules(2), persons=2, bots=0)
        await lobby.work()
        table = await check(lobby)
    assert table.phase is Phase.PLAYING
    assert (table.failure, "Void" in others.bank.calls) == ("", False)


async def test_chips_bound_to_a_game_that_never_opened_are_waited_for(others: Peers) -> None:
    """The game service bound them and failed; it gives them back itself, some time later."""
    bank, hall = others.bank, others.hall
    hall.pinning = bank.pinned.add
    hall.refusing["CreateGame"] = PERMANENT

    def script(name: str, number: int) -> Fault:
        if (name, number) == ("Void", 3):
            bank.void(str(GAME))
        return Fault.NONE

    async with rig(others, script) as lobby:
        await begin(lobby, azi_rules(2), persons=2, bots=0)
        await lobby.work()
        table = await check(lobby)
        assert lobby.counts["Void"] == 4
    assert table.failure == "INVALID_OPTIONS"


async def test_a_bot_is_funded_once_however_often_the_start_is_tried(others: Peers) -> None:
    """What it was granted is what its stack needs."""

    def script(name: str, number: int) -> Fault:
        return Fault.UNANSWERED if name in {"Grant", "Reserve"} and number < 2 else Fault.NONE

    async with rig(others, script) as lobby:
        await begin(lobby, azi_rules(2), persons=1, bots=1)
        await lobby.work()
        await check(lobby)
    assert others.bank.issued == WELCOME + 200


@pytest.mark.parametrize("seed", range(2))
async def test_any_sequence_of_faults_is_survived(tmp_path: Path, seed: int) -> None:
    """The nth call of all meets the nth fault; then all goes well."""
    chance = random.Random(seed)
    async with peers(tmp_path) as served:
        for number in range(15):
            refusing = chance.choice([None, None, "Reserve", "CreateGame", "Grant"])
            faults = iter(chance.choices(list(Fault), k=chance.randrange(15)))
            again = served.afresh(f"sqlite+aiosqlite:///{tmp_path}/lobby{number}.db")
            if refusing is not None:
                where = again.hall if refusing == "CreateGame" else again.bank
                where.refusing[refusing] = PERMANENT
            async with rig(again, in_order(faults)) as lobby:
                bots = chance.randrange(3)
                await begin(lobby, azi_rules(2 + bots), persons=2, bots=bots)
                await lobby.work()
                await check(lobby)


@pytest.mark.parametrize("refusing", [None, "Reserve", "CreateGame"])
async def test_two_replicas_at_one_start_agree(others: Peers, refusing: str | None) -> None:
    """A worker whose lease ran out goes on beside the one that took over."""
    if refusing is not None:
        where = others.hall if refusing == "CreateGame" else others.bank
        where.refusing[refusing] = PERMANENT
    async with rig(others, no_fault) as first, rig(others, no_fault) as second:
        await begin(first, azi_rules(3), persons=2, bots=1)
        (claimed,) = await first.store.claim("first", 1, 60_000)
        await asyncio.gather(
            *(lobby.starter.handle(claimed.kind, claimed) for lobby in (first, second, first))
        )
        table = await check(second)
        assert await check(first) == table
        assert await first.is_idle()
    assert table.phase is (Phase.PLAYING if refusing is None else Phase.WAITING)


async def test_a_start_that_is_over_is_not_carried_on(others: Peers) -> None:
    """Work that came due twice asks nobody for anything."""
    async with rig(others, no_fault) as lobby:
        await begin(lobby, azi_rules(2), persons=2, bots=0)
        (claimed,) = await lobby.store.claim("test", 1, 60_000)
        await lobby.starter.handle(claimed.kind, claimed)
        calls = len(others.bank.calls), len(others.hall.calls)
        await lobby.starter.handle(claimed.kind, claimed)
        assert (len(others.bank.calls), len(others.hall.calls)) == calls
        with pytest.raises(ValueError, match="no such work"):
            await lobby.starter.handle("dinner", claimed)


async def test_the_last_winner_is_named_by_his_seat_in_the_new_game(others: Peers) -> None:
    """While he sits in it; after he has gone nobody is."""
    async with rig(others, no_fault) as lobby:
        await begin(lobby, azi_rules(3), persons=2, bots=1)
        await lobby.work()
        table = await lobby.table()
    won = replace(table, last_winner=player(1))
    assert game_request(TABLE, won, GAME).last_winner == 1
    gone = replace(table, last_winner=player(7))
    assert not game_request(TABLE, gone, GAME).HasField("last_winner")


async def test_a_game_is_asked_for_with_the_clocks_of_its_table(others: Peers) -> None:
    """As its log keeps them: turn time, time bank, delay of spectators, absence, hints."""
    clocks: dict[str, object] = {
        "turn_ms": 5_000,
        "time_bank_ms": 60_000,
        "spectators": True,
        "spectator_delay": 3,
        "absent": AbsentPolicy.BOT,
        "bot_after": 1,
        "no_hints": True,
    }
    async with rig(others, no_fault) as lobby:
        await begin(lobby, durak_rules(2, **clocks), persons=2, bots=0)
        await lobby.work()
        table = await lobby.table()
    asked = game_request(TABLE, table, GAME)
    given = {name: getattr(asked, name) for name in clocks if name != "absent"}
    assert {**given, "absent": asked.absent_policy} == clocks


async def listed(lobby: Rig) -> list[UUID]:
    """The tables that lists show."""
    return [head.stream for head in await lobby.store.tagged(TAG_OPEN, ended=False)]


async def test_a_table_where_nothing_happens_closes(others: Peers) -> None:
    """Whatever happens there puts it off; then it leaves the lists, and nothing more is due."""
    idle_us = Limits().idle_ms * 1_000
    async with rig(others, no_fault) as lobby:
        await lobby.do(Open(player(0), durak_rules(3), 0, GAME, ready=True), 0)
        lobby.clock += idle_us - 1
        assert not await lobby.store.claim("test", 1, 1_000)
        await lobby.do(TakeSeat(player(1), None, 0, "", GAME, ready=True), 1)
        lobby.clock += idle_us - 1
        assert not await lobby.store.claim("test", 1, 1_000)
        assert await listed(lobby) == [TABLE]
        lobby.clock += 1
        (claimed,) = await lobby.store.claim("test", 1, 1_000)
        await lobby.handle(claimed)
        assert (await lobby.table()).phase is Phase.CLOSED
        assert await listed(lobby) == []
        assert await lobby.store.next_due_ms() is None


async def test_a_table_that_has_moved_on_or_plays_is_not_idle(others: Peers) -> None:
    """A row claimed before somebody came back closes nothing; a game is never closed."""
    limits = Limits()
    async with rig(others, no_fault) as lobby:
        await lobby.do(Open(player(0), azi_rules(2), 0, GAME, ready=True), 0)
        lobby.clock += limits.idle_ms * 1_000
        (claimed,) = await lobby.store.claim("test", 1, 1_000)
        await lobby.do(TakeSeat(player(1), None, 0, "", GAME), 1)
        await lobby.handle(claimed)
        await lobby.store.drop(claimed)
        assert (await lobby.table()).phase is Phase.WAITING
        assert await lobby.store.next_due_ms() == limits.unready_ms
        await lobby.do(SetReady(player(1), True, GAME), 2)
        await lobby.work()
        assert (await lobby.table()).phase is Phase.PLAYING
        assert await lobby.store.next_due_ms() is None


async def test_who_is_not_ready_for_long_loses_his_seat_whatever_the_worker_dies_of(
    others: Peers,
) -> None:
    """The others do not wait for him: the game that they agreed on starts. Twice is once."""
    unready_us = Limits().unready_ms * 1_000
    async with rig(others, no_fault) as lobby:
        await begin(lobby, durak_rules(3), persons=3, bots=0)
        await lobby.work()
        await lobby.do(EndGame(GAME, False, (), None, frozenset()), 300)
        lobby.clock += unready_us - 1
        for number in (0, 2):
            await lobby.do(Rematch(player(number), player(9)), 400 + number)
        assert not await lobby.store.claim("test", 1, 1_000)
        lobby.clock += 1
        (claimed,) = await lobby.store.claim("test", 1, 1_000)
        await lobby.handle(claimed)
        await lobby.close()
        await lobby.open()  # it died before it had dropped the row
        lobby.clock += 2_000_000
        table = await lobby.table()
        assert (table.phase, table.playing) == (Phase.STARTING, (0, 2))
        assert table.seats[1] is None
        for again in await lobby.store.claim("test", 8, 1_000):
            if again.kind == UNREADY:
                await lobby.handle(again)
        assert await lobby.table() == table


async def test_bots_sit_down_after_the_wait_that_was_wished_for(others: Peers) -> None:
    """People who come meanwhile sit first; a lobby that dies in between changes nothing."""
    wish = Wish(BotLevel.NORMAL, 7_000)
    async with rig(others, no_fault) as lobby:
        rules = durak_rules(4)
        await lobby.do(Open(player(0), rules, 0, GAME, ready=True, wish=wish), 0)
        lobby.clock += 4_000_000
        await lobby.do(TakeSeat(player(1), None, 0, "", GAME, ready=True), 1)
        await lobby.close()
        await lobby.open()
        lobby.clock += 3_000_000 - 1
        assert not await lobby.store.claim("test", 1, 1_000)
        lobby.clock += 1
        (claimed,) = await lobby.store.claim("test", 1, 1_000)
        assert claimed.kind == FILL
        await asyncio.gather(lobby.handle(claimed), lobby.handle(claimed))
        table = await lobby.table()
        assert [s and s.bot for s in table.seats] == [0, 0, BotLevel.NORMAL, BotLevel.NORMAL]
        assert table.phase is Phase.STARTING
        names = await lobby.players.find(s.player for _, s in table.taken() if s.bot)
        assert len({each.name for each in names.values()}) == 2


async def test_who_leaves_takes_his_wish_with_him(others: Peers) -> None:
    """No bots come for those who stay and wished for none."""
    wish = Wish(BotLevel.EASY, 7_000)
    async with rig(others, no_fault) as lobby:
        await lobby.do(Open(player(0), durak_rules(4), 0, GAME, ready=True), 0)
        await lobby.do(TakeSeat(player(1), None, 0, "", GAME, ready=True, wish=wish), 1)
        assert await lobby.store.next_due_ms() == 7_000
        await lobby.do(LeaveSeat(player(1), GAME), 2)
        assert await lobby.store.next_due_ms() == Limits().idle_ms
