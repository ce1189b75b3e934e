"""No process logs or traces a secret, and no error repeats one: whole games with everything logged
and traced."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from kozyr.game.v1 import audit_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2

from engines.cards import PACK_SIZE, Card, text
from services.client.player import Player
from services.runtime.settings import SERVICES
from tests.collector import Collector, collector
from tests.e2e.house import House, house, play_out, rules, start, until
from tests.rpcs import rpcs

CARDS = "|".join(text(Card(number)) for number in range(PACK_SIZE))
WORDS = re.compile(
    rf"\b({CARDS})\b|_OF_(SPADES|HEARTS|DIAMONDS|CLUBS)|[♠♥♦♣]|Card\(|\b(deck|hand|talon|stock)\b",
    re.ASCII,
)
"""How a card, or a place where hidden cards lie, would read in a line."""
TRACES = ("trace", "trace_id")
"""Where in the code, and in which trace, a line was written."""
MARK = "Zq7xMARKx7qZ"

PASSWORD = "a password of Vera's own"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def given(tmp_path_factory: pytest.TempPathFactory, kept: Collector) -> AsyncIterator[House]:
    """One house for all of it."""
    folder = tmp_path_factory.mktemp("secrets")
    settings = {
        "KOZYR_CLOCK_SKEW_MS": "0",
        "KOZYR_OTLP_ENDPOINT": f"http://{kept.address}",
        "KOZYR_TRACE_RATIO": "1",
        "KOZYR_TRACE_INTERVAL_MS": "50",
        "KOZYR_TRACE_QUEUE_MAX": "100000",
    }
    async with house(folder, **settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept() -> AsyncIterator[Collector]:
    """What takes the traces."""
    async with collector() as made:
        yield made


def spellings(secret: bytes | str) -> list[str]:
    """How a secret could be written into a line of text."""
    if isinstance(secret, str):
        return [secret]
    forms = [secret.hex(), base64.b64encode(secret).decode().rstrip("=")]
    return [*forms, base64.urlsafe_b64encode(secret).decode().rstrip("="), repr(secret)[2:-1]]


async def stored_secrets(given: House, game_id: str) -> list[bytes]:
    """Salts and secrets of an ended game's log, and what its end published."""
    request = audit_pb2.ReadLogRequest(game_id=game_id, page_size=1_000)
    answer = await given.send("game", "ReadLog", request, given.token("operator"))
    rows = audit_pb2.ReadLogResponse.FromString(answer.reply).rows
    found = [octets for row in rows for octets in (row.salt, row.secret) if octets]
    for row in rows:
        said = json.loads(row.readable)
        found += [base64.b64decode(said[k]) for k in ("server_seed", "seed") if said.get(k)]
    assert len(found) > 3
    return found


async def test_whole_games_leave_no_secret_in_any_log_or_trace(
    given: House, kept: Collector
) -> None:
    """Azi, Durak and Rami, with seeds of the players, refusals and audits, at level debug."""
    player = await given.player()
    secrets: list[bytes | str] = [player.access_token]
    rng = Random(3)
    for variant, seats in (("azi", 3), ("durak", 4), ("rami", 3)):
        private = rules(variant, seats, visibility=lobby_pb2.VISIBILITY_PRIVATE)
        table, game = await start(player, private)
        views = await play_out(player, game, rng)
        assert views[-1].stage == view_pb2.STAGE_FINISHED
        request = lobby_pb2.GetTableRequest(table_id=table)
        answer = await given.send("lobby", "GetTable", request, player.access_token)
        secrets += [
            player.seed(game),
            lobby_pb2.GetTableResponse.FromString(answer.reply).table.invite_code,
            *await stored_secrets(given, game),
        ]
        await given.verify(game)
    signed_up = identity_pb2.SignUpRequest(request_id="a" * 20, display_name="Vera")
    answer = await given.send("lobby", "SignUp", signed_up, None)
    new = identity_pb2.SignUpResponse.FromString(answer.reply)
    refresh = identity_pb2.RefreshRequest(refresh_token=new.tokens.refresh_token)
    await given.send("lobby", "Refresh", refresh, None)
    await given.send("lobby", "Refresh", refresh, None)
    sign_in = identity_pb2.SignInRequest(player_id=new.player.player_id, secret=new.secret)
    await given.send("lobby", "SignIn", sign_in, None)
    access = identity_pb2.SignUpResponse.FromString(answer.reply).tokens.access_token
    for old in ("", PASSWORD, "a wrong old password"):
        chosen = identity_pb2.SetPasswordRequest(
            request_id=f"p{old}"[:9], login_name="vera", new_password=PASSWORD, old_password=old
        )
        await given.send("lobby", "SetPassword", chosen, access)
    for password in (PASSWORD, *["a wrong password"] * 7):
        by_password = identity_pb2.SignInWithPasswordRequest(login_name="vera", password=password)
        await given.send("lobby", "SignInWithPassword", by_password, None)
    secrets += [PASSWORD, "a wrong old password", "a wrong password"]
    secrets += [new.secret, new.tokens.access_token, new.tokens.refresh_token, given.token("game")]
    for file in given.stack.settings.keys().iterdir():
        if file.suffix in (".key", ".seal"):
            secrets += [line for line in file.read_text().splitlines() if "--" not in line]
    logs = given.logs()
    assert logs.count('"event":"rpc"') > 100
    sent = await traced(kept)
    for secret in secrets:
        assert len(secret) >= 10
        for spelling in spellings(secret):
            assert spelling not in logs
            assert spelling.encode() not in sent
        assert not isinstance(secret, bytes) or secret not in sent
    for line in filter(None, logs.splitlines()):
        assert not [v for v in _values(line) if WORDS.search(v)], line
    for each in kept.kept:
        facts = {k: v for k, v in each.facts.items() if k not in ("kozyr.game", "kozyr.stream")}
        assert not WORDS.search(f"{each.name} {facts}"), each
    await player.close()


