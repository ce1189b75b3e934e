"""Certificates are exchanged while calls go on: nobody fails, and who is no longer believed is
out."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.rpc.error_details_pb2 import DebugInfo, RequestInfo
from structlog.testing import capture_logs

from services.kernel.errors import Refused
from services.runtime import identity, metrics, renewal
from services.runtime.certificates import Certificates
from services.runtime.renewal import RenewedChannel
from services.runtime.server import Running
from services.runtime.settings import Settings
from tests.authority import Authority, given, swap
from tests.runtime.echo import Caller, Echo, serving, settings, token

REREAD_MS = 50
SECONDS = 20.0


class Seeing(Echo):
    """A service that remembers by which names it was called last."""

    names: frozenset[str] = frozenset()

    async def echo(self, request: RequestInfo, context: Any) -> RequestInfo:
        """As `Echo`."""
        self.names = identity.shown(context)
        return await super().echo(request, context)


@dataclass
class Scene:
    """A service and a caller that calls without pause; both read their certificates here."""

    folder: Path
    echo: Seeing
    server: Running
    caller: Caller
    settings: Settings
    failed: list[str] = field(default_factory=list)
    made: int = 0

    @property
    def channel(self) -> RenewedChannel:
        """The caller's channel."""
        found = self.caller.client.channel
        assert isinstance(found, RenewedChannel)
        return found

    @property
    def generations(self) -> int:
        """How many channels the caller has open."""
        return 1 + len(self.channel._before)

    async def call(self) -> None:
        """For ever: call, and remember what failed."""
        while True:
            try:
                await self.caller.unary("Mine")
            except Refused as refused:
                self.failed.append(f"{refused.reason} {refused.message}")
            self.made += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait, while calls go on, until something holds."""
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def calling(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """Two who call at once and without pause."""
    monkeypatch.setattr(renewal, "GRACE_S", 0.1)
    own = authority.lay(folder, "wallet")
    others = authority.lay(folder, "game", "game-0")
    echo = Seeing()
    fast = {"key_reread_ms": REREAD_MS, "key_announce_ms": 2 * REREAD_MS}
    here = settings(folder, **own, **fast)
    there = here.model_copy(update=others)
    held = token(here, "game", "game")
    async with serving(echo, here) as server, Caller(server, there, held, "wallet") as caller:
        scene = Scene(folder, echo, server, caller, here)
        calls = [asyncio.create_task(scene.call()) for _ in range(2)]
        try:
            yield scene
        finally:
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nobody looks for cycles."""
    gc.disable()
    yield
    gc.enable()


def connections() -> float:
    """How many connections the service has: over each its health is watched."""
    streams = metrics.STREAMS.of("/grpc.health.v1.Health/Watch")
    (sample,) = next(iter(streams.collect())).samples
    return sample.value


async def test_certificates_are_exchanged_under_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both sides, again and again: no call fails, a stream that began before goes on, what was
    replaced is closed once nothing is on it, and not before."""
    authority = Authority()
    async with calling(tmp_path, authority, monkeypatch) as scene:
        await scene.until(lambda: scene.made > 10)
        watched = asyncio.create_task(read(scene.caller.stream("Watch")))
        await scene.echo.entered.wait()
        for turn in range(1, 4):
            authority.lay(tmp_path, "wallet")
            authority.lay(tmp_path, "game", f"game-{turn}")
            await scene.until(lambda name=f"game-{turn}": name in scene.echo.names)  # type: ignore[misc]
        await scene.until(lambda: scene.generations == 2)
        assert not watched.done()
        watched.cancel()
        await asyncio.gather(watched, return_exceptions=True)
        await scene.until(lambda: scene.generations == 1)
        assert scene.failed == []


@pytest.mark.usefixtures("uncollected")
async def test_no_connection_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a certificate that was replaced, though nobody looks for cycles."""
    authority, before = Authority(), connections()
    async with calling(tmp_path, authority, monkeypatch) as scene:
        for turn in range(3):
            authority.lay(tmp_path, "game", f"game-{turn}")
            await scene.until(lambda name=f"game-{turn}": name in scene.echo.names)  # type: ignore[misc]
        await scene.until(lambda: (scene.generations, connections()) == (1, before + 1))


async def read(stream: AsyncIterator[DebugInfo]) -> None:
    """Read a stream to its end."""
    async for _ in stream:
        pass


