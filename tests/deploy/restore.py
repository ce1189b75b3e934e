"""`python -m tests.deploy.restore`: the restore drill; exits 1 if anything that must hold does not.

Games are played, each database can be put back to two moments, `early` and `late`, all is lost, and
then it is restored three times: all to the early moment, the wallet to a later one than the games,
the games to a later one than the wallet. What `kozyr doctor` and `kozyr audit --all` say of each,
and what mends it, is told.
"""

import argparse
import asyncio
import io
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from kozyr.game.v1 import checkpoint_pb2, checkpoint_pb2_grpc
from kozyr.wallet.v1 import wallet_pb2, wallet_pb2_grpc
from pydantic import SecretStr

from services.cli import doctor
from services.cli.checkup import stored
from services.cli.checkup.symptoms import Level
from services.cli.main import main as main_of
from services.cli.migrate import STORED, migrate_service
from services.client.player import Player
from services.client.profile import Profile
from services.runtime.settings import Settings
from tests.deploy.moments import Files, Servers, Site, Urls
from tests.e2e.house import House, house, play_out, rules, start, until
from tests.postgres import execute

EARLY, LATE = "early", "late"
REASON = "BACKUP_RESTORED"
LINES = 12
"""So many of what a command says last are told."""
WON = re.compile(r"(Anna|Bela) +\d+ -> \d+ \(\+(\d+)\)")
Tell = Callable[[str], None]


@dataclass(slots=True)
class Drill:
    """What is known of the installation, whatever its databases have lost."""

    site: Site
    folder: Path
    tell: Tell
    profiles: list[Profile] = field(default_factory=list)
    paid: str = ""
    running: str = ""
    later: str = ""
    failed: list[str] = field(default_factory=list)

    def hold(self, what: str, held: bool) -> None:
        """Note whether something that must hold does."""
        self.tell(f"{'held  ' if held else 'FAILED'} {what}")
        if not held:
            self.failed.append(what)

    @asynccontextmanager
    async def house(self, urls: Urls) -> AsyncIterator[House]:
        """The services on these databases, which are brought up to date first."""
        given = {f"KOZYR_{name.upper()}_DATABASE_URL": url for name, url in urls.items()}
        for name, url in urls.items():
            await migrate_service(Settings.model_validate({f"{name}_database_url": url}), name)
        for kept in self.folder.glob("data/game.checkpoint"):
            kept.unlink()  # the database is put back on purpose
        async with house(self.folder / "data", KOZYR_CHECKPOINT_MS="100", **given) as made:
            yield made

    async def kozyr(self, given: House, *typed: str) -> tuple[int, str]:
        """Run a command against the services; its exit code, and what it says."""
        words = [str(self.folder / word) if word.endswith(".jsonl") else word for word in typed]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = await asyncio.to_thread(main_of, [*words, "--data", str(given.stack.data)])
        refusal = [line for line in err.getvalue().splitlines() if line.startswith("kozyr ")]
        said = "\n".join((out.getvalue(), *refusal)).replace(f"{self.folder}/", "")
        self.tell(f"$ kozyr {' '.join(typed)}")
        for line in said.rstrip().splitlines()[-LINES:]:
            self.tell(line)
        return code, said

    async def symptoms(self, given: House, urls: Urls) -> dict[str, str]:
        """What the doctor finds bad, by check."""
        databases = {f"{name}_database_url": url for name, url in urls.items()}
        where = given.stack.settings.model_copy(
            update={name: SecretStr(url) for name, url in databases.items()}
        )
        found = await doctor.examine(where)
        self.tell("$ kozyr doctor")
        wrong = {each.check: each.said for each in found if each.level is Level.BAD}
        for check, said in wrong.items():
            self.tell(f"BAD  {check}: {said}")
        return wrong


