"""Every frozen version opens under the present code, on both engines: nothing stored is lost."""

import gzip
import shutil
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest
from kozyr.game.events.v1 import game_pb2 as stored
from pydantic import SecretStr

from services.game import audit, domain, settled
from services.game.disputes import DECIDER, DISPUTE_VERSION
from services.game.games import Games, decider
from services.game.outages import Outages
from services.game.pacing import AT_ONCE
from services.game.reactions import Reactions, settlement
from services.game.rulebook import engine_for
from services.lobby.model import Phase
from services.lobby.players import Players
from services.lobby.tables import DECIDER as TABLES
from services.runtime.database import close_engine, open_engine
from services.runtime.feed import Feed
from services.runtime.migrate import migrate, migrate_engine
from services.runtime.settings import Settings
from services.runtime.streams import Streams
from services.wallet import requests as wallet_requests
from services.wallet import views as wallet_views
from services.wallet.batch import Request
from services.wallet.books import Books
from services.wallet.ledger import Ledger
from services.wallet.statements import read_game, read_trial
from services.wallet.wake import Wake
from tests import postgres
from tests.fixtures import dumps
from tests.fixtures.frozen import FOLDERS, Frozen, described, game_ids, last_state, logs, opened
from tests.runtime.stored import verify_stream

FROZEN = [
    Frozen(folder)
    for folder in sorted((Path(__file__).parent / "fixtures").iterdir())
    if (folder / "content.json").exists()
]
ENGINES = ("sqlite", "postgresql")
Present = dict[str, dict[str, str]]


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda f: f.folder.name)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_frozen_version_lives_on(
    frozen: Frozen, engine: str, tmp_path: Path, present: Present
) -> None:
    """Migrated by the present code, its games verify and end as they ended, those that ran are
    played to their end and paid out, its tables load and its books balance."""
    recorded = frozen.games()
    shutil.copytree(frozen.data, tmp_path, dirs_exist_ok=True)
    settings = Settings(data_folder=tmp_path)
    made = []
    try:
        if engine == "postgresql":
            urls = {service: postgres.create_database() for service in FOLDERS}
            made = list(urls.values())
            for service, url in urls.items():
                dump = gzip.decompress(frozen.dump(service).read_bytes()).decode()
                await dumps.load_postgres(url, dump)
            given = {f"{service}_database_url": SecretStr(url) for service, url in urls.items()}
            settings = settings.model_copy(update=given)
        await _games_live_on(settings, recorded)
        await _books_balance(settings, game_ids(recorded, running=True))
        await _tables_load(settings, recorded)
        await _players_sign_in(settings, frozen.players())
        assert await _schemas(settings, engine) == present[engine]
    finally:
        for url in made:
            postgres.drop_database(url)


async def _games_live_on(settings: Settings, recorded: dict[str, Any]) -> None:
    running = game_ids(recorded, running=True)
    assert len(running) >= 3
    moment = 0
    async with opened(settings, "game") as store:
        async for head in store.streams():
            assert await verify_stream(store, head.stream) is None
        found = {}
        async for head, rows in logs(store):
            assert audit.verify_log(head.stream, rows, head) == []
            found[str(head.stream)] = described(rows)
            moment = max(moment, last_state(rows).deadline or 0)
        assert found == recorded
    # The moment at which the last of the turns that were being thought about is over.
    async with opened(settings, "game", clock=lambda: moment) as store:
        games = Games(store, decider(AT_ONCE), Feed(store), Outages(store._engine, 3_000))
        disputes = Streams(store, DECIDER)
        ruled = [
            (await disputes.load(head.stream)).state.ruled is not None
            async for head in store.streams()
            if head.stream.version == DISPUTE_VERSION
        ]
        assert sorted(ruled) == [False, True]
        await _due_work_is_done(games, running)
        for game_id in running:
            await _play_on(games, game_id)
            rows = await store.read(game_id)
            assert audit.verify_log(game_id, rows, await store.head(game_id)) == []


async def _due_work_is_done(games: Games, running: list[UUID]) -> None:
    """What was to happen later is understood: where a turn's time is up the rule's move is made."""
    before = {game_id: (await games.load(game_id)).version for game_id in running}
    reactions = Reactions(games, cast(Any, None), cast(Any, None), AT_ONCE)
    for row in await games.store.claim("later", limit=100, lease_ms=1_000):
        if row.kind == "turn":
            await reactions.handle(row.kind, row)
    for game_id in running:
        assert (await games.load(game_id)).version > before[game_id]


async def _play_on(games: Games, game_id: UUID) -> None:
    """Random legal moves to the end of a game."""
    rng = Random(0)
    state = (await games.load(game_id)).state
    while not state.ended:
        engine = engine_for(state.rules)
        seat = rng.choice(engine.to_act(state.engine))
        move = rng.choice(engine.legal(state.engine, seat))
        outcome = await games.act(
            game_id,
            domain.Play(seat, state.turn, move, by_bot=state.seats[seat].is_bot),
            request_id=f"on:{state.version}",
            metadata=stored.Metadata(actor="player"),
        )
        state = outcome.state
    assert state.result is not None


