"""Players come through a real Envoy with the configuration that is deployed: gRPC and gRPC-Web."""

import asyncio
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.rpc.error_details_pb2 import RetryInfo
from grpc_health.v1.health_pb2 import HealthCheckResponse
from kozyr.game.v1 import game_pb2, variant_pb2
from kozyr.lobby.v1 import identity_pb2, lobby_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.cli.outcome import FINE
from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from services.runtime.identity import EDGE
from services.runtime.jwks import key_set
from services.runtime.keys import PLAYERS, key_id, load_private, load_public, make_next
from services.runtime.tokens import AUDIENCE
from tests.authority import OPERATORS, Authority, given, swap
from tests.cli.talking import run, talk
from tests.deploy.edges import HEALTH
from tests.deploy.envoy import PROXIED, Browser, certificate, edge
from tests.deploy.faults import pod
from tests.deploy.objects import objects_of
from tests.deploy.scene import Code, Scene, believe, by_operators, named, opened, through_the_edge
from tests.e2e.house import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECONDS = 20.0
NOBODY = "0198c0de-0000-7000-8000-000000000000"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One system, whose services speak TLS, and one edge for all tests here."""
    async with opened(tmp_path_factory.mktemp("edge")) as made:
        yield made


WAYS = pytest.mark.parametrize("way", ["by_grpc", "by_web"])


async def signed_up(scene: Scene, way: str) -> tuple[str, str]:
    """A new player's id and token."""
    request = identity_pb2.SignUpRequest(request_id="r" * 20 + way, display_name="Nino")
    answer = await getattr(scene, way)("SignUp", request)
    assert answer.code is Code.OK, answer
    reply = identity_pb2.SignUpResponse.FromString(answer.reply)
    return reply.player.player_id, reply.tokens.access_token


async def until(asked: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], bool]) -> Answer:
    """Ask until an answer is as wanted."""
    async with asyncio.timeout(SECONDS):
        while not holds(answer := await asked()):
            await asyncio.sleep(0.1)
    return answer


@WAYS
async def test_a_player_plays_through_the_edge(scene: Scene, way: str) -> None:
    """Signing up, quick play with bots, a game's stream, his chips: all of it as inside."""
    ask = getattr(scene, way)
    player, token = await signed_up(scene, way)
    wanted = lobby_pb2.QuickPlayRequest(
        request_id="q" * 20 + way,
        variant=variant_pb2.VARIANT_DURAK,
        seats=2,
        bots=variant_pb2.BOT_LEVEL_EASY,
    )
    answer = await ask("QuickPlay", wanted, token)
    assert answer.code is Code.OK, answer
    table = lobby_pb2.QuickPlayResponse.FromString(answer.reply).table.table_id

    def playing(answer: Answer) -> bool:
        found = lobby_pb2.GetTableResponse.FromString(answer.reply).table
        return found.state == lobby_pb2.TABLE_STATE_PLAYING

    look = lobby_pb2.GetTableRequest(table_id=table)
    answer = await until(lambda: ask("GetTable", look, token), playing)
    game = lobby_pb2.GetTableResponse.FromString(answer.reply).table.game_id
    first = await first_message(scene, way, game_pb2.WatchGameRequest(game_id=game), token)
    assert first.snapshot.view.game_id == game
    answer = await ask("GetAccount", wallet_pb2.GetAccountRequest(account_id=player), token)
    assert answer.code is Code.OK, answer


@pytest.mark.parametrize("way", [by_operators, through_the_edge])
async def test_a_game_is_played_to_its_end_by_commands(
    scene: Scene, tmp_path: Path, way: Callable[[Scene, Path], dict[str, str]]
) -> None:
    """From inside with a certificate, from outside through the edge with its authority alone."""
    words = ("play", "durak", "--plain", "--level", "easy", "--seats", "2", "--name", "Nino")
    told = way(scene, tmp_path)
    code, said = await asyncio.to_thread(talk, *words, given=told, reply=first_move, tty=False)
    assert code == FINE, "\n".join(said)
    assert any(line.startswith("Enter plays again") for line in said), said[-9:]


