"""Quick play: whoever asks where and when, nobody waits alone while another waits for the same."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from kozyr.game.v1 import variant_pb2
from kozyr.lobby.v1 import limits_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb

from services.kernel.envelope import Claimed
from services.kernel.errors import Refused
from services.lobby.commands import Command, LeaveSeat
from services.lobby.evolve import FILL
from services.lobby.hosting import quick_rules
from services.lobby.model import BotLevel, Phase, Table, Variant
from services.lobby.quick import Hope
from services.lobby.tables import Found, Request
from services.lobby.timers import Timers
from services.runtime.settings import Settings
from tests.services.lobby.hall import Hall, azi, durak
from tests.services.lobby.replicas import Replica, replicas
from tests.services.lobby.tables import game, player

SETTINGS = Settings()
AZI = variant_pb2.VARIANT_AZI
DURAK = variant_pb2.VARIANT_DURAK


def hope(
    seats: int = 3,
    fill_after_ms: int = 0,
    bots: BotLevel = BotLevel.PERSON,
    *,
    any_seats: bool = False,
) -> Hope:
    """A player who wants to play Durak."""
    rules = quick_rules(Variant.DURAK, seats, 0, SETTINGS)
    return Hope(rules, any_seats, 0, 0, bots, fill_after_ms)


async def ask(where: Replica, number: int, wanted: Hope, request: str = "") -> Found:
    """A player asks for quick play, again while he is being seated elsewhere, as clients do."""
    key = request or f"quick {number}"
    while True:
        try:
            return await where.quick.play(player(number), wanted, Request("test", key, bytes(32)))
        except Refused as refused:
            if refused.reason != "SEATING_UNDER_WAY":
                raise


async def tables_of(replica: Replica) -> dict[UUID, Table]:
    """Every table there is."""
    return {
        h.stream: (await replica.streams.load(h.stream)).state
        async for h in replica.store.streams()
    }


def check(tables: dict[UUID, Table], wanted: dict[int, Hope]) -> None:
    """Everybody sits once, nobody where he did not want to, and only one table waits for those who
    want the same."""
    seats = Counter(seat.player for table in tables.values() for _, seat in table.people())
    assert seats == Counter(map(player, wanted))
    waiting: Counter[tuple[int, BotLevel]] = Counter()
    for table in tables.values():
        assert table.rules is not None
        levels = {wanted[_number(seat.player)].bots for _, seat in table.people()}
        for _, seat in table.people():
            mine = wanted[_number(seat.player)]
            assert mine.any_seats or mine.rules.seats == table.rules.seats
        if table.phase is Phase.WAITING:
            assert len(levels) == 1
            waiting[table.rules.seats, levels.pop()] += 1
        else:
            assert len(table.taken()) == table.rules.seats
    assert set(waiting.values()) <= {1}


def _number(who: UUID) -> int:
    return who.int - player(0).int


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_those_who_ask_at_once_at_two_replicas_meet(tmp_path: Path, database: str) -> None:
    """Whatever they wish for, and though each asks twice, at both replicas."""
    chance = random.Random(11)
    async with replicas(tmp_path, database) as both:
        wanted: dict[int, Hope] = {}
        for wave in range(2):
            asking = {}
            for number in range(20 * wave, 20 * wave + chance.choice([3, 7, 12])):
                level = chance.choice([BotLevel.PERSON, BotLevel.EASY])
                wait = 60_000 if level is BotLevel.EASY else 0
                asking[number] = hope(chance.choice([2, 3]), wait, level)
            wanted |= asking
            calls = [ask(each, n, mine) for n, mine in asking.items() for each in both]
            answers = await asyncio.gather(*calls)
            for first, second in zip(answers[::2], answers[1::2], strict=True):
                assert first.table_id == second.table_id
            check(await tables_of(both[0]), wanted)


def for_chips(low: int, high: int) -> Hope:
    """A player who wants to play Azi of three, at such a fee."""
    return Hope(quick_rules(Variant.AZI, 3, low, SETTINGS), False, low, high)


@pytest.mark.parametrize("seed", range(3))
async def test_nobody_is_seated_at_stakes_he_did_not_ask_for(tmp_path: Path, seed: int) -> None:
    """Whoever asks at once, at which replica, and whatever was asked before under the same id by a
    call that never came to its end."""
    chance, wanted = random.Random(seed), dict[int, Hope]()
    async with replicas(tmp_path, "sqlite") as both:
        for number in range(18):
            low = chance.choice([1, 2, 5])
            wanted[number] = for_chips(low, low + chance.choice([0, 1, 3, 20]))
        for number in chance.sample(range(18), 6):
            before = for_chips(chance.choice([1, 2, 30]), 40)
            there = await both[0].quick._next(player(number), before, set())
            await both[0].quick._choices.choose(f"quick {number}", there)
        await asyncio.gather(*(ask(chance.choice(both), n, mine) for n, mine in wanted.items()))
        tables = await tables_of(both[0])
        seats = Counter(seat.player for table in tables.values() for _, seat in table.people())
        assert seats == Counter(map(player, wanted))
        for table in tables.values():
            for _, seat in table.people():
                mine = wanted[_number(seat.player)]
                assert table.rules is not None
                assert mine.fee_min <= table.rules.entry_fee <= mine.fee_max


async def test_two_requests_of_a_player_at_once_are_one_seat(tmp_path: Path) -> None:
    """From two devices, at two replicas; asked again after he has left, neither sits him down."""
    async with replicas(tmp_path, "sqlite") as (one, two):
        pairs = [("a", one), ("b", two), ("c", one), ("d", two)]
        found = await asyncio.gather(*(ask(where, 1, hope(), key) for key, where in pairs))
        (table_id,) = {each.table_id for each in found}
        check(await tables_of(one), {1: hope()})
        await ask(two, 2, hope())
        left = LeaveSeat(player(1), game(9))
        await one.tables.act(table_id, left, Request("test", "leave", bytes(32)))
        for key, where in pairs:
            assert (await ask(where, 1, hope(), key)).table_id == table_id
        check(await tables_of(one), {2: hope()})


async def test_a_table_that_was_thought_of_is_opened_by_whoever_comes(tmp_path: Path) -> None:
    """A lobby that dies between the two leaves no number that nobody can use."""
    async with replicas(tmp_path, "sqlite") as (one, two):
        thought = await one.quick._next(player(1), hope(), set())
        found = await ask(two, 2, hope())
        assert found.table_id == thought
        assert (await ask(one, 3, hope())).table_id == thought
        other = await ask(one, 4, hope(2))
        assert other.table_id != thought


async def test_tables_that_have_closed_are_not_tried_again(tmp_path: Path) -> None:
    """By a replica that never saw them."""
    async with replicas(tmp_path, "sqlite") as (one, two):
        for number in range(8):
            found = await ask(one, number, hope())
            leave = LeaveSeat(player(number), game(9))
            await one.tables.act(found.table_id, leave, Request("test", f"{number}", bytes(32)))
        asked, acting = [], two.tables.act

        async def act(table_id: UUID, command: Command, request: Request) -> Table:
            asked.append(table_id)
            return await acting(table_id, command, request)

        two.tables.act = act  # type: ignore[method-assign]
        found = await ask(two, 9, hope())
        assert asked == [found.table_id]


async def test_people_come_before_bots_and_the_first_wait_counts(tmp_path: Path) -> None:
    """Who waits for bots of another level, or for none, is not seated with them but for the last
    seat, with which nobody waits any more."""
    easy, hard = BotLevel.EASY, BotLevel.HARD
    async with replicas(tmp_path, "sqlite") as (one, two):
        first = await ask(one, 1, hope(3, 50_000, easy))
        second = await ask(two, 2, hope(3, 20_000, easy))
        assert second.table_id == first.table_id
        others = [await ask(one, 3, hope(4, 20_000, hard)), await ask(one, 4, hope(4))]
        assert len({first.table_id, *(each.table_id for each in others)}) == 3
        claimed = Claimed(first.table_id, FILL, "1", second.table.version, 0, 1)
        for replica in (one, two, one):
            await Timers(replica.tables).handle(FILL, claimed)
        table = (await two.streams.load(first.table_id)).state
        assert [seat.bot for _, seat in table.taken()] == [0, 0, easy]
        assert table.phase is Phase.STARTING
        last = await ask(one, 5, hope(2, 20_000, hard))
        filled = await ask(two, 6, hope(2))
        assert filled.table_id == last.table_id
        assert filled.table.phase is Phase.STARTING


# ------------------------------------------------------------------------------------ over the wire


async def test_bots_come_after_the_wait_a_player_chose(hall: Hall) -> None:
    """By themselves."""
    nino = await hall.guest("Nino")
    quick = pb.QuickPlayRequest(
        variant=DURAK, seats=3, bots=variant_pb2.BOT_LEVEL_EASY, fill_after_ms=300
    )
    table = (await nino.call(quick)).table
    assert [bool(seat.player_id) for seat in table.seats] == [True, False, False]
    wait = table.fill_time.ToMicroseconds() - table.opened_time.ToMicroseconds()
    assert 300_000 <= wait < 400_000
    table = await nino.until(table.table_id, lambda t: t.state == pb.TABLE_STATE_PLAYING)
    assert [seat.bot_level for seat in table.seats] == [0, 1, 1]
    assert len({seat.display_name for seat in table.seats}) == 3


async def test_stakes_are_chosen_within_bounds(hall: Hall) -> None:
    """The game's own fee where none is named; a table is opened at the fee next to it."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    plain = (await nino.call(pb.QuickPlayRequest(variant=AZI, seats=2))).table
    assert plain.rules.options.azi.entry_fee == 1
    dear = pb.QuickPlayRequest(variant=AZI, seats=2, entry_fee_min=5, entry_fee_max=20)
    opened = (await dato.call(dear)).table
    assert (opened.rules.options.azi.entry_fee, opened.rules.buy_in_min) == (5, 100)
    found = pb.QuickPlayRequest(variant=AZI, seats=2, entry_fee_min=2, entry_fee_max=5)
    assert (await nino.call(found)).table.table_id == opened.table_id


