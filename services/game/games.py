"""Games on their streams: loading, changing, reading back."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from uuid import UUID

import structlog
from google.protobuf.message import Message
from kozyr.game.events.v1 import game_pb2 as stored
from kozyr.game.v1 import view_pb2

from services.game import codec, domain, views
from services.game.evolve import evolve, restamp
from services.game.model import Event, Stage, State
from services.game.outages import Outages
from services.game.pacing import Pace
from services.game.work import plan
from services.kernel.decider import Decider
from services.kernel.envelope import Recorded, appends
from services.kernel.errors import Refused, precondition
from services.runtime.feed import Feed
from services.runtime.fingerprint import fingerprint
from services.runtime.slices import each
from services.runtime.status import sealed
from services.runtime.store.api import Store
from services.runtime.store.sealing import KeyUnknown
from services.runtime.streams import (
    Change,
    Loaded,
    Outcome,
    Streams,
    chained,
    refusals,
    wall_clock,
)

STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
PLAYER = stored.Metadata(actor="player").SerializeToString(deterministic=True)
SERVER = stored.Metadata(actor="server").SerializeToString(deterministic=True)

log = structlog.get_logger(__name__)


def decider(pace: Pace) -> Decider[State, domain.GameCommand, Event]:
    """The decider of games; bots move at that pace."""
    return Decider(
        initial=State(),
        decide=domain.decide,
        evolve=evolve,
        encode=codec.encode,
        decode=codec.decode,
        plan=lambda before, after: plan(before, after, pace),
        restamp=restamp,
    )


Deadline = Callable[[State], int | None]


def _deadline(state: State) -> int | None:
    return state.deadline


def _request_id(request: Message) -> str:
    return str(getattr(request, "request_id"))  # noqa: B009 - any message


class Games:
    """Every game this service hosts."""

    def __init__(
        self,
        store: Store,
        decider: Decider[State, domain.GameCommand, Event],
        feed: Feed,
        outages: Outages,
        *,
        cached: int = 1_000,
    ) -> None:
        self.store = store
        self.feed = feed
        self._outages = outages
        self._changed: list[Callable[[Change[State]], None]] = []
        self._streams = Streams(store, decider, published=self._published, cached=cached)

    def now(self) -> int:
        """The database's clock, Unix microseconds, as far as this machine can tell without asking:
        for what is shown, never for what is decided."""
        return wall_clock() + self._outages.ahead_us

    def on_change(self, tell: Callable[[Change[State]], None]) -> None:
        """Call `tell` after every append made here."""
        self._changed.append(tell)

    def _published(self, change: Change[State]) -> None:
        for tell in self._changed:
            tell(change)
        self.feed.published(change.stream, change.after.version)

    async def load(self, game_id: UUID, known: int | None = None) -> Loaded[State]:
        """The game now, or at any version not below `known`; ABSENT if it does not exist.

        Raises Refused: LOG_DAMAGED, LOG_SEALED where its master key is missing, UNAVAILABLE.
        """
        if known is not None and (kept := self._streams.kept(game_id, known)):
            return kept
        with refused_if_sealed():
            return await self._streams.load(game_id, known)

    async def require_room(self, command: domain.Open, most: int) -> None:
        """Raise Refused TOO_MANY_GAMES, naming the seat, unless everybody may play one game more.

        A game that has been opened is there, whoever asks for it again. Games that are opened at
        the very same moment are not seen by each other; the lobby, which lets a player begin one
        after the other, has counted them before. This stands against one that does not.
        """
        if (await self.load(command.game_id)).state.stage is not Stage.ABSENT:
            return
        for number, seat in enumerate(command.seats):
            if seat.bot_level is not None:
                continue
            with refusals():
                tag = f"player:{seat.player_id}"
                running = await self.store.tagged(tag, limit=most, ended=False)
            if len(running) >= most:
                raise precondition(
                    "TOO_MANY_GAMES",
                    f"a player has {most} games at most that have not ended",
                    limit="games",
                    most=str(most),
                    seat=str(number),
                )

    async def change(
        self, game_id: UUID, command: domain.GameCommand, request: Message, *, scope: str
    ) -> Outcome[State]:
        """Carry out the lobby's command once; `scope` keeps request ids of its RPCs apart."""
        return await self._transact(
            game_id,
            command,
            request_id=f"{scope}/{_request_id(request)}",
            body_hash=fingerprint(request),
            metadata=SERVER,
        )

    async def play(
        self, state: State, seat: int, command: domain.GameCommand, request: Message
    ) -> Outcome[State]:
        """Carry out a player's command once.

        The fingerprint of a plain request would tell a card that was dropped face down (AZI-7) to
        whoever reads the log and tries all; so it is keyed with a secret of the game that is never
        laid open.
        """
        return await self._transact(
            state.game_id,
            command,
            request_id=f"{seat}/{_request_id(request)}",
            body_hash=fingerprint(request, state.bot_seed),
            metadata=PLAYER,
        )

    async def act(
        self,
        game_id: UUID,
        command: domain.GameCommand,
        *,
        request_id: str,
        metadata: stored.Metadata,
    ) -> Outcome[State]:
        """Carry out the server's own command, once for its request id."""
        return await self._transact(
            game_id,
            command,
            request_id=request_id,
            body_hash=fingerprint(stored.Metadata(actor=metadata.actor, subject=request_id)),
            metadata=metadata.SerializeToString(deterministic=True),
        )

    async def credit(self, game_id: UUID, turn: int) -> bool:
        """Give decision `turn` back the time outages took from it; whether there was any."""
        state = (await self.load(game_id)).state
        if state.stage is not Stage.PLAYING or state.turn != turn:
            return False
        with refusals():
            await self._outages.beat()
            lost_ms = await self._outages.since(state.turn_at) // 1_000
        if lost_ms <= state.credit_ms:
            return False
        with suppress(domain.Moot):  # somebody else was faster
            await self.act(
                game_id,
                domain.Credit(turn, lost_ms),
                request_id=f"credit:{turn}:{lost_ms}",
                metadata=stored.Metadata(actor="server"),
            )
        return True

    async def cancel(self, game_id: UUID, request: Message) -> bool:
        """Lay a tombstone where no game has opened; returns whether one had."""
        try:
            await self.change(game_id, domain.Cancel(), request, scope="lobby-cancel")
        except domain.Moot:
            loaded = await self.load(game_id)
            return loaded.state.opened_at > 0
        return False

    async def rows(self, game_id: UUID, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """The stored rows after a version, `limit` at most; raises Refused as `load` does."""
        with refused_if_sealed(), refusals():
            return await self.store.read(game_id, after=after, limit=limit)

    async def since(self, known: Mapping[UUID, Loaded[State]]) -> dict[UUID, list[Change[State]]]:
        """The appends made to games after what is known of them until now, read at once.

        Raises Refused as `load` does, for all where one is at fault.
        """
        with refused_if_sealed():
            return await self._streams.since(known)

    async def missed(self, game_id: UUID, seen: int, version: int) -> list[Change[State]]:
        """The appends after the version `seen`, the end of one, up to `version`."""
        changes = await self.appends(game_id, self.nothing, version)
        return [change for change in changes if change.before.version >= seen]

    async def appends(
        self, game_id: UUID, known: Loaded[State], version: int
    ) -> list[Change[State]]:
        """The appends after what is known of a game up to a version, the end of one.

        Raises Refused as `load` does; LOG_DAMAGED also where they do not follow what is known.
        """
        rows = await self.rows(game_id, known.version, version - known.version)
        changes: list[Change[State]] = []
        with refusals():
            async for group in each(appends(rows)):
                last = changes[-1].after if changes else known
                changes += self._streams.changes(last, chained(game_id, last, list(group)))
        return changes

    @property
    def nothing(self) -> Loaded[State]:
        """A game that does not exist."""
        return self._streams.nothing

    async def history(
        self, state: State, viewer: int | None, after: int = 0
    ) -> list[view_pb2.Happening]:
        """What happened after a version up to this state, as a viewer may know it."""
        rows = await self.rows(state.game_id, after, state.version - after)
        found: list[view_pb2.Happening] = []
        async for row in each(rows):
            found += views.happenings(state.rules, [(row, codec.decode(row))], viewer)
        return found

    async def _transact(
        self,
        game_id: UUID,
        command: domain.GameCommand,
        *,
        request_id: str,
        body_hash: bytes,
        metadata: bytes,
    ) -> Outcome[State]:
        """Carry out a command once.

        A move after the turn time is taken as long as its seat's time bank lasts, or where an
        outage made it late: that is found out and credited first, so no bank pays for it.
        """
        change = partial(
            self._change,
            game_id,
            command,
            request_id=request_id,
            body_hash=body_hash,
            metadata=metadata,
        )
        if not isinstance(command, domain.Play):
            return await change(None)
        try:
            return await change(_deadline)
        except Refused as refused:
            if refused.reason != "DEADLINE_PASSED":
                raise
            credited = await self.credit(game_id, command.turn)
            if not credited and not (await self.load(game_id, known=0)).state.banks:
                raise
        seat = command.seat
        return await change(lambda state: state.deadline_of(seat))

    async def _change(
        self,
        game_id: UUID,
        command: domain.GameCommand,
        deadline: Deadline | None,
        *,
        request_id: str,
        body_hash: bytes,
        metadata: bytes,
    ) -> Outcome[State]:
        try:
            with refused_if_sealed():
                outcome = await self._streams.transact(
                    game_id,
                    command,
                    request_id=request_id,
                    body_hash=body_hash,
                    metadata=metadata,
                    deadline=deadline,
                )
        except Refused as refused:
            if refused.reason == STORE_UNAVAILABLE:
                self._outages.refused(game_id)
            raise
        self._outages.taken(game_id)
        return outcome


class refused_if_sealed:  # noqa: N801 - reads as what it does
    """Turns a missing master key into what a caller is told: Refused LOG_SEALED."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, KeyUnknown):
            log.error("log_sealed", key=error.key_id)
            raise sealed(error) from error
