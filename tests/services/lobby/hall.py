"""A whole lobby over real loopback gRPC, and clients of it: players, operators, services."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kozyr.game.v1 import view_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.lobby.v1.identity_pb2_grpc import IdentityServiceStub
from kozyr.lobby.v1.limits_pb2_grpc import LimitServiceStub
from kozyr.lobby.v1.lobby_pb2_grpc import LobbyServiceStub
from kozyr.lobby.v1.standing_pb2_grpc import StandingServiceStub
from kozyr.lobby.v1.talk_pb2_grpc import TalkServiceStub

from services.kernel.errors import Refused
from services.lobby.server import Pace, compose
from services.runtime.clients import Client
from services.runtime.server import running
from services.runtime.tokens import load_signer
from tests.services.lobby.peers import Peers, peers

PACE = Pace(retry_ms=10, retry_max_ms=50, tries_max=3, erasure_pause_ms=10)
NUMBERS = itertools.count(1)


def request_id() -> str:
    """A fresh request id."""
    return f"request-{next(NUMBERS):012}"


class Guest:
    """A client of the lobby with a token, or without one."""

    def __init__(self, address: str, others: Peers, token: str | None, player_id: str = "") -> None:
        self.player_id = player_id
        self.client = Client(address, others.settings, lambda: token)
        self.lobby = LobbyServiceStub(self.client.channel)
        self.identity = IdentityServiceStub(self.client.channel)
        self.talk = TalkServiceStub(self.client.channel)
        self.standing = StandingServiceStub(self.client.channel)
        self.limits = LimitServiceStub(self.client.channel)

    async def call(self, request: Any) -> Any:
        """Call the RPC of this request; a request id is added where one is needed."""
        if "request_id" in request.DESCRIPTOR.fields_by_name and not request.request_id:
            request.request_id = request_id()
        name = request.DESCRIPTOR.name.removesuffix("Request")
        stubs = (self.lobby, self.identity, self.talk, self.standing, self.limits)
        stub = next(each for each in stubs if hasattr(each, name))
        return await self.client.call(getattr(stub, name), request)

    async def refused(self, request: Any) -> Refused:
        """How the lobby refuses this request."""
        with pytest.raises(Refused) as caught:
            await self.call(request)
        return caught.value

    async def watch(self, request: lobby_pb2.WatchTablesRequest) -> AsyncIterator[lobby_pb2.Table]:
        """The tables of a stream, without its heartbeats."""
        stream: Any = self.lobby.WatchTables
        async for reply in self.client.stream(stream, request):
            if reply.HasField("table"):
                yield reply.table

    async def until(
        self, table_id: str, holds: Callable[[lobby_pb2.Table], bool], code: str = ""
    ) -> lobby_pb2.Table:
        """The first state of a table for which this holds; fails after 10 seconds."""
        request = lobby_pb2.WatchTablesRequest(table_id=table_id, invite_code=code)
        async with asyncio.timeout(10):
            async for table in self.watch(request):
                if holds(table):
                    return table
        raise AssertionError("the table closed before")


@dataclass(slots=True)
class Hall:
    """A lobby at `address`, what stands beside it, and its guests."""

    address: str
    others: Peers
    stack: AsyncExitStack
    guests: list[Guest] = field(default_factory=list)

    def caller(self, token: str | None, player_id: str = "") -> Guest:
        """A client with this token."""
        guest = Guest(self.address, self.others, token, player_id)
        self.stack.push_async_callback(guest.client.close)
        return guest

    def token(self, issuer: str, subject: str) -> str:
        """A token of an issuer."""
        return load_signer(self.others.settings.keys(), issuer).issue(subject, 60_000)

    def staff(self, issuer: str = "operators", subject: str = "ops") -> Guest:
        """An operator, or a service."""
        return self.caller(self.token(issuer, subject))

    async def guest(self, name: str = "Nino") -> Guest:
        """A player who has just signed up."""
        signed_up = await self.caller(None).call(identity_pb2.SignUpRequest(display_name=name))
        player_id = signed_up.player.player_id
        return self.caller(signed_up.tokens.access_token, player_id)


@asynccontextmanager
async def lobby_hall(folder: Path, **changes: Any) -> AsyncIterator[Hall]:
    """A lobby, a wallet and a game service at work."""
    async with (
        peers(folder, **changes) as others,
        running("lobby", others.settings, partial(compose, pace=PACE)) as server,
        AsyncExitStack() as stack,
    ):
        yield Hall(server.address, others, stack)


@asynccontextmanager
async def two_lobbies(folder: Path, url: str, **changes: Any) -> AsyncIterator[Sequence[Hall]]:
    """Two replicas at one database."""
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(peers(folder, lobby_database_url=url, **changes))
        halls = []
        for _ in range(2):
            server = await stack.enter_async_context(
                running("lobby", others.settings, partial(compose, pace=PACE))
            )
            halls.append(Hall(server.address, others, stack))
        yield halls


def azi(seats: int = 2, **changes: Any) -> lobby_pb2.TableRules:
    """Rules of an Azi table with an entry fee of 10."""
    rules = lobby_pb2.TableRules(seats=seats, **changes)
    rules.options.azi.entry_fee = 10
    return rules


def durak(seats: int = 2, **changes: Any) -> lobby_pb2.TableRules:
    """Rules of a Durak table."""
    rules = lobby_pb2.TableRules(seats=seats, **changes)
    rules.options.durak.SetInParent()
    return rules


async def full_table(host: Guest, rules: lobby_pb2.TableRules, *others: Guest) -> lobby_pb2.Table:
    """A table where everybody has sat down and is ready."""
    made = await host.call(lobby_pb2.CreateTableRequest(rules=rules))
    table: lobby_pb2.Table = made.table
    for guest in others:
        take = lobby_pb2.TakeSeatRequest(table_id=table.table_id, invite_code=table.invite_code)
        await guest.call(take)
    for guest in (host, *others):
        ready = lobby_pb2.SetReadyRequest(table_id=table.table_id, ready=True)
        table = (await guest.call(ready)).table
    return table


def report(table: lobby_pb2.Table, *stacks: int, **result: Any) -> lobby_pb2.ReportGameRequest:
    """A game of the table was played to its end."""
    playing = [seat for seat in table.seats if seat.in_game]
    seats = [
        view_pb2.SeatResult(
            seat=n, player_id=seat.player_id, stack_before=seat.stack, stack_after=stack
        )
        for n, (seat, stack) in enumerate(zip(playing, stacks, strict=True))
    ]
    return lobby_pb2.ReportGameRequest(
        table_id=table.table_id,
        game_id=table.game_id,
        stage=view_pb2.STAGE_FINISHED,
        result=view_pb2.Result(seats=seats, **result),
    )


def is_in(state: lobby_pb2.TableState.ValueType) -> Callable[[lobby_pb2.Table], bool]:
    """Whether a table is in this state."""
    return lambda table: table.state == state
