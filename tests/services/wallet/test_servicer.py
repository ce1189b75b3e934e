"""The wallet's RPCs over loopback, each with the callers that may and may not call it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from kozyr.wallet.v1 import wallet_pb2 as pb

from services.kernel.errors import Kind, Refused
from tests.services.wallet.counter import (
    WELCOME,
    Counter,
    new_id,
    pin,
    reserve,
    serving,
    settle,
)

PLAYER, BOT = pb.ACCOUNT_KIND_PLAYER, pb.ACCOUNT_KIND_BOT
SOMEBODY = "00000000-0000-4000-8000-000000000001"
REQUESTS: dict[str, Message] = {
    "OpenAccount": pb.OpenAccountRequest(account_id=SOMEBODY, kind=PLAYER),
    "GetAccount": pb.GetAccountRequest(account_id=SOMEBODY),
    "ListTransfers": pb.ListTransfersRequest(account_id=SOMEBODY),
    "Reserve": reserve(SOMEBODY, SOMEBODY, SOMEBODY, 1),
    "Pin": pin(SOMEBODY, [SOMEBODY], [SOMEBODY], 1),
    "Settle": settle(SOMEBODY, (SOMEBODY, 0, 0)),
    "Void": pb.VoidRequest(game_id=SOMEBODY, reason="X"),
    "Grant": pb.GrantRequest(account_id=SOMEBODY, chips=1, reason="x"),
    "TrialBalance": pb.TrialBalanceRequest(),
    "ListReservations": pb.ListReservationsRequest(game_id=SOMEBODY),
}
ALLOWED = {
    "OpenAccount": {"lobby"},
    "GetAccount": {"lobby", "game", "operator"},
    "ListTransfers": {"operator"},
    "Reserve": {"lobby"},
    "Pin": {"game"},
    "Settle": {"game"},
    "Void": {"lobby", "game", "operator"},
    "Grant": {"operator", "lobby"},
    "TrialBalance": {"operator"},
    "ListReservations": {"operator", "lobby", "game"},
}
CALLERS = ("lobby", "game", "ai", "operator", SOMEBODY, "nobody")


@pytest.fixture
async def counter(tmp_path: Path) -> AsyncIterator[Counter]:
    """A wallet that serves."""
    async with serving(tmp_path) as made:
        yield made


async def refused(counter: Counter, who: str, method: str, request: Message) -> Refused:
    """The refusal of a call."""
    with pytest.raises(Refused) as caught:
        await counter.call(who, method, request)
    return caught.value


async def balance(counter: Counter, account: str) -> int:
    """What an account can spend."""
    answer = await counter.call(account, "GetAccount", pb.GetAccountRequest())
    return int(answer.account.balance)


def copy(request: Message) -> Any:
    """A request of one's own."""
    made = type(request)()
    made.CopyFrom(request)
    return made


async def test_each_rpc_knows_its_callers(counter: Counter) -> None:
    """Whoever is not in its row is refused before anything is looked at."""
    for method, request in REQUESTS.items():
        for who in CALLERS:
            own = who == SOMEBODY and method in ("GetAccount", "ListTransfers")
            if who in ALLOWED[method] or own:
                continue
            answer = await refused(counter, who, method, copy(request))
            expected = ("TOKEN_MISSING" if who == "nobody" else "ROLE_NOT_ALLOWED",)
            assert (answer.reason,) == expected, (method, who)


async def test_players_see_their_own_account_only(counter: Counter) -> None:
    """Another's account is denied in the same words whether it exists or not."""
    ann, ben = await counter.open(), await counter.open()
    for method, request in (
        ("GetAccount", pb.GetAccountRequest),
        ("ListTransfers", pb.ListTransfersRequest),
    ):
        for account in (ann, ""):
            assert await counter.call(ann, method, request(account_id=account))
        answers = [
            await refused(counter, ann, method, request(account_id=other))
            for other in (ben, new_id())
        ]
        assert [(a.kind, a.reason, a.message) for a in answers] == 2 * [
            (Kind.DENIED, "NOT_YOUR_ACCOUNT", "players see their own account only")
        ]
    with pytest.raises(Refused, match="NOT_YOUR_ACCOUNT"):
        await anext(counter.watch(ann, ben))
    nobody = await refused(counter, new_id(), "GetAccount", pb.GetAccountRequest())
    assert (nobody.kind, nobody.reason) == (Kind.NOT_FOUND, "ACCOUNT_NOT_FOUND")


