"""A player's data over four real services: all of it exported, then erased, then nowhere."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from kozyr.game.v1 import audit_pb2, audit_pb2_grpc, history_pb2, history_pb2_grpc, view_pb2
from kozyr.lobby.v1 import (
    identity_pb2,
    identity_pb2_grpc,
    lobby_pb2,
    lobby_pb2_grpc,
    talk_pb2,
    talk_pb2_grpc,
)

from services.cli import export
from services.cli.archiving.writing import log_line
from services.client import lists
from services.client.player import Player
from services.client.profile import Profile, ProfileFile
from services.client.tables import Tables
from services.game.server import FOLDERS as GAME
from services.kernel.errors import Kind, Refused
from services.lobby.server import FOLDERS as LOBBY
from services.runtime.database import open_reader
from services.runtime.keys import load_private, master_keys
from services.runtime.store.sql import SqlStore
from services.wallet.server import FOLDERS as WALLET
from tests import postgres
from tests.cli.talking import run
from tests.e2e.house import House, house, play_out, rules, start, until

NAME = "Zurab Qartveli-771"
LOGIN = "zurab.of-tbilisi-771"
DEVICE = "Phone of Zurab 771"
HELD = (NAME, LOGIN, DEVICE)
"""What is held of him by which he could be known."""
WORDS = "The bank was mine, says 40-year-old Zurab"
PRIVACY = Path(__file__).parents[2] / "docs" / "privacy.md"
REASON = "Zurab's brother called, 5 in the morning"
TALK = "Seen from the 771st step, cousins: goodbye."
TIMES = 110
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


@dataclass
class Scene:
    """A house where Zurab has played, with Ana and by himself, and has complained."""

    house: House
    home: Path
    urls: list[str]
    zurab: Player
    ana: Player
    profile: Profile
    games: list[str] = field(default_factory=list)

    def kozyr(self, *typed: str) -> Any:
        """Run a command as Zurab, or as an operator."""
        given = {"KOZYR_DATA": str(self.house.stack.data), "KOZYR_HOME": str(self.home)}
        return run(*typed, given=given)

    async def everything(self) -> bytes:
        """What the databases and the log files hold: raw files, and PostgreSQL as a dump has it."""
        files = sorted(file for file in self.house.stack.data.rglob("*") if file.is_file())
        raw = [file.read_bytes() for file in files]
        return b"\n".join([*raw, *[await dump(url) for url in self.urls]])

    async def archived(self) -> bytes:
        """What the archive of a month would hold of the games and the dispute, unpacked."""
        settings = self.house.stack.settings
        engine = open_reader(self.urls[1] if self.urls else settings.database_url("game"))
        store = SqlStore(engine, master_keys(settings))
        key = load_private(settings.keys() / "game.key")
        lines = [
            log_line(key, head.stream, (await store.whole(head.stream))[1])[1]
            async for head in store.streams()
        ]
        await store.close()
        return b"\n".join(lines)

    async def ask(self, player: Player, name: str, request: Any) -> Any:
        """Call an RPC of the identity service as a player."""
        stub = player.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
        return await player.call("lobby", getattr(stub, name), request)


async def dump(url: str) -> bytes:
    """Every row of a PostgreSQL database, octets in hexadecimal."""
    connection = await asyncpg.connect(postgres.as_owner(url).replace("+asyncpg", ""))
    try:
        rows = []
        for (table,) in await connection.fetch(TABLES):
            found = await connection.fetch(f'SELECT t::text FROM "{table}" t')  # noqa: S608
            rows += [row[0] for row in found]
        return "\n".join(rows).encode()
    finally:
        await connection.close()


@asynccontextmanager
async def scene(folder: Path, database: str) -> AsyncIterator[Scene]:
    """The services on one of the databases, PostgreSQL by the role that services have."""
    with ExitStack() as stack:
        environment, urls = {}, []
        if database == "postgresql":
            for service, folders in (("LOBBY", LOBBY), ("GAME", GAME), ("WALLET", WALLET)):
                owner = await asyncio.to_thread(postgres.create_database)
                stack.callback(postgres.drop_database, owner)
                urls.append(await postgres.migrated(owner, folders))
                environment[f"KOZYR_{service}_DATABASE_URL"] = urls[-1]
        async with house(folder / "data", **environment) as given:
            zurab, ana = Player(given.stack.settings), await given.player()
            profile = await zurab.sign_up(NAME)
            ProfileFile(folder=folder / "home").write(profile)
            made = Scene(given, folder / "home", urls, zurab, ana, profile)
            chosen = identity_pb2.SetPasswordRequest(login_name=LOGIN, new_password=NAME)
            await made.ask(zurab, "SetPassword", chosen)
            device = identity_pb2.AddDeviceRequest(device_name=DEVICE, public_key=b"k" * 32)
            await made.ask(zurab, "AddDevice", device)
            try:
                await _play(made)
                yield made
            finally:
                await zurab.close()
                await ana.close()


async def _play(made: Scene) -> None:
    """A game with Ana, one with a bot; a complaint about the first, and a ruling."""
    zurab, ana = made.zurab, made.ana
    table, game = await start(zurab, rules("azi", 3), ana)
    await asyncio.gather(play_out(zurab, game, Random(1)), play_out(ana, game, Random(2)))
    await leave(made, table, zurab, ana)
    table, second = await start(zurab, rules("rami", 2))
    await play_out(zurab, second, Random(3))
    await leave(made, table, zurab)
    await converse(made)
    historian = zurab.stub("game", history_pb2_grpc.HistoryServiceStub)
    await zurab.call("game", historian.ShareGame, history_pb2.ShareGameRequest(game_id=game))
    limited = await asyncio.to_thread(
        made.kozyr,
        *("players", "limits", zurab.player_id, "set", "loss-day", "99999"),
        *("--reason", REASON, "--by", "olga"),
    )
    assert limited.returncode == 0, limited.stderr
    made.games = [second, game]
    stub = zurab.stub("game", audit_pb2_grpc.AuditServiceStub)
    request = audit_pb2.OpenDisputeRequest(game_id=game, complaint=WORDS)
    dispute = (await zurab.call("game", stub.OpenDispute, request)).dispute
    ruled = await asyncio.to_thread(
        made.kozyr, *("dispute", "resolve", dispute.dispute_id, "dismissed", "It was Ana's.")
    )
    assert ruled.returncode == 0, ruled.stderr


async def converse(made: Scene) -> None:
    """Zurab says something at a table of Ana's, mutes her, and leaves."""
    table = (await Tables(made.ana).create(rules("durak", 3))).table_id
    await Tables(made.zurab).sit(table)
    stub = made.zurab.stub("lobby", talk_pb2_grpc.TalkServiceStub)
    for method, request in (
        (stub.SendMessage, talk_pb2.SendMessageRequest(table_id=table, text=TALK)),
        (stub.Mute, talk_pb2.MuteRequest(player_id=made.ana.player_id)),
    ):
        await made.zurab.call("lobby", method, request)
    await Tables(made.zurab).leave(table)


