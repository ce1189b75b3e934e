"""TLS between services: who is let in by his certificate, and who may speak over which."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from services.cli.stack import free_ports
from services.kernel.errors import Kind, Refused
from services.runtime.clients import ServiceClient
from services.runtime.identity import EDGE
from services.runtime.keys import ISSUERS, PLAYERS, _new_private_key
from services.runtime.keys import OPERATORS as BY_OPERATORS
from services.runtime.server import CannotStart, Running
from services.runtime.settings import SERVICES, Settings
from tests.authority import OPERATORS, Authority
from tests.runtime.echo import NAME, Caller, Echo, serving, settings, token
from tests.runtime.test_metrics import asked

CERTIFIED = (*SERVICES, EDGE, OPERATORS)


@dataclass
class Scene:
    """A service, `wallet`, that takes calls by certificate alone."""

    folder: Path
    authority: Authority
    echo: Echo
    server: Running
    settings: Settings

    def who(self, *names: str, issuer: str | None = None, **changes: Any) -> Caller:
        """A caller with a certificate of these names and a token of this issuer."""
        own = self.authority.lay(self.folder / "callers", *names) | changes
        held = None if issuer is None else token(self.settings, issuer, subject(issuer))
        return self.to(self.settings.model_copy(update=own), held)

    def to(self, given: Settings, held: str | None = None) -> Caller:
        """A caller by settings."""
        return Caller(self.server, given, held, service="wallet")

    async def refusal(self, caller: Caller, name: str = "Echo") -> Refused:
        """How a call is refused, before it is served."""
        served = self.echo.calls
        async with caller:
            with pytest.raises(Refused) as caught:
                await caller.unary(name)
        assert self.echo.calls == served
        return caught.value


def subject(issuer: str) -> str:
    """Whom an issuer's token names."""
    return {PLAYERS: "p-1", BY_OPERATORS: "olga"}.get(issuer, issuer)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The service with a certificate of its own, and health at a plain port."""
    authority, echo = Authority(), Echo()
    own = authority.lay(tmp_path / "own", "wallet", "wallet-headless", "127.0.0.1")
    given = settings(tmp_path, **own)
    async with serving(echo, given) as server:
        yield Scene(tmp_path, authority, echo, server, given)


async def test_who_may_speak_over_which_certificate(scene: Scene) -> None:
    """Every token over every certificate: a service over its own alone, and nobody else over that;
    the edge hands on players, and no service and no operator."""
    for name in CERTIFIED:
        for issuer in ISSUERS:
            good = issuer == name if name in SERVICES else issuer not in SERVICES
            good = good and not (name == EDGE and issuer == BY_OPERATORS)
            caller = scene.who(name, issuer=issuer)
            if good:
                async with caller:
                    said = (await caller.unary("Echo")).serving_data
                assert said.split()[0].endswith(f":{subject(issuer)}")
            else:
                refused = await scene.refusal(caller)
                assert (refused.kind, refused.reason) == (Kind.DENIED, "CERTIFICATE_MISMATCH")


@pytest.mark.parametrize("names", [("game", "ai"), ("game", EDGE), ("*.game", "games")])
async def test_a_certificate_of_two_serves_for_neither(
    scene: Scene, names: tuple[str, ...]
) -> None:
    """Nor does one whose name only looks like a service's."""
    for issuer in ("game", "ai"):
        refused = await scene.refusal(scene.who(*names, issuer=issuer))
        assert refused.reason == "CERTIFICATE_MISMATCH"


async def test_a_certificate_without_names_speaks_for_nobody(scene: Scene) -> None:
    """An address or a mail address is no name; what is public is answered."""
    for issuer in ISSUERS:
        refused = await scene.refusal(scene.who("game@example.org", issuer=issuer))
        assert refused.reason == "CERTIFICATE_MISMATCH"
    async with scene.who("127.0.0.1") as caller:
        assert (await caller.unary("Echo")).serving_data.startswith("public:")


async def test_a_certificate_is_no_token(scene: Scene) -> None:
    """Who shows none is nobody, whatever his certificate; roles are looked at as ever."""
    assert (await scene.refusal(scene.who("game"), "Mine")).reason == "TOKEN_MISSING"
    assert (await scene.refusal(scene.who("ai", issuer="ai"), "Mine")).reason == "ROLE_NOT_ALLOWED"
    async with scene.who("game", issuer="game") as caller:
        assert (await caller.unary("Mine")).serving_data.startswith("service:game ")


async def test_a_service_says_that_its_own_certificate_is_wrong(scene: Scene) -> None:
    """Who called it is not told that he may not."""
    own = scene.authority.lay(scene.folder / "callers", "ai")
    given = scene.settings.model_copy(update=own)
    held = token(scene.settings, "game", "game")
    client = ServiceClient(scene.server.address, given, lambda: held, service="wallet")
    method: Any = client.channel.unary_unary(f"/{NAME}/Mine")
    with pytest.raises(Refused) as caught:
        await client.call(method, b"")
    assert (caught.value.kind, caught.value.reason) == (Kind.UNAVAILABLE, "PEER_FAILED")
    await client.close()


