"""The lobby over the wire: tables from opening to the rematch."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from kozyr.game.v1 import variant_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2 as pb
from structlog.testing import capture_logs

from services.kernel.errors import Kind, Refused, precondition
from services.lobby.commands import Command, Open
from services.lobby.model import Table
from services.lobby.server import FOLDERS
from services.lobby.tables import Request, Tables
from tests import postgres
from tests.services.lobby.hall import (
    Hall,
    azi,
    durak,
    full_table,
    is_in,
    lobby_hall,
    report,
    request_id,
)

WAITING, STARTING = pb.TABLE_STATE_WAITING, pb.TABLE_STATE_STARTING
PLAYING, CLOSED = pb.TABLE_STATE_PLAYING, pb.TABLE_STATE_CLOSED


async def test_two_players_play_azi_again_and_again(hall: Hall) -> None:
    """Stacks go into the game, come back and are topped up; the winner is passed on."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = await full_table(nino, azi(), dato)
    assert table.state == STARTING
    table = await nino.until(table.table_id, is_in(PLAYING))
    created = hall.others.hall.opened[table.game_id]
    assert [(s.player_id, s.stack) for s in created.seats] == [
        (nino.player_id, 200),
        (dato.player_id, 200),
    ]
    assert [s.display_name for s in table.seats] == ["Nino", "Dato"]

    told = report(table, 395, 5, winner=0)
    game = hall.staff("game", "game")
    for _ in range(2):  # the same end may be told again, under whatever request id
        told.request_id = request_id()
        await game.call(told)
    table = (await nino.call(pb.GetTableRequest(table_id=table.table_id))).table
    assert (table.state, table.games_played, table.last_winner_id) == (WAITING, 1, nino.player_id)
    assert [(s.stack, s.ready, s.problem) for s in table.seats] == [
        (395, False, ""),
        (5, False, "STACK_BELOW_ENTRY_FEE"),
    ]

    ready = pb.SetReadyRequest(table_id=table.table_id, ready=True)
    assert (await dato.refused(ready)).reason == "STACK_BELOW_ENTRY_FEE"
    await dato.call(pb.TopUpRequest(table_id=table.table_id, chips=300))
    for guest in (dato, nino):
        ready.request_id = ""
        await guest.call(ready)
    again = await nino.until(
        table.table_id, lambda t: t.state == PLAYING and t.game_id != table.game_id
    )
    created = hall.others.hall.opened[again.game_id]
    assert [s.stack for s in created.seats] == [395, 305]
    assert created.last_winner == 0
    assert created.HasField("last_winner")


