"""Statistics, leaderboards and limits over real services and the command line."""

import asyncio
import io
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from random import Random

import pytest
import pytest_asyncio

from services.cli import standing
from services.cli.main import main
from services.client.player import Player
from services.client.profile import ProfileFile
from services.client.tables import Tables
from tests.e2e.house import House, house, play_out, rules, start

FINE, WRONG, USAGE = 0, 1, 2

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class World:
    """A system with two players and their finished games."""

    house: House
    nino: Player
    dato: Player
    azi: str

    def change(self, statement: str) -> None:
        """Write into the lobby's database by hand."""
        with closing(sqlite3.connect(self.house.stack.data / "lobby.db")) as database:
            assert database.execute(statement).rowcount > 0
            database.commit()


@dataclass
class Scene:
    """The world, and what commands say."""

    world: World
    capsys: pytest.CaptureFixture[str]

    async def kozyr(self, *typed: str) -> tuple[int, str, str]:
        """Run a command as Nino, or as an operator: exit code, output, errors."""
        self.capsys.readouterr()
        code = await asyncio.to_thread(main, typed)
        said = self.capsys.readouterr()
        return code, said.out, said.err


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """A game of Azi between two people, and one of Durak with a bot."""
    folder = tmp_path_factory.mktemp("standing")
    async with house(folder / "data") as given:
        nino, dato = Player(given.stack.settings), await given.player()
        ProfileFile(folder=folder / "home").write(await nino.sign_up("Nino"))
        first, azi = await start(nino, rules("azi", 2), dato)
        await asyncio.gather(play_out(nino, azi, Random(1)), play_out(dato, azi, Random(2)))
        second, durak = await start(nino, rules("durak", 2))
        await play_out(nino, durak, Random(3))
        for table in (first, second):
            await Tables(nino).settled(table, 1)
            await Tables(nino).leave(table)
        yield World(given, nino, dato, azi)
        await nino.close()
        await dato.close()


