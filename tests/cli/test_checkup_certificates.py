"""What `kozyr doctor` says of certificates: each fault is made, and it must name it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from services.cli.checkup import certificates, reachable
from services.cli.checkup.symptoms import Level, Symptom
from services.cli.main import main
from services.cli.outcome import UNREACHABLE, WRONG
from services.cli.stack import TLS, Stack
from services.runtime.server import Running
from services.runtime.settings import SERVICES, Settings
from tests.authority import OPERATORS, Authority
from tests.runtime.echo import Echo, serving, settings

DAYS = 30.0


@dataclass
class Scene:
    """A service with a certificate, and where an operator's lies."""

    folder: Path
    authority: Authority
    server: Running
    plain: Settings

    def own(self, *names: str, days: float = DAYS, **changes: Any) -> Settings:
        """An operator's settings, with a certificate of these names."""
        laid = self.authority.lay(self.folder / token_hex(4), *names, days=days)
        return self.to(laid | changes)

    def to(self, given: dict[str, Any]) -> Settings:
        """Settings that lead to the service, and to nobody else."""
        there = dict.fromkeys(("lobby_address", "game_address", "ai_address"), "127.0.0.1:9")
        there["wallet_address"] = self.server.address
        return self.plain.model_copy(update=there | given)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """It serves health alone, which is all that is asked here."""
    authority = Authority()
    plain = settings(tmp_path)
    laid = authority.lay(tmp_path / "theirs", "wallet", days=DAYS)
    async with serving(Echo(), plain.model_copy(update=laid)) as server:
        yield Scene(tmp_path, authority, server, plain)


def worst(found: list[Symptom]) -> str:
    """All that is not in order, in one text."""
    return "\n".join(
        f"{each.level} {each.check}: {each.said}" for each in found if each.level is not Level.OK
    )


async def wallet(given: Settings) -> str:
    """What is said of the one service that is there."""
    found, _ = await reachable.look(given)
    return next(each.said for each in found if each.check == "service wallet")


async def test_what_is_in_order_is_found_so(scene: Scene) -> None:
    """Our own, and the one that the service shows; without TLS there is nothing to look at."""
    given = scene.own(OPERATORS)
    assert worst(certificates.look(given)) == ""
    (shown,) = await certificates.served(given)
    assert shown.level is Level.OK
    assert "wallet, ends" in shown.said
    assert "is not wallet" in await wallet(given)  # it was reached: it has no wallet's services
    assert worst(certificates.look(scene.plain)) == ""
    assert await certificates.served(scene.plain) == []


async def test_our_own_is_looked_at(scene: Scene, tmp_path: Path) -> None:
    """Its end, its authority, its key, its name, and whether it can be read at all."""
    other = Authority().lay(tmp_path / "other", OPERATORS, days=DAYS)
    cases = [
        (scene.own(OPERATORS, days=-1), "bad certificates: our own has ended"),
        (scene.own(OPERATORS, days=3), "warn certificates: our own ends in"),
        (scene.own("wallet"), "warn certificates: ours bears the name wallet"),
        (scene.own("edge"), "warn certificates: ours bears the name edge"),
        (scene.own("127.0.0.1"), "of nobody"),
        (
            scene.own(OPERATORS, tls_ca_file=other["tls_ca_file"]),
            f"bad certificates: no authority of {other['tls_ca_file']} has issued",
        ),
        (
            scene.own(OPERATORS, tls_key_file=other["tls_key_file"]),
            f"bad certificates: {other['tls_key_file']}: not the key of the certificate",
        ),
        (scene.own(OPERATORS, tls_cert_file=tmp_path / "none"), "none: No such file"),
        (scene.own(OPERATORS, tls_ca_file=other["tls_key_file"]), "not a certificate in PEM"),
    ]
    seen = scene.own(OPERATORS)
    assert seen.tls_key_file is not None
    seen.tls_key_file.chmod(0o644)
    cases.append((seen, f"bad certificates: {seen.tls_key_file} can be read by others"))
    for given, said in cases:
        assert said in worst(certificates.look(given))
        assert "PRIVATE" not in str(certificates.look(given))


async def test_why_a_service_is_not_reached_is_told(scene: Scene, tmp_path: Path) -> None:
    """Where one side alone speaks TLS, where one does not believe the other, where ours is no
    good."""
    stranger = Authority().lay(tmp_path / "strange", OPERATORS, days=DAYS)
    good = scene.own(OPERATORS)
    assert "speaks TLS" in await wallet(scene.to({}))
    assert "does not take our certificate" in await wallet(scene.to(stranger))
    assert "were not" not in await wallet(good)
    unread = scene.own(OPERATORS, tls_ca_file=tmp_path / "none")
    assert "our certificates cannot be read" in await wallet(unread)
    async with serving(Echo(), scene.plain) as plain:
        given = good.model_copy(update={"wallet_address": plain.address})
        assert "speaks no TLS" in await wallet(given)
    assert "does not answer" in await wallet(good.model_copy(update={"wallet_address": "[::1]:9"}))


def test_a_command_says_that_our_certificates_are_no_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line, and how to learn more."""
    monkeypatch.setenv("KOZYR_TOKEN", "token")
    monkeypatch.setenv("KOZYR_TLS_CA_FILE", str(tmp_path / "none"))
    assert main(["games", "--data", str(tmp_path)]) == UNREACHABLE
    said = capsys.readouterr().err
    assert "CERTIFICATE_UNREADABLE" in said
    assert "kozyr doctor" in said


def test_the_doctor_looks_on_where_our_certificates_are_no_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To who is sent to it for that it says why, also where it has an operator's token."""
    monkeypatch.setenv("KOZYR_TLS_CA_FILE", str(tmp_path / "none"))
    for token in ("", "token"):
        monkeypatch.setenv("KOZYR_TOKEN", token)
        assert main(["doctor", "--data", str(tmp_path)]) == WRONG
        said = capsys.readouterr()
        assert f"BAD  certificates: {tmp_path / 'none'}: No such file" in said.out
        assert not said.err


def test_a_stack_of_this_machine_is_plain_whatever_the_shell_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has certificates has them for elsewhere; what a service is given apart it is given."""
    for name in TLS:
        monkeypatch.setenv(f"KOZYR_{name.upper()}", str(tmp_path / "none"))
    stack = Stack(tmp_path, apart={"ai": {"KOZYR_TLS_CA_FILE": "own"}})
    assert [getattr(stack.settings, name) for name in TLS] == [None, None, None]
    for service in SERVICES:
        told = {key: value for key, value in stack._environment(service).items() if "_TLS_" in key}
        assert told == ({"KOZYR_TLS_CA_FILE": "own"} if service == "ai" else {})