async def play(drill: Drill) -> None:
    """A game for chips that is paid out, one that runs at the early moment and has ended at the
    late one, and one that begins between them."""
    async with drill.house(drill.site.live()) as given:
        anna, bela = Player(given.stack.settings), Player(given.stack.settings)
        drill.profiles = [await anna.sign_up("Anna"), await bela.sign_up("Bela")]
        _, drill.paid = await start(anna, rules("azi", 2), bela)
        await play_both(anna, bela, drill.paid)
        await until(lambda: is_paid(given, drill.paid))
        _, drill.running = await start(anna, rules("azi", 2, turn_ms=600_000), bela)
        await covered(given)
        await drill.kozyr(given, "checkpoints", "export", "early.jsonl")
        drill.site.mark(EARLY)
        await play_both(anna, bela, drill.running)
        await until(lambda: is_paid(given, drill.running))
        _, drill.later = await start(anna, rules("azi", 2, turn_ms=600_000), bela)
        await covered(given)
        await drill.kozyr(given, "checkpoints", "export", "late.jsonl")
        drill.site.mark(LATE)
        await anna.close()
        await bela.close()
    drill.site.lose()


async def play_both(anna: Player, bela: Player, game: str) -> None:
    """Both play a game to its end."""
    await asyncio.gather(play_out(anna, game, Random(1)), play_out(bela, game, Random(2)))


async def is_paid(given: House, game: str) -> bool:
    """Whether the wallet has settled a game."""
    operator = given.operator()
    stub: Any = operator.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    asked = wallet_pb2.ListReservationsRequest(game_id=game)
    try:
        reply = await operator.call("wallet", stub.ListReservations, asked)
        return bool(reply.settled_head)
    finally:
        await operator.close()


async def covered(given: House) -> None:
    """Wait until a checkpoint covers every log."""
    operator = given.operator()
    stub: Any = operator.stub("game", checkpoint_pb2_grpc.CheckpointServiceStub)

    async def all_covered() -> bool:
        request = checkpoint_pb2.GetCoverageRequest()
        reply = await operator.call("game", stub.GetCoverage, request)
        return not reply.uncovered_logs

    await until(all_covered)
    await operator.close()


async def finish(drill: Drill, given: House, game: str) -> None:
    """The players sign in as before and play a game to its end."""
    anna, bela = Player(given.stack.settings), Player(given.stack.settings)
    for player, profile in zip((anna, bela), drill.profiles, strict=True):
        await player.sign_in(profile)
    await play_both(anna, bela, game)
    await anna.close()
    await bela.close()


async def together(drill: Drill) -> None:
    """All at the early moment: what came after it is lost, everything else goes on."""
    drill.tell("\n== all databases as they were at the early moment")
    urls = drill.site.restored(dict.fromkeys(STORED, EARLY))
    async with drill.house(urls) as given:
        await finish(drill, given, drill.running)
        await until(lambda: is_paid(given, drill.running))
        code, _ = await drill.kozyr(given, "audit", "--all", "--against", "early.jsonl")
        drill.hold("what is left is sound and continues what was exported before", code == 0)
        code, said = await drill.kozyr(given, "audit", "--all", "--against", "late.jsonl")
        lost = code == 1 and "TREE_REWRITTEN" in said
        drill.hold("what is lost is told by what was exported after", lost)
        code, said = await drill.kozyr(given, "audit", drill.later)
        drill.hold("the later game is gone", code == 1 and "GAME_NOT_FOUND" in said)
        drill.hold("the doctor has nothing to say", not await drill.symptoms(given, urls))
        drill.hold("chips balance", (await given.trial()).sound)


async def wallet_later(drill: Drill) -> None:
    """The wallet has settled a game that runs, and holds chips for one that there is not."""
    drill.tell("\n== the wallet as it was at the late moment, the games at the early one")
    urls = drill.site.restored({"lobby": EARLY, "game": EARLY, "wallet": LATE})
    async with drill.house(urls) as given:
        wrong = (await drill.symptoms(given, urls)).get("chips in play", "")
        drill.hold("the doctor names the game that is gone", drill.later in wrong)
        code, said = await drill.kozyr(given, "audit", "--all")
        named = f"WRONG {drill.running} as a whole: WALLET_DIFFERS"
        drill.hold("the audit names the game that was settled", code == 1 and named in said)
        code, _ = await drill.kozyr(given, "wallet", "void", drill.later, REASON)
        drill.hold("what was held for the game that is gone is given back", code == 0)
        before = await chips(given, drill.profiles[0].player_id)
        await refused(drill, given, urls, drill.running)
        after = await chips(given, drill.profiles[0].player_id)
        drill.hold("what the wallet has paid stands, nothing is paid twice", before == after)
        await mended(drill, given, urls)


