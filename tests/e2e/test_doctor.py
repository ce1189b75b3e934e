"""`kozyr doctor`: each fault that it can find is made, and it must name it and say what to do."""

import asyncio
import json
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from kozyr.game.v1 import checkpoint_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.cli import doctor
from services.cli.checkup import books, keyfolder, stored, tokens
from services.cli.checkup.symptoms import Level, Symptom
from services.cli.main import main
from services.cli.outcome import FINE, USAGE, WRONG
from services.cli.witness import CHECKPOINT
from services.kernel.ids import uuid7
from services.runtime.keys import ensure_keys, load_private
from services.runtime.notes import Checkpoint, sign_note
from services.runtime.settings import Settings
from tests.e2e.house import House, house, play_out, rules, start

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOUR_US = 3_600_000_000
STORED = ("lobby", "game", "wallet")


@dataclass(frozen=True, slots=True)
class Scene:
    """A running system with an ended game, a running one for chips, and a player's token."""

    house: House
    token: str

    @property
    def settings(self) -> Settings:
        """What leads to it."""
        return self.house.stack.settings

    def but(self, **changes: Any) -> Settings:
        """The same with other settings."""
        return self.settings.model_copy(update=changes)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One system for all: faults are made in copies of what it has, or in what leads to it."""
    async with house(tmp_path_factory.mktemp("house"), KOZYR_CHECKPOINT_MS="100") as given:
        player, other = await given.player(), await given.player()
        _, over = await start(player, rules("durak", 2))
        await play_out(player, over, Random(1))
        await start(player, rules("azi", 2, turn_ms=600_000), other)
        yield Scene(given, player.access_token)
        await player.close()
        await other.close()


@pytest.fixture
def copies(scene: Scene, tmp_path: Path) -> Settings:
    """Settings of a folder with copies of the databases, whole as they are, and the keys."""
    for name in STORED:
        with (
            closing(sqlite3.connect(scene.settings.data_folder / f"{name}.db")) as source,
            closing(sqlite3.connect(tmp_path / f"{name}.db")) as target,
        ):
            source.backup(target)
    shutil.copytree(scene.settings.keys(), tmp_path / "keys")
    return scene.but(data_folder=tmp_path)


def run(settings: Settings, name: str, *statements: tuple[str, *tuple[Any, ...]]) -> None:
    """Writes into a copy, past its guards: statements with their values."""
    with closing(sqlite3.connect(settings.data_folder / f"{name}.db")) as database, database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (trigger,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        for statement, *values in statements:
            database.execute(statement, values)


def worst(found: list[Symptom]) -> dict[str, Symptom]:
    """What is not in order, by the name of the check; each says what to do."""
    wrong = {each.check: each for each in found if each.level is not Level.OK}
    assert [each.check for each in wrong.values() if len(each.advice) < 10] == []
    return wrong


async def test_a_sound_system_is_found_sound(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check passes, for people and for machines, and nothing is written meanwhile."""
    folder = scene.settings.data_folder
    code = await asyncio.to_thread(main, ["doctor", "--json", "--data", str(folder)])
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each for each in said if each["level"] != "ok"] == []
    assert code == FINE
    checks = {each["check"] for each in said}
    for name in STORED:
        assert {f"service {name}", f"clock {name}", f"schema {name}"} <= checks
        assert f"clock of database {name}" in checks
    assert {"service ai", "rules", "keys", "published keys", "token", "master keys"} <= checks
    assert {"erasures", "reservations", "chips in play", "trial balance", "disk"} <= checks
    told = next(each["said"] for each in said if each["check"] == "checkpoints")
    assert "signed by game" in told
    assert next(each["said"] for each in said if each["check"] == "chips in play")[0] == "1"
    rows = "SELECT count(*) FROM accesses"
    with closing(sqlite3.connect(folder / "game.db")) as database:
        before = database.execute(rows).fetchone()
        assert await asyncio.to_thread(main, ["doctor", "--data", str(folder)]) == FINE
        assert database.execute(rows).fetchone() == before
    assert capsys.readouterr().out.splitlines()[-1].endswith("checks: 0 bad, 0 warnings")


