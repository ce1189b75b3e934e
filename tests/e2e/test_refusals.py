"""What is refused, by which reason, and that a refusal changes nothing: over real processes."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import grpc
import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.descriptor import MethodDescriptor
from kozyr.game.v1 import audit_pb2, checkpoint_pb2, game_pb2, history_pb2, view_pb2
from kozyr.lobby.v1 import lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.client.player import Player
from services.kernel.ids import uuid7
from services.runtime.access import ACCESS
from services.runtime.keys import PLAYERS
from services.runtime.settings import SERVICES
from services.runtime.tokens import MAY_CLAIM, Signer, load_signer
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
from tests.services.game.stopped import still

Code = grpc.StatusCode
VARIANTS = ("azi", "durak", "rami")
NOBODY = str(uuid7(1_790_000_000_000, bytes(10)))
"""An id that nothing has."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Scene:
    """Two players at a running game of each kind and at a finished one, and a stranger."""

    house: House
    one: Player
    two: Player
    stranger: Player
    running: dict[str, str]
    finished: str

    async def view(self, player: Player, variant: str) -> view_pb2.GameView:
        """The running game of a kind as a player sees it."""
        return still(await player.view(self.running[variant]))

    async def mover(self, variant: str) -> tuple[Player, Player, view_pb2.GameView]:
        """Whose turn it is, the other player, and the mover's view."""
        view = await self.view(self.one, variant)
        if legal(view):
            return self.one, self.two, view
        return self.two, self.one, await self.view(self.two, variant)

    async def ask(self, name: str, request: Any, player: Player | None = None) -> Answer:
        """Call the game service as this player."""
        token = None if player is None else player.access_token
        return await self.house.send("game", name, request, token)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One house for all of it."""
    async with house(tmp_path_factory.mktemp("refusals")) as given:
        one, two, stranger = [await given.player() for _ in range(3)]
        running = {}
        for variant in VARIANTS:
            asked = rules(variant, 2, turn_ms=600_000)
            asked.spectators = variant == "durak"
            _, running[variant] = await start(one, asked, two)
        _, finished = await start(one, rules("durak", 2))
        await play_out(one, finished, Random(5))
        made = Scene(given, one, two, stranger, running, finished)
        for variant in VARIANTS:

            async def dealt(variant: str = variant) -> bool:
                return (await made.view(one, variant)).stage == view_pb2.STAGE_PLAYING

            await until(dealt)
        yield made
        for player in (one, two, stranger):
            await player.close()


def signed(key: Any, algorithm: str, kid: str, **changes: Any) -> str:
    """A token with claims and a header of one's own."""
    at = int(time.time())
    claims = {
        "iss": PLAYERS,
        "sub": "p",
        "aud": "kozyr",
        "role": "player",
        "iat": at,
        "exp": at + 600,
    }
    return jwt.encode(claims | changes, key, algorithm, headers={"kid": kid})


def forged(given: House) -> dict[str, str]:
    """Tokens that must not be believed, by what is wrong with them."""
    keys = given.stack.settings.keys()
    players, game = load_signer(keys, PLAYERS), load_signer(keys, "game")
    good = players.issue("p", 600_000)
    head, body, signature = good.split(".")
    own = Ed25519PrivateKey.generate()
    return {
        "empty": "",
        "no token at all": "nonsense",
        "another key": signed(own, "EdDSA", players.key_id),
        "no signature": signed(None, "none", players.key_id),
        "a secret": signed(players.key.public_key().public_bytes_raw(), "HS256", players.key_id),
        "an unknown key": signed(own, "EdDSA", "0" * 16),
        "another signature": f"{head}.{body}.{signature[::-1]}",
        "another body": f"{head}.{body[:-2]}AA.{signature}",
        "a player as operator": signed(
            players.key, "EdDSA", players.key_id, role="operator", iss=PLAYERS
        ),
        "a player as a service": signed(
            players.key, "EdDSA", players.key_id, role="service", sub="lobby", iss="lobby"
        ),
        "a service as another": signed(
            game.key, "EdDSA", game.key_id, role="service", sub="lobby", iss="game"
        ),
        "a service as a player": signed(game.key, "EdDSA", game.key_id, iss="game"),
        "another audience": signed(players.key, "EdDSA", players.key_id, aud="others"),
        "for ever": signed(players.key, "EdDSA", players.key_id, exp="never"),
        "far too long": good + "A" * 2_000,
    }


