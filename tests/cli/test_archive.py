"""Archives whose files were changed, by whoever holds them or the key: what is wrong is named."""

import asyncio
import hashlib
import io
import json
import shutil
import stat
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text

from services.cli.archiving import checking, form
from services.cli.archiving.form import Entry, Manifest
from services.cli.archiving.writing import held
from services.cli.bench.scripts import Script, store_commands, whole
from services.cli.main import main
from services.cli.witness import Line, append_line
from services.game import domain
from services.game.checkpoints import Checkpointer
from services.game.games import decider
from services.game.model import Stage
from services.game.pacing import AT_ONCE
from services.game.rulebook import engine_for
from services.game.server import FOLDERS
from services.kernel.ids import uuid7
from services.runtime.database import open_engine, write
from services.runtime.keys import ensure_keys, key_id, load_private, master_keys
from services.runtime.migrate import migrate_engine
from services.runtime.notes import open_note
from services.runtime.settings import Settings
from services.runtime.signing import archive_octets
from services.runtime.store.months import Month
from services.runtime.store.sql import SqlStore
from services.runtime.streams import Streams
from tests.services.game.logs import Log, opening
from verifier.wrong import Wrong

MONTHS = (Month(2026, 3), Month(2026, 4))
VARIANTS = ("durak", "azi")


@dataclass(frozen=True)
class Kept:
    """A data folder in which games of two months ended, an archive of each beside it, and the
    checkpoints that were exported when each was over."""

    data: Path
    folders: dict[Month, Path]
    exported: Path

    def type(self, *words: Any) -> tuple[int, str]:
        """Run a command; its exit code and all it said."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main([*map(str, words), "--data", str(self.data)])
        return code, said.getvalue()

    @property
    def key(self) -> Ed25519PrivateKey:
        """The game service's key."""
        return load_private(self.data / "keys" / "game.key")


def script(game: UUID, variant: str) -> Script:
    """A whole game by random moves, the same each time."""
    command = opening(variant, 2, game_id=game, turn_ms=600_000)
    made = Script(game, variant, tuple(seat.player_id for seat in command.seats), [command])
    rng, log = Random(game.int), Log()
    log.when(command)
    while not log.state.ended:
        if log.state.stage is Stage.PLAYING:
            engine = engine_for(log.state.rules)
            seat = engine.to_act(log.state.engine)[0]
            move = rng.choice(engine.legal(log.state.engine, seat))
            made.commands.append(domain.Play(seat, log.state.turn, move))
        else:
            made.commands.append(domain.CloseSeeds(log.state.stage))
        log.when(made.commands[-1])
    return made


async def play(data: Path, exported: Path) -> None:
    """Games of both months, each month covered by a checkpoint that was exported."""
    settings = Settings(data_folder=data)
    ensure_keys(settings.keys())
    engine = open_engine(settings.database_url("game"))
    await migrate_engine(engine, FOLDERS)
    store = SqlStore(engine, master_keys(settings))
    streams: Any = Streams(store, decider(AT_ONCE))
    key = load_private(settings.keys() / "game.key")
    replica = Checkpointer(engine, key, 1_000)
    for month in MONTHS:
        at_ms = month.first.int >> 80
        games = [uuid7(at_ms + n, n.to_bytes(10, "big")) for n in range(2 * len(VARIANTS))]
        played = [script(game, VARIANTS[n % 2]) for n, game in enumerate(games)]
        await store_commands(streams, played, whole)
        for each in played:
            replica.advanced(each.game_id)
        await replica.round()
        async with engine.connect() as connection:
            newest = "SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1"
            note = (await connection.execute(text(newest))).scalar_one()
        if month == MONTHS[0]:
            append_line(exported, Line(note, open_note(note, [key.public_key()]), ()))
    async with write(engine) as connection:  # no wallet pays these games out
        await connection.execute(text("DELETE FROM work"))
    await store.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """The data folder and its archives, made once."""
    root = tmp_path_factory.mktemp("archives")
    exported = root / "checkpoints.jsonl"
    asyncio.run(play(root / "data", exported))
    kept = Kept(root / "data", {month: root / str(month) for month in MONTHS}, exported)
    for month, folder in kept.folders.items():
        code, said = kept.type("archive", "write", "--month", month, folder)
        assert code == 0, said
    return kept


