"""During a roll-out services and clients of 0.1.0 stand beside those of this release.

What they say to each other is let through here only as far as 0.1.0 understands it: every message
of every call passes through the contract frozen with that release, which drops what it does not
know, and calls that it does not have are not there. So neither side of any call may need more.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import jwt
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc, lobby_pb2
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc

from services.cli.addresses import make_settings
from services.cli.stack import HOST, free_ports
from services.client.calls import Caller
from services.client.player import Player
from services.client.tables import Tables
from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from services.runtime.keys import (
    OPERATORS,
    PLAYERS,
    ensure_keys,
    key_id,
    load_private,
    load_public,
)
from services.runtime.server import running
from services.runtime.settings import SERVICES, Settings
from services.runtime.tokens import load_signer
from tests.e2e.house import TOKEN_MS, play_out, rules, start

CONTRACT = Path(__file__).parents[1] / "fixtures" / "0.1.0" / "contract.binpb"
QUICK = {"bot_delay_ms": 0, "feed_interval_ms": 50, "heartbeat_ms": 500, "ai_workers": 1}


@dataclass(slots=True)
class Narrow:
    """The contract of 0.1.0: what of a message, and which requests, that release knows."""

    pool: descriptor_pool.DescriptorPool
    requests: set[str]
    over: bool = False
    """Whether 0.1.0 is gone, so that nothing is held back any more."""
    strange: list[str] = field(default_factory=list)
    """Values of enums that were said to it and that it does not know."""
    missing: set[str] = field(default_factory=set)
    """Requests that were made of it and that it does not have."""

    def known(self, message: Message) -> Any:
        """The message without what 0.1.0 does not know of it."""
        if self.over:
            return message
        described = self.pool.FindMessageTypeByName(message.DESCRIPTOR.full_name)
        old = message_factory.GetMessageClass(described).FromString(message.SerializeToString())
        old.DiscardUnknownFields()
        self.look(old)
        return type(message).FromString(old.SerializeToString())

    def look(self, message: Message) -> None:
        """Notes values of enums that are none."""
        for described, value in message.ListFields():
            values = value if described.is_repeated else [value]
            if described.message_type and described.message_type.GetOptions().map_entry:
                values = [each for each in value.values() if isinstance(each, Message)]
            for each in values:
                if isinstance(each, Message):
                    self.look(each)
                elif described.enum_type and each not in described.enum_type.values_by_number:
                    self.strange.append(f"{described.full_name}: {each}")

    def has(self, request: Message) -> None:
        """Raises Refused for a call that 0.1.0 does not have, as a client does that is told so."""
        name = request.DESCRIPTOR.full_name
        if name not in self.requests and not self.over:
            self.missing.add(name)
            facts = {"code": "UNIMPLEMENTED"}
            raise Refused(Kind.UNAVAILABLE, "PEER_FAILED", "the service failed", facts=facts)


def contract() -> Narrow:
    """The frozen contract."""
    files = descriptor_pb2.FileDescriptorSet.FromString(CONTRACT.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    requests = {
        method.input_type.removeprefix(".")
        for file in files.file
        for service in file.service
        for method in service.method
    }
    return Narrow(pool, requests)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Narrow:
    """Every client of this process, a service's too, speaks and hears the contract of 0.1.0."""
    made, call, stream = contract(), Client.call, Client.stream

    async def narrowed(client: Client, method: Any, request: Any, *more: Any) -> Any:
        made.has(request)
        return made.known(await call(client, method, made.known(request), *more))

    async def streamed(
        client: Client, method: Any, request: Any, *more: Any
    ) -> AsyncGenerator[Any, None]:
        made.has(request)
        async with aclosing(stream(client, method, made.known(request), *more)) as messages:
            async for message in messages:
                yield made.known(message)

    monkeypatch.setattr(Client, "call", narrowed)
    monkeypatch.setattr(Client, "stream", streamed)
    return made


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncIterator[Settings]:
    """The four services in this process, on databases of their own."""
    addresses = {name: f"{HOST}:{port}" for name, port in free_ports().items()}
    given: dict[str, Any] = {"data_folder": tmp_path, **QUICK}
    given |= {f"{name}_listen": address for name, address in addresses.items()}
    given |= {f"{name}_address": address for name, address in addresses.items()}
    made = make_settings(given)
    ensure_keys(made.keys())
    async with AsyncExitStack() as stack:
        for name in ("wallet", "ai", "game", "lobby"):
            compose = import_module(f"services.{name}.server").compose
            await stack.enter_async_context(running(name, made, compose))
        yield made