def every_rpc() -> list[Any]:
    """All RPCs as parameters."""
    return [pytest.param(s, m, id=m.name) for s, m in rpcs()]


def roles(method: MethodDescriptor) -> dict[str, bool]:
    """Each kind of caller, and whether the table lets it in."""
    row = ACCESS[path(method)]
    allowed = {role.value for role in row.roles} | row.services
    return {name: row.public or name in allowed for name in ("player", "operator", *SERVICES)}


@pytest.mark.parametrize(("service", "method"), every_rpc())
async def test_who_may_not_call_is_told_so(
    scene: Scene, service: str, method: MethodDescriptor
) -> None:
    """No token, an old one, forged ones, and those of the wrong role, each by its own reason."""

    async def outcome(token: str | None) -> tuple[Code, str]:
        answer = await scene.house.ask(service, method, b"\xff", token)
        assert len(answer.infos) == 1
        return answer.code, answer.reason

    in_order = (Code.INVALID_ARGUMENT, "MALFORMED_REQUEST")
    public = ACCESS[path(method)].public
    none = in_order if public else (Code.UNAUTHENTICATED, "TOKEN_MISSING")
    assert await outcome(None) == none
    now = time.time()
    for issuer, role in MAY_CLAIM.items():
        signer = load_signer(scene.house.stack.settings.keys(), issuer)
        old: Signer = replace(signer, now=lambda: now - 7_200)
        subject = issuer if role == "service" else "p"
        expired = in_order if public else (Code.UNAUTHENTICATED, "TOKEN_EXPIRED")
        assert await outcome(old.issue(subject, 3_600_000)) == expired, issuer
    for what, token in forged(scene.house).items():
        expected = in_order if public else (Code.UNAUTHENTICATED, "TOKEN_INVALID")
        assert await outcome(token) == expected, what
    for name, allowed in roles(method).items():
        wrong = (Code.PERMISSION_DENIED, "ROLE_NOT_ALLOWED")
        assert await outcome(scene.house.token(name)) == (in_order if allowed else wrong), name


def play(view: view_pb2.GameView, request_id: str = "try", **changes: Any) -> Any:
    """A request to make the first legal move of a view."""
    request = game_pb2.SubmitMoveRequest(
        request_id=request_id, game_id=view.game_id, turn=view.turn
    )
    if legal(view):
        getattr(request.move, view.WhichOneof("table") or "").CopyFrom(legal(view)[0])
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def with_move(request: Any, change: Callable[[Any], None]) -> Any:
    """The same request with another move."""
    request.ClearField("move")
    change(request.move)
    return request


Refusal = tuple[Code, str]