async def test_a_new_player_is_welcomed_and_a_bot_is_not(counter: Counter) -> None:
    """Welcome chips are the settings'; opening again answers with the account as it is."""
    ann, bot = new_id(), new_id()
    request = pb.OpenAccountRequest(account_id=ann, kind=PLAYER)
    opened = (await counter.call("lobby", "OpenAccount", request)).account
    assert (opened.account_id, opened.kind, opened.balance) == (ann, PLAYER, WELCOME)
    assert opened.version == 1
    await counter.seat([ann], 400)
    again = pb.OpenAccountRequest(account_id=ann, kind=PLAYER)
    account = (await counter.call("lobby", "OpenAccount", again)).account
    assert (account.balance, account.reserved) == (WELCOME - 400, 400)
    other = pb.OpenAccountRequest(account_id=ann, kind=BOT)
    assert (await refused(counter, "lobby", "OpenAccount", other)).reason == "ACCOUNT_EXISTS"
    bots = pb.OpenAccountRequest(account_id=bot, kind=BOT)
    assert (await counter.call("lobby", "OpenAccount", bots)).account.balance == 0


async def test_a_game_from_reservation_to_statement(counter: Counter) -> None:
    """Everything a game asks of the wallet, and what its players see of it."""
    players = [await counter.open(), await counter.open()]
    game, held = await counter.seat(players, 300)
    await counter.call("game", "Pin", pin(game, held, players, 300))
    void = pb.VoidRequest(game_id=game, reason="START_FAILED")
    assert (await refused(counter, "lobby", "Void", void)).reason == "RESERVATION_PINNED"
    first = settle(game, (held[0], 250, 0), (held[1], 50, 300))
    paid = await counter.call("game", "Settle", first)
    repeat = settle(game, (held[1], 50, 300), (held[0], 250, 0))
    assert (await counter.call("game", "Settle", repeat)).transfer_id == paid.transfer_id
    other = settle(game, (held[0], 0, 0), (held[1], 0, 0))
    assert (await refused(counter, "game", "Settle", other)).reason == "ALREADY_SETTLED"
    listed = await counter.call(
        "operator", "ListReservations", pb.ListReservationsRequest(game_id=game)
    )
    assert listed.settled_head == b"h" * 32
    assert [(r.paid_out, r.bank_in, r.bank_out) for r in listed.reservations] == [
        (50, 250, 0),
        (550, 50, 300),
    ]
    asked = pb.ListTransfersRequest(game_id=game)
    lines = (await counter.call(players[1], "ListTransfers", asked)).lines
    assert [(x.chips, x.balance_before, x.balance_after, x.game_id) for x in lines] == [
        (550, 700, 1_250, game),
        (-300, 1_000, 700, game),
    ]
    assert lines[0].transfer_id == paid.transfer_id
    assert lines[0].kind == pb.TRANSFER_KIND_SETTLE
    trial = await counter.call("operator", "TrialBalance", pb.TrialBalanceRequest())
    assert (trial.sound, trial.total, trial.open_reservations) == (True, 0, 0)
    assert {line.kind: line.balance for line in trial.lines}[pb.ACCOUNT_KIND_ISSUER] == -2 * WELCOME


async def test_the_game_may_void_what_it_pinned(counter: Counter) -> None:
    """All chips go back, a late reservation is refused, and the count is told again."""
    players = [await counter.open(), await counter.open()]
    game, held = await counter.seat(players, 300)
    await counter.call("game", "Pin", pin(game, held, players, 300))
    for who in ("game", "lobby"):
        void = pb.VoidRequest(game_id=game, reason="GAME_CANCELLED")
        assert (await counter.call(who, "Void", void)).voided == 2
    assert await balance(counter, players[0]) == WELCOME
    late = reserve(new_id(), players[0], game, 1)
    answer = await refused(counter, "lobby", "Reserve", late)
    assert (answer.kind, answer.reason) == (Kind.PRECONDITION, "GAME_VOIDED")
    never = pb.VoidRequest(game_id=new_id(), reason="START_FAILED")
    assert (await counter.call("lobby", "Void", never)).voided == 0


