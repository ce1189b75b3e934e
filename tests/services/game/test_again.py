"""A request that was answered is answered the same again, whatever has become of things since."""

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, game_pb2, history_pb2, history_pb2_grpc, view_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.kernel.errors import Refused
from services.runtime.clients import Client
from tests.rpcs import rpcs
from tests.services.game.court import ALONE, Court, court
from tests.services.game.stopped import still
from tests.services.game.system import Seat, new_id, setup
from tests.services.game.test_service import play_out

UPHELD, CORRECTION = audit_pb2.RULING_UPHELD, audit_pb2.REMEDY_CORRECTION
CLOSED = audit_pb2.DISPUTE_STATE_CLOSED
SEED = b"a seed of one's own"


class Calls:
    """Calls that were answered: of clients, and of the services among themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answered: list[tuple[Client, Any, Message, Message]] = []
        call = Client.call

        async def heard(client: Client, method: Any, request: Any, *more: Any) -> Any:
            answer = await call(client, method, request, *more)
            if "request_id" in request.DESCRIPTOR.fields_by_name:
                kept = type(request).FromString(request.SerializeToString())
                self.answered.append((client, method, kept, answer))
            return answer

        monkeypatch.setattr(Client, "call", heard)

    @property
    def names(self) -> set[str]:
        """The RPCs that were called."""
        return {type(asked).__name__.removesuffix("Request") for _, _, asked, _ in self.answered}


def told(answer: Message) -> Message:
    """An answer without what a clock showed at the moment of sending."""
    view = getattr(answer, "view", None)
    if isinstance(view, view_pb2.GameView):
        view.CopyFrom(still(view))
    return answer


async def test_every_answered_request_is_answered_the_same_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games are opened and come to nothing, played, left, shared and judged, chips are granted,
    held, moved, called in and given up, players are erased. Then every call that named its request,
    the services' own among them, is made again: the answers are the same, and nothing else is."""
    calls = Calls(monkeypatch)
    async with court(tmp_path) as here:
        revoked = await a_game_of_people(here)
        await a_game_that_is_left(here)
        await a_dispute(here)
        await chips_of_nobody(here)
        named = {
            m.name
            for service, m in rpcs()
            if "request_id" in m.input_type.fields_by_name and service in ("game", "wallet")
        }
        assert named - calls.names == set()
        before = await everything(here)
        for client, method, request, answer in list(calls.answered):
            if isinstance(answer, history_pb2.ShareGameResponse) and answer.share == revoked:
                with pytest.raises(Refused, match="SHARE_NOT_FOUND"):  # it opens nothing
                    await client.call(method, request)
                continue
            again = await client.call(method, request)
            assert told(again) == told(answer), request
        assert await everything(here) == before
        assert await here.sound()


async def everything(here: Court) -> list[Any]:
    """Where the games and the ledger stand."""
    trial = await here.wallet("operators", "TrialBalance", wallet_pb2.TrialBalanceRequest())
    page = await here.olga.call(here.olga.games.ListGames, game_pb2.ListGamesRequest())
    disputes = await here.ask(here.olga, "ListDisputes", audit_pb2.ListDisputesRequest())
    balances = [await here.balance(player) for player in here.players]
    return [trial, [(game.game_id, game.version) for game in page.games], disputes, balances]