async def traced(kept: Collector) -> bytes:
    """All that was sent to the collector, the last call of all included."""
    await kept.found("lobby server IdentityService/SignInWithPassword", "kozyr.role", "public")
    await kept.found("ai internal think")
    assert len(kept.kept) > 300
    return b"".join(each.SerializeToString() for each in kept.requests)


def _values(line: str) -> Iterator[str]:
    """What a line says, apart from ids, times and where in the code something happened."""
    said = json.loads(line)
    for key, value in said.items():
        if key not in ("request_id", "game", "table", "stream", "subject", "time", *TRACES):
            yield str(value)


def marked(descriptor: Descriptor, depth: int = 0) -> Message:
    """A message whose every text and octets carry a mark."""
    message: Message = GetMessageClass(descriptor)()
    fields: list[Any] = list(descriptor.fields)
    for field in fields:
        repeated = field.is_repeated
        value: Any = {
            FieldDescriptor.TYPE_STRING: MARK,
            FieldDescriptor.TYPE_BYTES: MARK.encode(),
        }.get(field.type)
        if field.type == FieldDescriptor.TYPE_MESSAGE and depth < 3:
            inner = marked(field.message_type, depth + 1)
            there = getattr(message, field.name)
            (there.add() if repeated else there).CopyFrom(inner)
        elif value is not None:
            if repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


async def test_nothing_repeats_what_was_sent(given: House, kept: Collector) -> None:
    """Marked texts, octets and tokens to every RPC, one field at a time and all at once."""
    tokens = [given.token("operator"), given.token("player"), *map(given.token, SERVICES)]
    asked = 0
    for service, method in rpcs():
        whole = marked(method.input_type)
        singles = []
        for field in whole.DESCRIPTOR.fields:
            single = type(whole)()
            single.MergeFrom(whole)
            for other in whole.DESCRIPTOR.fields:
                if other.name != field.name:
                    single.ClearField(other.name)
            singles.append(single)
        for message in (whole, *singles):
            for token in (None, f"{MARK}.{MARK}.{MARK}", *tokens):
                if method.name in ("SignUp", "Grant", "OpenAccount") and message is whole:
                    continue  # may well succeed, and then what was sent is data
                answer = await given.ask(service, method, message.SerializeToString(), token)
                asked += 1
                if answer.code is not grpc.StatusCode.OK:
                    assert MARK not in answer.text, method.name
                    assert MARK.encode() not in answer.status.SerializeToString(), method.name
    assert asked > 500
    told = [line for line in given.logs().splitlines() if MARK in line]
    assert told == []
    assert MARK.encode() not in await traced(kept)


async def test_an_expired_token_is_not_repeated_either(given: House) -> None:
    """Neither whole nor in parts."""
    player: Player = await given.player()
    token = given.token("player", player.player_id, 1_000)
    method = next(m for _, m in rpcs() if m.name == "ListGames")

    async def expired() -> bool:
        answer = await given.ask("game", method, b"", token)
        return answer.reason == "TOKEN_EXPIRED"

    await until(expired, 20)
    assert token not in given.logs()
    assert token.split(".")[2] not in given.logs()
    await player.close()