@pytest.fixture
def copies(made: Kept, tmp_path: Path) -> Kept:
    """Copies of the archives, to be changed."""
    folders = {month: tmp_path / str(month) for month in MONTHS}
    for month, folder in folders.items():
        shutil.copytree(made.folders[month], folder)
    return replace(made, folders=folders)


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a folder, whatever it is."""
    return form.manifest_of((folder / form.MANIFEST).read_bytes())


def sign(folder: Path, manifest: Manifest, key: Ed25519PrivateKey) -> None:
    """Sign a manifest with a key, and write it."""
    public = key.public_key()
    named = replace(manifest, key=key_id(public), public_key=public.public_bytes_raw())
    signature = key.sign(archive_octets(str(named.month), named.digest))
    (folder / form.MANIFEST).write_bytes(replace(named, signature=signature).document())


def logs_of(folder: Path) -> list[tuple[Entry, bytes]]:
    """The entries of the only file of an archive, with their octets."""
    (file,) = manifest_of(folder).files
    data = (folder / file.data).read_bytes()
    entries = form.read_index(folder, file)
    return [(entry, data[entry.offset : entry.offset + entry.length]) for entry in entries]


def remake(kept: Kept, folder: Path, logs: list[tuple[Entry, bytes]]) -> None:
    """Make file, index and manifest anew over some logs, as whoever holds the key can."""
    old = manifest_of(folder)
    at, entries = 0, []
    for entry, member in logs:
        entries.append(replace(entry, offset=at, length=len(member)))
        at += len(member)
    data = b"".join(member for _, member in logs)
    index = b"".join(entry.line() for entry in entries)
    file = replace(
        old.files[0],
        bytes=at,
        sha256=hashlib.sha256(data).hexdigest(),
        index_sha256=hashlib.sha256(index).hexdigest(),
        logs=len(entries),
        events=sum(entry.version for entry in entries),
        first=entries[0].stream,
        last=entries[-1].stream,
    )
    (folder / file.data).write_bytes(data)
    (folder / file.index).write_bytes(index)
    changed = replace(old, games=len(entries), events=file.events, files=(file,))
    sign(folder, changed, kept.key)


# --------------------------------------------------------------------------------------- changes


def flip(kept: Kept, folder: Path) -> None:
    """A bit of a game is another."""
    data = folder / "logs-00001.jsonl.gz"
    octets = bytearray(data.read_bytes())
    octets[len(octets) // 2] ^= 1
    data.write_bytes(octets)


def truncate(kept: Kept, folder: Path) -> None:
    """The end of a file is cut off."""
    data = folder / "logs-00001.jsonl.gz"
    data.write_bytes(data.read_bytes()[:-7])


def lose(kept: Kept, folder: Path) -> None:
    """A file is not there."""
    (folder / "logs-00001.jsonl.gz").unlink()


def lose_index(kept: Kept, folder: Path) -> None:
    """An index is not there."""
    (folder / "logs-00001.index.jsonl").unlink()


def lose_manifest(kept: Kept, folder: Path) -> None:
    """The manifest is not there."""
    (folder / form.MANIFEST).unlink()


def add(kept: Kept, folder: Path) -> None:
    """A file more lies in the folder."""
    shutil.copy(folder / "logs-00001.jsonl.gz", folder / "logs-00002.jsonl.gz")


def exchange(kept: Kept, folder: Path) -> None:
    """File and index are those of another month."""
    for name in ("logs-00001.jsonl.gz", "logs-00001.index.jsonl"):
        shutil.copy(kept.folders[MONTHS[1]] / name, folder)


def edit_index(kept: Kept, folder: Path) -> None:
    """The index names another head."""
    index = folder / "logs-00001.index.jsonl"
    entry = form.entry_of(index.read_bytes().splitlines()[0], "index")
    other = replace(entry, head=bytes(32)).line()
    index.write_bytes(other + b"\n".join(index.read_bytes().splitlines()[1:]) + b"\n")


def drop_unsigned(kept: Kept, folder: Path) -> None:
    """A game is taken out of everything but the signature."""
    before = manifest_of(folder)
    remake(kept, folder, logs_of(folder)[1:])
    after = replace(manifest_of(folder), signature=before.signature)
    (folder / form.MANIFEST).write_bytes(after.document())


def resign(kept: Kept, folder: Path) -> None:
    """The manifest is signed by a key of somebody else."""
    sign(folder, manifest_of(folder), Ed25519PrivateKey.generate())


def rename(kept: Kept, folder: Path) -> None:
    """The manifest says another month, under its old signature."""
    whole = json.loads((folder / form.MANIFEST).read_text("utf-8"))
    whole["archive"]["month"] = str(MONTHS[1])
    (folder / form.MANIFEST).write_text(json.dumps(whole), "utf-8")


def edit_game(kept: Kept, folder: Path) -> None:
    """A move of a game is another, and everything over it is signed with the right key."""
    (entry, member), *others = logs_of(folder)
    line, place = form.unpacked(member, "log")
    game = json.loads(line)
    game["receipt"]["rows"][8]["recorded_at"] += 1
    remake(kept, folder, [(entry, form.packed(form.compact(game), place)), *others])


def replay_game(kept: Kept, folder: Path) -> None:
    """A sound game stands there, with a place in the tree that is another's."""
    first, (entry, member), *others = logs_of(folder)
    line, _ = form.unpacked(member, "log")
    _, place = form.unpacked(first[1], "log")
    remake(kept, folder, [first, (entry, form.packed(line, place)), *others])


