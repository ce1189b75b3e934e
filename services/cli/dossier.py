"""Everything the services hold about a player, as one JSON document (`docs/privacy.md`).

It is put together from the services' own APIs, a game at a time, so that it may be larger than
memory. A player's own holds his receipts and his talk; an operator's holds what is the player's to
know, and nobody's hidden cards: receipts are the player's to fetch, and talk is between players.
"""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, game_pb2, history_pb2, history_pb2_grpc
from kozyr.lobby.v1 import (
    identity_pb2,
    identity_pb2_grpc,
    lobby_pb2,
    lobby_pb2_grpc,
    talk_pb2,
    talk_pb2_grpc,
)
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli import export, limits, statistics
from services.cli.outcome import Failure
from services.cli.wallet import account_of
from services.client import lists
from services.client.calls import RETRIED, Backoff, Caller
from services.kernel.errors import Refused

FORMAT = "kozyr person 1"
R = TypeVar("R")
ARCHIVED_GAME = {
    "receipt": {"refused": "GAME_ARCHIVED"},
    "disputes": [],
    "connections": [],
    "looks": [],
}
"""What is told of a game whose log has left the service: the operators' files have it."""


class Dossier:
    """What is held about one player, as the caller may see it: the player himself (`own`), or an
    operator. Every method raises Refused."""

    def __init__(self, caller: Caller, player_id: str, *, own: bool) -> None:
        self._caller = caller
        self._player = player_id
        self._own = own
        self._identity: Any = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
        self._lobby: Any = caller.stub("lobby", lobby_pb2_grpc.LobbyServiceStub)
        self._talk: Any = caller.stub("lobby", talk_pb2_grpc.TalkServiceStub)
        self._history: Any = caller.stub("game", history_pb2_grpc.HistoryServiceStub)
        self._audits: Any = caller.stub("game", audit_pb2_grpc.AuditServiceStub)
        self._wallet: Any = caller.stub("wallet", wallet_pb2_grpc.WalletServiceStub)

    async def pieces(self, told: Callable[[str], None]) -> AsyncIterator[str]:
        """The document, piece by piece; `told` is given how far it has come."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        head = {"format": FORMAT, "player_id": self._player, "assembled_time": now}
        head["profile"] = _plain(await self.profile())
        yield _text(head)[:-1] + ',"table_events":'
        async for piece in _array(self._table_events()):
            yield piece
        yield ',"games":'
        async for piece in _array(self._games(told)):
            yield piece
        yield ',"standing":' + _text(
            _plain(await statistics.statistics(self._caller, self._player))
        )
        yield ',"counted_games":'
        async for piece in _array(self._counted()):
            yield piece
        yield ',"limits":' + _text(await self._limits())
        yield ',"talk":' + _text(await self._said() if self._own else None)
        yield ',"shares":' + _text(_plain(await self._shares())["shares"])
        yield ',"wallet":' + _text(await self._chips()) + "}\n"

    async def profile(self) -> identity_pb2.GetProfileResponse:
        """What the lobby holds beside tables."""
        request = identity_pb2.GetProfileRequest(player_id=self._player)
        reply: identity_pb2.GetProfileResponse = await self._caller.call(
            "lobby", self._identity.GetProfile, request
        )
        return reply

    async def _table_events(self) -> AsyncIterator[Any]:
        request = lobby_pb2.ListTableEventsRequest(player_id=self._player)
        async for page in self._pages("lobby", self._lobby.ListTableEvents, request):
            for event in page.events:
                yield {**_plain(event), "content": json.loads(event.content)}

    async def _counted(self) -> AsyncIterator[Any]:
        async for game in statistics.games(self._caller, self._player):
            yield _plain(game)

    async def _limits(self) -> Any:
        """What limits his play, and what was changed in it, but for the operators' names."""
        changes = await limits.changes(self._caller, self._player)
        for change in changes:
            change.ClearField("operator")
        held = _plain(await limits.limits_of(self._caller, self._player))
        return {**held, "changes": [_plain(change) for change in changes]}

    async def _said(self) -> Any:
        """What he said at tables and whom he has muted, of which operators are shown nothing."""
        mutes = await self._caller.call("lobby", self._talk.ListMutes, talk_pb2.ListMutesRequest())
        request = talk_pb2.ListTalkRequest(page_size=200)
        lines = [
            _plain(line)
            async for page in self._pages("lobby", self._talk.ListTalk, request)
            for line in page.lines
        ]
        return {"lines": lines, **_plain(mutes)}

    async def _shares(self) -> history_pb2.ListSharesResponse:
        """Links he has made and that still open."""
        request = history_pb2.ListSharesRequest(player_id=self._player)
        reply: history_pb2.ListSharesResponse = await self._caller.call(
            "game", self._history.ListShares, request
        )
        return reply

    async def _games(self, told: Callable[[str], None]) -> AsyncIterator[Any]:
        number = 0
        asked = game_pb2.ListGamesRequest(player_id=self._player)
        async for game in lists.games(self._caller, asked):
            number += 1
            told(f"{number} games")
            if game.HasField("archived_time"):
                yield {"game": _plain(game), **ARCHIVED_GAME}
                continue
            receipt = await self._receipt(game.game_id) if self._own else None
            request = audit_pb2.GetTracesRequest(game_id=game.game_id, player_id=self._player)
            traces = _plain(await self._caller.call("game", self._audits.GetTraces, request))
            disputes = [each async for each in self._disputes(game.game_id)]
            yield {"game": _plain(game), "receipt": receipt, "disputes": disputes, **traces}

    async def _receipt(self, game_id: str) -> Any:
        """The receipt, or what stands in its way."""
        try:
            found = await patiently(self._caller, lambda: export.receipt(self._caller, game_id))
        except Refused as refused:
            return {"refused": refused.reason}
        return json.loads(found)

    async def _disputes(self, game_id: str) -> AsyncIterator[Any]:
        """Disputes about a game, as its player may read them."""
        request = audit_pb2.ListDisputesRequest(game_id=game_id)
        async for page in self._pages("game", self._audits.ListDisputes, request):
            for dispute in page.disputes:
                if dispute.player_id != self._player:
                    dispute.ClearField("complaint")
                for field in ("ruled_by", "approved_by", "refused"):
                    dispute.ClearField(field)
                theirs = [claim for claim in dispute.claims if claim.player_id == self._player]
                del dispute.claims[:]
                dispute.claims.extend(theirs)
                yield _plain(dispute)

    async def _chips(self) -> Any:
        """Account, statement and what games hold; an account that was never opened has nothing."""
        statement = wallet_pb2.ListTransfersRequest(account_id=self._player, page_size=200)
        holdings = wallet_pb2.ListHoldingsRequest(account_id=self._player, page_size=200)
        try:
            account = _plain(await account_of(self._caller, self._player))
        except Refused as refused:
            if refused.reason != "ACCOUNT_NOT_FOUND":
                raise
            account = None
        return {
            "account": account,
            "lines": [
                _plain(line)
                async for page in self._pages("wallet", self._wallet.ListTransfers, statement)
                for line in page.lines
            ],
            "holdings": [
                _plain(each)
                async for page in self._pages("wallet", self._wallet.ListHoldings, holdings)
                for each in page.reservations
            ],
        }

    async def _pages(self, service: str, method: Any, request: Any) -> AsyncIterator[Any]:
        while True:
            page = await self._caller.call(service, method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


async def write(path: Path, pieces: AsyncIterator[str]) -> int:
    """Write the document, whole or not at all, for its owner's eyes; how many octets it has.

    Raises Failure, Refused.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as to:
            async for piece in pieces:
                to.write(piece)
        size = draft.stat().st_size
        draft.replace(path)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return size


async def patiently(caller: Caller, ask: Callable[[], Awaitable[R]]) -> R:
    """What is asked for, asked again while the service is away or has had too many calls."""
    backoff = Backoff(caller.patience_ms)
    while True:
        try:
            return await ask()
        except Refused as refused:
            if refused.kind not in RETRIED and refused.retry_after_ms is None:
                raise
            await backoff.wait(refused)


async def _array(values: AsyncIterator[Any]) -> AsyncIterator[str]:
    before = "["
    async for value in values:
        yield f"{before}\n{_text(value)}"
        before = ","
    yield "[]" if before == "[" else "]"


def _plain(message: Message) -> Any:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
