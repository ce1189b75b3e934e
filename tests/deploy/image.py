"""The image as it was built, run as a cluster would: `python -m tests.deploy.image ROOT`.

`ROOT` is the image's file system (`buildah mount`, `podman image mount`); only root can run this.
PostgreSQL is migrated by the image and the four services are run from it, each as process 1 of its
own process namespace, as user 10001, on a root that cannot be written, with keys and certificates
mounted: they speak TLS. A player plays a game of each kind with bots; then every service is told to
stop. The image's bill of materials is there and whole. Raises AssertionError.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from services.cli.addresses import make_settings
from services.cli.stack import HOST, free_ports, ready
from services.client.player import Player
from services.runtime.keys import ensure_keys
from services.runtime.settings import SERVICES
from tests import postgres
from tests.authority import OPERATORS, Authority, variables
from tests.authority import given as given_by
from tests.deploy.supply import LOCKED, amiss, locked
from tests.e2e.house import play_out, rules, start

STORED = ("lobby", "game", "wallet")
USER = 10_001
READY_SECONDS = 60.0
KEYS = Path("/run/kozyr/keys")
"""Where they are mounted, which `INSIDE` does."""
INSIDE = """
set -eu
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
mkdir -p "$1/run/kozyr/keys"
mount --bind "$2" "$1/run/kozyr/keys"
mount -o remount,bind,ro "$1/run/kozyr/keys"
root=$1
shift 2
exec chroot --userspec=10001:10001 "$root" /opt/kozyr/bin/kozyr "$@"
"""
"""What a container engine does, by hand; the arguments are the root, the keys and the command."""


async def start_inside(
    root: Path, keys: Path, words: list[str], given: Mapping[str, str], log: Path
) -> asyncio.subprocess.Process:
    """Starts `kozyr` with these words in the image, as process 1; its parent is returned."""
    with log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh"),
            *(str(root), str(keys), *words),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **given},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )


def child(parent: int) -> int:
    """The process that is number 1 in its own namespace."""
    told = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    return int(told[0])


def identity(process: int) -> str:
    """What a process is inside: the first, and not root."""
    lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
    status = {name: words for name, *words in (line.split() for line in lines)}
    assert status["Uid:"] == [str(USER)] * 4
    assert status["NSpid:"][1:] == ["1"]
    return f"process {status['NSpid:'][1]} of user {USER}"


@asynccontextmanager
async def served(
    root: Path, keys: Path, given: Mapping[str, str], logs: Path
) -> AsyncIterator[dict[str, asyncio.subprocess.Process]]:
    """The four services from the image, ready; told to stop at the end, which they all do well."""
    running = {}
    try:
        for name in SERVICES:
            words, log = ["serve", name], logs / name
            told = {**given, **certified(name)}
            running[name] = await start_inside(root, keys, words, told, log)
        for name, process in running.items():
            assert await ready(process), (name, (logs / name).read_text())
        yield running
        for name, process in running.items():
            os.kill(child(process.pid), signal.SIGTERM)
            async with asyncio.timeout(READY_SECONDS):
                assert await process.wait() == 0, (name, (logs / name).read_text())
    finally:
        for process in running.values():
            if process.returncode is None:
                process.kill()


def certified(name: str) -> dict[str, str]:
    """The variables by which a service finds its certificate; it lies beside the keys."""
    return variables(KEYS / "tls" / name)


async def check(root: Path, folder: Path) -> None:
    """Migrates, serves and plays; says what it saw."""
    keys, logs = folder / "keys", folder / "logs"
    ensure_keys(keys)
    Authority().lay_all(keys / "tls")
    for path in (keys, *keys.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    bill = json.loads((root / "opt" / "kozyr" / "sbom.json").read_text("utf-8"))
    assert amiss(bill, locked(LOCKED.read_text("utf-8"))) == []
    print(f"{len(bill['components'])} components in its bill of materials")
    logs.mkdir()
    ports = free_ports()
    urls = {name: postgres.create_database() for name in STORED}
    given = {"KOZYR_KEY_FOLDER": str(KEYS), "KOZYR_DATA_FOLDER": "/tmp"}
    given |= {"KOZYR_BOT_DELAY_MS": "0", "KOZYR_RATE_PER_SECOND": "1000"}
    for name, port in ports.items():
        given[f"KOZYR_{name.upper()}_LISTEN"] = f"{HOST}:{port}"
        given[f"KOZYR_{name.upper()}_ADDRESS"] = f"dns:///localhost:{port}"
    for name in STORED:
        given[f"KOZYR_{name.upper()}_DATABASE_URL"] = urls[name]
    waiting = await start_inside(root, keys, ["migrate", "game", "--wait", "60"], given, logs / "w")
    migrating = await start_inside(root, keys, ["migrate", "all"], given, logs / "migrate")
    assert await migrating.wait() == 0, (logs / "migrate").read_text()
    assert await waiting.wait() == 0, (logs / "w").read_text()
    print("migrated by the image; who waited for it went on")
    async with served(root, keys, given, logs) as running:
        for name, process in running.items():
            print(f"{name}: {identity(child(process.pid))}")
        settings = {f"{name}_address": f"{HOST}:{port}" for name, port in ports.items()}
        shown = given_by(keys / "tls" / OPERATORS)
        player = Player(make_settings({"key_folder": keys, **settings, **shown}))
        await player.sign_up("Nino")
        for variant in ("azi", "durak", "rami"):
            _, game = await start(player, rules(variant, 3))
            views = await play_out(player, game, Random(7))
            print(f"{variant}: {game} finished at version {views[-1].version}")
        await player.close()
    print("all four ended well on SIGTERM")


def main(root: Path) -> int:
    """Runs the check with a PostgreSQL of its own."""
    run = postgres.open_run()
    folder = Path(tempfile.mkdtemp(prefix="kozyr-image-"))
    folder.chmod(0o755)
    try:
        asyncio.run(check(root, folder))
    finally:
        shutil.rmtree(folder)
        if run is not None:
            postgres.close_run(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
