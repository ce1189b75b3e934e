"""The wallet's process: its database, its servicer, and what runs beside them."""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from kozyr.wallet.v1 import wallet_pb2
from kozyr.wallet.v1.wallet_pb2_grpc import add_WalletServiceServicer_to_server

from services.kernel.errors import Refused
from services.runtime import log, metrics
from services.runtime.database import DATABASE_ERRORS, SQLITE, close_engine, open_engine
from services.runtime.health import Probe
from services.runtime.migrate import migrate_engine
from services.runtime.server import Process, Service, run
from services.runtime.settings import Settings
from services.runtime.store.api import StoreUnavailable
from services.wallet import migrations
from services.wallet.ledger import Ledger
from services.wallet.servicer import WalletServicer
from services.wallet.statements import check_writable, sums_of_balances
from services.wallet.wake import Wake
from services.wallet.watch import Watch

NAME = "wallet"
FOLDERS: tuple[Path, ...] = (migrations.FOLDER,)
"""The version folders of the wallet's database."""
EXPIRE_S = 1.0
"""How often expired reservations are looked for."""
SUM_S = 30.0
"""How often health sums all balances."""


class Unsound(Exception):
    """The balances of all accounts do not sum to zero."""


async def compose(process: Process) -> Service:
    """Open the wallet; an embedded database is brought up to date first."""
    url = process.settings.database_url(NAME)
    engine = open_engine(url)
    if url.startswith(SQLITE):
        await migrate_engine(engine, FOLDERS)
    wake = Wake()
    ledger = Ledger(engine, wake)
    watch = Watch(ledger, wake, process.drain, heartbeat_s=process.settings.heartbeat_ms / 1000)
    servicer = WalletServicer(ledger, watch, process.settings.welcome_chips, process.seal_key)

    async def close() -> None:
        await ledger.close()
        await close_engine(engine)

    return Service(
        add=lambda server: add_WalletServiceServicer_to_server(servicer, server),
        files=(wallet_pb2.DESCRIPTOR,),
        checks=checks(ledger),
        tasks={"expire": lambda: expire_for_ever(ledger), "committer": ledger.committer.watch},
        close=close,
    )


def checks(ledger: Ledger) -> Mapping[str, Probe]:
    """What must hold for the wallet to be healthy."""
    engine, summed_at = ledger.engine, float("-inf")

    async def balances() -> None:
        nonlocal summed_at
        if time.monotonic() - summed_at >= SUM_S:
            sums = await sums_of_balances(engine)
            for kind, chips in sums.items():
                metrics.CHIPS.of(kind.name.lower()).set(chips)
            drift = sum(sums.values())
            metrics.DRIFT.of().set(drift)
            if drift:
                raise Unsound
            summed_at = time.monotonic()

    async def committer() -> None:
        ledger.committer.check()

    return {
        "database": lambda: check_writable(engine),
        "balances": balances,
        "committer": committer,
    }


async def expire_for_ever(ledger: Ledger) -> None:
    """Give expired reservations back, whether anybody asks for them or not."""
    while True:
        await asyncio.sleep(EXPIRE_S)
        try:
            await ledger.expire()
        except (Refused, StoreUnavailable, *DATABASE_ERRORS) as error:
            log.get().warning("expiry_waits", task="expire", **log.failure(error))


def main(settings: Settings | None = None) -> int:
    """Serve the wallet until a signal; the exit code."""
    return run(NAME, compose, settings)


if __name__ == "__main__":
    sys.exit(main())
