"""The wallet's process is killed under load: what was acknowledged is stored, once."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import orjson
import pytest
import sqlalchemy as sa
from kozyr.wallet.v1 import wallet_pb2 as pb
from kozyr.wallet.v1.wallet_pb2_grpc import WalletServiceStub

from services.runtime.database import close_engine, open_engine
from services.runtime.settings import Settings
from services.runtime.tokens import load_signer
from services.wallet.server import FOLDERS
from tests import postgres
from tests.services.wallet.book_keeping import balance, check_books
from tests.services.wallet.conftest import ENGINES, database
from tests.services.wallet.counter import WELCOME, settings

CLIENTS = 8
ACKNOWLEDGED = 40
"""Acknowledged grants after which the process is killed, in each of two lives."""


async def start(folder: Path, url: str) -> tuple[asyncio.subprocess.Process, str]:
    """A wallet process on the folder and the address it listens on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.wallet.server"),
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KOZYR_DATA_FOLDER": str(folder),
            "KOZYR_WALLET_DATABASE_URL": url,
            "KOZYR_WALLET_LISTEN": "127.0.0.1:0",
            "KOZYR_WELCOME_CHIPS": str(WELCOME),
            "KOZYR_LOG_LEVEL": "error",
            "KOZYR_RATE_PER_SECOND": "100000",
            "KOZYR_RATE_BURST": "100000",
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        line = await process.stdout.readline()
    return process, str(orjson.loads(line)["address"])


class Load:
    """Grants of one chip each from several clients until the wallet dies; who was told what."""

    def __init__(self, given: Settings, account: str) -> None:
        token = load_signer(given.keys(), "operators").issue("olga", 60_000)
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.account = account
        self.sent: set[str] = set()
        self.told: set[str] = set()

    async def grant(self, stub: Any, name: str) -> None:
        """One grant; counts as told only when the answer came."""
        self.sent.add(name)
        request = pb.GrantRequest(request_id=name, account_id=self.account, chips=1, reason="x")
        await stub.Grant(request, metadata=self.metadata)
        self.told.add(name)

    async def run(self, address: str, life: int, enough: asyncio.Event) -> None:
        """Clients that grant until their calls fail; `enough` is set on the way."""
        until = len(self.told) + ACKNOWLEDGED

        async def client(number: int) -> None:
            async with grpc.aio.insecure_channel(address) as channel:
                stub = WalletServiceStub(channel)
                for n in range(10_000):
                    try:
                        await self.grant(stub, f"{life}-{number}-{n}")
                    except grpc.aio.AioRpcError:
                        return
                    if len(self.told) >= until:
                        enough.set()

        await asyncio.gather(*(client(number) for number in range(CLIENTS)))


async def left_alone(url: str) -> None:
    """Wait until PostgreSQL has noticed that the killed process is gone: a statement that had
    arrived is carried out to its end."""
    others = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    engine = open_engine(url)
    async with asyncio.timeout(20), engine.connect() as connection:
        while (await connection.execute(others)).scalar_one():
            await connection.rollback()
            await asyncio.sleep(0.02)
    await close_engine(engine)


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_was_acknowledged_is_stored_once(kind: str, tmp_path: Path) -> None:
    """Two lives end by SIGKILL; asking again in the third adds what was unknown, nothing twice."""
    with database(kind, tmp_path) as url:
        await live_and_die(settings(tmp_path), await postgres.migrated(url, FOLDERS))


async def live_and_die(given: Settings, url: str) -> None:
    """Three lives of a wallet on one database; the first two are cut short under load."""
    account = uuid4()
    load = Load(given, str(account))
    lobby = load_signer(given.keys(), "lobby").issue("lobby", 60_000)
    for life in range(3):
        process, address = await start(given.data_folder, url)
        async with grpc.aio.insecure_channel(address) as channel:
            stub = WalletServiceStub(channel)
            await stub.OpenAccount(
                pb.OpenAccountRequest(
                    request_id="open", account_id=str(account), kind=pb.ACCOUNT_KIND_PLAYER
                ),
                metadata=(("authorization", f"Bearer {lobby}"),),
            )
            if life == 2:
                for name in sorted(load.sent):
                    await load.grant(stub, name)
        if life < 2:
            enough = asyncio.Event()
            clients = asyncio.create_task(load.run(address, life, enough))
            async with asyncio.timeout(60):
                await enough.wait()
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await clients
            if url.startswith("postgresql"):
                await left_alone(url)
            engine = open_engine(url)
            stored = await balance(engine, account) - WELCOME
            await check_books(engine)
            await close_engine(engine)
            assert len(load.told) <= stored <= len(load.sent)
        else:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    engine = open_engine(url)
    assert await balance(engine, account) == WELCOME + len(load.sent)
    await check_books(engine)
    await close_engine(engine)