def wrong_moves(view: view_pb2.GameView) -> dict[str, tuple[Any, Refusal]]:
    """Moves that no rule allows, or that are none, with what is answered."""
    variant = view.WhichOneof("table") or ""
    held = getattr(view, variant).hand
    foreign = next(card for card in range(5, 14) if card not in held)

    def card(move: Any, value: int) -> None:
        match variant:
            case "azi":
                move.azi.play_card.card = value
            case "durak":
                move.durak.attack.card = value
            case _:
                move.rami.discard.card = value

    def other(move: Any) -> None:
        if variant == "durak":
            move.rami.discard.card = 1
        else:
            move.durak.take.SetInParent()

    invalid, refused = (Code.INVALID_ARGUMENT, "INVALID_FIELD"), Code.FAILED_PRECONDITION
    return {
        "of another game": (with_move(play(view), other), invalid),
        "none": (with_move(play(view), lambda move: None), invalid),
        "an empty one": (
            with_move(play(view), lambda move: getattr(move, variant).SetInParent()),
            invalid,
        ),
        "no card": (with_move(play(view), lambda move: card(move, 0)), invalid),
        "an unknown card": (with_move(play(view), lambda move: card(move, 77)), invalid),
        "a card not held": (with_move(play(view), lambda move: card(move, foreign)), (refused, "")),
        "an old turn": (play(view, turn=view.turn - 1), (Code.ABORTED, "STALE_TURN")),
        "a later turn": (play(view, turn=view.turn + 1), (Code.ABORTED, "STALE_TURN")),
        "no turn": (play(view, turn=-(2**31)), (Code.ABORTED, "STALE_TURN")),
        "no request id": (play(view, ""), invalid),
        "a request id too long": (play(view, "x" * 65), invalid),
        "a request id that is no text": (play(view, "a\u00e9"), invalid),
    }


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_wrong_move_changes_nothing(scene: Scene, variant: str) -> None:
    """Each is refused by its reason, fields named, and the log is as long as before."""
    mover, waiting, view = await scene.mover(variant)
    for what, (request, (code, reason)) in wrong_moves(view).items():
        answer = await scene.ask("SubmitMove", request, mover)
        assert answer.code is code, (what, answer)
        assert answer.reason == (reason or answer.reason), what
        assert bool(answer.fields) == (code is Code.INVALID_ARGUMENT), what
    mine = play(view, "not mine")
    answer = await scene.ask("SubmitMove", mine, waiting)
    assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, "NOT_YOUR_TURN")
    assert await scene.view(mover, variant) == view


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_double_submit_acts_once(scene: Scene, variant: str) -> None:
    """The first answer again; another body, another turn or another RPC under the id is refused."""
    mover, _, view = await scene.mover(variant)
    request = play(view, f"{variant}~".ljust(64, "x"))
    answers = [await scene.ask("SubmitMove", request, mover) for _ in range(2)]
    replies = [game_pb2.SubmitMoveResponse.FromString(each.reply) for each in answers]
    assert still(replies[0].view) == still(replies[1].view) != view_pb2.GameView()
    after = await scene.view(mover, variant)
    request.turn += 1
    leave = game_pb2.LeaveGameRequest(request_id=request.request_id, game_id=request.game_id)
    for name, changed in (("SubmitMove", request), ("LeaveGame", leave)):
        answer = await scene.ask(name, changed, mover)
        assert (answer.code, answer.reason) == (Code.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
        assert answer.fields == ["request_id"]
    assert await scene.view(mover, variant) == after


def about(game_id: str) -> dict[str, Any]:
    """Every RPC about one game that a player may call, well formed."""
    return {
        "GetGame": game_pb2.GetGameRequest(game_id=game_id, history=True),
        "CommitSeed": game_pb2.CommitSeedRequest(request_id="c", game_id=game_id, hash=bytes(32)),
        "RevealSeed": game_pb2.RevealSeedRequest(request_id="r", game_id=game_id, seed=bytes(32)),
        "SubmitMove": game_pb2.SubmitMoveRequest(request_id="s", game_id=game_id, turn=1),
        "LeaveGame": game_pb2.LeaveGameRequest(request_id="l", game_id=game_id),
        "ReturnToSeat": game_pb2.ReturnToSeatRequest(request_id="b", game_id=game_id),
        "GetHint": game_pb2.GetHintRequest(game_id=game_id, turn=1),
        "WatchGame": game_pb2.WatchGameRequest(game_id=game_id),
        "GetReceipt": game_pb2.GetReceiptRequest(game_id=game_id),
        "ReplayOwnGame": history_pb2.ReplayOwnGameRequest(game_id=game_id),
        "ShareGame": history_pb2.ShareGameRequest(request_id="h", game_id=game_id),
        "GetInclusionProof": checkpoint_pb2.GetInclusionProofRequest(game_id=game_id),
        "ReplayGame": audit_pb2.ReplayGameRequest(game_id=game_id),
        "ExportGame": audit_pb2.ExportGameRequest(game_id=game_id),
        "OpenDispute": audit_pb2.OpenDisputeRequest(
            request_id="d", game_id=game_id, complaint="This is not fair."
        ),
    }


@pytest.mark.parametrize("name", sorted(about(NOBODY)))
async def test_games_of_others_are_like_none_at_all(scene: Scene, name: str) -> None:
    """A stranger gets the very same answer for a running game, a finished one and no game."""
    answers = set()
    for game_id in (scene.running["rami"], scene.finished, NOBODY):
        answer = await scene.ask(name, about(game_id)[name], scene.stranger)
        facts = {k: v for k, v in answer.infos[0].metadata.items() if k != "request_id"}
        answers.add((answer.code, answer.reason, answer.text, tuple(facts.items())))
        assert len(answer.status.details) == 1
    assert [a[:2] for a in answers] == [(Code.NOT_FOUND, "GAME_NOT_FOUND")]


async def test_a_spectator_only_looks(scene: Scene) -> None:
    """Where spectators are let in, everything but looking is refused as NOT_SEATED."""
    game_id = scene.running["durak"]
    before = await scene.view(scene.one, "durak")
    for name, request in about(game_id).items():
        answer = await scene.ask(name, request, scene.stranger)
        if name in ("GetGame", "WatchGame", "GetReceipt"):
            assert answer.code is Code.OK
        else:
            assert (answer.code, answer.reason) == (Code.PERMISSION_DENIED, "NOT_SEATED"), name
    assert await scene.view(scene.one, "durak") == before


async def test_a_finished_game_takes_nothing_more(scene: Scene) -> None:
    """Moves, leaves and seeds come too late, and its log does not grow."""
    view = await scene.one.view(scene.finished)
    durak_move = play(await scene.view(scene.one, "durak"))
    durak_move.game_id = scene.finished
    durak_move.turn = view.turn
    durak_move.move.durak.take.SetInParent()
    late = {**about(scene.finished), "SubmitMove": durak_move}
    over = dict.fromkeys(("SubmitMove", "LeaveGame", "ReturnToSeat", "GetHint"), "GAME_OVER")
    closed = dict.fromkeys(("CommitSeed", "RevealSeed"), "SEEDS_CLOSED")
    for name, reason in {**over, **closed}.items():
        answer = await scene.ask(name, late[name], scene.one)
        assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, reason), name
    assert still(await scene.one.view(scene.finished)) == still(view)