def two_of_one(kept: Kept, folder: Path) -> None:
    """A game stands there twice."""
    first, *others = logs_of(folder)
    remake(kept, folder, [first, first, *others])


def bomb(kept: Kept, folder: Path) -> None:
    """What is packed is longer than any log."""
    (entry, member), *others = logs_of(folder)
    _, place = form.unpacked(member, "log")
    packed = form.packed(bytes(form.LOG_BYTES_MAX), place)
    remake(kept, folder, [(entry, packed), *others])


CHANGES: dict[Callable[[Kept, Path], None], str] = {
    flip: "logs-00001.jsonl.gz: is not the file that the manifest names",
    truncate: "logs-00001.jsonl.gz: has ",
    lose: "logs-00001.jsonl.gz: is missing",
    lose_index: "logs-00001.index.jsonl: is missing",
    lose_manifest: "manifest.json: No such file",
    add: "logs-00002.jsonl.gz: is in the folder and not in the manifest",
    exchange: "logs-00001.jsonl.gz: ",
    edit_index: "logs-00001.index.jsonl: is not the index that the manifest names",
    drop_unsigned: "manifest.json: is not what the key",
    resign: "not among those trusted",
    rename: "manifest.json: is not what the key",
    edit_game: "version 9: the hash is not that of this row",
    replay_game: "proof: the head has no place under the checkpoint",
    two_of_one: "is out of order, or of another month",
    bomb: "is not packed as one log, or is longer than any",
}


def test_untouched_archives_are_sound(made: Kept) -> None:
    """Of both months; that of the one under the very checkpoint that was exported."""
    for month, folder in made.folders.items():
        code, said = made.type("archive", "verify", folder)
        assert code == 0
        assert f"ok {folder}: {month}, 4 games, 0 disputes, " in said
    exported = ("--checkpoints", made.exported)
    assert made.type("archive", "verify", made.folders[MONTHS[0]], *exported)[0] == 0
    code, said = made.type("archive", "verify", made.folders[MONTHS[1]], *exported)
    assert (code, "is none of" in said) == (1, True)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_found_and_named(change: Callable[[Kept, Path], None], copies: Kept) -> None:
    """By `archive verify`, from the files alone; and nothing is taken out of such an archive that
    depends on what was changed."""
    folder = copies.folders[MONTHS[0]]
    change(copies, folder)
    code, said = copies.type("archive", "verify", folder)
    assert code == 1
    assert "kozyr archive: WRONG " in said
    assert CHANGES[change] in said


def test_no_change_of_an_octet_of_a_manifest_is_taken(copies: Kept) -> None:
    """At any place: it is not JSON, not a manifest, or not what was signed."""
    path = copies.folders[MONTHS[0]] / form.MANIFEST
    document, rng = path.read_bytes(), Random(1)
    for at in rng.sample(range(len(document)), 40):
        changed = bytearray(document)
        changed[at] ^= 1 << rng.randrange(7)
        path.write_bytes(changed)
        code, said = copies.type("archive", "verify", path.parent)
        same = False
        with suppress(Wrong):
            same = form.manifest_of(bytes(changed)) == form.manifest_of(document)
        assert (code == 0) == same, said