async def games_later(drill: Drill) -> None:
    """The wallet still holds the chips of a game that has ended, and none for one that runs."""
    drill.tell("\n== the games as they were at the late moment, the wallet at the early one")
    urls = drill.site.restored({"lobby": LATE, "game": LATE, "wallet": EARLY})
    async with drill.house(urls) as given:
        wrong = (await drill.symptoms(given, urls)).get("chips in play", "")
        drill.hold("the doctor names the game that was not paid out", drill.running in wrong)
        code, said = await drill.kozyr(given, "audit", "--all")
        named = f"WRONG {drill.later} as a whole: WALLET_DIFFERS"
        drill.hold("the audit names the game without chips", code == 1 and named in said)
        _, ending = await drill.kozyr(given, "replay", drill.running)
        code, _ = await drill.kozyr(given, "wallet", "void", drill.running, REASON)
        drill.hold("what was held for the ended game is given back", code == 0)
        ids = {"Anna": drill.profiles[0].player_id, "Bela": drill.profiles[1].player_id}
        for name, won in WON.findall(ending):
            owed = (ids[name], won, "won before the restore")
            code, _ = await drill.kozyr(given, "wallet", "grant", *owed)
            drill.hold("what was won in it is granted", code == 0)
        await refused(drill, given, urls, drill.later)
        await mended(drill, given, urls)


async def chips(given: House, player: str) -> int:
    """What an account holds."""
    operator = given.operator()
    stub: Any = operator.stub("wallet", wallet_pb2_grpc.WalletServiceStub)
    asked = wallet_pb2.GetAccountRequest(account_id=player)
    try:
        return int((await operator.call("wallet", stub.GetAccount, asked)).account.balance)
    finally:
        await operator.close()


async def refused(drill: Drill, given: House, urls: Urls, game: str) -> None:
    """A game is played to its end, which the wallet refuses; the try is given up."""
    await finish(drill, given, game)

    async def said() -> bool:
        return "END_REFUSED" in {fault.kind for fault in (await given.verify(game)).faults}

    await until(said)
    drill.hold("its end is refused, and the audit says so", True)
    statement = "DELETE FROM work WHERE stream = '{0}' AND kind = 'end'"
    url = urls["game"]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.partition("///")[2])) as database, database:
            database.execute(statement.format(game.replace("-", "")))
    else:
        execute(url.replace("+asyncpg", ""), statement.format(game))
    drill.tell(f"{statement.format(game)};")


async def mended(drill: Drill, given: House, urls: Urls) -> None:
    """Afterwards nothing is held up, and no chip has appeared or vanished."""
    drill.hold("the doctor has nothing to say", not await drill.symptoms(given, urls))
    code, _ = await drill.kozyr(given, "wallet", "trial-balance")
    drill.hold("chips balance", code == 0)


Scene = Callable[[Drill], Awaitable[None]]
ALL: Sequence[Scene] = (together, wallet_later, games_later)


async def drill(site: Site, folder: Path, tell: Tell, scenes: Sequence[Scene]) -> list[str]:
    """Play, lose everything, and restore it once a scene; what did not hold."""
    made = Drill(site, folder, tell)
    await play(made)
    opening, stored.OPENING_MS = stored.OPENING_MS, 0
    try:
        for scene in scenes:
            await scene(made)
    finally:
        stored.OPENING_MS = opening
    return made.failed


def main() -> int:
    """Run it; its exit code."""
    parser = argparse.ArgumentParser(prog="restore", description=__doc__)
    parser.add_argument("--sqlite", action="store_true", help="on SQLite, not on PostgreSQL")
    arguments = parser.parse_args()
    began, out = time.monotonic(), sys.stdout

    def tell(news: str) -> None:
        out.write(f"[{time.monotonic() - began:5.1f} s] {news}\n")
        out.flush()

    with tempfile.TemporaryDirectory(prefix="kozyr-restore-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        site: Site = Files(folder) if arguments.sqlite else Servers(folder)
        try:
            failed = asyncio.run(drill(site, folder, tell, ALL))
        finally:
            site.close()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