async def test_a_wallet_that_refuses_shows_at_the_table(hall: Hall) -> None:
    """The start fails, and says why and because of whom."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = (await nino.call(pb.CreateTableRequest(rules=azi()))).table
    await dato.call(pb.TakeSeatRequest(table_id=table.table_id))
    hall.others.bank.balances[dato.player_id] = 50  # spent elsewhere, since he sat down
    hall.others.bank.issued -= 9_950
    for guest in (nino, dato):
        await guest.call(pb.SetReadyRequest(table_id=table.table_id, ready=True))
    table = await nino.until(table.table_id, is_in(WAITING))
    assert table.start_failure == "INSUFFICIENT_CHIPS"
    assert [(s.ready, s.problem) for s in table.seats] == [
        (True, ""),
        (False, "INSUFFICIENT_CHIPS"),
    ]
    assert hall.others.bank.total() == 0


async def test_a_private_table_is_seen_with_its_code_only(hall: Hall) -> None:
    """Not by strangers, not in lists; the code is shown to those who sit there."""
    nino, dato, eka = await hall.guest("Nino"), await hall.guest("Dato"), await hall.guest("Eka")
    rules = durak(3, visibility=pb.VISIBILITY_PRIVATE)
    table = (await nino.call(pb.CreateTableRequest(rules=rules))).table
    code, look = table.invite_code, pb.GetTableRequest(table_id=table.table_id)
    assert len(code) == 16
    unknown = pb.GetTableRequest(table_id="00000000-0000-7000-8000-000000000000")
    hidden, missing = await dato.refused(look), await dato.refused(unknown)
    assert (hidden.kind, hidden.reason, hidden.message) == (
        missing.kind,
        missing.reason,
        missing.message,
    )
    assert hidden.reason == "TABLE_NOT_FOUND"
    wrong = pb.TakeSeatRequest(table_id=table.table_id, invite_code="0" * 16)
    assert (await dato.refused(wrong)).reason == "TABLE_NOT_FOUND"
    look.invite_code = code
    assert (await dato.call(look)).table.invite_code == ""
    sat = await dato.call(pb.TakeSeatRequest(table_id=table.table_id, invite_code=code))
    assert sat.table.invite_code == code
    assert (await eka.call(pb.ListTablesRequest())).tables == []
    assert [t.table_id for t in (await dato.call(pb.ListTablesRequest(mine=True))).tables] == [
        table.table_id
    ]
    assert (await hall.staff().call(pb.GetTableRequest(table_id=table.table_id))).table.seats
    with pytest.raises(Refused) as caught:
        await anext(eka.watch(pb.WatchTablesRequest(table_id=table.table_id)))
    assert caught.value.reason == "TABLE_NOT_FOUND"


async def test_bots_sit_down_with_names_and_levels(hall: Hall) -> None:
    """Each is a player of its own, flagged as a bot."""
    nino = await hall.guest("Nino")
    table = (await nino.call(pb.CreateTableRequest(rules=durak(6)))).table
    for level in (variant_pb2.BOT_LEVEL_EASY, variant_pb2.BOT_LEVEL_HARD):
        add = pb.AddBotRequest(table_id=table.table_id, level=level)
        first = (await nino.call(add)).table
        table = (await nino.call(add)).table  # the same request again
        assert first == table
    bots = [seat for seat in table.seats if seat.bot_level]
    assert [b.bot_level for b in bots] == [1, 3]
    assert len({b.display_name for b in bots}) == 2
    assert all(b.display_name.endswith("(bot)") and b.ready for b in bots)
    table = (await nino.call(pb.RemoveBotRequest(table_id=table.table_id, seat=1))).table
    assert table.seats[1].player_id == ""


async def test_a_request_acts_once(hall: Hall) -> None:
    """The same id with the same request repeats the answer; with another request it is refused."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    create = pb.CreateTableRequest(request_id=request_id(), rules=durak(3))
    first, second = await nino.call(create), await nino.call(create)
    assert first == second
    assert len((await nino.call(pb.ListTablesRequest())).tables) == 1
    other = pb.CreateTableRequest(request_id=create.request_id, rules=durak(4))
    assert (await nino.refused(other)).reason == "REQUEST_ID_REUSED"
    # somebody else may use the same id
    theirs = await dato.call(create)
    assert theirs.table.table_id != first.table.table_id
    leave = pb.LeaveSeatRequest(table_id=first.table.table_id)
    left = await nino.call(leave)
    assert await nino.call(leave) == left


async def test_a_table_closes_with_its_last_person_or_by_an_operator(hall: Hall) -> None:
    """It is listed no more, and its watchers are told before their stream ends."""
    nino, operator = await hall.guest("Nino"), hall.staff()
    tables = [(await nino.call(pb.CreateTableRequest(rules=durak(3)))).table for _ in range(2)]
    watched = nino.until(tables[0].table_id, is_in(CLOSED))
    watching = asyncio.create_task(watched)
    await nino.call(pb.LeaveSeatRequest(table_id=tables[0].table_id))
    await operator.call(pb.CloseTableRequest(table_id=tables[1].table_id))
    assert (await watching).state == CLOSED
    assert (await nino.call(pb.ListTablesRequest())).tables == []
    close = pb.CloseTableRequest(table_id=tables[1].table_id)
    assert (await nino.refused(close)).reason == "TABLE_CLOSED"


