"""The law of an erasure: whatever fails, wherever a lobby dies, it ends, and all is gone once."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, insert, select

from services.kernel.errors import Kind, Refused
from services.lobby.commands import Open, TakeSeat
from services.lobby.erasures import Erasure, Step, Wish
from services.lobby.model import Phase
from services.lobby.players import FORMER
from services.lobby.schema import PERSONAL, devices, externals, logins, refresh_tokens
from services.lobby.schema import players as players_table
from services.runtime.database import read, write
from tests import postgres
from tests.services.lobby.peers import WELCOME, Peers, peers
from tests.services.lobby.saga import (
    CRASHES,
    GAME,
    TOKENS_MS,
    Crash,
    Fault,
    Rig,
    Script,
    rig,
)
from tests.services.lobby.tables import azi_rules

NAME = "Zurab Qartveli-77"
LOGIN = "zurab.of-tbilisi-77"
DEVICE = "Phone of Zurab 77"
REQUEST = "a-long-request-id-nobody-guesses"
CALLS = ("CheckErasure", "OpenAccount", "Forfeit", "ErasePlayer")
"""What other services are asked."""
NOTES = ("begin", "advance", "remove", "rest", "put_off")
"""What is written down."""
PASSED = (Fault.UNSENT, Fault.UNANSWERED, Fault.TOO_SLOW)
POINTS = [
    *((name, n, fault) for name in CALLS for n in (0, 1) for fault in (*CRASHES, *PASSED)),
    *((name, n, fault) for name in NOTES for n in range(4) for fault in CRASHES),
]


def no_fault(_name: str, _number: int) -> Fault:
    """All goes well."""
    return Fault.NONE


def at(name: str, number: int, fault: Fault) -> Script:
    """One fault, at one place."""
    return lambda n, k: fault if (n, k) == (name, number) else Fault.NONE


@asynccontextmanager
async def others(folder: Path, database: str) -> AsyncIterator[Peers]:
    """A wallet and a game service, and a lobby's database of its own."""
    async with peers(folder) as made:
        if database == "sqlite":
            yield made
            return
        url = postgres.create_database()
        try:
            yield made.afresh(url)
        finally:
            postgres.drop_database(url)


@dataclass
class Gone:
    """A player who is to be erased."""

    lobby: Rig
    player: UUID
    secret: str
    refresh: str

    @property
    def wish(self) -> Wish:
        """He wants it himself, and gives his chips up."""
        return Wish(self.player, NAME, "", give_up_chips=True, leave_claims=False)

    async def until(self, step: Step) -> Erasure:
        """Ask, ask again, die and go on, until the erasure has come to a step."""
        lobby, asked = self.lobby, False
        for _ in range(60):
            try:
                if not asked:
                    await lobby.erasing.erase(self.wish)
                    asked = True
                for player in await lobby.erasures.due():
                    held = await lobby.erasures.hold(player)
                    if held is not None:
                        await lobby.erasing.carry(held)
            except Refused as refused:
                if refused.kind not in (Kind.UNAVAILABLE, Kind.EXPIRED, Kind.CONFLICT):
                    raise
            except Crash:
                await lobby.close()
                await lobby.open()
            found = await lobby.erasures.find(self.player)
            if found is not None and found.step >= step:
                return found
            lobby.clock += 30_000_000 if step < Step.ENDED else TOKENS_MS * 1_000
        raise AssertionError("the erasure never came to its end")


@asynccontextmanager
async def somebody(among: Peers, script: Script) -> AsyncIterator[Gone]:
    """A player with chips, a text and two sign-ins, and a lobby in which things go wrong."""
    async with rig(among, script) as lobby:
        made = await lobby.players.sign_up(NAME, REQUEST)
        player = made.player.player
        await lobby.players.sign_in(player, made.secret, DEVICE)
        await known_otherwise(lobby, player)
        among.hall.texts[str(player)] = ["That was not right."]
        among.bank.balances[str(player)] = WELCOME
        among.bank.issued += WELCOME
        yield Gone(lobby, player, made.secret, made.refresh.token)