async def test_who_was_sent_away_is_led_elsewhere(hall: Hall) -> None:
    """The host does not meet him again by quick play."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = (await nino.call(pb.QuickPlayRequest(variant=DURAK, seats=3))).table.table_id
    await dato.call(pb.TakeSeatRequest(table_id=table))
    reason = pb.KICK_REASON_ABSENT
    away = pb.KickPlayerRequest(table_id=table, player_id=dato.player_id, kick_reason=reason)
    await nino.call(away)
    again = await dato.call(pb.QuickPlayRequest(variant=DURAK, seats=3))
    assert again.table.table_id != table


# -------------------------------------------------------------------------------------------- chips


async def test_the_same_chips_are_not_brought_to_two_tables(hall: Hall) -> None:
    """However many seats are taken at once, by whatever call; what a game holds counts no more."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    hall.others.bank.balances[nino.player_id] = 450
    hall.others.bank.issued -= 9_550
    tables = [(await dato.call(pb.CreateTableRequest(rules=azi(3)))).table for _ in range(4)]
    asked = [
        *(pb.TakeSeatRequest(table_id=table.table_id) for table in tables),
        *(pb.CreateTableRequest(rules=azi(3)) for _ in range(2)),
        pb.QuickPlayRequest(variant=AZI, entry_fee_min=10),
    ]
    answers = await asyncio.gather(*map(nino.call, asked), return_exceptions=True)
    refused = [each for each in answers if isinstance(each, Exception)]
    assert len(refused) == len(asked) - 2
    assert {str(each) for each in refused} == {str(refused[0])}
    assert "INSUFFICIENT_CHIPS" in str(refused[0])
    mine = (await nino.call(pb.ListTablesRequest(mine=True))).tables
    assert len(mine) == 2
    tops = [pb.TopUpRequest(table_id=table.table_id, chips=50) for table in mine]
    topped = await asyncio.gather(*map(nino.call, tops), return_exceptions=True)
    assert sum(isinstance(each, Exception) for each in topped) == 1
    await nino.call(pb.LeaveSeatRequest(table_id=mine[0].table_id))
    sat = {table.table_id for table in mine}
    free = next(table.table_id for table in tables if table.table_id not in sat)
    await nino.call(pb.TakeSeatRequest(table_id=free))
    assert await nino.call(pb.CreateTableRequest(rules=durak(2)))


