"""The command line against four running services: playing, looking back, auditing, breaking."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from uuid import uuid4

import pytest

from services.cli.main import INTERRUPTED
from services.cli.outcome import FINE, UNREACHABLE, USAGE, WRONG
from tests.cli.talking import environment, kozyr, run, talk

UP_SECONDS = 90.0
GAMES = {
    "azi": ("--seats", "3"),
    "durak": ("--seats", "3"),
    "rami": ("--option", "target=1"),
}
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
NOWHERE = "127.0.0.1:9"


class House:
    """A running `kozyr up` and the environment that leads to it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.given = {
            "KOZYR_DATA": str(self.data),
            "KOZYR_HOME": str(folder / "home"),
            "KOZYR_BOT_DELAY_MS": "0",
        }
        self.process = subprocess.Popen(
            kozyr("up", "--free-ports"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(self.given),
        )
        self.welcome: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.welcome.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError(self.process.communicate()[1])

    def kozyr(self, *typed: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command against it."""
        return run(*typed, given=self.given, stdin=stdin)

    def stop(self) -> int:
        """Stop it as Ctrl-C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=UP_SECONDS)
        return self.process.returncode

    def kill(self) -> None:
        """Make sure that it is gone."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One running system for the module, with one finished game of each kind."""
    up = House(tmp_path_factory.mktemp("house"))
    try:
        for game, options in GAMES.items():
            code, said = talk(
                *("play", game, "--plain", "--level", "easy", "--name", "Ann", *options),
                given=up.given,
                reply=first_move,
                tty=game == "durak",
            )
            assert code == FINE, "\n".join(said)
        yield up
    finally:
        up.kill()


def first_move(line: str) -> str | None:
    """Always the first move there is; one game is enough."""
    if line.startswith("your move"):
        return "1"
    return "q" if line.startswith("Enter plays again") else None


def newest(house: House, kind: str = "") -> str:
    """The id of the newest game, or of the newest of its kind."""
    lines = house.kozyr("games", "--ended").stdout.splitlines()
    found = [ID.findall(line) for line in lines if kind in line]
    return next(str(ids[0]) for ids in found if ids)


def test_up_says_where_it_is_and_what_to_do_next(house: House) -> None:
    """The welcome names four addresses, and commands that exist."""
    text = "\n".join(house.welcome)
    assert len(re.findall(r"127\.0\.0\.1:\d+", text)) == 4
    assert f"export KOZYR_DATA={house.data}" in text
    for word in ("play", "watch", "replay", "audit", "wallet trial-balance"):
        assert f"kozyr {word}" in text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--data", "/dev/null/kozyr"), "kozyr up: /dev/null/kozyr/logs: Not a directory\n"),
        (("--port-base", "65533"), "kozyr up: --port-base: must be 1 to 65532\n"),
    ],
)
def test_up_says_in_a_line_what_it_cannot_use(
    typed: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """A folder that cannot be made and ports that do not exist are one line each."""
    done = run("up", *typed, given={"KOZYR_HOME": str(tmp_path)})
    assert done.returncode != 0
    assert done.stderr == said


def test_games_that_were_played_are_listed(house: House) -> None:
    """Each kind of game was played to its end through the terminal and is in the list."""
    listed = house.kozyr("games", "--json").stdout.splitlines()
    games = [json.loads(line) for line in listed]
    assert {game["variant"] for game in games} == {f"VARIANT_{g.upper()}" for g in GAMES}
    assert {game["stage"] for game in games} == {"STAGE_FINISHED"}
    assert house.kozyr("games", "--running").stdout == "no games\n"
    mine = house.kozyr("games", "--mine", "--json").stdout.splitlines()
    assert len(mine) == len(games)


@pytest.mark.parametrize("kind", GAMES)
def test_a_replay_shows_every_step_with_all_hands(kind: str, house: House) -> None:
    """Versions follow one another without a gap, and no hand is hidden in Durak and Rami."""
    done = house.kozyr("replay", newest(house, kind))
    assert done.returncode == FINE, done.stderr
    heads = re.findall(r"^--- version (\d+)(?:-(\d+))?, by", done.stdout, re.MULTILINE)
    spans = [(int(first), int(last or first)) for first, last in heads]
    assert [first for first, _ in spans] == [1, *(last + 1 for _, last in spans[:-1])]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    if kind != "azi":
        assert "##" not in done.stdout


def test_a_replay_can_be_asked_for_one_version_and_one_seat(house: House) -> None:
    """`--at` gives one state, `--as` hides the others' hands, beyond the end is a usage error."""
    game = newest(house, "durak")
    open_hands = house.kozyr("replay", game, "--at", "9").stdout
    own = house.kozyr("replay", game, "--at", "9", "--as", "1").stdout
    assert open_hands.count("--- version") == 1
    assert "##" not in open_hands
    assert own.count("##") > 0
    assert house.kozyr("replay", game, "--at", "9999").returncode == USAGE
    assert house.kozyr("replay", game, "--as", "3").returncode == USAGE


def test_a_replay_is_read_by_machines(house: House) -> None:
    """`--json` gives one object a step; with `--as` only that seat's view is in it."""
    lines = house.kozyr("replay", "last", "--json").stdout.splitlines()
    steps = [json.loads(line) for line in lines]
    assert all(len(step["views"]) == 2 for step in steps)
    lines = house.kozyr("replay", "last", "--json", "--as", "1").stdout.splitlines()
    assert {json.loads(line)["views"][0].get("seat") for line in lines} == {1}


def test_ones_own_game_is_replayed_as_one_saw_it_and_shared(house: House) -> None:
    """`--as me` hides the others' hands; a link shows nobody's, to whoever has it, until it is
    revoked."""
    own = house.kozyr("replay", newest(house, "durak"), "--as", "me").stdout
    assert re.findall(r"^--- version 1$", own, re.MULTILINE)
    assert "##" in own
    assert "Ann" in own
    won = house.kozyr("games", "--mine", "--outcome", "won", "--json").stdout.splitlines()
    lost = house.kozyr("games", "--mine", "--outcome", "lost", "--json").stdout.splitlines()
    even = house.kozyr("games", "--mine", "--outcome", "even", "--json").stdout.splitlines()
    assert len(won) + len(lost) + len(even) == len(GAMES)
    shown = house.kozyr("share", newest(house, "durak")).stdout
    link, *typed = re.findall(r"^(\S+) shows|^kozyr (replay) (--link) (\S+)$", shown, re.MULTILINE)
    seen = house.kozyr(*filter(None, typed[0]))
    assert seen.returncode == FINE, seen.stderr
    assert "Ann" not in seen.stdout
    assert "seat 0" in seen.stdout
    assert link[0] in house.kozyr("share", "--list").stdout
    assert house.kozyr("share", "--revoke", link[0]).returncode == FINE
    gone = house.kozyr(*filter(None, typed[0]))
    assert (gone.returncode, "SHARE_NOT_FOUND" in gone.stderr) == (WRONG, True)
    assert house.kozyr("share", "--list").stdout == "no links\n"


def test_a_replay_is_stepped_through(house: House) -> None:
    """Keys go on, back, to the first and the last step."""
    said = house.kozyr("replay", "last", "--step", stdin="n\nn\np\nl\nf\nq\n").stdout
    at = [int(n) for n in re.findall(r"^\[(\d+) of", said, re.MULTILINE)]
    last = int(re.findall(r"^\[\d+ of (\d+)\]", said, re.MULTILINE)[0])
    assert at == [1, 2, 3, 2, last, 1]


def test_every_game_passes_its_audit(house: House) -> None:
    """`audit --all` finds nothing wrong, for people and for machines."""
    done = house.kozyr("audit", "--all", "--verbose")
    assert done.returncode == FINE, done.stdout
    *each, logs, tree = done.stdout.splitlines()
    assert [line.split()[0] for line in each] == ["ok"] * 3
    assert re.fullmatch(r"3 logs \(0 of disputes\), \d+ events: all sound", logs)
    assert re.fullmatch(r"tree: \d+ leaves, \d+ checkpoints; not covered: .*", tree)
    told = house.kozyr("audit", "--all", "--json").stdout.splitlines()
    *found, report = [json.loads(line) for line in told]
    assert len(found) == 3
    assert all(line["faults"] == [] and line["events"] > 10 for line in found)
    assert report["report"]["games"] == 3
    assert report["report"]["faults"] == {}
    assert report["report"]["events"] == sum(line["events"] for line in found)


def test_the_wallet_tells_where_chips_went(house: House) -> None:
    """Own balance, own statement from the first chip on, and a trial balance of zero."""
    lines = [
        json.loads(line)
        for line in house.kozyr("wallet", "statement", "--json").stdout.splitlines()
    ]
    assert [line["kind"].rpartition("_")[2] for line in lines] == ["SETTLE", "RESERVE", "WELCOME"]
    balance = json.loads(house.kozyr("wallet", "show", "--json").stdout)["balance"]
    assert balance == lines[0]["balance_after"]
    trial = house.kozyr("wallet", "trial-balance")
    assert trial.returncode == FINE
    assert "total 0, open reservations 0: sound" in trial.stdout


def test_an_operator_gives_chips_and_is_refused_nonsense(house: House) -> None:
    """A grant needs an account there is; a refusal is one line with its reason."""
    account = json.loads(house.kozyr("wallet", "show", "--json").stdout)
    granted = house.kozyr("wallet", "grant", account["account_id"], "5", "a gift", "--json")
    assert int(json.loads(granted.stdout)["balance"]) == int(account["balance"]) + 5
    refused = house.kozyr("wallet", "grant", account["account_id"], "-5", "a joke")
    assert refused.returncode == WRONG
    assert refused.stderr.startswith("kozyr wallet: INVALID_FIELD: ")
    assert refused.stderr.count("\n") == 1


def test_an_operator_voids_a_game_in_the_wallet(house: House) -> None:
    """Of a game that the wallet never heard of nothing goes back; a reason is a word."""
    game = str(uuid4())
    voided = house.kozyr("wallet", "void", game, "END_REFUSED", "--json")
    assert json.loads(voided.stdout) == {"voided": 0}
    refused = house.kozyr("wallet", "void", game, "because")
    assert refused.returncode == WRONG
    assert refused.stderr.startswith("kozyr wallet: INVALID_FIELD: ")


def test_a_dispute_is_opened_and_ruled_on(house: House) -> None:
    """A player complains, an operator rules, and both can read it."""
    opened = house.kozyr("dispute", "open", "last", "not my cards", "--at", "7", "--json")
    dispute = json.loads(opened.stdout)["dispute_id"]
    assert dispute in house.kozyr("dispute", "list", "--open").stdout
    ruled = house.kozyr("dispute", "resolve", dispute, "dismissed", "they were")
    assert "ruling by operator: they were" in ruled.stdout
    assert dispute not in house.kozyr("dispute", "list", "--open").stdout
    assert dispute in house.kozyr("dispute", "list", "--mine").stdout


def test_a_game_is_exported_and_watched_after_its_end(house: House, tmp_path: Path) -> None:
    """The log is one JSON document; watching a finished game shows how it came out."""
    file = tmp_path / "game.json"
    assert house.kozyr("export", "last", "--log", "--to", str(file)).returncode == FINE
    assert json.loads(file.read_bytes())["game"] == newest(house)
    watched = house.kozyr("watch", "last")
    assert watched.returncode == FINE
    assert "Winner: " in watched.stdout


@pytest.mark.parametrize("kind", GAMES)
def test_a_receipt_is_verified_without_any_server(kind: str, house: House, tmp_path: Path) -> None:
    """The service's key and the player's own seed are looked for by themselves; a change shows."""
    file, game = tmp_path / "game.json", newest(house, kind)
    for who in ((), ("--mine",)):
        done = house.kozyr("export", game, *who, "-o", str(file))
        assert (done.returncode, done.stderr) == (FINE, "")
    away = {**house.given, "KOZYR_GAME_ADDRESS": NOWHERE, "KOZYR_LOBBY_ADDRESS": NOWHERE}
    done = run("verify", str(file), "--mine", given=away)
    assert (done.returncode, done.stderr) == (FINE, "")
    assert done.stdout.startswith(f"ok {file}: {kind} ")
    assert ", mine); in the cards are the seeds of the server and of seats 0; key " in done.stdout
    assert done.stdout.endswith(", trusted\n")
    other = house.kozyr("export", game, "--mine", "--profile", "nobody")
    assert (other.returncode, "have not played here" in other.stderr) == (WRONG, True)
    stranger = run("verify", str(file), "--mine", given={"KOZYR_HOME": str(tmp_path)})
    assert stranger.returncode == WRONG
    assert "nothing was acknowledged to you" in stranger.stderr
    whole = json.loads(file.read_text("utf-8"))
    whole["receipt"]["rows"][3]["recorded_at"] += 1
    file.write_text(json.dumps(whole), "utf-8")
    done = run("verify", str(file), "--json", given=away)
    assert done.returncode == WRONG
    assert json.loads(done.stdout)["where"] == "version 4"


def test_a_token_opens_what_its_role_may(house: House) -> None:
    """An operator's token serves without the key; a player's own is not enough for all games."""
    token = house.kozyr("token", "operator", "--minutes", "5").stdout.strip()
    flags = json.loads((house.data / "stack.json").read_text("utf-8"))["addresses"]
    away = [x for name, at in flags.items() for x in (f"--{name}-address", at)]
    given = {"KOZYR_TOKEN": token, "KOZYR_DATA": "/nowhere"}
    assert run("games", *away, given=given).returncode == FINE
    own = house.kozyr("token", "player").stdout.strip()
    refused = run("wallet", "trial-balance", *away, given={**given, "KOZYR_TOKEN": own})
    assert refused.returncode == WRONG
    assert "ROLE_NOT_ALLOWED" in refused.stderr


def test_no_service_is_told_from_a_refusal(tmp_path: Path) -> None:
    """Without services the exit code is 3, and the line says what to do."""
    given = {"KOZYR_HOME": str(tmp_path), "KOZYR_LOBBY_ADDRESS": NOWHERE}
    done = run("play", "durak", given=given)
    assert done.returncode == UNREACHABLE
    assert "kozyr up" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_dies_is_reported_and_ends_all(tmp_path: Path) -> None:
    """A service that is killed from outside is named by `up`, which stops the rest and exits 1."""
    up = House(tmp_path)
    try:
        children = Path(f"/proc/{up.process.pid}/task/{up.process.pid}/children").read_text()
        pids = [int(pid) for pid in children.split()]
        wallet = next(p for p in pids if b"wallet" in Path(f"/proc/{p}/cmdline").read_bytes())
        os.kill(wallet, signal.SIGKILL)
        said = up.process.communicate(timeout=UP_SECONDS)[0]
        assert "wallet ended by itself" in said
        assert up.process.returncode == WRONG
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    finally:
        up.kill()


def test_services_never_outlive_who_started_them(tmp_path: Path) -> None:
    """When `up` itself is killed, its services end too."""
    up = House(tmp_path)
    children = Path(f"/proc/{up.process.pid}/task/{up.process.pid}/children").read_text()
    up.kill()
    until = time.monotonic() + UP_SECONDS
    left = [Path(f"/proc/{pid}") for pid in children.split()]
    while any(path.exists() for path in left) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(left) == 4
    assert not any(path.exists() for path in left)


def test_who_waits_for_others_is_told_how_they_come_and_may_leave(house: House) -> None:
    """A table with free seats says how to join it; `q` ends the waiting."""
    typed = ("play", "azi", "--plain", "--seats", "3", "--bots", "1")
    code, said = talk(
        *typed, given=house.given, reply=lambda line: "q" if "--join" in line else None, tty=True
    )
    assert code == FINE
    assert said[0].startswith("Seats free: 1.")
    assert re.fullmatch(rf"  kozyr play azi --join {ID.pattern}", said[1])


def test_an_interrupted_game_is_gone_on_with(house: House) -> None:
    """After Ctrl-C the seat stays, `last` finished game is another, and `play` sits down again."""
    with subprocess.Popen(
        kozyr("play", "durak"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(house.given),
    ) as process:
        assert process.stdout is not None
        said = list(until_asked(process.stdout))
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    running = said[1].split()[-1]
    assert process.returncode == INTERRUPTED
    assert "Your seat stays yours: `kozyr play durak` goes on." in rest
    assert running in house.kozyr("games", "--running").stdout
    finished = json.loads(house.kozyr("games", "--ended", "--json", "--most", "1").stdout)
    exported = json.loads(house.kozyr("export", "last").stdout)
    assert exported["receipt"]["game"] == finished["game_id"] != running
    again = house.kozyr("play", "durak", stdin="q\n").stdout
    assert again.startswith("You are in a game already; it goes on.\n")
    assert again.endswith("You have left the game.\n")


def until_asked(output: IO[str]) -> Iterator[str]:
    """What is said until a move is asked for."""
    for line in output:
        yield line
        if line.startswith("your move"):
            return


def test_a_hand_edited_log_is_found_and_others_stay_sound(house: House) -> None:
    """After one octet of one game's log was changed, `audit` names game, version and kind.

    Ends the module's system with Ctrl-C, edits its database, and starts it again.
    """
    game = newest(house, "durak")
    games = len(house.kozyr("games", "--json").stdout.splitlines())
    assert house.stop() == FINE
    with sqlite3.connect(house.data / "game.db") as database:
        for trigger in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            database.execute(f"DROP TRIGGER {trigger[0]}")
        edited = database.execute(
            "UPDATE events SET payload = payload || x'00' WHERE stream = ? AND version = 9",
            (game.replace("-", ""),),
        )
        assert edited.rowcount == 1
    database.close()
    again = House(house.data.parent)
    try:
        done = again.kozyr("audit", "--all")
        assert done.returncode == WRONG
        wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
        assert wrong == [line for line in wrong if f"{game} version 9: CHAIN_BROKEN" in line]
        counted = re.search(r"^(\d+) logs \((\d+) of disputes\)", done.stdout, re.MULTILINE)
        assert counted is not None
        games_logged = int(counted[1]) - int(counted[2])
        assert games_logged >= games  # a start may have failed on a busy machine
        assert done.stdout.endswith("  CHAIN_BROKEN: 1\n")
        played = again.kozyr("play", "durak", "--seats", "2", stdin="1\n")
        assert played.stdout.endswith("You have left the game.\n"), played.stderr
        assert again.stop() == FINE
    finally:
        again.kill()
