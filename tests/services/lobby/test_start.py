"""A start, whatever goes wrong with it: all of it happens, or nothing is left of it."""

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from services.kernel.errors import Kind, Refused, invalid, precondition
from services.lobby.model import BotLevel, Phase, Table
from services.lobby.start import SERVICES_UNAVAILABLE, reservation_id
from tests.services.lobby.peers import WELCOME, Peers, peers
from tests.services.lobby.saga import GAME, TRIES_MAX, Fault, Rig, Script, begin, rig
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


def in_order(faults: Iterator[Fault]) -> Script:
    """The nth call of all meets the nth fault."""
    return lambda _name, _number: next(faults, Fault.NONE)


async def check(lobby: Rig) -> Table:
    """What must hold when a start has come to its end, however it went."""
    table, bank, hall = await lobby.table(), lobby.peers.bank, lobby.peers.hall
    assert bank.total() == 0
    assert table.abandoned == ""
    assert table.game == GAME
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
@pytest.mark.parametrize(
    "refused",
    [PERMANENT, invalid("seats", "wrong"), Refused(Kind.DENIED, "NOT_YOU", "no")],
    ids=lambda r: r.reason,
)
async def test_a_refusal_for_good_at_any_step_undoes_the_start(
    others: Peers, step: str, refused: Refused
) -> None:
    """The table says why, and can start again once it is asked."""
    where = others.hall if step == "CreateGame" else others.bank
    where.refusing[step] = refused
    async with rig(others, no_fault) as lobby:
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


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.NONE], ids=lambda f: f.name)
@pytest.mark.parametrize("step", STEPS)
async def test_one_fault_at_any_step_is_survived(others: Peers, step: str, fault: Fault) -> None:
    """A lost call, a lost answer or the death of the lobby costs time and nothing else."""
    if step in BACKWARD:
        others.hall.refusing["CreateGame"] = PERMANENT

    async with rig(others, lambda n, i: fault if (n, i) == (step, 0) else Fault.NONE) as lobby:
        await begin(lobby, azi_rules(3), persons=2, bots=1)
        await lobby.work()
        table = await check(lobby)
        assert lobby.counts[step] >= 1, "the fault never struck"
        assert lobby.lives == (2 if fault in {Fault.CRASH_BEFORE, Fault.CRASH_AFTER} else 1)
    expected = Phase.WAITING if step in BACKWARD else Phase.PLAYING
    assert table.phase is expected


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