async def test_who_lacks_the_chips_is_told_at_once(hall: Hall) -> None:
    """However many tables there are: the wallet is asked once."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    for _ in range(3):
        table = (await dato.call(pb.QuickPlayRequest(variant=AZI, seats=3))).table.table_id
        away = pb.SetReadyRequest(table_id=table, ready=False)
        await dato.call(away)
    for table in (await dato.call(pb.ListTablesRequest(mine=True))).tables:
        await dato.call(pb.SetReadyRequest(table_id=table.table_id, ready=True))
    hall.others.bank.balances[nino.player_id] = 19
    hall.others.bank.issued -= 9_981
    hall.others.bank.calls.clear()
    refused = await nino.refused(pb.QuickPlayRequest(variant=AZI, seats=3))
    assert (refused.reason, refused.facts["balance"]) == ("INSUFFICIENT_CHIPS", "19")
    assert hall.others.bank.calls == ["GetAccount"]


async def test_whom_his_limits_keep_from_playing_is_told_at_once(hall: Hall) -> None:
    """As who lacks the chips, by a limit and by an exclusion alike: not every table is tried."""
    dato = await hall.guest("Dato")
    for _ in range(3):
        table = (await dato.call(pb.QuickPlayRequest(variant=AZI, seats=3))).table.table_id
        await dato.call(pb.SetReadyRequest(table_id=table, ready=False))
    for table in (await dato.call(pb.ListTablesRequest(mine=True))).tables:
        await dato.call(pb.SetReadyRequest(table_id=table.table_id, ready=True))
    stops = {
        "LIMIT_REACHED": limits_pb2.SetLimitRequest(kind=limits_pb2.LIMIT_KIND_TIME_DAY, amount=0),
        "EXCLUDED": limits_pb2.ExcludeMyselfRequest(for_good=True),
    }
    for reason, stop in stops.items():
        nino = await hall.guest("Nino")
        await nino.call(stop)
        hall.others.bank.calls.clear()
        refused = await nino.refused(pb.QuickPlayRequest(variant=AZI, seats=3))
        assert refused.reason == reason
        assert hall.others.bank.calls == ["GetAccount"]


async def test_a_repeated_request_is_answered_though_the_chips_are_claimed(hall: Hall) -> None:
    """It brought them itself."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    hall.others.bank.balances[nino.player_id] = 200
    hall.others.bank.issued -= 9_800
    table = (await dato.call(pb.CreateTableRequest(rules=azi(3)))).table.table_id
    take = pb.TakeSeatRequest(table_id=table)
    first = await nino.call(take)
    assert await nino.call(take) == first
    await nino.call(pb.LeaveSeatRequest(table_id=table))
    await nino.call(pb.CreateTableRequest(rules=azi(3)))
    assert await nino.call(take) == first