async def a_game_of_people(here: Court) -> history_pb2.Share:
    """Seeds, moves, links; a game that never opens. The link that was revoked."""
    house = here.house
    asked = await house.open(setup("durak", people=2, bots=0, seed_ms=20_000))
    at: dict[str, Any] = {"game_id": asked.game_id}
    seats = [house.game(seat.player_id) for seat in asked.seats]
    for seat in seats:
        digest = hashlib.sha256(SEED).digest()
        commit = game_pb2.CommitSeedRequest(request_id="c", hash=digest, **at)
        await seat.call(seat.games.CommitSeed, commit)
    for seat in seats:
        reveal = game_pb2.RevealSeedRequest(request_id="r", seed=SEED, **at)
        await seat.call(seat.games.RevealSeed, reveal)
    await asyncio.gather(*(play_out(seat, asked.game_id, Random(1)) for seat in seats))
    history = history_pb2_grpc.HistoryServiceStub(seats[1].client.channel)
    links: list[history_pb2.Share] = []
    for name in ("one", "two"):
        link = history_pb2.ShareGameRequest(request_id=name, **at)
        links.append((await seats[1].call(history.ShareGame, link)).share)
    revoke = history_pb2.RevokeShareRequest(request_id="revoke", share_id=links[1].share_id)
    await seats[1].call(history.RevokeShare, revoke)
    lobby = house.lobby
    cancel = game_pb2.CancelGameRequest(request_id=new_id(), game_id=new_id())
    await lobby.call(lobby.games.CancelGame, cancel)
    return links[1]


async def a_game_that_is_left(here: Court) -> None:
    """An absence, a return, and everybody leaves."""
    house = here.house
    asked = setup("rami", people=2, bots=0, turn_ms=400, absent_policy=2, bot_after=1)
    await house.open(asked)
    at: dict[str, Any] = {"game_id": asked.game_id}
    seats = [house.game(seat.player_id) for seat in asked.seats]
    await until(seats[0], asked.game_id, "bot_plays")
    back = game_pb2.ReturnToSeatRequest(request_id="back", **at)
    await seats[0].call(seats[0].games.ReturnToSeat, back)
    for seat in seats:
        leave = game_pb2.LeaveGameRequest(request_id="leave", **at)
        with suppress(Refused):  # the first one may end the game
            await seat.call(seat.games.LeaveGame, leave)
    async for _ in seats[1].watch(asked.game_id):
        pass


async def until(seat: Seat, game_id: str, shows: str) -> view_pb2.GameView:
    """Wait until a seat's own line shows something."""
    async for message in seat.watch(game_id):
        view = message.step.view if message.HasField("step") else message.snapshot.view
        if not message.HasField("heartbeat") and getattr(view.seats[view.seat], shows):
            return view
    raise AssertionError(f"the game ended without {shows}")


async def a_dispute(here: Court) -> None:
    """A ruling that is taken back, one that is approved and leaves a claim, which is collected."""
    rich, poor = here.players[:2]
    await here.fund(1_000)
    await here.spend(poor, await here.balance(poor) - 40)
    opened = await here.open(rich)
    named: dict[str, Any] = {"dispute_id": opened.dispute_id}
    chips = ALONE + 10
    await here.rule(opened, CORRECTION, p0=chips, p1=-chips)
    withdraw = audit_pb2.WithdrawRulingRequest(request_id="withdraw", **named)
    await here.ask(here.omar, "WithdrawRuling", withdraw)
    await here.rule(opened, CORRECTION, p0=chips, p1=-chips)
    approve = audit_pb2.ApproveRulingRequest(request_id="approve", **named)
    await here.ask(here.omar, "ApproveRuling", approve)
    await here.until(opened, CLOSED)
    await here.grant(poor, 500)
    await here.collect(opened, poor)
    await here.collected(opened, chips - 40)


async def chips_of_nobody(here: Court) -> None:
    """A game whose chips go back, a player who gives his up, and one who is erased."""
    await here.wallet(
        "lobby",
        "Void",
        wallet_pb2.VoidRequest(
            request_id="void", game_id=await here.spend(here.players[2], 5), reason="TRIED"
        ),
    )
    gone = new_id()
    player = wallet_pb2.ACCOUNT_KIND_PLAYER
    opening = wallet_pb2.OpenAccountRequest(request_id="gone", account_id=gone, kind=player)
    await here.wallet("lobby", "OpenAccount", opening)
    forfeit = wallet_pb2.ForfeitRequest(request_id="forfeit", account_id=gone, forfeit=True)
    await here.wallet("lobby", "Forfeit", forfeit)
    erase = audit_pb2.ErasePlayerRequest(request_id="erase", player_id=gone)
    lobby = here.house.lobby
    await lobby.call(lobby.audits.ErasePlayer, erase)