async def test_a_service_that_is_gone_or_another_is_a_finding(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """All else is looked at as far as that goes, whatever is gone."""
    gone = scene.but(**{f"{n}_address": "127.0.0.1:9" for n in ("lobby", "game", "wallet")})
    wrong = worst(await doctor.examine(gone))
    assert wrong.keys() == {f"service {name}" for name in STORED}
    assert "does not answer" in wrong["service game"].said
    assert "KOZYR_GAME_ADDRESS" in wrong["service game"].advice
    mixed = scene.but(game_address=scene.settings.address("wallet"))
    wrong = worst(await doctor.examine(mixed))
    assert wrong.keys() == {"service game"}
    assert "is not game" in wrong["service game"].said
    gone_by_flag = ["--wallet-address", "127.0.0.1:9", "--data", str(scene.settings.data_folder)]
    assert await asyncio.to_thread(main, ["doctor", *gone_by_flag]) == WRONG
    assert "BAD  service wallet: 127.0.0.1:9 does not answer" in capsys.readouterr().out


async def test_everything_gone_at_once(tmp_path: Path) -> None:
    """An empty folder and no service: warnings of what was not looked at, no crash."""
    nowhere = {f"{name}_address": "127.0.0.1:9" for name in (*STORED, "ai")}
    wrong = worst(await doctor.examine(Settings(data_folder=tmp_path / "none", **nowhere)))  # type: ignore[arg-type]
    assert {check for check, each in wrong.items() if each.level is Level.BAD} == {
        f"service {name}" for name in (*STORED, "ai")
    }
    assert {"keys", "token", *(f"database {name}" for name in STORED)} <= wrong.keys()


async def test_other_rules_than_ours_are_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release in the middle of an upgrade."""
    monkeypatch.setattr("services.cli.checkup.reachable.CURRENT", {"azi": "azi 9.0.0"})
    wrong = worst(await doctor.examine(scene.settings))
    assert wrong.keys() == {"rules"}
    assert "azi 9.0.0" in wrong["rules"].said


KEY_FAULTS: Mapping[str, tuple[str, str]] = {
    "removed": ("players.pub", "no public key of players"),
    "cut": ("game.key", "game.key"),
    "open": ("lobby.seal", "can be read by others"),
    "strange": ("master.key", "must be base64 of 32 bytes"),
    "exchanged": ("operators.key", "no key of operators has its public one beside it"),
}


@pytest.mark.parametrize("fault", KEY_FAULTS)
async def test_a_broken_key_folder(fault: str, copies: Settings, tmp_path: Path) -> None:
    """Each file that is missing, damaged, another's or open to others is named; never its text."""
    name, told = KEY_FAULTS[fault]
    path = copies.keys() / name
    match fault:
        case "removed":
            path.unlink()
        case "cut":
            path.write_text(path.read_text("ascii")[:40], "ascii")
        case "open":
            path.chmod(0o644)
        case "strange":
            path.write_text("c2hvcnQ=\n", "ascii")
        case _:
            ensure_keys(tmp_path / "other")
            shutil.copy(tmp_path / "other" / name, path)
    found = keyfolder.look(copies)
    assert any(told in each.said and each.level is Level.BAD for each in found), found
    worst(found)


async def test_keys_that_the_services_do_not_have(scene: Scene, tmp_path: Path) -> None:
    """A folder of another installation: lobby publishes others, and nobody takes our token."""
    ensure_keys(tmp_path / "keys")
    wrong = worst(await doctor.examine(scene.but(key_folder=tmp_path / "keys")))
    assert "players, operators, lobby" in wrong["published keys"].said
    for name in (*STORED, "ai"):
        assert "refuses our token (TOKEN_INVALID)" in wrong[f"clock {name}"].said
    assert "master keys" in wrong


async def test_tokens_that_are_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A player's, one that has ended, and nonsense; what is held is never shown."""
    ended = scene.house.token("operator", lifetime_ms=1_000)
    later = SimpleNamespace(time=lambda: time.time() + 60)
    for token, told in ((scene.token, "in the role player"), ("eyJhb.x.y", "holds is no token")):
        monkeypatch.setenv("KOZYR_TOKEN", token)
        found = await doctor.examine(scene.settings)
        assert told in worst(found)["token"].said
        assert token not in str(found)
    monkeypatch.setattr(tokens, "time", later)
    monkeypatch.setenv("KOZYR_TOKEN", ended)
    assert "has ended" in worst(await doctor.examine(scene.settings))["token"].said
    monkeypatch.setattr(tokens, "time", time)
    monkeypatch.setenv("KOZYR_TOKEN", scene.house.token("operator"))
    assert worst(await doctor.examine(scene.settings)) == {}


@pytest.mark.parametrize(("seconds", "told"), [(60, "behind"), (-60, "ahead of")])
async def test_clocks_that_differ(
    seconds: int, told: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's clock is off, which shows the same as if theirs were."""
    monkeypatch.setattr(tokens, "time", SimpleNamespace(time=lambda: time.time() + seconds))
    real = stored.clock_us
    monkeypatch.setattr(stored, "clock_us", lambda: real() + seconds * 1_000_000)
    wrong = worst(await doctor.examine(scene.settings))
    services, databases = (
        {f"clock {n}" for n in (*STORED, "ai")},
        {f"clock of database {n}" for n in STORED},
    )
    assert services | databases <= wrong.keys()
    assert all(told in wrong[check].said for check in services)
    off = {check: int(wrong[check].said.split(" ms from")[0]) for check in databases}
    assert {check: ms for check, ms in off.items() if not 50_000 < ms < 70_000} == {}


async def test_a_database_that_is_behind_or_gone(copies: Settings) -> None:
    """Migrations that are missing, a file that is gone, a file that is none."""
    run(copies, "lobby", ("DELETE FROM lobby_version",))
    (copies.data_folder / "wallet.db").unlink()
    (copies.data_folder / "game.db").write_text("no database " * 1_000)
    wrong = worst(await stored.look(copies))
    assert "migrations have not been applied" in wrong["schema lobby"].said
    assert "kozyr migrate lobby" in wrong["schema lobby"].advice
    assert "cannot be read" in wrong["database wallet"].said
    assert "cannot be read" in wrong["database game"].said


async def test_a_database_of_a_later_release(copies: Settings) -> None:
    """It is no fault, but ours is not the program to look with."""
    run(copies, "wallet", ("UPDATE wallet_version SET version_num = 'r9999'",))
    assert "a later release" in worst(await stored.look(copies))["schema wallet"].said


async def test_work_that_is_late(copies: Settings) -> None:
    """What nobody takes is told from what is tried in vain; an erasure and chips beyond time."""
    now = time.time_ns() // 1_000
    stream, due = uuid4().hex, now - HOUR_US
    put = "INSERT INTO work VALUES (?, 1, ?, ?, ?, ?, ?, 'k', NULL)"
    run(
        copies,
        "game",
        (put, stream, due, due, due, 0, "turn"),
        (put, stream, due, now + HOUR_US, due, 12, "end"),
    )
    run(
        copies,
        "lobby",
        (
            "INSERT INTO erasures VALUES (:player, :id, :asked, '', 0, 0, 3, :due, 0, NULL, NULL)",
            *(stream, stream, due, now),
        ),
    )
    run(copies, "wallet", ("UPDATE reservations SET state = 1, expires_at = ?", due))
    found = [each for each in await stored.look(copies) if each.level is not Level.OK]
    told = {(each.check, each.level): each.said for each in found}
    assert "`turn` wait for somebody" in told["due work game", Level.BAD]
    assert "`end` are tried in vain" in told["due work game", Level.WARN]
    assert "up to 12 times" in told["due work game", Level.WARN]
    assert "1 have not ended" in told["erasures", Level.WARN]
    assert "held beyond their time, the oldest for 60 min" in told["reservations", Level.BAD]


async def test_chips_that_no_game_will_ask_for(copies: Settings) -> None:
    """The wallet was restored to a later moment than the game service: games are named."""
    held = "SELECT game_id FROM reservations WHERE state = 2"
    with closing(sqlite3.connect(copies.data_folder / "wallet.db")) as database:
        (running,) = {row[0] for row in database.execute(held)}
    old = uuid7(time.time_ns() // 1_000_000 - 3_600_000, bytes(10))
    move = "UPDATE reservations SET game_id = ? WHERE state = 2"
    run(copies, "wallet", (move, old.hex))
    wrong = worst(await stored.look(copies))
    assert wrong.keys() == {"chips in play"}
    assert f"for 1 games that will never ask for them, {old}" in wrong["chips in play"].said
    assert "kozyr wallet void GAME REASON" in wrong["chips in play"].advice
    run(copies, "wallet", (move, running))
    assert worst(await stored.look(copies)) == {}


async def test_a_master_key_that_is_needed_and_not_here(copies: Settings) -> None:
    """One that is gone and one that bears the name and opens nothing; a lost one is a warning."""
    (copies.keys() / "master.key").write_text("A" * 43 + "=", "ascii")
    wrong = worst(await stored.look(copies))
    assert "key 1, which 1 running" in wrong["master keys"].said
    assert wrong["master keys"].level is Level.BAD
    lost = copies.model_copy(update={"master_keys_lost": "1", "master_key_id": "2"})
    assert worst(await stored.look(lost))["master keys"].level is Level.WARN


async def test_a_disk_that_fills_up(copies: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Embedded databases need room."""
    for free, level in ((2**29, Level.WARN), (2**20, Level.BAD)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert worst(await stored.look(copies))["disk"].level is level


async def test_exported_checkpoints_that_are_not_continued(scene: Scene, tmp_path: Path) -> None:
    """What is continued, what is not, and what is no such file."""
    kept, forged = tmp_path / "kept.jsonl", tmp_path / "forged.jsonl"
    folder = ["--data", str(scene.settings.data_folder)]
    assert await asyncio.to_thread(main, ["checkpoints", "export", str(kept), *folder]) == FINE
    assert worst(await doctor.examine(scene.settings, kept)) == {}
    key = load_private(scene.settings.keys() / "game.key")
    note = sign_note(Checkpoint(10**6, bytes(32), 1_800_000_000_000_000), key)
    forged.write_text(json.dumps({"format": CHECKPOINT, "note": note, "proof": []}) + "\n", "utf-8")
    wrong = worst(await doctor.examine(scene.settings, forged))
    assert "does not continue the 1000000 leaves" in wrong["exported checkpoints"].said
    wrong = worst(await doctor.examine(scene.settings, tmp_path / "none.jsonl"))
    assert "there are none in it" in wrong["exported checkpoints"].said


class Told:
    """A game service and a wallet that answer what they are made to."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def stub(self, _service: str, _make: Any) -> Any:
        """Methods are called by name."""
        return SimpleNamespace(**{name: name for name in self.answers})

    async def call(self, _service: str, method: str, _request: Any) -> Any:
        """What it was given."""
        return self.answers[method]


async def test_a_record_that_nobody_signs_on(scene: Scene, tmp_path: Path) -> None:
    """A tail older than the rounds that cover it take, and a signature that is not the game's."""
    cover = checkpoint_pb2.GetCoverageResponse(logs=10, uncovered_logs=1, uncovered_events=3)
    cover.oldest_uncovered_time.FromSeconds(int(time.time()) - 3_600)
    silent: Any = Told(ListCheckpoints=checkpoint_pb2.ListCheckpointsResponse(), GetCoverage=cover)
    (found,) = await books.chain(scene.settings, silent)
    assert "3 events of 1 logs not covered, the oldest for 60 min" in found.said
    assert (found.level, "checkpoint_tree_broken" in found.advice) == (Level.BAD, True)
    shutil.copytree(scene.settings.keys(), tmp_path / "keys")
    ensure_keys(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "game.pub", tmp_path / "keys" / "game.pub")
    wrong = worst(await doctor.examine(scene.but(key_folder=tmp_path / "keys")))
    assert "not signed with a game.pub that is here" in wrong["checkpoints"].said


async def test_no_secret_is_told(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither keys nor tokens nor the password of a database that does not answer, or of a URL
    that is none."""
    asked = ["doctor", "--data", str(scene.settings.data_folder), "--json"]
    url = "postgresql+asyncpg://kozyr:pa55word@127.0.0.1:9/game"
    with pytest.MonkeyPatch.context() as given:
        given.setenv("KOZYR_GAME_DATABASE_URL", url)
        assert await asyncio.to_thread(main, asked) == WRONG
        given.setenv("KOZYR_LOBBY_DATABASE_URL", "mysql://kozyr:pa55word@host/lobby")
        assert await asyncio.to_thread(main, asked) == USAGE
    out = "".join(capsys.readouterr())
    assert "database game" in out
    assert "KOZYR_LOBBY_DATABASE_URL" in out
    secrets = ["pa55word", "eyJ", "PRIVATE KEY"]
    for path in (*scene.settings.keys().glob("*.key"), *scene.settings.keys().glob("*.seal")):
        secrets += [line for line in path.read_text("ascii").splitlines() if len(line) > 30]
    assert [each for each in secrets if each in out and "BEGIN" not in each] == []


async def test_a_check_that_breaks_is_a_finding(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody thought of is told, and everything else is looked at."""

    def broken(_: Settings) -> list[Symptom]:
        raise PermissionError("the folder may not be entered")

    monkeypatch.setattr(keyfolder, "look", broken)
    monkeypatch.setenv("KOZYR_TOKEN", "")
    wrong = worst(await doctor.examine(scene.settings))
    assert wrong.keys() == {"keys"}
    assert "could not be looked at (PermissionError)" in wrong["keys"].said


async def test_a_wallet_that_does_not_balance(scene: Scene) -> None:
    """Last of all, as the system is not sound any more: the wallet itself is written into, says
    NOT_SERVING, and its total is not zero."""
    more = "UPDATE accounts SET balance = balance + 7 WHERE balance >= 0"
    await scene.house.stack.kill("wallet")
    run(scene.settings, "wallet", (more,))
    await scene.house.stack.start("wallet")
    wrong = worst(await doctor.examine(scene.settings))
    assert "NOT_SERVING" in wrong["service wallet"].said
    assert "check_failed" in wrong["service wallet"].advice
    assert "sum to " in wrong["balances"].said
    assert "Drift alarm" in wrong["balances"].advice


async def test_books_that_do_not_agree(scene: Scene) -> None:
    """The total may be zero while a balance is not that of its postings."""
    told: Any = Told(TrialBalance=wallet_pb2.TrialBalanceResponse(sound=False))
    (found,) = await books.trial(scene.settings, told)
    assert (found.level, "do not agree" in found.said) == (Level.BAD, True)