async def test_an_operator_frees_the_chips_of_a_game_that_cannot_end(counter: Counter) -> None:
    """All of them, by a transfer of its own that names game, operator and reason; the game takes no
    reservation and no end any more, and one that was settled stays settled."""
    players = [await counter.open(), await counter.open()]
    game, held = await counter.seat(players, 300)
    await counter.call("game", "Pin", pin(game, held, players, 300))
    void = pb.VoidRequest(game_id=game, reason="END_REFUSED")
    for who in (players[0], "nobody", "ai"):
        assert (await refused(counter, who, "Void", copy(void))).kind in (
            Kind.DENIED,
            Kind.UNAUTHENTICATED,
        )
    blank = pb.VoidRequest(game_id=game, reason="the end was refused")
    assert (await refused(counter, "operator", "Void", blank)).reason == "INVALID_FIELD"
    assert await balance(counter, players[0]) == WELCOME - 300
    assert (await counter.call("operator", "Void", void)).voided == 2
    assert [await balance(counter, p) for p in players] == [WELCOME, WELCOME]
    line = (await counter.call(players[0], "ListTransfers", pb.ListTransfersRequest())).lines[0]
    assert (line.kind, line.game_id, line.reason) == (pb.TRANSFER_KIND_VOID, game, "END_REFUSED")
    ended = settle(game, *((r, 0, 0) for r in held))
    assert (await refused(counter, "game", "Settle", ended)).reason == "ALREADY_VOIDED"
    other, seats = await counter.seat(players, 300)
    await counter.call("game", "Pin", pin(other, seats, players, 300))
    await counter.call("game", "Settle", settle(other, *((r, 0, 0) for r in seats)))
    late = pb.VoidRequest(game_id=other, reason="END_REFUSED")
    assert (await refused(counter, "operator", "Void", late)).reason == "ALREADY_SETTLED"


async def test_grants_by_operators_and_to_bots(counter: Counter) -> None:
    """Operators to anyone, with a reason that the statement shows; the lobby to bots only."""
    ann, bot = await counter.open(), await counter.open(BOT)
    gift = pb.GrantRequest(account_id=ann, chips=50, reason="a lost game")
    assert (await counter.call("operator", "Grant", gift)).account.balance == WELCOME + 50
    stack = pb.GrantRequest(account_id=bot, chips=70, reason="a bot's stack")
    assert (await counter.call("lobby", "Grant", stack)).account.balance == 70
    answer = await refused(counter, "lobby", "Grant", gift)
    assert (answer.kind, answer.reason) == (Kind.DENIED, "BOTS_ONLY")
    line = (await counter.call(ann, "ListTransfers", pb.ListTransfersRequest(page_size=1))).lines[0]
    assert (line.reason, line.kind) == ("a lost game", pb.TRANSFER_KIND_GRANT)


async def test_a_retry_is_answered_with_the_same_octets(counter: Counter) -> None:
    """And another body under the same id is refused; the id is the caller's own."""
    ann = await counter.open()
    grant = pb.GrantRequest(request_id="g", account_id=ann, chips=1, reason="x")
    first = await counter.call("operator", "Grant", grant)
    await counter.call("operator", "Grant", pb.GrantRequest(account_id=ann, chips=1, reason="x"))
    again = await counter.call("operator", "Grant", grant)
    assert again.SerializeToString() == first.SerializeToString()
    other = pb.GrantRequest(request_id="g", account_id=ann, chips=2, reason="x")
    answer = await refused(counter, "operator", "Grant", other)
    assert (answer.kind, answer.reason) == (Kind.INVALID, "REQUEST_ID_REUSED")
    opened = pb.OpenAccountRequest(request_id="g", account_id=ann, kind=PLAYER)
    assert (await counter.call("lobby", "OpenAccount", opened)).account.balance == WELCOME + 2


async def test_a_statement_is_read_in_pages(counter: Counter) -> None:
    """Newest first, none twice, none missing, although lines are added meanwhile."""
    ann = await counter.open()
    for chips in range(1, 6):
        gift = pb.GrantRequest(account_id=ann, chips=chips, reason="x")
        await counter.call("operator", "Grant", gift)
    seen, token = [], ""
    while True:
        asked = pb.ListTransfersRequest(page_size=2, page_token=token)
        page = await counter.call(ann, "ListTransfers", asked)
        seen += [line.version for line in page.lines]
        token = page.next_page_token
        more = pb.GrantRequest(account_id=ann, chips=9, reason="x")
        await counter.call("operator", "Grant", more)
        if not token:
            break
    assert seen == [6, 5, 4, 3, 2, 1]