def test_what_0_1_0_does_not_know_is_held_back() -> None:
    """A field that came later does not arrive; a request that came later is refused."""
    made = contract()
    asked = lobby_pb2.CreateTableRequest(rules=lobby_pb2.TableRules(seats=3))
    assert made.known(asked) == asked
    later = lobby_pb2.CreateTableRequest(rules=lobby_pb2.TableRules(seats=3, time_bank_ms=5))
    assert made.known(later) == asked
    with pytest.raises(Refused, match="PEER_FAILED"):
        made.has(identity_pb2.ErasePlayerRequest())
    made.known(lobby_pb2.TableRules(visibility=99))  # type: ignore[arg-type]
    assert made.strange == ["kozyr.lobby.v1.TableRules.visibility: 99"]


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_a_game_is_played_by_what_both_releases_understand(
    narrow: Narrow, settings: Settings, variant: str
) -> None:
    """Two players and a bot: opened, played to its end, paid, reported to its table, and sound."""
    host, guest = Player(settings), Player(settings)
    for name, player in (("Nino", host), ("Zurab", guest)):
        await player.sign_up(name)
    table, game = await start(host, rules(variant, 3), guest)
    await asyncio.gather(play_out(host, game, Random(1)), play_out(guest, game, Random(2)))
    await Tables(host).settled(table, 1)
    narrow.over = True
    signer = load_signer(settings.keys(), OPERATORS)
    operator = Caller(settings, lambda: signer.issue("olga", TOKEN_MS))
    wallet = operator.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    audit = operator.stub("game", audit_pb2_grpc.AuditServiceStub)
    verdict = await operator.call(
        "game", audit.VerifyGame, audit_pb2.VerifyGameRequest(game_id=game)
    )
    assert verdict.events > 0
    assert list(verdict.faults) == []
    trial = await operator.call("wallet", wallet.TrialBalance, wallet_pb2.TrialBalanceRequest())
    assert (trial.sound, trial.open_reservations) == (True, 0)
    assert (narrow.strange, narrow.missing) == ([], set())
    for caller in (host, guest, operator):
        await caller.close()


def believed_by_0_1_0(settings: Settings, token: str) -> str:
    """Whom 0.1.0 takes the holder of a token for, `role:subject`; its own rules, word for word."""
    keys = load_public(settings.keys())
    issuer, key = keys[jwt.get_unverified_header(token)["kid"]]
    required = ["exp", "iat", "sub", "iss", "aud"]
    claims = jwt.decode(
        token,
        key,
        algorithms=["EdDSA"],
        audience="kozyr",
        issuer=issuer,
        options={"require": required, "verify_iat": False, "verify_nbf": False},
    )
    role = {"players": "player", "operators": "operator"}.get(issuer, "service")
    assert claims["role"] == role
    assert (type(claims["exp"]), type(claims["iat"])) == (int, int)
    assert len(token) <= 1_024
    assert role != "service" or claims["sub"] == issuer
    return f"{role}:{claims['sub']}"


async def test_a_token_serves_at_replicas_of_both_releases(settings: Settings) -> None:
    """What this release issues, 0.1.0 believes; what 0.1.0 has issued, this release does."""
    player = Player(settings)
    await player.sign_up("Nino")
    assert believed_by_0_1_0(settings, player.access_token) == f"player:{player.player_id}"
    for name in (OPERATORS, *SERVICES):
        token = load_signer(settings.keys(), name).issue(name, TOKEN_MS)
        assert believed_by_0_1_0(settings, token).endswith(f":{name}")
    key, now = load_private(settings.keys() / f"{PLAYERS}.key"), int(time.time())
    claims = {
        "iss": "players",
        "sub": player.player_id,
        "aud": "kozyr",
        "role": "player",
        "iat": now,
        "exp": now + 900,
        "jti": "0123456789abcdef",
    }
    old = jwt.encode(claims, key, "EdDSA", headers={"kid": key_id(key.public_key())})
    caller = Caller(settings, lambda: old)
    stub = caller.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
    reply = await caller.call("lobby", stub.GetProfile, identity_pb2.GetProfileRequest())
    assert reply.player.player_id == player.player_id
    await player.close()
    await caller.close()