async def _books_balance(settings: Settings, were_running: list[UUID]) -> None:
    """Every game's chips are where its log says; the games that went on are paid out."""
    engine = open_engine(settings.database_url("wallet"))
    await migrate_engine(engine, FOLDERS["wallet"])
    ledger = Ledger(engine, Wake())
    assert (await read_trial(engine)).sound
    with_chips = 0
    async with opened(settings, "game") as store:
        async for head, rows in logs(store):
            state = last_state(rows)
            if not any(seat.reservation_id for seat in state.seats):
                continue
            with_chips += 1
            if head.stream in were_running:
                asked = settlement(head.stream, state, head.hash)
                request = Request("service:game", asked.request_id, bytes(32))
                await ledger.execute(wallet_requests.read_settle(asked), request, _no_answer)
            game, reservations, _ = await read_game(engine, head.stream)
            books = wallet_views.show_reservations(game, reservations)
            assert settled.compare(state, head.hash, books, state.recorded_at) == []
            assert books.settled_head == head.hash
    assert with_chips >= 2
    trial = await read_trial(engine)
    assert trial.sound
    assert trial.total == trial.held == 0
    await ledger.close()
    await close_engine(engine)


def _no_answer(_: Books) -> bytes:
    return b""


async def _tables_load(settings: Settings, recorded: dict[str, Any]) -> None:
    """Every table is read, and those whose game runs know which."""
    async with opened(settings, "lobby") as store:
        tables = Streams(store, TABLES)
        found = [(await tables.load(head.stream)).state async for head in store.streams()]
        async for head in store.streams():
            assert await verify_stream(store, head.stream) is None
    playing = {table.game for table in found if table.phase is Phase.PLAYING}
    assert playing == set(game_ids(recorded, running=True))
    assert {str(table.game) for table in found if table.game} == set(recorded)
    (waiting,) = [table for table in found if not table.game]
    assert waiting.phase is Phase.WAITING
    assert waiting.rules is not None
    assert waiting.rules.invite_code
    assert [seat.ready for _, seat in waiting.taken()] == [True]


async def _players_sign_in(settings: Settings, secrets: dict[UUID, str]) -> None:
    """Players have their names and come in with the secrets they were given then."""
    engine = open_engine(settings.database_url("lobby"))
    players = Players(engine)
    names = {(await players.sign_in(player, secret))[0].name for player, secret in secrets.items()}
    assert names == {"Ana", "Boris"}
    await close_engine(engine)


async def _schemas(settings: Settings, engine: str) -> dict[str, str]:
    """Each service's schema as it stands, but for partitions: old rows lie in one of their own."""
    if engine == "sqlite":
        return {s: dumps.sqlite_schema(settings.data_folder / f"{s}.db") for s in FOLDERS}
    urls = {s: settings.database_url(s) for s in FOLDERS}
    return {s: await dumps.postgres_schema(url, partitions=False) for s, url in urls.items()}


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Present:
    """What new databases are made of, by engine and service."""
    folder = tmp_path_factory.mktemp("present")

    async def make() -> Present:
        made: Present = {engine: {} for engine in ENGINES}
        for service, versions in FOLDERS.items():
            path, url = folder / f"{service}.db", postgres.create_database()
            await migrate(f"sqlite+aiosqlite:///{path}", versions)
            made["sqlite"][service] = dumps.sqlite_schema(path)
            await migrate(url, versions)
            made["postgresql"][service] = await dumps.postgres_schema(url, partitions=False)
            postgres.drop_database(url)
        return made

    return postgres.in_own_loop(make())


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda f: f.folder.name)
@pytest.mark.parametrize("service", FOLDERS)
async def test_a_frozen_schema_is_migrated_to_the_present_one(
    frozen: Frozen, service: str, postgres_url: str, tmp_path: Path, present: Present
) -> None:
    """On both engines: the schema alone, then the migrations since, is what a new database is."""
    path = tmp_path / f"{service}.db"
    dumps.load_sqlite(path, frozen.schema(service, "sqlite").read_text("utf-8"))
    await migrate(f"sqlite+aiosqlite:///{path}", FOLDERS[service])
    assert dumps.sqlite_schema(path) == present["sqlite"][service]
    script = frozen.schema(service, "postgresql").read_text("utf-8")
    await dumps.load_postgres(postgres_url, script)
    await migrate(postgres_url, FOLDERS[service])
    found = await dumps.postgres_schema(postgres_url, partitions=False)
    assert found == present["postgresql"][service]


def test_the_release_is_frozen() -> None:
    """There is a frozen version, and it holds games of every kind, ended and running."""
    assert FROZEN
    for frozen in FROZEN:
        recorded = frozen.games()
        for running in (False, True):
            kinds = {
                recorded[str(i)]["rules"].split()[0] for i in game_ids(recorded, running=running)
            }
            assert kinds == {"azi", "durak", "rami"}