async def test_a_page_token_is_for_its_statement(counter: Counter) -> None:
    """Another account's or a made-up one is refused."""
    ann, ben = await counter.open(), await counter.open()
    for _ in range(2):
        gift = pb.GrantRequest(account_id=ann, chips=1, reason="x")
        await counter.call("operator", "Grant", gift)
    page = await counter.call(ann, "ListTransfers", pb.ListTransfersRequest(page_size=1))
    for who, token in ((ben, page.next_page_token), (ann, "bm9uZQ"), (ann, "\u00e4")):
        answer = await refused(
            counter, who, "ListTransfers", pb.ListTransfersRequest(page_token=token)
        )
        assert (answer.kind, answer.reason) == (Kind.INVALID, "BAD_TOKEN")
        assert answer.fields[0].field == "page_token"


@pytest.mark.parametrize(
    ("who", "method", "changes", "field"),
    [
        ("lobby", "OpenAccount", {"account_id": ""}, "account_id"),
        ("lobby", "OpenAccount", {"account_id": SOMEBODY.upper() + "A"}, "account_id"),
        ("lobby", "OpenAccount", {"kind": pb.ACCOUNT_KIND_UNSPECIFIED}, "kind"),
        ("lobby", "OpenAccount", {"kind": pb.ACCOUNT_KIND_ESCROW}, "kind"),
        ("lobby", "Reserve", {"chips": 0}, "chips"),
        ("lobby", "Reserve", {"chips": -5}, "chips"),
        ("lobby", "Reserve", {"ttl_ms": 99}, "ttl_ms"),
        ("lobby", "Reserve", {"game_id": "x"}, "game_id"),
        ("game", "Pin", {"claims": []}, "claims"),
        ("game", "Pin", {"claims": [pb.ReservationClaim()]}, "claims[0].reservation_id"),
        ("game", "Settle", {"lines": []}, "lines"),
        ("game", "Settle", {"head": b"short"}, "head"),
        (
            "game",
            "Settle",
            {"lines": [pb.SettleLine(reservation_id=SOMEBODY, paid_in=-1)]},
            "lines[0].paid_in",
        ),
        ("game", "Void", {"reason": "not a word"}, "reason"),
        ("operator", "Grant", {"reason": ""}, "reason"),
        ("operator", "Grant", {"reason": "x" * 201}, "reason"),
        ("operator", "Grant", {"chips": 0}, "chips"),
        ("operator", "GetAccount", {"account_id": ""}, "account_id"),
        ("operator", "ListTransfers", {"page_size": -1}, "page_size"),
        ("operator", "ListReservations", {"game_id": ""}, "game_id"),
    ],
)
async def test_a_wrong_field_is_named(
    counter: Counter, who: str, method: str, changes: dict[str, Any], field: str
) -> None:
    """INVALID_ARGUMENT with the path of the field."""
    request = copy(REQUESTS[method])
    for name, value in changes.items():
        request.ClearField(name)
        if isinstance(value, list):
            getattr(request, name).extend(value)
        else:
            setattr(request, name, value)
    answer = await refused(counter, who, method, request)
    assert answer.kind is Kind.INVALID
    assert [f.field for f in answer.fields] == [field]