async def leave(made: Scene, table: str, *players: Player) -> None:
    """Stand up once the table knows that its game has ended."""
    for player in players:
        request = lobby_pb2.LeaveSeatRequest(request_id=player.player_id, table_id=table)

        async def left(player: Player = player, request: Any = request) -> bool:
            answer = await made.house.send("lobby", "LeaveSeat", request, player.access_token)
            return answer.reason == ""

        await until(left)


async def test_everything_about_a_player_is_in_his_export(tmp_path: Path, database: str) -> None:
    """Each part the document names, each game with a receipt that verifies, each chip."""
    async with scene(tmp_path, database) as here:
        table = await dither(here)
        file = tmp_path / "me.json"
        done = await asyncio.to_thread(here.kozyr, "me", "export", str(file))
        assert done.returncode == 0, done.stderr
        assert file.stat().st_mode & 0o777 == 0o600
        told = json.loads(file.read_text("utf-8"))
        assert told.keys() == set(documented())
        assert (told["format"], told["player_id"]) == ("kozyr person 1", here.profile.player_id)
        assert told["profile"]["player"]["display_name"] == NAME
        assert told["profile"]["login_name"] == LOGIN
        assert [device["device_name"] for device in told["profile"]["devices"]] == [DEVICE]
        assert [game["game"]["game_id"] for game in told["games"]] == here.games
        for game in told["games"]:
            assert {c["opened"] for c in game["connections"]} == {True, False}
            receipt = tmp_path / "receipt.json"
            receipt.write_text(json.dumps(game["receipt"]), "utf-8")
            verified = await asyncio.to_thread(here.kozyr, "verify", str(receipt))
            assert verified.returncode == 0, verified.stderr
        (dispute,) = told["games"][1]["disputes"]
        assert (dispute["complaint"], dispute["explanation"]) == (WORDS, "It was Ana's.")
        assert [line["text"] for line in told["talk"]["lines"]] == [TALK]
        assert [share["game_id"] for share in told["shares"]] == here.games[1:]
        assert told["talk"]["player_ids"] == [here.ana.player_id]
        assert [game["game_id"] for game in told["counted_games"]] == here.games
        assert {game["variant"] for game in told["standing"]["games"]} == {
            *("VARIANT_AZI", "VARIANT_DURAK", "VARIANT_RAMI"),
        }
        (change,) = told["limits"]["changes"]
        assert (change["reason"], change["operator"]) == (REASON, "")
        assert told["limits"]["limits"][0]["house_amount"] == "99999"
        wallet = told["wallet"]
        assert sum(int(line["chips"]) for line in wallet["lines"]) == int(
            wallet["account"]["balance"]
        )
        opened = [e for e in told["table_events"] if e["name"] == "TableOpened"]
        assert [e["content"]["host_id"] for e in opened] == [here.profile.player_id] * 3
        versions = [int(e["version"]) for e in told["table_events"] if e["table_id"] == table]
        assert versions == list(range(1, 2 * TIMES + 5))
        by_olga = tmp_path / "by-olga.json"
        typed = ("players", "export", here.profile.player_id, str(by_olga), "--by", "olga")
        assert (await asyncio.to_thread(here.kozyr, *typed)).returncode == 0
        theirs = json.loads(by_olga.read_text("utf-8"))
        assert [game.pop("receipt") for game in theirs["games"]] == [None, None]
        assert theirs["talk"] is None
        assert theirs["shares"] == told["shares"]
        looks = [game.pop("looks") for game in theirs["games"]]
        assert all("operator" not in look for some in looks for look in some)
        for game in told["games"]:
            del game["receipt"], game["looks"]
        alike = ("games", "table_events", "counted_games", "standing", "wallet")
        assert [theirs[part] for part in alike] == [told[part] for part in alike]
        assert theirs["limits"]["changes"] == told["limits"]["changes"]