@pytest.fixture
def scene(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scene:
    """The world, as commands find it."""
    data = world.house.stack.data
    monkeypatch.setenv("KOZYR_DATA", str(data))
    monkeypatch.setenv("KOZYR_HOME", str(data.parent / "home"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr(standing, "TOLD_WITHIN_S", -1)
    return Scene(world, capsys)


async def test_a_player_reads_his_numbers_and_the_leaderboards(scene: Scene) -> None:
    """What the games' own results say; on the leaderboard of chips once he wishes it."""
    code, out, _ = await scene.kozyr("me", "stats", "--json")
    games = {game["variant"]: game for game in json.loads(out)["games"]}
    azi, durak = games["VARIANT_AZI"], games["VARIANT_DURAK"]
    assert (code, azi["people"]["games"], durak["with_bots"].get("games", "0")) == (FINE, "1", "1")
    assert durak["people"] == {}
    won = int(azi["people"].get("chips_out", 0)) - int(azi["people"]["chips_in"])
    code, out, _ = await scene.kozyr("me", "stats")
    assert (code, f"{won:+}" in out, "leaderboards of: durak, rami" in out) == (FINE, True, True)
    assert "nobody yet" in (await scene.kozyr("leaders", "azi"))[1]
    code, out, _ = await scene.kozyr("me", "listed", "azi", "yes")
    assert (code, out) == (FINE, "you are on the leaderboard of azi\n")
    code, out, _ = await scene.kozyr("leaders", "azi", "--time", "week")
    (row,) = [line.split() for line in out.splitlines() if "Nino" in line]
    assert row == ["1", "Nino", "1", str(int(won > 0)), "-", "-", f"{won:+}"]
    code, out, _ = await scene.kozyr("leaders", "azi", "--json", "--most", "1")
    assert json.loads(out)["display_name"] == "Nino"
    code, out, _ = await scene.kozyr("players", "stats", scene.world.dato.player_id)
    assert (code, f"{-won:+}" in out) == (FINE, True)


async def test_limits_at_the_command_line(scene: Scene) -> None:
    """Set, loosened, withdrawn, read; the house's beside them; a game that is refused says why."""
    code, out, _ = await scene.kozyr("me", "limits", "set", "loss-day", "5000")
    assert (code, "5000" in out) == (FINE, True)
    code, out, _ = await scene.kozyr("me", "limits", "set", "time-day", "90m")
    assert (code, "1:30:00" in out) == (FINE, True)
    code, out, _ = await scene.kozyr("me", "limits", "lift", "time-day")
    assert (code, "none at " in out) == (FINE, True)
    code, out, _ = await scene.kozyr("me", "limits", "withdraw", "time-day")
    assert (code, "none at " in out) == (FINE, False)
    who = scene.world.nino.player_id
    code, _, err = await scene.kozyr("players", "limits", who, "set", "stake-day", "3")
    assert (code, "--reason" in err) == (USAGE, True)
    given = (
        "players",
        "limits",
        who,
        "set",
        "stake-day",
        "3",
        "--reason",
        "A call.",
        "--by",
        "olga",
    )
    assert (await scene.kozyr(*given))[0] == FINE
    code, _, err = await scene.kozyr("play", "azi", "--seats", "2", "--bots", "1")
    assert (code, err.startswith("kozyr play: LIMIT_REACHED: the limit STAKE_DAY leaves 0")) == (
        *(WRONG, True),
    ), err
    code, out, _ = await scene.kozyr("me", "limits", "log")
    assert (code, "A call." in out, "olga" in out) == (FINE, True, False)
    code, out, _ = await scene.kozyr("players", "limits", who, "log")
    assert (code, "olga" in out) == (FINE, True)
    code, out, _ = await scene.kozyr("me", "limits", "exclude", "30d")
    assert (code, out.startswith("excluded by yourself until ")) == (FINE, True)
    code, _, err = await scene.kozyr("play", "durak", "--seats", "2", "--bots", "1")
    assert (code, err.startswith("kozyr play: EXCLUDED: ")) == (WRONG, True), err
    for wrong in (
        ("set", "loss-day"),
        ("set", "loss-year", "5"),
        ("set", "loss-day", "-5"),
        ("set", "time-day", "90"),
        ("lift",),
        ("exclude", "soon"),
        ("show", "all"),
    ):
        code, _, err = await scene.kozyr("me", "limits", *wrong)
        assert (code, bool(err)) == (USAGE, True), wrong


async def test_statistics_are_compared_with_the_games_logs(scene: Scene) -> None:
    """What was written into the database by hand is named, and what was not counted is."""
    assert await scene.kozyr("standing", "check") == (FINE, "ok: 2 games, 2 players\n", "")
    scene.world.change("UPDATE standings SET firsts = firsts + 1 WHERE variant = 1 AND period = 1")
    code, out, _ = await scene.kozyr("standing", "check")
    assert (code, out.count("sums are not what the games give")) == (WRONG, 2)
    code, out, _ = await scene.kozyr("standing", "rebuild")
    assert (code, out.splitlines()[-1]) == (FINE, "ok: 2 players, 2 counted anew")
    scene.world.change("UPDATE player_games SET chips_out = chips_out + 1 WHERE variant = 1")
    code, out, _ = await scene.kozyr("standing", "check", "--json")
    faults = [json.loads(line) for line in out.splitlines()]
    assert code == WRONG
    assert [fault["game_id"] for fault in faults if "game_id" in fault] == [scene.world.azi]
    scene.world.change("DELETE FROM player_games WHERE variant = 1")
    code, out, _ = await scene.kozyr("standing", "check")
    assert (code, f"WRONG {scene.world.azi}: " in out) == (WRONG, True)
    await scene.kozyr("standing", "check", "--record")
    await scene.kozyr("standing", "rebuild")
    assert await scene.kozyr("standing", "check") == (FINE, "ok: 2 games, 2 players\n", "")
    code, out, _ = await scene.kozyr("standing", "strike", scene.world.azi)
    assert (code, out) == (FINE, f"{scene.world.azi} counts for nobody: 2 lines changed\n")
    assert (await scene.kozyr("standing", "check"))[0] == FINE
    code, out, _ = await scene.kozyr("standing", "restore", scene.world.azi)
    assert (code, out) == (FINE, f"{scene.world.azi} counts: 2 lines changed\n")