async def test_what_the_domain_refuses_reaches_the_caller(counter: Counter) -> None:
    """With its own reason and kind."""
    players = [await counter.open(), await counter.open()]
    game, held = await counter.seat(players, 300)
    precondition, missing = Kind.PRECONDITION, Kind.NOT_FOUND
    too_much = pb.GrantRequest(account_id=players[0], chips=2**63 - 1, reason="x")
    to_nobody = pb.GrantRequest(account_id=new_id(), chips=1, reason="x")
    cases: list[tuple[str, Message, Kind, str]] = [
        ("Reserve", reserve(new_id(), players[0], game, 701), precondition, "INSUFFICIENT_CHIPS"),
        ("Reserve", reserve(new_id(), new_id(), game, 1), missing, "ACCOUNT_NOT_FOUND"),
        ("Reserve", reserve(held[0], players[0], game, 1), precondition, "RESERVATION_MISMATCH"),
        ("Settle", settle(game, (held[0], 0, 0)), precondition, "RESERVATION_NOT_PINNED"),
        ("Pin", pin(game, held[:1], players[:1], 300), precondition, "RESERVATION_MISMATCH"),
        ("Grant", to_nobody, missing, "ACCOUNT_NOT_FOUND"),
        ("Grant", too_much, precondition, "CHIPS_OVERFLOW"),
    ]
    callers = {"Reserve": "lobby", "Settle": "game", "Pin": "game", "Grant": "operator"}
    for method, request, kind, reason in cases:
        answer = await refused(counter, callers[method], method, request)
        assert (answer.kind, answer.reason) == (kind, reason)
    await counter.call("game", "Pin", pin(game, held, players, 300))
    after = [
        (settle(game, (held[0], 0, 0), (held[1], 1, 0)), "UNBALANCED"),
        (settle(game, (held[0], 301, 0), (held[1], 0, 301)), "SEAT_OVERDRAWN"),
        (settle(game, (held[0], 0, 0), (held[0], 0, 0)), "RESERVATION_MISMATCH"),
    ]
    for settlement, reason in after:
        assert (await refused(counter, "game", "Settle", settlement)).reason == reason


async def test_a_watch_tells_of_every_change(counter: Counter) -> None:
    """The account now, then as it becomes; reserved chips too."""
    ann = await counter.open()
    seen = counter.watch(ann)
    async with asyncio.timeout(10):
        assert (await anext(seen)).account.balance == WELCOME
        gift = pb.GrantRequest(account_id=ann, chips=5, reason="x")
        await counter.call("operator", "Grant", gift)
        assert (await anext(seen)).account.balance == WELCOME + 5
        await counter.seat([ann], 100)
        account = (await anext(seen)).account
        assert (account.balance, account.reserved) == (WELCOME - 95, 100)


async def test_a_watch_ends_when_the_process_drains(tmp_path: Path) -> None:
    """The follower is told to come again."""
    async with serving(tmp_path) as counter:
        ann = await counter.open()
        seen = counter.watch(ann)
        await anext(seen)
        counter.server.drain.started.set()
        with pytest.raises(Refused) as caught:
            async with asyncio.timeout(5):
                await anext(seen)
        assert (caught.value.kind, caught.value.reason) == (Kind.UNAVAILABLE, "DRAINING")


async def test_expired_reservations_go_back_by_themselves(counter: Counter) -> None:
    """The background task gives them back; a follower sees it."""
    ann = await counter.open()
    short = reserve(new_id(), ann, new_id(), 100)
    short.ttl_ms = 1_000
    seen = counter.watch(ann)
    async with asyncio.timeout(10):
        await anext(seen)
        await counter.call("lobby", "Reserve", short)
        assert (await anext(seen)).account.reserved == 100
        account = (await anext(seen)).account
    assert (account.balance, account.reserved) == (WELCOME, 0)
    pinned = pin(short.game_id, [short.reservation_id], [ann], 100)
    assert (await refused(counter, "game", "Pin", pinned)).reason == "RESERVATION_EXPIRED"


async def test_a_database_that_is_gone_makes_the_wallet_unavailable(tmp_path: Path) -> None:
    """Health says so, calls say so, and all is well again when the file is back."""
    async with serving(tmp_path) as counter:
        ann = await counter.open()
        channel = grpc.aio.insecure_channel(counter.server.address)
        stub: Any = HealthStub(channel)

        async def until(status: Any) -> None:
            async with asyncio.timeout(10):
                while True:
                    if (await stub.Check(HealthCheckRequest())).status == status:
                        return
                    await asyncio.sleep(0.01)

        await until(HealthCheckResponse.SERVING)
        away = tmp_path / "away.db"
        (tmp_path / "wallet.db").rename(away)
        gift = pb.GrantRequest(account_id=ann, chips=5, reason="x")
        look = pb.GetAccountRequest(account_id=ann)
        again = pb.OpenAccountRequest(account_id=ann, kind=PLAYER)
        answer = await refused(counter, "operator", "Grant", gift)
        assert answer.kind is Kind.UNAVAILABLE
        await until(HealthCheckResponse.NOT_SERVING)
        away.rename(tmp_path / "wallet.db")
        await until(HealthCheckResponse.SERVING)
        await channel.close()
        assert (await counter.call("lobby", "GetAccount", look)).account.balance == WELCOME
        assert (await counter.call("lobby", "OpenAccount", again)).account.version == 1