async def test_an_authority_is_exchanged_under_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First both are trusted everywhere, then certificates are of the new one, then it alone is
    trusted: no call fails, and afterwards a certificate of the old one is refused."""
    old, new = Authority(), Authority()
    steps: list[tuple[Authority, Sequence[Authority]]] = [
        (old, [old, new]),
        (new, [old, new]),
        (new, [new]),
    ]
    async with calling(tmp_path, old, monkeypatch) as scene:
        for turn, (by, trusting) in enumerate(steps):
            for names in (("wallet",), ("game", f"step-{turn}")):
                by.lay(tmp_path, *names, trusting=trusting)
                await asyncio.sleep(2 * REREAD_MS / 1_000)
            await scene.until(lambda name=f"step-{turn}": name in scene.echo.names)  # type: ignore[misc]
            # whoever connects from now on is shown the new one too
            await connects(scene, given(tmp_path / "game"))
        assert scene.failed == []
        stale = old.lay(tmp_path / "stale", "game", trusting=[new])
        with pytest.raises(Refused, match="PEER_UNAVAILABLE"):
            await connects(scene, stale)


async def connects(scene: Scene, shown: dict[str, Any]) -> None:
    """A call over a connection of its own; raises Refused."""
    held = token(scene.settings, "game", "game")
    there = scene.settings.model_copy(update=shown)
    async with Caller(scene.server, there, held, "wallet") as caller:
        await caller.unary("Mine")


async def test_what_cannot_be_used_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that does not fit, half a file, an empty one: calls go on by what was read before, the
    log says which file, and what is whole again is taken up."""
    authority = Authority()
    async with calling(tmp_path, authority, monkeypatch) as scene:
        good = authority.files("game", "game-1")
        broken = {
            "tls.key": authority.files("game")["tls.key"],
            "tls.crt": good["tls.crt"][:200],
            "ca.crt": b"",
        }
        for file, content in broken.items():
            with capture_logs() as lines:
                swap(tmp_path, "game", good | {file: content})
                await scene.until(lambda lines=lines: problems(lines) != [])  # type: ignore[misc]
            assert file in problems(lines)[0]
            assert "PRIVATE" not in str(lines)
            before = scene.made
            await scene.until(lambda before=before: scene.made > before + 10)  # type: ignore[misc]
        swap(tmp_path, "game", good)
        await scene.until(lambda: "game-1" in scene.echo.names)
        assert scene.failed == []


def problems(lines: Sequence[MutableMapping[str, Any]]) -> list[str]:
    """What a log says of certificates that cannot be used."""
    return [each["problem"] for each in lines if each["event"] == "certificate_not_read"]


def test_files_are_looked_at_now_and_then(tmp_path: Path) -> None:
    """Not at every call; and what did not change is the same object, so that nothing is made
    anew."""
    authority = Authority()
    now = [0.0]
    authority.lay(tmp_path, "game")
    held = Settings(data_folder=tmp_path, **given(tmp_path / "game"))
    certificates = Certificates(held, lambda: now[0])
    first = certificates.current()
    authority.lay(tmp_path, "game")
    assert certificates.current() is first
    now[0] = held.key_reread_ms / 1_000
    second = certificates.current()
    assert second.certificate != first.certificate
    for path in given(tmp_path / "game").values():
        path.touch()
    now[0] *= 2
    assert certificates.current() is second
    assert "PRIVATE" not in repr(second)


class Visitor:
    """Whoever speaks TLS by hand: he keeps his sessions, and shows them in place of all else."""

    def __init__(self, port: int, shown: dict[str, Any]) -> None:
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.set_alpn_protocols(["h2"])
        self._context.load_cert_chain(shown["tls_cert_file"], shown["tls_key_file"])

    async def comes(self, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
        """The session of a connection on which the service speaks; None where it does not."""
        return await asyncio.to_thread(self._comes, session)

    def _comes(self, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        try:
            with (
                socket.create_connection(("127.0.0.1", self._port), SECONDS) as line,
                self._context.wrap_socket(line, session=session) as secured,
            ):
                secured.send(PREFACE)
                return secured.session if secured.recv(64) else None
        except OSError:
            return None


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a client of HTTP/2 says first."""


@pytest.mark.parametrize("case", ["ended", "authority exchanged"])
async def test_a_session_of_before_is_no_way_around_a_certificate(
    tmp_path: Path, case: str
) -> None:
    """Who is no longer let in by his certificate is not by the session that he got with it."""
    authority, other = Authority(), Authority()
    own = authority.lay(tmp_path, "wallet", trusting=[authority, other])
    here = settings(tmp_path, **own, key_reread_ms=REREAD_MS, key_announce_ms=2 * REREAD_MS)
    async with serving(Echo(), here) as server, asyncio.timeout(SECONDS):
        shown = authority.lay(tmp_path, "game", days=3 / 86_400 if case == "ended" else 1)
        visitor = Visitor(server.port, shown)
        session = await visitor.comes()
        assert session is not None
        if case == "authority exchanged":
            other.lay(tmp_path, "wallet", trusting=[other])
        while await visitor.comes() is not None:
            await asyncio.sleep(0.1)
        assert await visitor.comes(session) is None
