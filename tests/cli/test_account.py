"""`kozyr account` against a lobby: a guest gets a password and comes back on another machine."""

import io
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.cli import account
from services.cli.main import refusal_code, refusal_line
from services.cli.outcome import Failure
from services.client.player import Player
from services.client.profile import ProfileFile
from services.kernel.errors import Refused
from tests.services.lobby.hall import lobby_hall

LOG = re.compile(r"\d{4}-\d\d-\d\d \d\d:")
"""How a line of the lobby's begins, which runs in the same process."""
PASSWORD = "a password that is long"


class Person:
    """Somebody with machines on which he types."""

    def __init__(
        self, homes: Path, patch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
    ) -> None:
        self.homes = homes
        self.patch = patch
        self.said = said

    async def types(self, *typed: str, on: str = "first", word: str = "", code: int = 0) -> str:
        """Run a command on a machine; what it says. Fails unless it ends with this code."""
        self.patch.setenv("KOZYR_HOME", str(self.homes / on))
        self.patch.setattr(sys, "stdin", io.StringIO(word + "\n"))
        told = ""
        try:
            ended = await account._run(account.parser().parse_args(typed))
        except Failure as failure:
            ended, told = failure.code, failure.line
        except Refused as refused:
            ended, told = refusal_code(refused), refusal_line(refused)
        said = [*self.said.readouterr().out.splitlines(), told]
        assert ended == code, told
        return "\n".join(line for line in said if not LOG.match(line))


@pytest.fixture
async def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Person]:
    """A guest who has a profile on his first machine, and a lobby."""
    async with lobby_hall(tmp_path / "data") as hall:
        monkeypatch.setenv("KOZYR_DATA", str(tmp_path / "data"))
        monkeypatch.setenv("KOZYR_LOBBY_ADDRESS", hall.address)
        player = Player(hall.others.settings.model_copy(update={"lobby_address": hall.address}))
        file = ProfileFile(folder=tmp_path / "homes" / "first")
        file.write(await player.sign_up("Nino"))
        await player.close()
        yield Person(tmp_path / "homes", monkeypatch, capsys)


async def test_a_guest_comes_back_on_another_machine(person: Person) -> None:
    """By a password that is read and never shown; the machine has a key of its own from then on."""
    assert "a guest" in await person.types("show")
    said = await person.types("password", "--login", "Nino.1", word=PASSWORD)
    assert "you sign in as nino.1" in said
    came = await person.types("sign-in", "nino.1", "--device", "Laptop", on="second", word=PASSWORD)
    assert "you are Nino here" in came
    kept = ProfileFile(folder=person.homes / "second")
    assert kept.path.stat().st_mode & 0o777 == 0o600
    profile = kept.read()
    assert profile is not None
    assert (profile.secret, len(profile.device_key)) == ("", 32)
    assert repr(profile.device_key) not in repr(profile)
    shown = await person.types("show", on="second")
    assert "device" in shown
    assert "by key" in shown
    assert PASSWORD not in said + came + shown
    again = await person.types("sign-in", "nino.1", on="second", word=PASSWORD, code=2)
    assert "is somebody's" in again


async def test_a_lost_machine_is_shut_out(person: Person) -> None:
    """Its key is removed, its sessions end; a copied profile opens nothing after a new secret."""
    await person.types("password", "--login", "nino", word=PASSWORD)
    await person.types("sign-in", "nino", on="second", word=PASSWORD)
    told = json.loads(await person.types("show", "--json"))
    (device,) = told["devices"]
    await person.types("remove-device", device["device_id"])
    assert "SIGN_IN_REFUSED" in await person.types("show", on="second", code=1)
    copied = (person.homes / "first" / "player.json").read_text("utf-8")
    (person.homes / "third").mkdir()
    (person.homes / "third" / "player.json").write_text(copied, "utf-8")
    await person.types("show", on="third")
    await person.types("secret")
    assert "SIGN_IN_REFUSED" in await person.types("show", on="third", code=1)
    await person.types("show")


async def test_sessions_are_listed_and_ended(person: Person) -> None:
    """One by its id, then all; a command leaves none of its own behind."""
    (session,) = re.findall(r"session (\S+) by sign up", await person.types("show"))
    await person.types("sign-out", session)
    assert (await person.types("show")).count("  session ") == 1
    said = await person.types("sign-out", "--everywhere")
    assert "all sessions have ended" in said
    with pytest.raises(SystemExit):
        await person.types("sign-out")


async def test_a_wrong_password_is_one_line(person: Person) -> None:
    """Its reason, nothing typed, and no profile is made."""
    said = await person.types("sign-in", "nino", on="second", word="not the one", code=1)
    assert said.split() == [
        "SIGN_IN_REFUSED:",
        "no",
        "such",
        "login",
        "name,",
        "or",
        "another",
        "password",
    ]
    assert not (person.homes / "second" / "player.json").exists()