async def test_lists_go_page_by_page_newest_first(hall: Hall) -> None:
    """Filters belong to the token: it opens for the same question only."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    made = []
    for number in range(5):
        rules = azi(2) if number == 2 else durak(3)
        made.append((await nino.call(pb.CreateTableRequest(rules=rules))).table.table_id)
    page = await dato.call(pb.ListTablesRequest(page_size=2))
    seen = [t.table_id for t in page.tables]
    while page.next_page_token:
        ask = pb.ListTablesRequest(page_size=2, page_token=page.next_page_token)
        page = await dato.call(ask)
        seen += [t.table_id for t in page.tables]
    assert seen == made[::-1]
    of_azi = await dato.call(pb.ListTablesRequest(variant=variant_pb2.VARIANT_AZI))
    assert [t.table_id for t in of_azi.tables] == [made[2]]
    await full_table(dato, durak(2), nino)
    free = await dato.call(pb.ListTablesRequest(free_seat=True, page_size=100))
    assert len(free.tables) == 5
    page = await dato.call(pb.ListTablesRequest(page_size=2))
    for stranger, ask in (
        (nino, pb.ListTablesRequest(page_size=2, page_token=page.next_page_token)),
        (dato, pb.ListTablesRequest(free_seat=True, page_token=page.next_page_token)),
        (dato, pb.ListTablesRequest(page_token="AAAA")),
    ):
        assert (await stranger.refused(ask)).reason == "BAD_TOKEN"


async def test_listed_tables_are_watched_from_opening_to_closing(hall: Hall) -> None:
    """One game's only, if wanted; a private table never shows."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    await nino.call(pb.CreateTableRequest(rules=azi(2)))
    stream = dato.watch(pb.WatchTablesRequest(variant=variant_pb2.VARIANT_DURAK))
    await nino.call(pb.CreateTableRequest(rules=durak(2, visibility=pb.VISIBILITY_PRIVATE)))
    table = (await nino.call(pb.CreateTableRequest(rules=durak(2)))).table
    async with asyncio.timeout(10):
        first = await anext(stream)
        assert (first.table_id, first.version) == (table.table_id, table.version)
        await nino.call(pb.LeaveSeatRequest(table_id=table.table_id))
        last = await anext(stream)
    assert (last.table_id, last.state) == (table.table_id, CLOSED)
    await stream.aclose()  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------- quick play


async def test_quick_play_fills_tables(hall: Hall) -> None:
    """The first opens a table, the others find it, and the game starts when it is full."""
    guests = [await hall.guest(name) for name in ("Nino", "Dato")]
    tables = [
        (await g.call(pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI, seats=2))).table
        for g in guests
    ]
    assert tables[0].table_id == tables[1].table_id
    assert tables[1].state == STARTING
    table = await guests[0].until(tables[0].table_id, is_in(PLAYING))
    assert [s.player_id for s in table.seats] == [g.player_id for g in guests]


async def test_quick_play_with_bots_starts_at_once(hall: Hall) -> None:
    """At a table of one's own, even where others wait."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    waiting = (await dato.call(pb.QuickPlayRequest(variant=variant_pb2.VARIANT_AZI))).table
    quick = pb.QuickPlayRequest(
        variant=variant_pb2.VARIANT_AZI, bots=variant_pb2.BOT_LEVEL_NORMAL, seats=3
    )
    table = (await nino.call(quick)).table
    assert table.table_id != waiting.table_id
    assert (await nino.call(quick)).table.table_id == table.table_id
    table = await nino.until(table.table_id, is_in(PLAYING))
    assert [s.bot_level for s in table.seats] == [0, 2, 2]
    assert len({s.display_name for s in table.seats}) == 3
    assert len(hall.others.bank.open_for(table.game_id)) == 3


async def test_quick_play_asked_at_once_and_again_is_one_seat(hall: Hall) -> None:
    """Whatever happens between: the same request, the same table."""
    nino = await hall.guest("Nino")
    quick = pb.QuickPlayRequest(request_id=request_id(), variant=variant_pb2.VARIANT_DURAK)
    answers = await asyncio.gather(*(nino.call(quick) for _ in range(5)))
    assert len({a.table.table_id for a in answers}) == 1
    assert len((await nino.call(pb.ListTablesRequest(mine=True))).tables) == 1


async def test_quick_play_takes_no_table_with_other_rules(hall: Hall) -> None:
    """Stakes, options and size are what the player asked for; nobody there is to be waited for."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    dear, plain = azi(2), pb.TableRules(seats=2)
    plain.options.azi.SetInParent()
    odd = pb.TableRules(seats=2)
    odd.options.azi.deal_size = 4
    made = []
    for rules, ready in ((dear, True), (odd, True), (plain, False)):
        table = (await dato.call(pb.CreateTableRequest(rules=rules))).table.table_id
        await dato.call(pb.SetReadyRequest(table_id=table, ready=ready))
        made.append(table)
    quick = pb.QuickPlayRequest(variant=variant_pb2.VARIANT_AZI, seats=2)
    mine = (await nino.call(quick)).table
    assert mine.table_id not in made
    assert (mine.rules.options.azi.entry_fee, mine.rules.options.azi.deal_size) == (1, 3)
    await nino.call(pb.LeaveSeatRequest(table_id=mine.table_id))
    await dato.call(pb.SetReadyRequest(table_id=made[2], ready=True))
    again = pb.QuickPlayRequest(variant=variant_pb2.VARIANT_AZI, seats=2)
    assert (await nino.call(again)).table.table_id == made[2]


