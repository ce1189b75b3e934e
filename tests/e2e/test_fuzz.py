"""Random and broken messages to every RPC of the four running services, from every kind of caller.

`KOZYR_FUZZ_N` messages go to each RPC (60 by default), drawn from `KOZYR_FUZZ_SEED`.
"""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message
from kozyr.game.v1 import audit_pb2, game_pb2, history_pb2, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2, standing_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.client.player import Player
from services.kernel.ids import uuid7
from services.runtime.access import ACCESS
from services.runtime.auth import Role
from tests.e2e import messages, rare
from tests.e2e.house import (
    Answer,
    House,
    house,
    legal,
    move,
    play_out,
    rules,
    start,
    until,
)
from tests.rpcs import path, rpcs

N = int(os.environ.get("KOZYR_FUZZ_N", "60"))
SEED = int(os.environ.get("KOZYR_FUZZ_SEED", "1"))
AT_ONCE = 8
BAD = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
)
SHALLOW = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
)
"""How an answer ends that was given before anything was looked up."""
UNDER_WAY = "RULING_UNDER_WAY"
"""Why a ruling may be UNAVAILABLE: another one on the same game is being carried out."""
SECRETS = {"SignIn", "SignInWithKey", "SignInWithPassword", "Refresh"}
"""RPCs that take a secret, which no random one is."""
AWAY = {"ExcludeMyself": "away"}
"""RPCs after which a player plays nothing any more: for one of whom nothing else is asked."""
ENOUGH = 3_000
"""So many messages in all let some through to every other RPC."""
WHOLE = ("REQUEST_TOO_LARGE", "MALFORMED_REQUEST")
"""Refusals of a request as a whole, which name no field."""
REASON = re.compile(r"[A-Z][A-Z0-9_]+")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class World:
    """A house with games of each kind in it, and what exists there."""

    house: House
    players: list[Player]
    tokens: dict[str, str | None]
    games: list[str]
    pool: dict[str, list[Any]] = field(default_factory=dict)
    samples: dict[str, list[Message]] = field(default_factory=dict)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Two players at three running games and a finished one, and a stranger."""
    async with house(tmp_path_factory.mktemp("fuzz")) as given:
        players = [await given.player() for _ in range(4)]
        made = await _populate(given, players)
        yield made
        for player in players:
            await player.close()


async def _populate(given: House, players: list[Player]) -> World:
    one, two, stranger, away = players
    rng = Random(7)
    views: list[view_pb2.GameView] = []
    history: list[view_pb2.Happening] = []
    tables, games = [], []
    for variant, seats in (("azi", 3), ("durak", 4), ("rami", 3)):
        long = rules(variant, seats, spectators=variant == "rami", turn_ms=600_000)
        if variant == "rami":
            long.options.rami.target = 1_000
        table, game = await start(one, long, two)
        tables.append(table)
        games.append(game)
        views += await _play_some(one, two, game, rng)
        history += await _history(given, one, game)
    table, game = await start(one, rules("durak", 2))
    views += await play_out(one, game, rng)
    tables.append(table)
    games.append(game)
    private = rules("durak", 4, visibility=lobby_pb2.VISIBILITY_PRIVATE)
    created = await given.send(
        "lobby",
        "CreateTable",
        lobby_pb2.CreateTableRequest(request_id="private", rules=private),
        one.access_token,
    )
    hidden = lobby_pb2.CreateTableResponse.FromString(created.reply).table
    tables.append(hidden.table_id)
    watched = await given.send(
        "game", "WatchGame", game_pb2.WatchGameRequest(game_id=games[0]), one.access_token
    )
    resume = game_pb2.WatchGameResponse.FromString(watched.reply).resume_token
    shared = await given.send(
        "game",
        "ShareGame",
        history_pb2.ShareGameRequest(request_id="share", game_id=games[3]),
        one.access_token,
    )
    link = history_pb2.ShareGameResponse.FromString(shared.reply)
    _, paid = await start(one, rules("azi", 3))
    views += (await play_out(one, paid, rng))[-1:]
    games.append(paid)
    reserve = wallet_pb2.FundReserveRequest(request_id="reserve", chips=10_000, reason="Reserve")
    assert (await given.send("wallet", "FundReserve", reserve, given.token("operator"))).reply
    disputes = [await _dispute(given, one, game, n) for game in games[3:] for n in range(4)]
    ids = [player.player_id for player in players]
    bots = [seat.player_id for view in views[:1] for seat in view.seats]
    now = time.time_ns() // 1_000_000
    fresh = [str(uuid7(now + n, rng.randbytes(10))) for n in range(40)]
    tokens: dict[str, str | None] = {
        "public": None,
        "seated": one.access_token,
        "other": two.access_token,
        "stranger": stranger.access_token,
        "away": away.access_token,
        "operator": given.token("operator"),
        **{name: given.token(name) for name in ("lobby", "game", "ai", "wallet")},
    }
    shown = [view for view in views if legal(view)]
    pool: dict[str, list[Any]] = {
        "token": [link.token],
        "share_id": [link.share.share_id],
        "request_id": [*(f"r{n}" for n in range(200)), "x" * 64],
        "player_id": [*ids, *bots, *fresh[:2]],
        "player_ids": [*ids, *bots, *fresh[:2]],
        "left_player_ids": ids,
        "account_id": ["", *ids, *bots, *fresh[:2]],
        "game_id": [*games, *fresh[:6]],
        "game_ids": [*games, *fresh[:2]],
        "table_id": [*tables, *fresh[:2]],
        "reservation_id": fresh[6:],
        "key_id": ["1", "nobody"],
        "dispute_id": [*disputes, f"{games[3]}.1", *fresh[:1]],
        "invite_code": ["", hidden.invite_code, "WRONG"],
        "resume_token": [b"", resume, resume[:-1]],
        "page_token": ["", "", "nonsense"],
        "refresh_token": ["a.b.c", "rt"],
        "secret": ["wrong"],
        "attempt_id": ["", "a-try-nobody-guesses"],
        "login_name": ["", *(f"anna-{n}" for n in range(9))],
        "password": ["a long enough password", "not the right one"],
        "new_password": ["a long enough password", "another long one"],
        "old_password": ["", "", "a long enough password"],
        "device_name": ["", "Phone", "Laptop 2"],
        "public_key": [bytes([n] * 32) for n in range(7, 12)],
        "session_id": ["", *fresh[:2]],
        "device_id": fresh[:2],
        "issuer": ["", "players", "game", "nobody"],
        "display_name": ["Anna", "Boris 2"],
        "confirm_name": [*(player.display_name for player in players), "Anna"],
        "view": shown,
        "history": history,
        "move": [_wrapped(view, m) for view in views for m in legal(view)],
        "turn": sorted({view.turn for view in views[:40]}),
        "from_size": [1, 1, 2],
        "to_size": [0, 1, 2],
        "turn_ms": [1_000, 30_000],
        "seed_ms": [1, 1_000],
        "chips": [1, 20, 100],
        "stack": [0, 20, 100],
        "buy_in": [0, 20, 50],
        "ttl_ms": [100, 60_000],
        "seats": [],
    }
    samples = _samples(views[-1], disputes, fresh[10:])
    for each in (*await _ended(given), *rare.excluded(), *rare.common(shown, fresh[20:24])):
        samples.setdefault(each.DESCRIPTOR.full_name, []).append(each)
    known = {name: values for name, values in pool.items() if values}
    return World(given, players, tokens, games, known, samples)


async def _dispute(given: House, player: Player, game: str, number: int) -> str:
    request = audit_pb2.OpenDisputeRequest(request_id=f"d{number}", game_id=game, complaint="Hm.")
    opened = await given.send("game", "OpenDispute", request, player.access_token)
    return audit_pb2.OpenDisputeResponse.FromString(opened.reply).dispute.dispute_id


async def _ended(given: House) -> list[Message]:
    """Games to be counted, which their tables have played."""
    listed = await given.send(
        "game", "ListGames", game_pb2.ListGamesRequest(), given.token("operator")
    )
    games = game_pb2.ListGamesResponse.FromString(listed.reply).games
    ended = [game for game in games if game.HasField("ended_time")]
    return [
        standing_pb2.RecordGameRequest(request_id=f"g{number}", game=game)
        for number, game in enumerate(ended)
    ]


def _samples(
    paid: view_pb2.GameView, disputes: list[str], fresh: list[str]
) -> dict[str, list[Message]]:
    """Requests that could be carried out, of the kinds that hardly ever come about by chance."""
    made: list[Message] = []
    seats = [seat.player_id for seat in paid.seats]
    for number, dispute in enumerate(disputes):
        request = audit_pb2.ResolveDisputeRequest(
            request_id=f"s{number}", dispute_id=dispute, explanation="So it is."
        )
        request.ruling = audit_pb2.RULING_UPHELD if number % 4 else audit_pb2.RULING_DISMISSED
        if number > 5:
            request.remedy = audit_pb2.REMEDY_CORRECTION
            for player, chips in zip(seats, (number, -number), strict=False):
                request.moves.add(player_id=player, chips=chips)
        made.append(request)
    for number, game in enumerate(fresh[:4]):
        table = lobby_pb2.CreateTableRequest(request_id=f"s{number}", rules=rules("durak", 2))
        void = wallet_pb2.VoidRequest(request_id=f"s{number}", game_id=fresh[-1], reason="TRIED")
        opening = game_pb2.CreateGameRequest(
            request_id=f"s{number}", game_id=game, table_id=fresh[-2], turn_ms=600_000, seed_ms=1
        )
        opening.absent_policy = variant_pb2.ABSENT_POLICY_EXPIRE
        opening.options.durak.SetInParent()
        for player in seats[:2]:
            opening.seats.add(player_id=player)
        settle = wallet_pb2.SettleRequest(request_id=f"s{number}", game_id=game, head=bytes(32))
        settle.lines.add(reservation_id=fresh[-3], paid_in=2, paid_out=2)
        put_right = wallet_pb2.CompensateRequest(
            request_id=f"c{number}", dispute_id=disputes[0], game_id=game
        )
        for player, chips in zip(seats, (number + 1, -number - 1), strict=False):
            put_right.moves.add(account_id=player, chips=chips)
        report = lobby_pb2.ReportGameRequest(
            request_id=f"s{number}", table_id=fresh[-2], game_id=game
        )
        report.stage = view_pb2.STAGE_CANCELLED
        pin = wallet_pb2.PinRequest(request_id=f"p{number}", game_id=game)
        pin.claims.add(reservation_id=fresh[-3], account_id=seats[0], chips=1)
        sign_up = identity_pb2.SignUpRequest(request_id=f"s{number}" * 10, display_name="Anna")
        made += [table, void, opening, settle, put_right, report, pin, sign_up]
    samples: dict[str, list[Message]] = {}
    for message in made:
        samples.setdefault(message.DESCRIPTOR.full_name, []).append(message)
    return samples


def _wrapped(view: view_pb2.GameView, chosen: Any) -> Any:
    made = game_pb2.SubmitMoveRequest().move
    getattr(made, view.WhichOneof("table") or "").CopyFrom(chosen)
    return made


async def _play_some(one: Player, two: Player, game: str, rng: Random) -> list[view_pb2.GameView]:
    """Play a few turns of a game, so that it is dealt and under way."""
    views = []
    for _ in range(60):
        for player in (one, two):
            view = await player.view(game)
            if legal(view):
                views.append(view)
                if len(views) > 4:
                    return views
                await move(player, view, rng)
        await asyncio.sleep(0.05)
    raise AssertionError("the game does not come to a player's turn")


async def _history(given: House, player: Player, game: str) -> list[view_pb2.Happening]:
    request = game_pb2.GetGameRequest(game_id=game, history=True)
    answer = await given.send("game", "GetGame", request, player.access_token)
    return list(game_pb2.GetGameResponse.FromString(answer.reply).history)


def roles_for(method: MethodDescriptor) -> list[str]:
    """Callers that the access table lets in."""
    if method.name in AWAY:
        return [AWAY[method.name]]
    row = ACCESS[path(method)]
    names = sorted(row.services)
    if Role.PLAYER in row.roles:
        names += ["seated", "other", "stranger"]
    if Role.OPERATOR in row.roles:
        names.append("operator")
    return names or ["public", "seated"]


def faults(method: MethodDescriptor, answer: Answer) -> list[str]:
    """What is wrong with an answer, in words; nothing for a good one."""
    if answer.code is grpc.StatusCode.OK:
        return []
    found = []
    if answer.code in BAD and answer.reason != UNDER_WAY:
        found.append(f"ended with {answer.code.name}")
    if len(answer.infos) != 1:
        return [*found, f"{len(answer.infos)} ErrorInfo"]
    info = answer.infos[0]
    if not REASON.fullmatch(info.reason) or info.domain != "kozyr":
        found.append(f"reason {info.reason!r} of domain {info.domain!r}")
    if answer.status.code != answer.code.value[0]:
        found.append("the details have another code")
    if answer.code is grpc.StatusCode.INVALID_ARGUMENT and info.reason not in WHOLE:
        if not answer.fields:
            found.append("no field is named")
        found += [f"no such field: {name}" for name in answer.fields if not _is_field(method, name)]
    elif answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED and len(answer.status.details) < 2:
        found.append("no time to come back")
    return found


def _is_field(method: MethodDescriptor, name: str) -> bool:
    descriptor: Descriptor | None = method.input_type
    for part in name.split("."):
        field_name = part.partition("[")[0]
        if descriptor is None or field_name not in descriptor.fields_by_name:
            return False
        descriptor = descriptor.fields_by_name[field_name].message_type
    return True


async def test_whatever_is_sent_is_answered_in_order(world: World) -> None:
    """No INTERNAL, no hang, no crash: a reply, or one reason and, for fields, their names."""
    chance = {path(method): Random(f"{SEED} {path(method)}") for _, method in rpcs()}
    gate = asyncio.Semaphore(AT_ONCE)
    problems: list[str] = []
    codes: Counter[str] = Counter()
    reached: set[str] = set()

    async def send(service: str, method: MethodDescriptor, role: str, raw: bytes) -> None:
        async with gate:
            answer = await world.house.ask(service, method, raw, world.tokens[role])
        codes[answer.code.name] += 1
        if answer.code not in SHALLOW:
            reached.add(path(method))
        problems.extend(
            f"{method.name} as {role}: {fault} ({answer.reason}: {answer.text!r}) {raw!r:.400}"
            for fault in faults(method, answer)
        )

    sent = []
    for _ in range(N):
        for service, method in rpcs():
            rng = chance[path(method)]  # of its own, so that an RPC more changes no other's
            role = rng.choice(roles_for(method))
            if rng.random() < 0.15 and method.name not in AWAY:
                role = rng.choice(sorted(world.tokens))
            raw = messages.request(method.input_type, rng, world.pool, world.samples)
            sent.append(send(service, method, role, raw))
    await asyncio.gather(*sent)
    told = "\n".join(sorted(set(problems))[:40])
    assert not problems, f"seed {SEED}, {dict(codes)}, {len(problems)} problems:\n{told}"
    assert codes["OK"] > len(sent) / 50, f"hardly anything got through: {dict(codes)}"
    missed = {method.name for _, method in rpcs() if path(method) not in reached}
    missed -= SECRETS
    assert not missed or len(sent) < ENOUGH, f"nothing got through to {missed}"


async def test_nothing_failed_behind_the_answers(world: World) -> None:
    """No process has logged an error, each still serves, and the ledger balances."""
    lines = [line for line in world.house.logs().splitlines() if '"level":"error"' in line]
    assert lines == []
    for name in ("lobby", "game", "ai", "wallet"):
        channel: Any = world.house.channel(name)
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert await check(b"", timeout=5) == b"\x08\x01"
    assert (await world.house.trial()).sound


async def test_every_log_still_follows_the_rules(world: World) -> None:
    """Whatever got through made moves that the rules allow, and nothing else."""
    for game in world.games:
        verdict = await world.house.verify(game)
        assert [f for f in verdict.faults if f.kind != "WALLET_DIFFERS"] == []


@pytest.mark.parametrize("variant", ["azi", "durak", "rami"])
async def test_a_normal_game_is_played_as_ever(world: World, variant: str) -> None:
    """New players are not touched by any of it: opened, played, audited, paid."""
    player = await world.house.player()
    table, game = await start(player, rules(variant, 3))
    views = await play_out(player, game, Random(2))
    assert views[-1].stage == view_pb2.STAGE_FINISHED

    async def told() -> bool:
        request = lobby_pb2.GetTableRequest(table_id=table)
        answer = await world.house.send("lobby", "GetTable", request, player.access_token)
        return lobby_pb2.GetTableResponse.FromString(answer.reply).table.games_played == 1

    await until(told)
    assert list((await world.house.verify(game)).faults) == []
    await player.close()


async def test_a_name_that_is_no_text_is_refused_as_a_whole(world: World) -> None:
    """Octets that are no UTF-8 in a text field: malformed, and nothing else is said."""
    raw = identity_pb2.SignUpRequest(request_id="n" * 20).SerializeToString() + b"\x12\x02\xff\xfe"
    method = next(m for _, m in rpcs() if m.name == "SignUp")
    answer = await world.house.ask("lobby", method, raw, None)
    assert (answer.code, answer.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "MALFORMED_REQUEST",
    )