async def test_seeds_come_in_their_time_and_shape(scene: Scene) -> None:
    """While cards are on the table neither hashes nor seeds are taken, of whatever length."""
    game_id = scene.running["azi"]
    before = await scene.view(scene.one, "azi")
    for size in (0, 15, 31, 32, 33, 64, 65):
        for request in (
            game_pb2.CommitSeedRequest(request_id="c", game_id=game_id, hash=bytes(size)),
            game_pb2.RevealSeedRequest(request_id="r", game_id=game_id, seed=bytes(size)),
        ):
            name = type(request).__name__.removesuffix("Request")
            answer = await scene.ask(name, request, scene.one)
            assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, "SEEDS_CLOSED")
    assert await scene.view(scene.one, "azi") == before


async def test_hands_and_logs_stay_shut_while_a_game_runs(scene: Scene) -> None:
    """Replay and export are refused; rows read by an operator hold no secret."""
    token = scene.house.token("operator")
    for variant in VARIANTS:
        game_id = scene.running[variant]
        for name in ("ReplayGame", "ExportGame"):
            for caller in (token, scene.one.access_token):
                answer = await scene.house.send("game", name, about(game_id)[name], caller)
                assert (answer.code, answer.reason) == (Code.FAILED_PRECONDITION, "GAME_RUNNING")
        request = audit_pb2.ReadLogRequest(game_id=game_id, page_size=1_000)
        answer = await scene.house.send("game", "ReadLog", request, token)
        rows = audit_pb2.ReadLogResponse.FromString(answer.reply).rows
        assert rows
        assert not any(row.salt or row.secret or row.metadata for row in rows)