def test_what_was_broken_off_is_gone_on_with(
    copies: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files of a run that was killed stay as they are if they are whole and right; whatever else
    lies there is written anew, and it comes out the same."""
    monkeypatch.setattr(form, "FILE_LOGS_MAX", 1)
    month, whole_run, broken = MONTHS[0], tmp_path / "whole", tmp_path / "broken"
    write = ("archive", "write", "--month", month)
    assert copies.type(*write, whole_run)[0] == 0
    wanted = {file.name: file.read_bytes() for file in whole_run.iterdir()}
    assert len(wanted) == 9
    broken.mkdir()
    for name in ("logs-00001.jsonl.gz", "logs-00001.index.jsonl", "logs-00002.jsonl.gz"):
        (broken / name).write_bytes(wanted[name])
    (broken / ".logs-00003.jsonl.gz.part").write_bytes(b"half")
    (broken / "logs-00009.jsonl.gz").write_bytes(b"of an earlier run")
    first = (broken / "logs-00001.jsonl.gz").stat().st_mtime_ns
    assert copies.type(*write, broken)[0] == 0
    found = {file.name: file.read_bytes() for file in broken.iterdir() if file.name[0] != "."}
    assert found == wanted
    assert (broken / "logs-00001.jsonl.gz").stat().st_mtime_ns == first
    (broken / "logs-00002.jsonl.gz").write_bytes(wanted["logs-00003.jsonl.gz"])
    assert copies.type("archive", "verify", broken)[0] == 1
    assert copies.type(*write, broken)[0] == 0
    assert copies.type("archive", "verify", broken)[0] == 0


def test_a_folder_is_for_one_month_and_one_writer(copies: Kept) -> None:
    """Another month is not written over it, nor is it written by two at once; an embedded database
    gives no month away."""
    folder = copies.folders[MONTHS[0]]
    with held(folder):
        code, said = copies.type("archive", "write", "--month", MONTHS[0], folder)
    assert (code, "another `kozyr archive` works in it" in said) == (1, True)
    code, said = copies.type("archive", "write", "--month", MONTHS[1], folder)
    assert (code, "each month has a folder of its own" in said) == (1, True)
    code, said = copies.type("archive", "detach", "--month", MONTHS[0], folder)
    assert (code, "an embedded database (SQLite) has no partitions" in said) == (1, True)


@pytest.mark.parametrize("name", ["logs-2025.tar", "logs-00001", "logs-old/", "manifest.json"])
def test_what_is_of_no_archive_is_left_alone(copies: Kept, tmp_path: Path, name: str) -> None:
    """A folder with what a run would remove or write over, and did not make, is refused; whatever
    else lies there is not touched."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".notes.part").write_text("mine")
    write = ("archive", "write", "--month", MONTHS[0], folder)
    assert copies.type(*write)[0] == 0
    (folder / "manifest.json").unlink()
    if name.endswith("/"):
        (folder / name).mkdir()
    else:
        (folder / name).write_text("{}")
    before = {file.name for file in folder.iterdir()}
    code, said = copies.type(*write)
    assert (code, "of no archive" in said) == (1, True), said
    assert {file.name for file in folder.iterdir()} == before
    assert (folder / ".notes.part").read_text() == "mine"


def test_an_archive_is_for_its_owner_alone(copies: Kept, tmp_path: Path) -> None:
    """The hands of all are in it; and nothing is written through a link that lies there."""
    folder, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    write = ("archive", "write", "--month", MONTHS[0], folder)
    assert copies.type(*write)[0] == 0
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (stat.S_IMODE(folder.stat().st_mode), modes) == (0o700, {0o600})
    elsewhere.write_text("another's")
    (folder / "logs-00001.jsonl.gz").unlink()
    (folder / ".logs-00001.jsonl.gz.part").symlink_to(elsewhere)
    assert copies.type(*write)[0] == 0
    assert elsewhere.read_text() == "another's"


def test_a_file_that_cannot_be_read_is_named(copies: Kept) -> None:
    """By every command that reads or writes one, in a line."""
    folder = copies.folders[MONTHS[0]]
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()
    for words in (("verify",), ("write", "--month", MONTHS[0])):
        code, said = copies.type("archive", *words, folder)
        assert (code, str(folder / "manifest.json") in said) == (1, True), said


def test_many_logs_are_checked_by_several_processes(
    copies: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log or some each, to the same end: the first that is wrong, after others that are not."""
    monkeypatch.setattr(checking, "LOGS_A_TASK", 1)
    folder = copies.folders[MONTHS[0]]
    first, *others = logs_of(folder)
    edit_game(copies, folder)
    wrong = logs_of(folder)[0][1]
    remake(copies, folder, [first, (others[0][0], wrong), *others[1:]])
    code, said = copies.type("archive", "verify", folder)
    assert code == 1
    assert f"WRONG {folder}: {others[0][0].stream}: " in said
    assert "version 9: the hash" in said
