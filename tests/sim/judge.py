"""The judge: reads what is stored after every step, and says what must never be.

Its own copy of each game is folded from the rows, one event after the other, and every promise is
checked against it: to players (what was acknowledged is stored once), to watchers (no version is
left out), to everybody's chips and cards.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kozyr.game.v1 import game_pb2, view_pb2
from kozyr.wallet.v1 import wallet_pb2

from services.game import codec, receipts, views
from services.game.checking import check_game
from services.game.evolve import evolve
from services.game.model import EngineEvent, GameOpened, Stage, State
from services.game.rulebook import engine_for
from services.game.settled import compare
from services.game.tree_audit import verify_tree
from services.kernel.decider import fold
from services.kernel.envelope import Recorded, appends
from services.lobby.model import GameEnded, GameStarted, StartFailed
from services.lobby.tables import DECIDER
from services.runtime.database import open_engine
from services.runtime.keys import load_private, master_keys, public_keys
from services.runtime.settings import Settings
from services.runtime.store.sql import SqlStore
from tests.engines import azi_worlds
from tests.services.game.stopped import still
from tests.sim import knowledge
from tests.sim.knowledge import Known
from tests.sim.machine import CONNECT
from tests.sim.records import Record, Sitting
from verifier.verify import verify
from verifier.wrong import Wrong

PINNED, SETTLED, VOIDED = 2, 3, 4
BEATS_US = 2_000_000
"""By how much a gap that the services notice may differ from the true one."""


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(slots=True)
class Down:
    """Spans without any game process, Unix microseconds; the last may still last."""

    spans: list[tuple[int, int | None]] = field(default_factory=list)

    def lost_us(self, since: int, until: int, shortest_us: int) -> int:
        """How much of a span was in outages that count."""
        lost = 0
        for began, ended in self.spans:
            end = until if ended is None else ended
            if end - began > shortest_us:
                lost += max(0, min(end, until) - max(began, since))
        return lost


class Judge:
    """Everything that must hold. Raises Broken, or leaves `problem` for the run to raise."""

    def __init__(self, folder: Path, settings: Settings, note: Callable[[str], None]) -> None:
        self.note = note
        self.settings = settings
        self.games: dict[UUID, Record] = {}
        self.tables: dict[UUID, Sitting] = {}
        self.down = Down()
        self.problem: str | None = None
        self.steps = 0
        self.stored: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._stores = {
            "game": SqlStore(open_engine(settings.database_url("game")), master_keys(settings)),
            "lobby": SqlStore(open_engine(settings.database_url("lobby")), None),
        }
        self._raw = {
            name: CONNECT(f"file:{folder}/{name}.db?mode=ro", uri=True)
            for name in ("game", "lobby", "wallet")
        }
        self._seen: dict[str, Any] = {}
        self._looking: asyncio.Task[None] | None = None
        self._acknowledged: list[tuple[UUID, str, int]] = []

    # ------------------------------------------------------------------------------------ looking

    def look_soon(self) -> None:
        """A step was made: look as soon as it is this task's turn."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_and_tell())

    async def _look_and_tell(self) -> None:
        try:
            await self.look()
        except Broken as broken:
            self.broken(str(broken))

    def broken(self, problem: str) -> None:
        """Something must not be; the first such problem ends the run."""
        if self.problem is None:
            self.problem = problem
            self.note(f"BROKEN {problem}")

    async def look(self) -> None:
        """Take in what was stored since the last look, and check it."""
        async with self._turn:
            before = self._wallet_games()
            if self._changed("lobby"):
                for stream, version in self._heads("lobby"):
                    sitting = self.tables.setdefault(stream, Sitting())
                    if version > sitting.version:
                        rows = await self._stores["lobby"].read(stream, after=sitting.version)
                        self._sit(stream, sitting, rows)
            if self._changed("game"):
                for stream, version in self._heads("game"):
                    record = self.games.setdefault(stream, Record())
                    if version > len(record.rows):
                        rows = await self._stores["game"].read(stream, after=len(record.rows))
                        self._follow(stream, record, rows)
            self._weigh(before)
            self.steps += 1

    def _changed(self, name: str) -> bool:
        version = self._raw[name].execute("PRAGMA data_version").fetchone()[0]
        changed = self._seen.get(name) != version
        self._seen[name] = version
        return bool(changed)

    def _heads(self, name: str) -> list[tuple[UUID, int]]:
        found = self._raw[name].execute("SELECT stream, version FROM heads ORDER BY stream")
        return [(UUID(stream), version) for stream, version in found.fetchall()]

    def _wallet_games(self) -> dict[UUID, int]:
        found = self._raw["wallet"].execute("SELECT id, state FROM games")
        return {UUID(game): state for game, state in found.fetchall()}

    # -------------------------------------------------------------------------------------- games

    def _follow(self, game_id: UUID, record: Record, rows: Sequence[Recorded]) -> None:
        for group in appends(rows):
            first = group[0]
            _hold(first.version == len(record.rows) + 1, f"{game_id}: a version is left out")
            _hold(not record.state.ended, f"{game_id}: stored after its end")
            name = first.request_id or ""
            _hold(name not in record.requests, f"{game_id}: request {name} is stored twice")
            record.requests[name] = first.version
            before, lost = record.state, self._lost_us(record.state, first.recorded_at)
            self._clock(game_id, record, group, lost)
            self._append(game_id, record, group)
            self._drawn(game_id, record, before, lost)
            self.note(f"{first.recorded_at} {game_id} {first.version} {first.name} {name}")

    def _append(self, game_id: UUID, record: Record, group: Sequence[Recorded]) -> None:
        passing: Known = ()
        for row in group:
            self.stored[row.name] += 1
            event = codec.decode(row)
            record.state = evolve(record.state, event, row.recorded_at)
            if isinstance(event, GameOpened):
                record.known = knowledge.nothing(len(event.seats))
            record.known = knowledge.learned(record.known, event, record.state)
            passing = record.known if not passing else _both(passing, record.known)
            self._cards(game_id, record.state)
        record.rows += group
        last = group[-1]
        record.moments[last.version] = (record.state, last.hash, record.known, passing)

    def _cards(self, game_id: UUID, state: State) -> None:
        if state.engine is None:
            return
        cards = knowledge.all_cards(state.engine)
        if cards:
            same = sorted(cards) == sorted(knowledge.pack_of(state.engine))
            _hold(same, f"{game_id} version {state.version}: cards came or went")
        if state.variant == "azi":
            brought = sum(seat.stack for seat in state.seats)
            there = azi_worlds.chips(state.engine)
            _hold(brought == there, f"{game_id} version {state.version}: chips came or went")

    def _lost_us(self, before: State, at: int) -> int:
        """How much of the time since the present decision was asked is no player's."""
        shortest = self.settings.outage_ms * 1_000 + BEATS_US
        return self.down.lost_us(before.turn_at, at, shortest)

    def _clock(self, game_id: UUID, record: Record, group: Sequence[Recorded], lost: int) -> None:
        """A seat is expired only when it has had its time, its time bank included, with a service
        there to hear it."""
        before = record.state
        for row in group:
            event = codec.decode(row)
            if not isinstance(event, EngineEvent) or not row.name.endswith(".TurnExpired"):
                continue
            seat = event.event.seat
            had = row.recorded_at - before.turn_at - lost
            bank = record.banks[seat] if record.banks else 0
            early = f"{game_id} version {row.version}: expired after {had // 1_000} ms"
            _hold(had >= before.turn_ms * 1_000 + bank, f"{early}, {bank // 1_000} ms in the bank")

    def _drawn(self, game_id: UUID, record: Record, before: State, lost: int) -> None:
        """A time bank pays for what its seat took, and for no outage."""
        state = record.state
        if before.stage is Stage.ABSENT and state.time_bank_ms:
            full = state.time_bank_ms * 1_000
            record.banks = [full if seat.bot_level is None else 0 for seat in state.seats]
        if not record.banks:
            return
        over = max(0, state.recorded_at - before.turn_at - before.turn_ms * 1_000 - lost)
        asked = set(asks(before))
        done = asked - set(asks(state)) if state.turn == before.turn else asked
        for seat in done:
            record.banks[seat] = max(0, record.banks[seat] - over)
        for seat, (held, left) in enumerate(zip(state.banks, record.banks, strict=True)):
            short = f"{game_id} version {state.version}: seat {seat} has {held // 1_000} ms"
            _hold(held >= left, f"{short} left of its time bank, not {left // 1_000}")

    # ------------------------------------------------------------------------------------- tables

    def _sit(self, table_id: UUID, sitting: Sitting, rows: Sequence[Recorded]) -> None:
        for row in rows:
            _hold(row.version == sitting.version + 1, f"table {table_id}: a version is left out")
            event = DECIDER.decode(row)
            self.stored[f"table.{row.name}"] += 1
            sitting.table = fold(DECIDER, sitting.table, [row])
            sitting.version = row.version
            self.note(f"{row.recorded_at} table {row.version} {row.name} {row.request_id}")
            match event:
                case GameStarted():
                    sitting.started.add(event.game)
                case StartFailed():
                    sitting.failed.add(event.game)
                case GameEnded():
                    sitting.ended.append(event.game)
                case _:
                    pass
        _hold(not sitting.started & sitting.failed, f"table {table_id}: a failed start plays")
        twice = len(set(sitting.ended)) != len(sitting.ended)
        _hold(not twice, f"table {table_id}: a game ended twice")

    # -------------------------------------------------------------------------------------- chips

    def _weigh(self, before: dict[UUID, int]) -> None:
        """Chips, and what the wallet and the games know of each other.

        `before` is what the wallet knew before the games were read: it learns of an end after the
        game, and of a beginning before it.
        """
        for game_id, state in before.items():
            record = self.games.get(game_id, Record())
            opened = record.state.opened_at > 0
            _hold(state != VOIDED or not opened or record.state.stage is Stage.CANCELLED,
                  f"{game_id} was opened and voided")  # fmt: skip
            _hold(state != SETTLED or record.state.stage is Stage.FINISHED,
                  f"{game_id} was settled before its end")  # fmt: skip
        for sitting in self.tables.values():
            for game_id in sitting.failed:
                stage = self.games.get(game_id, Record()).state.stage
                _hold(stage is Stage.CANCELLED, f"{game_id} may open after its start has failed")
        if not self._changed("wallet"):
            return
        now = self._wallet_games()
        for game_id, record in self.games.items():
            if record.state.variant == "azi" and record.state.stage is not Stage.CANCELLED:
                there = now.get(game_id)
                _hold(there in (PINNED, SETTLED), f"{game_id} is open, its chips are not held")
        ask = self._raw["wallet"].execute
        _hold(not ask("SELECT sum(balance) FROM accounts").fetchone()[0], "the ledger's sum")
        wrong = ask(
            "SELECT count(*) FROM accounts WHERE kind = 4 AND balance != (SELECT "
            "coalesce(sum(chips), 0) FROM reservations WHERE game_id = accounts.id "
            "AND state IN (1, 2))"
        ).fetchone()[0]
        _hold(not wrong, "an escrow holds other chips than are reserved")

    # ---------------------------------------------------------------------------- what was promised

    async def acknowledged(self, game_id: UUID, request: str, version: int) -> None:
        """A player was told that this request of his is stored, up to this version."""
        await self.look()
        record = self.games[game_id]
        first = record.requests.get(request)
        _hold(first is not None and first <= version, f"{game_id}: {request} was not stored")
        self._acknowledged.append((game_id, request, version))

    async def refused(self, game_id: UUID, request: str, reason: str) -> None:
        """A player was told that this request is not carried out; none of its copies is on its
        way any more."""
        await self.look()
        stored = self.games.get(game_id, Record()).requests.get(request)
        _hold(stored is None, f"{game_id}: {request} was refused ({reason}) and stored")

    async def shown(self, player: str, view: view_pb2.GameView) -> None:
        """A player was shown this view."""
        game_id = UUID(view.game_id)
        if view.version not in self.games.get(game_id, Record()).moments:
            await self.look()
        record = self.games[game_id]
        _hold(view.version in record.moments, f"{game_id}: there is no version {view.version}")
        state, head, known, _ = record.moments[view.version]
        seat = state.seat_of(player)
        _hold(still(view) == still(views.game_view(state, seat, head)),
              f"{game_id} version {view.version}: not the view of {seat}")  # fmt: skip
        self._may_see(game_id, view, known, seat)

    async def overseen(self, stranger: str, view: view_pb2.GameView) -> None:
        """Somebody without a seat was shown this view."""
        await self.shown(stranger, view)
        open_to_all = self.games[UUID(view.game_id)].state.spectators
        _hold(open_to_all, f"{view.game_id} was shown to a stranger")

    async def streamed(
        self, player: str, game_id: UUID, message: game_pb2.WatchGameResponse, seen: int
    ) -> int:
        """A watcher who has seen up to a version was sent this; the version he has seen now."""
        if message.HasField("heartbeat"):
            _hold(message.heartbeat.version == seen, f"{game_id}: a heartbeat of another version")
            return seen
        body = message.step if message.HasField("step") else message.snapshot
        _hold(body.from_version == (seen + 1 if seen else 1) or (message.HasField("snapshot")
              and body.from_version == 1),
              f"{game_id}: {body.from_version} follows {seen}")  # fmt: skip
        version = int(body.view.version)
        _hold(version >= seen, f"{game_id}: version {version} follows {seen}")
        await self.shown(player, body.view)
        if message.HasField("step"):
            _hold(message.step.to_version == version, f"{game_id}: a step to another version")
            state, _, _, passing = self.games[game_id].moments[version]
            self._may_see(game_id, message.step, passing, state.seat_of(player))
        return version

    def _may_see(self, game_id: UUID, shown: Any, known: Known, seat: int | None) -> None:
        if not known:
            return
        allowed = known[-1 if seat is None else seat]
        secret = {card for card in knowledge.shown_in(shown) if card not in allowed}
        _hold(not secret, f"{game_id}: seat {seat} was shown {len(secret)} hidden cards")

    # ----------------------------------------------------------------------------------- at the end

    def at_rest(self) -> str:
        """What is still to be done, in words; empty when nothing is."""
        left = []
        for name in ("game", "lobby"):
            # A table that waits has a row that closes it after a day; it is nothing left undone.
            due = "SELECT kind, key, attempts FROM work WHERE kind NOT IN ('idle', 'unready')"
            rows = self._raw[name].execute(due).fetchall()
            left += [f"due {name} {row}" for row in rows]
        running = self._raw["game"].execute("SELECT stream FROM heads WHERE NOT ended").fetchall()
        left += [f"game {row[0]} runs" for row in running]
        held = self._raw["wallet"].execute(
            "SELECT game_id, state FROM reservations WHERE state IN (1, 2)"
        )
        left += [f"chips of {row[0]} are held ({row[1]})" for row in held.fetchall()]
        return ", ".join(left)

    async def close_books(self, reservations: Callable[[UUID], Any], now: int) -> None:
        """Everything has come to its end: audit all of it."""
        await self.look()
        for game_id, request, version in self._acknowledged:
            first = self.games[game_id].requests.get(request)
            _hold(first is not None and first <= version, f"{game_id}: {request} is lost")
        ended = {game for sitting in self.tables.values() for game in sitting.ended}
        store = self._stores["game"]
        keys = public_keys(self.settings.keys(), "game")
        async for step in verify_tree(store._engine, keys):
            _hold(not step.faults, f"tree: {step.faults}")
        for game_id, record in self.games.items():
            checked = await check_game(store._engine, store, game_id)
            _hold(checked is not None and not checked.faults, f"{game_id}: {checked}")
            rows = await store.read(game_id)
            if record.state.stage is Stage.CANCELLED:
                continue
            self._receipt(game_id, record.state, rows)
            _hold(game_id in ended, f"{game_id} was never reported to its table")
            held: wallet_pb2.ListReservationsResponse = await reservations(game_id)
            if record.state.variant == "azi":
                faults = compare(record.state, rows[-1].hash, held, now)
                _hold(not faults, f"{game_id}: {faults}")
                posted = wallet_pb2.RESERVATION_STATE_POSTED
                paid = all(line.state == posted for line in held.reservations)
                _hold(paid, f"{game_id} is not paid out")
            else:
                _hold(not held.reservations, f"{game_id} has chips that it must not have")

    def _receipt(self, game_id: UUID, state: State, rows: Sequence[Recorded]) -> None:
        """The game's receipt holds for a verifier that shares no code with the services."""
        key = load_private(self.settings.keys() / "game.key")
        try:
            verify(receipts.document(key, state, rows, None, auditor=True))
        except Wrong as wrong:
            raise Broken(f"{game_id}: its receipt is refused: {wrong}") from None

    def digest(self) -> str:
        """One hash of everything stored in the logs."""
        whole = hashlib.sha256()
        for game_id in sorted(self.games):
            whole.update(game_id.bytes + self.games[game_id].rows[-1].hash)
        for name in ("lobby",):
            for row in self._raw[name].execute("SELECT stream, hash FROM heads ORDER BY stream"):
                whole.update(row[0].encode() + row[1])
        query = "SELECT account_id, version, transfer_id, chips FROM postings ORDER BY 1, 2"
        for row in self._raw["wallet"].execute(query):
            whole.update(repr(row).encode())
        return whole.hexdigest()

    async def close(self) -> None:
        """Let the databases go."""
        for store in self._stores.values():
            await store.close()
        for connection in self._raw.values():
            connection.close()


def _hold(holds: bool, problem: str) -> None:
    if not holds:
        raise Broken(problem)


def _both(one: Known, other: Known) -> Known:
    return tuple(a | b for a, b in zip(one, other, strict=True))


def asks(state: State) -> Sequence[int]:
    """The seats asked for a move."""
    if state.stage is not Stage.PLAYING:
        return ()
    seats: Sequence[int] = engine_for(state.rules).to_act(state.engine)
    return seats
