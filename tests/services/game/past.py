"""Games of months that have passed, played over gRPC, and the command line against them."""

import asyncio
import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from kozyr.game.v1 import audit_pb2, game_pb2
from kozyr.game.v1.view_pb2 import STAGE_PLAYING
from structlog.testing import capture_logs

from services.cli.addresses import write_addresses
from services.cli.main import main
from services.kernel.ids import uuid7
from services.runtime.database import close_engine, open_engine, write
from services.runtime.store.months import Month, month_at
from tests.services.game.system import System, new_id, setup
from tests.services.game.test_proving import covered
from tests.services.game.test_receipts import receipt
from tests.services.game.test_service import settled

NUMBERS = count(1)
ARCHIVE = "archive/2026-07"
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def months_ago(number: int) -> Month:
    """The month so many months before the present one."""
    return month_at(int(datetime.now(UTC).timestamp() * 1_000)).later(-number)


def id_of(month: Month) -> str:
    """The id of a game that begins in the middle of a month."""
    at = int(datetime(month.year, month.number, 15, tzinfo=UTC).timestamp() * 1_000)
    number = next(NUMBERS)
    return str(uuid7(at + number, number.to_bytes(10, "big")))


async def make_partitions(owner: str, month: Month) -> None:
    """The partitions of a month that has passed, as they were once made ahead."""
    engine = open_engine(owner)
    async with write(engine) as connection:
        for table in ("events", "event_secrets", "work"):
            name = f"{table}_{month.suffix}"
            await connection.exec_driver_sql(
                f"CREATE TABLE {name} PARTITION OF {table} "
                f"FOR VALUES FROM ('{month.first}') TO ('{month.next.first}')"
            )
            if table != "work":
                guard = f"SELECT guard_partition('{table}', '{name}')"
                await connection.exec_driver_sql(guard)
    await close_engine(engine)


@dataclass
class Past:
    """What was played in a month; `players` sat in `left`, about which one of them complained."""

    house: System
    month: Month
    games: list[str] = field(default_factory=list)
    players: list[str] = field(default_factory=list)
    left: str = ""
    dispute: str = ""
    tombstone: str = ""

    @property
    def all(self) -> list[str]:
        """Every log."""
        return sorted([*self.games, self.left, self.dispute, self.tombstone])

    async def play(self, *variants: str) -> None:
        """A game of each of these kinds by bots, one that two people left, and a dispute about
        that."""
        for variant in variants:
            self.games.append(await self.bots(variant, 2))
        request = setup("durak", 2, 0)
        request.game_id = self.left = id_of(self.month)
        self.players = [seat.player_id for seat in request.seats]
        await self.house.open(request)
        await self.end()
        await self.complain()
        self.tombstone = id_of(self.month)
        cancel = game_pb2.CancelGameRequest(request_id=new_id(), game_id=self.tombstone)
        await self.house.lobby.call(self.house.lobby.games.CancelGame, cancel)
        await covered(self.house, self.tombstone)

    async def bots(self, variant: str, bots: int) -> str:
        """A game of bots alone that has ended and was paid out."""
        request = setup(variant, 0, bots)
        request.game_id = id_of(self.month)
        before = len(self.house.table.reports)
        await self.house.open(request)
        await settled(self.house, before + 1)
        return request.game_id

    async def end(self) -> None:
        """Both leave."""
        before = len(self.house.table.reports)
        for name in self.players:
            player = self.house.game(name)
            async with asyncio.timeout(20):
                while (await player.view(self.left)).stage != STAGE_PLAYING:
                    await asyncio.sleep(0.01)
            leave = game_pb2.LeaveGameRequest(request_id=new_id(), game_id=self.left)
            await player.call(player.games.LeaveGame, leave)
        await settled(self.house, before + 1)

    async def complain(self, *, ruled: bool = True) -> None:
        """The second complains, and an operator dismisses it."""
        player, operator = self.house.game(self.players[1]), self.house.operator
        request = audit_pb2.OpenDisputeRequest(
            request_id=new_id(), game_id=self.left, complaint="He left."
        )
        opened = await player.call(player.audits.OpenDispute, request)
        self.dispute = opened.dispute.dispute_id
        if ruled:
            await operator.call(operator.audits.ResolveDispute, self.ruling())

    async def told(self, game: str) -> tuple[str, ...]:
        """What the service tells an operator of a game: every step as the command line prints it,
        and the receipt."""
        operator = self.house.operator
        request = audit_pb2.ReplayGameRequest(game_id=game)
        steps = [s async for s in operator.client.stream(operator.audits.ReplayGame, request)]
        every = [MessageToDict(step, preserving_proto_field_name=True) for step in steps]
        lines = [json.dumps(s, ensure_ascii=False, separators=(",", ":")) + "\n" for s in every]
        return "".join(lines), (await receipt(operator, game)).decode() + "\n"

    def ruling(self) -> audit_pb2.ResolveDisputeRequest:
        """What closes the dispute."""
        return audit_pb2.ResolveDisputeRequest(
            request_id=new_id(),
            dispute_id=self.dispute,
            ruling=audit_pb2.RULING_DISMISSED,
            explanation="He may.",
        )


@dataclass(frozen=True)
class Terminal:
    """The command line against one data folder, and all that was typed and said."""

    folder: Path
    typed: list[tuple[str, str]] = field(default_factory=list)

    def lead_to(self, house: System) -> None:
        """Leave the addresses of a running house where commands look."""
        names = ("game", "wallet", "ai", "lobby")
        write_addresses(self.folder, {name: house.settings.address(name) for name in names})

    def type(self, *words: Any) -> tuple[int, str]:
        """Run a command; its exit code, and what it said; of one that ends badly its complaint."""
        said = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        wrong = io.StringIO()
        with capture_logs(), redirect_stdout(said), redirect_stderr(wrong):
            code = main([*map(str, words), "--data", str(self.folder)])
        said.seek(0)
        text = said.read()
        self.typed.append((f"kozyr {' '.join(map(str, words))}", text))
        return code, text + (wrong.getvalue() if code else "")

    async def run(self, *words: Any) -> tuple[int, str]:
        """The same while a house runs in this loop."""
        return await asyncio.to_thread(self.type, *words)

    async def said(self, *words: Any) -> str:
        """What a command says that ends well."""
        code, text = await self.run(*words)
        assert code == 0, f"{words}: {text}"
        return text

    async def write(self, month: Month, folder: Path) -> str:
        """Write a month's archive, once what is due has been done and is covered."""
        async with asyncio.timeout(20):
            while True:
                code, text = await self.run("archive", "write", "--month", month, folder)
                if code == 0:
                    return text
                assert "WORK_LEFT" in text or "NOT_COVERED" in text, text
                await asyncio.sleep(0.05)

    def shapes(self, folder: Path) -> set[tuple[str, str]]:
        """What was typed and said, the archive's folder named as the guide names it."""
        return {
            (shape(typed.replace(str(folder), ARCHIVE)), shape(said.replace(str(folder), ARCHIVE)))
            for typed, said in self.typed
        }


def shape(text: str) -> str:
    """A text without what differs from run to run: ids, keys, digests, numbers, room."""
    lines = (" ".join(line.split()) for line in text.strip().splitlines())
    plain = re.sub(ID, "ID", "\n".join(lines))
    return re.sub(r"\d+", "0", re.sub(r"\b[0-9a-f]{16,}\b", "OCTETS", plain))