async def test_quick_play_says_why_no_table_of_ones_own_is_opened(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a new table refuses the next one would too: it is not tried until the deadline."""
    act, opened = Tables.act, []

    async def refusing(self: Tables, table_id: UUID, command: Command, request: Request) -> Table:
        if isinstance(command, Open):
            opened.append(table_id)
            raise precondition("NO_MORE_TABLES", "the house is full")
        return await act(self, table_id, command, request)

    nino = await hall.guest("Nino")
    monkeypatch.setattr(Tables, "act", refusing)
    quick = pb.QuickPlayRequest(variant=variant_pb2.VARIANT_DURAK, request_id=request_id())
    assert (await nino.refused(quick)).reason == "NO_MORE_TABLES"
    assert len(opened) == 1
    monkeypatch.undo()
    assert (await nino.call(quick)).table.table_id == str(opened[0])


# ------------------------------------------------------------------------------------------- others


async def test_variants_are_those_of_the_engines(hall: Hall) -> None:
    """With bounds and defaults as the engines have them; no token is needed."""
    answer = await hall.caller(None).call(pb.ListVariantsRequest())
    variants = {v.variant: v for v in answer.variants}
    azi_info = variants[variant_pb2.VARIANT_AZI]
    assert (azi_info.rules, azi_info.seats_min, azi_info.seats_max) == ("azi 1.0.0", 2, 6)
    options = {o.name: o for o in azi_info.options}
    assert (options["entry_fee"].type, options["entry_fee"].low) == ("int", 1)
    assert list(options["deal_size"].choices) == ["3", "4"]
    assert list(options["azi_entry"].choices) == ["survivors", "half_bank"]
    assert (options["azi_entry_fee"].type, options["azi_entry_fee"].default) == ("bool", "true")
    rami = {o.name: o for o in variants[variant_pb2.VARIANT_RAMI].options}
    assert (rami["target"].default, rami["target"].HasField("high")) == ("100", True)
    assert variants[variant_pb2.VARIANT_RAMI].rules == "rami 1.1.0"


async def test_rules_are_told_in_the_readers_language(hall: Hall) -> None:
    """With the names of options; English where no language of the reader is there."""
    stranger = hall.caller(None)
    asked = pb.ListVariantsRequest(languages=["de", "ka-GE"], variant=variant_pb2.VARIANT_RAMI)
    answer = await stranger.call(asked)
    assert (answer.language, list(answer.languages)) == ("ka", ["en", "pt", "ka"])
    (rami,) = answer.variants
    assert (rami.title, rami.sections[0].key, rami.sections[0].title) == ("რამი", "goal", "მიზანი")
    assert {o.name: o.title for o in rami.options}["target"] == "სამიზნე"
    answer = await stranger.call(pb.ListVariantsRequest(languages=["de"]))
    assert answer.language == "en"
    assert [v.title for v in answer.variants] == ["Azi", "Durak", "Rami"]
    assert {len(v.sections) for v in answer.variants} == {8}
    refused = await stranger.refused(pb.ListVariantsRequest(variant=9))  # type: ignore[arg-type]
    assert [f.field for f in refused.fields] == ["variant"]


async def test_durak_keeps_its_tally_over_the_wire(hall: Hall) -> None:
    """A null deal counts for nobody, whoever was first."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    game = hall.staff("game", "game")
    table = await full_table(nino, durak(), dato)
    for result in ({"winner": 1, "durak": 0}, {"winner": 0, "null": True}):
        table = await nino.until(table.table_id, is_in(PLAYING))
        await game.call(report(table, 0, 0, **result))
        for guest in (nino, dato):
            ready = pb.SetReadyRequest(table_id=table.table_id, ready=True)
            table = (await guest.call(ready)).table
    assert [(t.player_id, t.wins, t.losses) for t in table.series] == [
        (nino.player_id, 0, 1),
        (dato.player_id, 1, 0),
    ]


async def test_a_cancelled_game_is_reported_without_a_result(hall: Hall) -> None:
    """The seats of those who left are free again."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = await full_table(nino, azi(), dato)
    table = await nino.until(table.table_id, is_in(PLAYING))
    await hall.staff("game", "game").call(
        pb.ReportGameRequest(
            table_id=table.table_id,
            game_id=table.game_id,
            stage=view_pb2.STAGE_CANCELLED,
            left_player_ids=[nino.player_id],
        )
    )
    table = (await dato.call(pb.GetTableRequest(table_id=table.table_id))).table
    assert (table.state, table.host_id) == (WAITING, dato.player_id)
    assert [(s.player_id, s.stack) for s in table.seats] == [("", 0), (dato.player_id, 200)]


async def test_the_lobby_finds_its_tables_again_after_a_restart(tmp_path: Path) -> None:
    """Nothing of a table, a player or a token lives in memory only."""
    async with lobby_hall(tmp_path) as hall:
        nino = await hall.guest("Nino")
        made = (await nino.call(pb.CreateTableRequest(rules=azi(2, turn_ms=5_000)))).table
    async with lobby_hall(tmp_path) as hall:
        again = hall.caller(hall.token("players", nino.player_id))
        look = pb.GetTableRequest(table_id=made.table_id)
        assert (await again.call(look)).table == made
        assert (await again.call(pb.ListTablesRequest(mine=True))).tables == [made]
    assert made.rules.turn_ms == 5_000
    assert (made.rules.buy_in_min, made.rules.buy_in_max) == (200, 1_000)
    assert made.rules.options.azi.azi_entry == "survivors"
    assert made.seats[0].display_name == "Nino"


async def test_kinds_of_refusals(hall: Hall) -> None:
    """The code says whether to ask again, differently, or not at all."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    table = (await nino.call(pb.CreateTableRequest(rules=durak(2)))).table
    taken = await dato.refused(pb.TakeSeatRequest(table_id=table.table_id, seat=0))
    assert (taken.kind, taken.reason) == (Kind.PRECONDITION, "SEAT_TAKEN")
    host = await dato.refused(pb.StartGameRequest(table_id=table.table_id))
    assert (host.kind, host.reason) == (Kind.DENIED, "NOT_HOST")
    beyond = await dato.refused(pb.TakeSeatRequest(table_id=table.table_id, seat=2))
    assert (beyond.kind, beyond.fields[0].field) == (Kind.INVALID, "seat")


async def test_the_lobby_works_the_same_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    """Signing up, sitting down, a start, its end, a list, a refused request."""
    service_url = await postgres.migrated(postgres_url, FOLDERS)
    async with lobby_hall(tmp_path, lobby_database_url=service_url) as hall:
        nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
        table = await full_table(nino, azi(), dato)
        table = await nino.until(table.table_id, is_in(PLAYING))
        await hall.staff("game", "game").call(report(table, 300, 100, winner=0))
        (table,) = (await dato.call(pb.ListTablesRequest())).tables
        assert [(s.display_name, s.stack) for s in table.seats] == [("Nino", 300), ("Dato", 100)]
        quick = pb.QuickPlayRequest(variant=variant_pb2.VARIANT_RAMI)
        first, second = await nino.call(quick), await nino.call(quick)
        assert first.table.table_id == second.table.table_id
        refused = await dato.refused(pb.StartGameRequest(table_id=table.table_id))
        assert refused.reason == "NOT_HOST"


async def test_log_lines_name_tables_as_tables_and_games_as_games(hall: Hall) -> None:
    """A call about a table is found by `table`; only one about a game carries a game's id."""
    nino, dato = await hall.guest("Nino"), await hall.guest("Dato")
    with capture_logs() as lines:
        table = await full_table(nino, azi(), dato)
        table = await nino.until(table.table_id, is_in(PLAYING))
        await hall.staff("game", "game").call(report(table, 395, 5, winner=0))
    named = {
        (line["method"].rpartition("/")[2], line["table"], line["game"])
        for line in lines
        if line["event"] == "rpc" and "LobbyService" in line["method"]
    }
    assert ("CreateTable", table.table_id, None) in named
    assert ("SetReady", table.table_id, None) in named
    assert ("ReportGame", table.table_id, table.game_id) in named
