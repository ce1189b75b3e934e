"""A player's client and its seed: acknowledged, checked and kept before it is shown."""

import asyncio
import hashlib
import json
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from kozyr.game.v1 import audit_pb2, game_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2

from services.client import seeds
from services.client.player import Player
from services.client.profile import FileFault, Profile, ProfileFile, new_seed_key
from services.kernel.errors import Kind, Refused
from services.runtime.keys import PLAYERS, ensure_keys
from services.runtime.settings import Settings
from services.runtime.tokens import load_signer
from tests.services.game.system import System, setup, system

SEED_MS = 60_000
Wanted = Callable[[view_pb2.GameView], bool]


@asynccontextmanager
async def playing(
    house: System, player_id: str, folder: Path, settings: Settings | None = None
) -> AsyncIterator[Player]:
    """The client of a player whose profile lies in the folder, signed in."""
    file = ProfileFile("ann", folder)
    profile = file.read() or Profile(player_id, "Ann", "secret", new_seed_key())
    file.write(profile)
    player = Player(settings or house.settings, patience_ms=2_000)
    tokens = identity_pb2.Tokens(
        access_token=load_signer(house.settings.keys(), PLAYERS).issue(player_id, 600_000)
    )
    tokens.access_expire_time.FromSeconds(int(time.time()) + 600)
    player.be(profile, tokens)
    player._kept_in = file.acknowledgements
    try:
        yield player
    finally:
        await player.close()


async def watch_until(player: Player, game: str, wanted: Wanted) -> view_pb2.GameView:
    """Watch, contributing on the way, up to a view that is wanted."""
    async with asyncio.timeout(20), aclosing(player.follow(game)) as updates:
        async for update in updates:
            if wanted(update.view):
                return update.view
    raise AssertionError


def with_status(status: int) -> Wanted:
    """A view in which the own seed stands so."""
    return lambda view: view.seats[view.seat].seed_status == status


async def commit(house: System, player_id: str, game: str, seed: bytes) -> None:
    """Commit a seat's seed without the client."""
    seat = house.game(player_id)
    asked = game_pb2.CommitSeedRequest(
        request_id="by-hand", game_id=game, hash=hashlib.sha256(seed).digest()
    )
    await seat.call(seat.games.CommitSeed, asked)


async def test_an_acknowledgement_is_kept_with_the_seed_and_names_a_row_of_the_log(
    tmp_path: Path,
) -> None:
    """It is signed by the service's key, readable by its owner only, and kept before the reveal.

    A client that died before it had the answer gets the same one when it comes back.
    """
    async with system(tmp_path) as house:
        request = await house.open(setup(people=2, bots=0, seed_ms=SEED_MS))
        ann, bo, game = request.seats[0].player_id, request.seats[1].player_id, request.game_id
        async with playing(house, ann, tmp_path / "home") as player:
            await watch_until(player, game, with_status(view_pb2.SEED_STATUS_COMMITTED))
            made = player.acknowledged(game)
            assert made is not None
            file = ProfileFile("ann", tmp_path / "home").acknowledgements / f"{game}.json"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert seeds.find(file.parent, game) == made
            assert (made.checked, made.seed) == (True, player.seed(game).hex())
            assert made.seed not in repr(made)
            seeds.check(made, seeds.signers(house.settings))
        file.unlink()
        await commit(house, bo, game, b"b" * 32)
        async with playing(house, ann, tmp_path / "home") as player:
            await watch_until(player, game, with_status(view_pb2.SEED_STATUS_REVEALED))
            assert player.acknowledged(game) == seeds.find(file.parent, game) == made
        operator = house.operator
        log = await operator.call(operator.audits.ReadLog, audit_pb2.ReadLogRequest(game_id=game))
        heads = [row.hash.hex() for row in log.rows if row.name.endswith("SeedCommitted")]
        assert heads[0] == made.head


async def test_a_false_acknowledgement_is_refused_and_the_seed_stays_hidden(tmp_path: Path) -> None:
    """One that another key signed; nothing is kept of it as if it were good."""
    async with system(tmp_path / "house") as house:
        request = await house.open(setup(people=1, bots=1, seed_ms=SEED_MS))
        ann, game = request.seats[0].player_id, request.game_id
        ensure_keys(tmp_path / "other")
        deceived = house.settings.model_copy(update={"key_folder": tmp_path / "other"})
        async with playing(house, ann, tmp_path / "home", deceived) as player:
            with pytest.raises(Refused, match="ACKNOWLEDGEMENT_FALSE"):
                await watch_until(player, game, with_status(view_pb2.SEED_STATUS_REVEALED))
            assert player.acknowledged(game) is None
            view = await player.view(game)
            assert view.seats[view.seat].seed_status == view_pb2.SEED_STATUS_COMMITTED


async def test_without_a_key_an_acknowledgement_is_kept_unchecked(tmp_path: Path) -> None:
    """And says so; the game goes on."""
    async with system(tmp_path / "house") as house:
        request = await house.open(setup(people=1, bots=1, seed_ms=SEED_MS))
        keyless = house.settings.model_copy(update={"key_folder": tmp_path / "none"})
        async with playing(house, request.seats[0].player_id, tmp_path / "home", keyless) as ann:
            revealed = with_status(view_pb2.SEED_STATUS_REVEALED)
            await watch_until(ann, request.game_id, revealed)
            made = ann.acknowledged(request.game_id)
    assert made is not None
    assert not made.checked


async def test_an_unexpected_refusal_is_no_success(tmp_path: Path) -> None:
    """A seed that another hash stands for is not passed over; a phase that was closed is."""
    async with system(tmp_path) as house:
        request = await house.open(setup(people=1, bots=1, seed_ms=SEED_MS))
        ann, game = request.seats[0].player_id, request.game_id
        await commit(house, ann, game, b"another seed altogether, 32 bytes")
        async with playing(house, ann, tmp_path / "home") as player:
            with pytest.raises(Refused) as refused:
                await watch_until(player, game, with_status(view_pb2.SEED_STATUS_REVEALED))
        assert (refused.value.kind, refused.value.reason) == (Kind.PRECONDITION, "SEED_MISMATCH")
        closed = await house.open(setup(people=1, bots=1, seed_ms=1))
        ann = closed.seats[0].player_id
        async with playing(house, ann, tmp_path / "late") as player:
            dealt = await watch_until(
                player, closed.game_id, lambda view: view.stage == view_pb2.STAGE_PLAYING
            )
            player._contributed.clear()
            early = view_pb2.GameView(game_id=closed.game_id, seat=0, seats=dealt.seats)
            early.stage, early.seats[0].seed_status = (
                view_pb2.STAGE_COMMITTING,
                view_pb2.SEED_STATUS_AWAITED,
            )
            await player._contribute(early)


def test_a_damaged_acknowledgement_is_named(tmp_path: Path) -> None:
    """A file that is none stops the command and is left alone."""
    (tmp_path / "g.json").write_text(json.dumps({"format": "other"}), "utf-8")
    with pytest.raises(FileFault, match=r"g\.json is damaged"):
        seeds.find(tmp_path, "g")
    assert seeds.find(tmp_path, "another") is None
