"""`kozyr audit --all` and `kozyr checkpoints` against a running system: compared with what was
exported and with what a player kept, and what a hand-edited database looks like to them."""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest_asyncio

from services.client.tables import Tables
from tests.e2e.house import House, house, play_out, rules, start

FINE, WRONG = 0, 1
GAMES = 3


@dataclass
class Scene:
    """A system with finished games, and a folder for what is kept of it."""

    house: House
    folder: Path
    games: list[str]

    async def kozyr(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command as an operator: exit code, output, errors."""
        path = os.pathsep.join(each for each in sys.path if each)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.cli.main", *arguments),
            *("--data", str(self.house.stack.data)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            cwd=self.folder,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Games of Durak, one after the other."""
    kept = tmp_path / "kept"
    kept.mkdir()
    async with house(tmp_path / "house", KOZYR_CHECKPOINT_MS="100") as given:
        player, games = await given.player(), []
        for n in range(GAMES):
            table, game = await start(player, rules("durak", 2))
            await play_out(player, game, Random(n))
            await Tables(player).settled(table, 1)
            await Tables(player).leave(table)
            games.append(game)
        yield Scene(given, kept, sorted(games))
        await player.close()


async def test_an_audit_of_all_from_beginning_to_end(scene: Scene) -> None:
    """Every log once, or those after one; what was exported is continued; a player's proof is one
    the log has come by, until somebody cuts off the log's end."""
    code, out, _ = await scene.kozyr("checkpoints", "export", "kept.jsonl")
    assert (code, "kept.jsonl: added" in out) == (FINE, True)
    code, out, _ = await scene.kozyr("checkpoints", "check", "kept.jsonl")
    assert out.startswith("ok 1 checkpoints, ")
    newest = scene.games[-1]
    code, out, _ = await scene.kozyr("checkpoints", "prove", newest, "--to", "proof.json")
    assert (code, out.startswith(f"ok {newest} up to version")) == (FINE, True)
    code, out, _ = await scene.kozyr("checkpoints", "check", "proof.json")
    assert out.startswith(f"ok {newest}: signed head ")

    code, out, _ = await scene.kozyr("audit", "--all", "--json", "--against", "kept.jsonl")
    *each, last = [json.loads(line) for line in out.splitlines()]
    report = last["report"]
    assert code == FINE
    assert [line["game"] for line in each] == scene.games
    assert (report["games"], report["wrong"], report["faults"]) == (GAMES, 0, {})
    assert report["tree"]["faults"] == []
    assert report["tree"]["against"]["continued"]
    after = ("--all", "--after", scene.games[0], "--state", "state.json")
    code, out, _ = await scene.kozyr("audit", *after, "--json")
    assert [json.loads(line)["game"] for line in out.splitlines()[:-1]] == scene.games[1:]
    assert not (scene.folder / "state.json").exists()
    code, out, _ = await scene.kozyr("audit", newest, "--held", "proof.json")
    assert (code, out.startswith(f"ok {newest}: ")) == (FINE, True)
    code, _, err = await scene.kozyr("audit", scene.games[0], "--held", "proof.json")
    assert (code, f"is about game {newest}" in err) == (WRONG, True)
    code, out, _ = await scene.kozyr("accesses", newest, "--json")
    calls = [json.loads(line)["action"] for line in out.splitlines()]
    assert calls == ["VerifyGame", "GetInclusionProof"]

    await scene.house.stack.kill("game")
    cut_off(scene.house.stack.data / "game.db", newest)
    await scene.house.stack.start("game")
    code, out, _ = await scene.kozyr("audit", "--all", "--against", "kept.jsonl")
    assert code == WRONG
    assert f"WRONG {newest} version " in out
    assert "NOT_AS_CHECKPOINTED: the tree has an event that the log has not" in out
    code, out, _ = await scene.kozyr("audit", newest, "--held", "proof.json")
    assert (code, "NOT_AS_HELD" in out) == (WRONG, True)


def cut_off(file: Path, game: str) -> None:
    """Takes the last events of a game away and sets its head to what is left."""
    key = game.replace("-", "")
    with closing(sqlite3.connect(file)) as database, database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (trigger,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        (last,) = database.execute(
            "SELECT max(version) FROM events WHERE stream = ? AND request_id IS NOT NULL", (key,)
        ).fetchone()
        database.execute("DELETE FROM events WHERE stream = ? AND version >= ?", (key, last))
        (hash_,) = database.execute(
            "SELECT hash FROM events WHERE stream = ? AND version = ?", (key, last - 1)
        ).fetchone()
        database.execute(
            "UPDATE heads SET version = ?, hash = ?, ended = 0 WHERE stream = ?",
            (last - 1, hash_, key),
        )