async def test_who_is_not_let_in(scene: Scene) -> None:
    """No certificate, one of another authority, one that has ended, no TLS at all: nothing of the
    service is reached, and the caller learns it at once, in words."""
    stranger = Authority()
    ended = scene.authority.files("game", days=-1)
    (scene.folder / "ended").mkdir()
    for file, content in ended.items():
        (scene.folder / "ended" / file).write_bytes(content)
    other = stranger.lay(scene.folder / "other", "game", trusting=[scene.authority])
    none = {"tls_cert_file": None, "tls_key_file": None}
    held = token(scene.settings, "game", "game")
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "none": (other | none, "hung up"),
        "of another authority": (other, "hung up"),
        "ended": (
            {name: scene.folder / "ended" / path.name for name, path in other.items()},
            "hung up",
        ),
        "plain": (none | {"tls_ca_file": None}, "TLS"),
    }
    for case, (changes, word) in cases.items():
        given = scene.settings.model_copy(update=changes)
        refused = await scene.refusal(scene.to(given, held))
        assert (refused.kind, refused.reason) == (Kind.UNAVAILABLE, "PEER_UNAVAILABLE"), case
        assert word in refused.message, case


@pytest.mark.parametrize("case", ["another authority", "ended", "another service", "plain"])
async def test_which_service_is_not_believed(tmp_path: Path, case: str) -> None:
    """One whose certificate is of another authority, has ended or names another service, and one
    that has none: no token is sent there."""
    authority, echo = Authority(), Echo()
    shown = Authority() if case == "another authority" else authority
    name = "lobby" if case == "another service" else "wallet"
    days = -1 if case == "ended" else 1
    own = shown.lay(tmp_path / "own", name, trusting=[authority], days=days)
    if case == "plain":
        own = {}
    given = settings(tmp_path, **own)
    async with serving(echo, given) as server:
        scene = Scene(tmp_path, authority, echo, server, given)
        refused = await scene.refusal(scene.who("game", issuer="game"))
    assert (refused.kind, refused.reason) == (Kind.UNAVAILABLE, "PEER_UNAVAILABLE")
    assert "certificate" in refused.message


async def test_from_outside_the_name_is_the_address(scene: Scene) -> None:
    """Whoever has no certificate of his own goes by the name that he calls."""
    authority = Authority()
    for name, good in (("localhost", True), ("wallet", False)):
        own = authority.lay(scene.folder / "edge", name)
        credentials = grpc.ssl_server_credentials(
            [(own["tls_key_file"].read_bytes(), own["tls_cert_file"].read_bytes())]
        )
        server = grpc.aio.server()
        scene.echo.add(server)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        alone = {"tls_cert_file": None, "tls_key_file": None, "tls_ca_file": own["tls_ca_file"]}
        given = scene.settings.model_copy(update=alone)
        running = Running(f"localhost:{port}", port, scene.server.drain, scene.server.died)
        caller = Caller(running, given, None, service="wallet")
        async with caller:
            with pytest.raises(Refused) as caught:
                await caller.unary("Unlisted")
        reached = caught.value.reason != "PEER_UNAVAILABLE"
        assert reached is good, caught.value
        await server.stop(None)


async def test_health_alone_stays_plain(tmp_path: Path) -> None:
    """A probe has no certificate: it is answered at a port of its own, where nothing else is, and a
    token brought there is believed by nobody."""
    authority, echo = Authority(), Echo()
    own = authority.lay(tmp_path / "own", "wallet")
    address = f"127.0.0.1:{free_ports()['lobby']}"
    given = settings(tmp_path, **own, health_listen=address)
    held = [("authorization", f"Bearer {token(given, 'game', 'game')}")]
    async with (
        serving(echo, given),
        grpc.aio.insecure_channel(address) as channel,
    ):
        health: Any = HealthStub(channel)
        answer = await health.Check(HealthCheckRequest())
        assert answer.status == HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health.Check(HealthCheckRequest(), metadata=held)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        served: Any = channel.unary_unary(f"/{NAME}/Echo")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_service_does_not_start_with_half_of_it(tmp_path: Path) -> None:
    """Authorities alone are for clients; files that are no good are named, without what is in
    them."""
    own = Authority().lay(tmp_path / "own", "wallet")
    other = Authority().lay(tmp_path / "other", "wallet")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN PRIVATE KEY-----\nsecret\n", "utf-8")
    odd = tmp_path / "odd"
    odd.write_bytes(_new_private_key())  # Ed25519
    cases: list[tuple[dict[str, Any], str]] = [
        (own | {"tls_key_file": odd}, f"{odd}: not a key of RSA"),
        ({"tls_ca_file": own["tls_ca_file"]}, "KOZYR_TLS_CERT_FILE"),
        (own | {"tls_key_file": other["tls_key_file"]}, str(other["tls_key_file"])),
        (own | {"tls_key_file": broken}, str(broken)),
        (own | {"tls_cert_file": broken}, str(broken)),
        (own | {"tls_ca_file": broken}, str(broken)),
        (own | {"tls_ca_file": tmp_path / "gone"}, "gone"),
    ]
    for changes, named in cases:
        with pytest.raises(CannotStart) as caught:
            async with serving(Echo(), settings(tmp_path, **changes)):
                raise AssertionError
        assert named in str(caught.value)
        assert "secret" not in str(caught.value)


async def test_metrics_tell_when_the_certificate_ends(tmp_path: Path) -> None:
    """In seconds from now, of this process."""
    own = Authority().lay(tmp_path / "own", "wallet", days=3)
    given = settings(tmp_path, **own, metrics_listen="127.0.0.1:0")
    async with serving(Echo(), given) as server:
        assert server.metrics_port is not None
        page = (await asked(server.metrics_port, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
    (line,) = [
        each
        for each in page.splitlines()
        if each.startswith('kozyr_tls_certificate_left_seconds{service="wallet"}')
    ]
    assert 0 <= 3 * 86_400 - float(line.split()[1]) < 60