async def test_what_was_played_is_found_sound_from_inside(scene: Scene, tmp_path: Path) -> None:
    """And so are the certificates."""
    told, said = by_operators(scene, tmp_path), ""
    for command in (("replay", "last"), ("audit", "--all"), ("doctor",)):
        done = await asyncio.to_thread(run, *command, given=told)
        said = done.stdout
        assert done.returncode == FINE, said + done.stderr
    assert "certificate wallet: it shows wallet, wallet-headless, ends" in said


def first_move(line: str) -> str | None:
    """Always the first move there is; one game is enough."""
    if line.startswith("your move"):
        return "1"
    return "q" if line.startswith("Enter plays again") else None


async def first_message(
    scene: Scene, way: str, request: game_pb2.WatchGameRequest, token: str
) -> game_pb2.WatchGameResponse:
    """A stream's first message, which comes while the stream goes on."""
    if way == "by_grpc":
        answer = await scene.by_grpc("WatchGame", request, token)
        assert answer.code is Code.OK, answer
        return game_pb2.WatchGameResponse.FromString(answer.reply)
    messages = Browser(scene.outside.edge, token).messages(named("WatchGame"), request)
    octets = await asyncio.to_thread(next, messages)
    await asyncio.to_thread(messages.close)  # type: ignore[attr-defined] # it is a generator
    return game_pb2.WatchGameResponse.FromString(octets)


def signed(key: Ed25519PrivateKey, expires_in: float = 600, **changed: Any) -> str:
    """A token as the lobby signs them for players, with changes."""
    now = int(time.time())
    claims = {
        "iss": PLAYERS,
        "sub": "someone",
        "aud": AUDIENCE,
        "role": "player",
        "iat": now,
        "exp": now + int(expires_in),
        **changed,
    }
    return jwt.encode(claims, key, "EdDSA", headers={"kid": key_id(key.public_key())})


@WAYS
async def test_what_needs_a_token_is_refused_at_the_edge(scene: Scene, way: str) -> None:
    """In the words of the services, each reason by itself, and no service is asked."""
    ask, request = getattr(scene, way), game_pb2.ListGamesRequest()
    own = scene.inside.stack.settings.keys()

    players = load_private(own / "players.key")
    stranger = Ed25519PrivateKey.generate()
    cases: dict[str, list[str | None]] = {
        "TOKEN_MISSING": [None],
        "TOKEN_EXPIRED": [signed(players, -60)],
        "TOKEN_INVALID": [
            "nonsense",
            signed(stranger),
            signed(players, aud="elsewhere"),
            signed(players, iss="operators"),
            scene.inside.token("operator"),
            scene.inside.token("lobby"),
        ],
    }
    before = scene.inside.logs().count("ListGames")
    for reason, tokens in cases.items():
        for token in tokens:
            answer = await ask("ListGames", request, token)
            told = (answer.code, answer.reason, answer.status.message)
            assert told[:2] == (Code.UNAUTHENTICATED, reason), answer
            assert answer.status.code == Code.UNAUTHENTICATED.value[0]
            assert answer.status.message == answer.text
    assert scene.inside.logs().count("ListGames") == before
    _, token = await signed_up(scene, way)
    assert (await ask("ListGames", request, token)).code is Code.OK


@WAYS
async def test_what_is_public_needs_no_token(scene: Scene, way: str) -> None:
    """Not even a good one: who renews a token may show the old one."""
    ask, request = getattr(scene, way), lobby_pb2.ListVariantsRequest()
    for token in (None, "nonsense"):
        assert (await ask("ListVariants", request, token)).code is Code.OK