async def known_otherwise(lobby: Rig, player: UUID) -> None:
    """He has a login name, a device and an external identity."""
    key = secrets.token_bytes(32)
    login = {"login_name": LOGIN, "password": "$", "request": key, "changed_at": 1}
    device = {"device_id": UUID(int=7), "device_name": DEVICE, "public_key": key, "created_at": 1}
    outside = {"identity": key, "issuer": "https://issuer", "created_at": 1}
    async with write(lobby.engine) as connection:
        for table, row in ((logins, login), (devices, device), (externals, outside)):
            await connection.execute(insert(table).values(player_id=player, **row))


async def count(lobby: Rig, table: Any) -> int:
    """The rows of a table."""
    async with read(lobby.engine) as connection:
        found: int = (
            await connection.execute(select(func.count()).select_from(table))
        ).scalar_one()
        return found


async def check_all_is_gone(gone: Gone, among: Peers, folder: Path) -> None:
    """The chips once, the texts, the row, the tokens, and on SQLite the octets."""
    lobby, player = gone.lobby, gone.player
    found = await lobby.erasures.find(player)
    assert found is not None
    assert (found.step, found.chips) == (Step.ENDED, WELCOME)
    assert among.bank.balances == {str(player): 0}
    assert among.bank.total() == among.bank.issued == 0
    assert among.hall.texts == {}
    for table in (players_table, refresh_tokens, *PERSONAL):
        assert await count(lobby, table) == 0
    assert (await lobby.players.find([player]))[player].name == FORMER
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await lobby.players.sign_in(player, gone.secret)
    with pytest.raises(Refused, match="REFRESH_TOKEN_INVALID"):
        await lobby.players.sessions.refresh(gone.refresh)
    for held in (NAME, LOGIN, DEVICE):
        assert held.encode() not in octets(folder)