async def test_tokens_of_pages_and_streams_are_ones_own(scene: Scene) -> None:
    """A resume token of another viewer or game, or a page token altered, is refused by name."""
    watched = await scene.ask("WatchGame", about(scene.running["rami"])["WatchGame"], scene.one)
    token = game_pb2.WatchGameResponse.FromString(watched.reply).resume_token
    bad = (Code.INVALID_ARGUMENT, "BAD_TOKEN")
    for player, variant, given in (
        (scene.two, "rami", token),
        (scene.one, "azi", token),
        (scene.one, "rami", token[:-1]),
        (scene.one, "rami", token[:-1] + b"9"),
        (scene.one, "rami", b"[1]"),
    ):
        request = game_pb2.WatchGameRequest(game_id=scene.running[variant], resume_token=given)
        answer = await scene.ask("WatchGame", request, player)
        assert (answer.code, answer.reason) == bad
        assert answer.fields == ["resume_token"]
    page = await scene.ask("ListGames", game_pb2.ListGamesRequest(page_size=1), scene.one)
    token_text = game_pb2.ListGamesResponse.FromString(page.reply).next_page_token
    assert token_text
    asked = game_pb2.ListGamesRequest(page_size=1, page_token=token_text)
    assert (await scene.ask("ListGames", asked, scene.two)).reason == "BAD_TOKEN"
    asked.page_token = token_text[:-4] + "AAAA"
    answer = await scene.ask("ListGames", asked, scene.one)
    assert ((answer.code, answer.reason), answer.fields) == (bad, ["page_token"])


async def test_a_private_table_is_not_there_without_its_code(scene: Scene) -> None:
    """Looking, sitting down and watching answer as for no table at all."""
    private = rules("durak", 3, visibility=lobby_pb2.VISIBILITY_PRIVATE)
    asked = lobby_pb2.CreateTableRequest(request_id="hidden", rules=private)
    made = await scene.house.send("lobby", "CreateTable", asked, scene.one.access_token)
    table = lobby_pb2.CreateTableResponse.FromString(made.reply).table
    for name, request in (
        ("GetTable", lobby_pb2.GetTableRequest()),
        ("TakeSeat", lobby_pb2.TakeSeatRequest(request_id="in")),
        ("WatchTables", lobby_pb2.WatchTablesRequest()),
    ):
        answers = []
        for table_id, code in ((table.table_id, ""), (table.table_id, "WRONG"), (NOBODY, "")):
            request.table_id, request.invite_code = table_id, code
            answer = await scene.house.send("lobby", name, request, scene.stranger.access_token)
            answers.append((answer.code, answer.reason, answer.text))
        assert answers[0][0] is Code.NOT_FOUND, name
        assert len(set(answers)) == 1, name


async def test_others_chips_are_not_shown(scene: Scene) -> None:
    """Another player's account is answered like none at all."""
    for name, request in (
        ("GetAccount", wallet_pb2.GetAccountRequest()),
        ("ListTransfers", wallet_pb2.ListTransfersRequest()),
        ("WatchAccount", wallet_pb2.WatchAccountRequest()),
    ):
        answers = set()
        for account in (scene.one.player_id, NOBODY):
            request.account_id = account
            answer = await scene.house.send("wallet", name, request, scene.stranger.access_token)
            answers.add((answer.code, answer.reason, answer.text))
        assert len(answers) == 1, name
        assert answers.pop()[0] in (Code.NOT_FOUND, Code.PERMISSION_DENIED)


async def test_all_of_it_left_every_game_playable(scene: Scene) -> None:
    """After the refusals each running game goes on by its rules, and the audits find nothing."""
    rng = Random(1)
    for variant in VARIANTS:
        for _ in range(4):
            mover, _, view = await scene.mover(variant)
            if legal(view):
                await move(mover, view, rng)
        verdict = await scene.house.verify(scene.running[variant])
        assert list(verdict.faults) == []