async def dither(here: Scene) -> str:
    """Open a table, be ready and not, again and again, and leave it to close; the table.

    So there is more to tell than one page holds.
    """
    zurab, tables = here.zurab, Tables(here.zurab)
    table = (await tables.create(rules("durak", 2))).table_id
    stub = zurab.stub("lobby", lobby_pb2_grpc.LobbyServiceStub)
    for number in range(2 * TIMES):
        request = lobby_pb2.SetReadyRequest(table_id=table, ready=number % 2 == 0)
        await zurab.call("lobby", stub.SetReady, request)
    await tables.leave(table)
    return table


def documented() -> Iterator[str]:
    """The parts of the export that the document names."""
    text = PRIVACY.read_text("utf-8")
    for row in re.findall(r"^\| (`.*?) \|.*\|.*\|$", text.partition("| part |")[2], re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)
        if "wallet" in row:
            return


async def test_after_an_erasure_the_player_is_nowhere(tmp_path: Path, database: str) -> None:
    """No database and no log holds his name or his words; games, ledger and tree stay sound. An
    archive written before has never held them."""
    async with scene(tmp_path, database) as here:
        before = await here.everything()
        for held in (*HELD, WORDS, TALK, REASON):
            assert held.encode() in before
        archived = await here.archived()
        assert here.profile.player_id.encode() in archived
        for named in (*HELD, WORDS, TALK, REASON):
            assert named.encode() not in archived
            assert named.encode().hex().encode() not in archived
        receipts = [await export.receipt(here.ana, here.games[1])]
        erase = ("me", "erase", "--confirm", NAME)
        refused = await asyncio.to_thread(here.kozyr, *erase)
        assert (refused.returncode, "CHIPS_LEFT" in refused.stderr) == (1, True)
        done = await asyncio.to_thread(here.kozyr, *erase, "--give-up-chips")
        assert done.returncode == 0, done.stderr
        assert not (here.home / "player.json").exists()
        after = await here.everything()
        for gone in (*HELD, WORDS, TALK, REASON):
            assert gone.encode() not in after
            assert gone.encode().hex().encode() not in after
        checked = await asyncio.to_thread(here.kozyr, "standing", "check")
        assert checked.returncode == 0, checked.stdout
        audited = await asyncio.to_thread(here.kozyr, "audit", "--all")
        assert (audited.returncode, ": all sound" in audited.stdout) == (0, True), audited.stdout
        assert (await here.house.trial()).sound
        receipts.append(await export.receipt(here.ana, here.games[1]))
        assert json.loads(receipts[0]) == json.loads(receipts[1])
        view = await here.ana.view(here.games[1])
        assert view.stage == view_pb2.STAGE_FINISHED
        names = await lists.names_of(here.ana, (seat.player_id for seat in view.seats))
        assert names[here.profile.player_id] == "former player"
        with pytest.raises(Refused) as caught:
            await here.zurab.sign_in(here.profile)
        assert caught.value.kind is Kind.UNAUTHENTICATED
        typed = ("players", "export", here.profile.player_id, str(tmp_path / "left.json"))
        assert (await asyncio.to_thread(here.kozyr, *typed)).returncode == 0
        left = (tmp_path / "left.json").read_bytes()
        assert NAME.encode() not in left
        assert WORDS.encode() not in left
        assert json.loads(left)["shares"] == []


async def test_an_erasure_goes_on_after_services_died(tmp_path: Path, database: str) -> None:
    """The games are away when it is asked for, and the lobby dies: nobody has to ask again."""
    async with scene(tmp_path, database) as here:
        stack = here.house.stack
        await stack.kill("game")
        request = identity_pb2.ErasePlayerRequest(
            request_id="once", confirm_name=NAME, give_up_chips=True
        )
        answer = await here.house.send("lobby", "ErasePlayer", request, here.zurab.access_token)
        assert answer.code.name in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        await stack.kill("lobby")
        await asyncio.gather(stack.start("lobby"), stack.start("game"))

        async def erased() -> bool:
            asked = identity_pb2.ListPlayersRequest(player_ids=[here.profile.player_id])
            return bool((await here.ask(here.ana, "ListPlayers", asked)).players[0].erased)

        await until(erased, 60)

        async def gone() -> bool:
            octets = await here.everything()
            return NAME.encode() not in octets and WORDS.encode() not in octets

        await until(gone)
        assert (await here.house.trial()).sound