def octets(folder: Path) -> bytes:
    """What lies in a lobby's embedded database, beside it in its log included."""
    return b"".join(file.read_bytes() for file in folder.glob("lobby.db*"))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_an_erasure_survives_a_fault_at_any_place(tmp_path: Path, database: str) -> None:
    """One fault at each place, of each kind, the second time too, and each death before and after
    each note: it ends, and all is gone once."""
    places = POINTS if database == "sqlite" else POINTS[:: len(POINTS) // 8]
    for number, point in enumerate(places):
        folder = tmp_path / str(number)
        async with others(folder, database) as among, somebody(among, at(*point)) as gone:
            await gone.until(Step.ENDED)
            await check_all_is_gone(gone, among, folder)


@pytest.mark.parametrize("seed", range(12))
async def test_an_erasure_survives_many_faults(tmp_path: Path, seed: int) -> None:
    """Every third call or note fails in some way, until a dozen have."""
    rng, left = Random(seed), [12]

    def script(name: str, _number: int) -> Fault:
        if name not in (*CALLS, *NOTES) or not left[0] or rng.random() > 0.35:
            return Fault.NONE
        left[0] -= 1
        return rng.choice((*CRASHES, *PASSED) if name in CALLS else CRASHES)

    async with others(tmp_path, "sqlite") as among, somebody(among, script) as gone:
        await gone.until(Step.ENDED)
        await check_all_is_gone(gone, among, tmp_path)


@pytest.mark.parametrize("fault", [Fault.NONE, *CRASHES])
async def test_a_refusal_of_the_wallet_takes_the_wish_back(tmp_path: Path, fault: Fault) -> None:
    """Who does not give his chips up stays as he was, also if the lobby dies on the way."""
    script = at("Forfeit", 0, fault)
    async with others(tmp_path, "sqlite") as among, somebody(among, script) as gone:
        wish = Wish(gone.player, NAME, "", give_up_chips=False, leave_claims=False)
        if fault is not Fault.NONE:
            with pytest.raises(Crash):
                await gone.lobby.erasing.erase(wish)
            await gone.lobby.close()
            await gone.lobby.open()
            gone.lobby.clock += 60_000_000
        with pytest.raises(Refused, match="CHIPS_LEFT"):
            await gone.lobby.erasing.erase(wish)
        assert await gone.lobby.erasures.find(gone.player) is None
        assert among.bank.balances == {str(gone.player): WELCOME}
        assert among.hall.texts
        player, _ = await gone.lobby.players.sign_in(gone.player, gone.secret)
        assert player.name == NAME


@pytest.mark.parametrize("step", [Step.ASKED, Step.AGREED])
async def test_while_it_is_asked_the_player_sits_down_nowhere(tmp_path: Path, step: Step) -> None:
    """Nor does he get a token; when it is refused he can again."""
    name = "CheckErasure" if step is Step.ASKED else "Forfeit"
    script = at(name, 0, Fault.UNSENT)
    async with others(tmp_path, "sqlite") as among, somebody(among, script) as gone:
        lobby = gone.lobby
        with pytest.raises(Refused, match="PEER_UNAVAILABLE"):
            await lobby.erasing.erase(gone.wish)
        found = await lobby.erasures.find(gone.player)
        assert found is not None
        assert found.step is step
        for asked in (
            lobby.players.sign_in(gone.player, gone.secret),
            lobby.players.sessions.refresh(gone.refresh),
            lobby.players.sign_up(NAME, REQUEST),
            lobby.players.require_staying(gone.player),
        ):
            with pytest.raises(Refused, match=r"BEING_ERASED|ALREADY_SIGNED_UP"):
                await asked


async def test_a_seat_taken_meanwhile_is_left_and_starts_no_game(tmp_path: Path) -> None:
    """The call had been let in before the erasure was asked for, and came to its table after."""
    async with others(tmp_path, "sqlite") as among, somebody(among, no_fault) as gone:
        lobby = gone.lobby
        await gone.until(Step.SHREDDED)
        await lobby.do(Open(UUID(int=9), azi_rules(2), 0, GAME, ready=True), 1)
        await lobby.do(TakeSeat(gone.player, None, 0, "", GAME, ready=True), 2)
        assert (await lobby.table()).phase is Phase.STARTING
        await lobby.work()
        table = await lobby.table()
        assert (table.phase, table.failure) == (Phase.WAITING, "PLAYER_ERASED")
        assert among.hall.opened == {}
        assert set(among.bank.balances) == {str(gone.player)}
        await gone.until(Step.ENDED)
        assert (await lobby.table()).seat_of(gone.player) is None
        await check_all_is_gone(gone, among, tmp_path)


async def test_what_is_written_with_the_last_token_goes_too(tmp_path: Path) -> None:
    """A complaint after the erasure, by a token that was still out: gone when that has ended."""
    async with others(tmp_path, "sqlite") as among, somebody(among, no_fault) as gone:
        await gone.until(Step.SHREDDED)
        among.hall.texts[str(gone.player)] = ["One word more."]
        assert await gone.lobby.erasures.due() == []
        gone.lobby.clock += TOKENS_MS * 1_000
        assert await gone.lobby.erasures.due() == []  # a clock may be late, a call just begun
        await gone.until(Step.ENDED)
        await check_all_is_gone(gone, among, tmp_path)


async def test_two_lobbies_at_one_erasure_agree(tmp_path: Path) -> None:
    """One takes it further, the other is told to ask again; a lease that ran out changes hands."""
    async with (
        others(tmp_path, "sqlite") as among,
        somebody(among, no_fault) as gone,
        rig(among, no_fault) as second,
    ):
        held = await gone.lobby.erasures.begin(gone.wish)
        second.clock = gone.lobby.clock
        with pytest.raises(Refused, match="ERASURE_UNDER_WAY") as caught:
            await second.erasing.erase(gone.wish)
        assert caught.value.retry_after_ms
        second.clock += 60_000_000
        done = await second.erasing.erase(gone.wish)
        assert done.step is Step.SHREDDED
        with pytest.raises(Refused, match="ERASURE_UNDER_WAY"):
            await gone.lobby.erasing.carry(held)
        gone.lobby.clock = second.clock
        await gone.until(Step.ENDED)
        await check_all_is_gone(gone, among, tmp_path)


async def test_names_in_memory_go_on_every_replica(tmp_path: Path) -> None:
    """In the lobby that erased at once; another looks it up again once it has heard of it."""
    async with (
        others(tmp_path, "sqlite") as among,
        somebody(among, no_fault) as gone,
        rig(among, no_fault) as second,
    ):
        for lobby in (gone.lobby, second):
            assert (await lobby.players.find([gone.player]))[gone.player].name == NAME
        await gone.until(Step.SHREDDED)
        assert (await gone.lobby.players.find([gone.player]))[gone.player].name == FORMER
        second.clock = gone.lobby.clock
        second.players.forget(await second.erasures.erased_within(60_000_000))
        known = (await second.players.find([gone.player]))[gone.player]
        assert (known.name, known.erased) == (FORMER, True)