async def test_only_what_players_use_is_reached(scene: Scene) -> None:
    """Neither the bots' service nor health nor reflection; operators' calls are refused there."""
    _, token = await signed_up(scene, "by_grpc")
    channel: Any = scene.outside.channel("lobby")
    for name in (
        named("ListBots"),
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(name)(b"", metadata=[("authorization", f"Bearer {token}")])
        assert caught.value.code() is Code.UNIMPLEMENTED
    answer = await scene.by_grpc("TrialBalance", wallet_pb2.TrialBalanceRequest(), token)
    assert (answer.code, answer.reason) == (Code.PERMISSION_DENIED, "ROLE_NOT_ALLOWED")


async def test_who_watches_the_health_of_the_edge_is_told_that_it_tells_none(scene: Scene) -> None:
    """Without a token, and in the words by which a client that balances calls goes on."""
    channel: Any = scene.outside.channel("lobby")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(HEALTH)(b"")
    assert caught.value.code() is Code.UNIMPLEMENTED


async def test_a_page_of_any_origin_may_ask(scene: Scene) -> None:
    """A browser's question beforehand is answered without a token."""
    status, headers = await asyncio.to_thread(
        Browser(scene.outside.edge).preflight, named("ListGames")
    )
    assert status == 200
    assert headers["access-control-allow-origin"] == "https://play.example"
    assert "authorization" in headers["access-control-allow-headers"]


class Ear(grpc.GenericRpcHandler):
    """A service that answers every call with nothing and remembers what came with the last one."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | bytes]] = []

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """One handler for everything."""
        if details.method.startswith("/grpc.health"):
            serving = HealthCheckResponse(status=HealthCheckResponse.SERVING).SerializeToString()
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: serving)

        def hear(_request: bytes, context: grpc.ServicerContext) -> bytes:
            self.heard = list(context.invocation_metadata())
            return b""

        return grpc.unary_unary_rpc_method_handler(hear)


async def test_services_take_from_the_edge_what_players_say_alone(scene: Scene) -> None:
    """Whoever has the edge's certificate speaks for no service and no operator with it."""
    place = scene.inside.stack.data / "tls"
    scene.authority.lay(place, EDGE)
    as_edge = scene.inside.stack.settings.model_copy(update=given(place / EDGE))
    for role in ("operator", "lobby", "wallet"):
        held = scene.inside.token(role)
        client = Client(as_edge.address("game"), as_edge, lambda held=held: held, service="game")  # type: ignore[misc]
        call: Any = client.channel.unary_unary(named("ListGames"))
        with pytest.raises(Refused) as caught:
            await client.call(call, b"")
        assert (caught.value.kind, caught.value.reason) == (Kind.DENIED, "CERTIFICATE_MISMATCH")
        await client.close()


async def test_the_edges_own_certificate_is_exchanged_while_it_runs(scene: Scene) -> None:
    """The one it shows to services, to each of them."""
    edge, renewed = scene.outside.edge, scene.authority.files(EDGE)
    swap(edge.folder, "inside", renewed)
    number = x509.load_pem_x509_certificate(renewed["tls.crt"]).serial_number
    async with asyncio.timeout(SECONDS):
        while edge.shows().count(number) < len(PROXIED):
            await asyncio.sleep(0.1)
    answer = await scene.by_grpc("ListVariants", lobby_pb2.ListVariantsRequest())
    assert answer.code is Code.OK


async def test_services_hear_the_callers_address(tmp_path: Path) -> None:
    """The one his connection comes from and no other, whatever he says of it himself; what steers
    the edge from inside does not from outside."""
    ear, server = Ear(), grpc.aio.server()
    server.add_generic_rpc_handlers((ear,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with edge(tmp_path, dict.fromkeys(PROXIED, port), '{"keys": []}') as before:
        trusted = grpc.ssl_channel_credentials(before.trusted)
        async with grpc.aio.secure_channel(before.address, trusted) as channel:
            said = [
                ("x-forwarded-for", "10.9.8.7"),
                ("x-envoy-external-address", "10.9.8.7"),
                ("x-envoy-upstream-rq-timeout-ms", "1"),
                ("x-envoy-retry-on", "5xx"),
            ]
            call: Any = channel.unary_unary(named("ListVariants"))
            await call(b"", metadata=said)
    heard = dict(ear.heard)
    assert "10.9.8.7" not in str(heard.values())
    ip_address(heard["x-forwarded-for"])  # one; in place of the loopback's, Envoy tells its host's
    assert not {"x-envoy-upstream-rq-timeout-ms", "x-envoy-retry-on"} & heard.keys()
    await server.stop(None)


async def test_an_address_has_a_limit(scene: Scene) -> None:
    """Whoever calls without pause is refused as by the services, and may come again."""
    request = lobby_pb2.ListVariantsRequest(variant=variant_pb2.VARIANT_AZI)
    refused: list[Answer] = []
    async with asyncio.timeout(SECONDS):
        while not refused:
            some = (scene.by_grpc("ListVariants", request) for _ in range(200))
            answers = await asyncio.gather(*some)
            refused = [answer for answer in answers if answer.code is not Code.OK]
    for answer in refused:
        assert (answer.code, answer.reason) == (Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    packed = {detail.TypeName(): detail.value for detail in refused[0].status.details}
    retry = RetryInfo.FromString(packed["google.rpc.RetryInfo"]).retry_delay
    await asyncio.sleep(retry.ToTimedelta().total_seconds())
    assert (await scene.by_grpc("ListVariants", request)).code is Code.OK


async def test_keys_are_exchanged_while_the_edge_runs(scene: Scene) -> None:
    """A new set of keys is believed as soon as it lies there; nothing is started anew."""
    folder, request = scene.inside.stack.settings.keys(), game_pb2.ListGamesRequest()
    make_next(folder, PLAYERS, 2)
    token = signed(load_private(folder / "players.2.key"), sub=NOBODY)
    answer = await scene.by_grpc("ListGames", request, token)
    assert (answer.code, answer.reason) == (Code.UNAUTHENTICATED, "TOKEN_INVALID")
    jwks = key_set(load_public(folder), PLAYERS)
    swap(scene.outside.edge.folder, "jwks", {"players.json": jwks.encode()})
    await until(
        lambda: scene.by_grpc("ListGames", request, token), lambda answer: answer.code is Code.OK
    )


async def test_the_certificate_is_exchanged_while_the_edge_runs(scene: Scene) -> None:
    """Whoever connects is shown the new one as soon as it lies there."""
    edge = scene.outside.edge
    swap(edge.folder, "tls", certificate(edge.folder))
    async with asyncio.timeout(SECONDS):
        while True:
            with suppress(ssl.SSLCertVerificationError):
                answer = await scene.by_web("ListVariants", lobby_pb2.ListVariantsRequest())
                break
            await asyncio.sleep(0.1)
    assert answer.code is Code.OK


async def test_an_authority_is_exchanged_while_players_come(scene: Scene) -> None:
    """Step by step on every process, Envoy among them, as the guide says: no call fails, from
    outside or from one service to another, and in the end only the new one is believed."""
    new, place, edge = Authority(), scene.inside.stack.data / "tls", scene.outside.edge
    failed: list[Answer] = []

    async def come() -> None:
        for number in itertools.count():
            request = identity_pb2.SignUpRequest(request_id=f"authority-{number:08}")
            request.display_name = "Nino"
            answer = await scene.by_grpc("SignUp", request)
            failed.extend([answer] if answer.code is not Code.OK else [])
            await asyncio.sleep(0.1)

    coming = asyncio.create_task(come())
    old, both = scene.authority, [scene.authority, new]
    for by, trusting, seen in ((old, both, both), (new, both, [new]), (new, [new], [new])):
        by.lay_all(place, trusting)
        inside = by.files(EDGE, trusting=trusting)
        swap(edge.folder, "inside", inside)
        number = x509.load_pem_x509_certificate(inside["tls.crt"]).serial_number
        visitor = new.files(OPERATORS, trusting=seen)
        async with asyncio.timeout(SECONDS):
            while edge.shows().count(number) < len(PROXIED) or not await believe(scene, visitor):
                await asyncio.sleep(0.1)
        assert not coming.done()
    async with asyncio.timeout(SECONDS):
        while await believe(scene, old.files(OPERATORS, trusting=[new])):
            await asyncio.sleep(0.1)
    coming.cancel()
    assert failed == []


async def test_the_edge_asks_its_callers_to_leave_before_it_ends(scene: Scene) -> None:
    """What the manifest runs before the end of a pod: it is no longer ready for new callers, and a
    call that comes meanwhile is answered. It is the last test here."""
    (container,) = pod(objects_of("prod"), "edge")["containers"]
    *shell, script = container["lifecycle"]["preStop"]["exec"]["command"]
    script = script.replace("9901", str(scene.outside.edge.ports["admin"]))
    done = await asyncio.create_subprocess_exec(
        *shell, script.replace("sleep 25", "sleep 0"), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await done.communicate()
    assert done.returncode == 0
    assert said.splitlines()[0] == b"HTTP/1.1 200 OK\r"[:15]
    answer = await scene.by_grpc("ListVariants", lobby_pb2.ListVariantsRequest())
    assert answer.code is Code.OK
    async with asyncio.timeout(SECONDS):
        while await asyncio.to_thread(scene.outside.edge.connects):
            await asyncio.sleep(0.1)
