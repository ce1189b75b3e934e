"""A player's side of the API: signing in, calls that survive a restart, streams without gaps.

Every failure is `services.kernel.errors.Refused`. A change keeps its request id however often it is
sent, so it acts once. A stream is taken up again where it broke, and no version comes twice.
"""

import asyncio
import hashlib
import hmac
import random
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message
from kozyr.game.v1 import game_pb2, game_pb2_grpc, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.cli import seeds
from services.cli.profile import Profile, ProfileFile, new_seed_key
from services.kernel.errors import Kind, Refused
from services.runtime.clients import Client
from services.runtime.settings import SERVICES, Settings

R = TypeVar("R")

RETRIED = (Kind.UNAVAILABLE, Kind.EXPIRED)
BACKOFF_FIRST_MS = 100
BACKOFF_MAX_MS = 2_000
REFRESH_SECONDS = 60.0
"""A token is renewed when less than this is left of it."""
FIRST_SECONDS = 2.0
"""A stream that brings nothing at all for so long leads to a replica that is no more."""
SILENCE_SECONDS = 15.0
"""A stream without even a heartbeat for so long is taken up anew, if it did not name a time."""
PATIENCE_MS = 30_000
COMMIT = (view_pb2.STAGE_COMMITTING, view_pb2.SEED_STATUS_AWAITED)
TOO_LATE_TO_COMMIT = ("SEEDS_CLOSED", "SEED_ALREADY_COMMITTED")
TOO_LATE_TO_REVEAL = ("SEEDS_CLOSED", "SEED_NOT_COMMITTED")
"""Why a game may not want a seed any more: its phase was closed, or an earlier try had come in."""
REVEAL = (view_pb2.STAGE_REVEALING, view_pb2.SEED_STATUS_COMMITTED)
ENDED = (view_pb2.STAGE_FINISHED, view_pb2.STAGE_CANCELLED)


def new_request_id() -> str:
    """A fresh request id."""
    return secrets.token_hex(16)


class Backoff:
    """Waits that double up to two seconds, with jitter, until the patience is used up."""

    def __init__(self, patience_ms: int) -> None:
        self._patience = patience_ms / 1000
        self.reset()

    def reset(self) -> None:
        """Something went well: begin again."""
        self._wait_ms = BACKOFF_FIRST_MS
        self._until = time.monotonic() + self._patience

    async def wait(self, failure: Refused) -> None:
        """Wait before the next try; raises `failure` when patience has run out."""
        wait = max(self._wait_ms, failure.retry_after_ms or 0) / 1000
        if time.monotonic() + wait > self._until:
            raise failure
        # Spreads clients that lost the same server; no secret hangs on it.
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
        self._wait_ms = min(2 * self._wait_ms, BACKOFF_MAX_MS)


class Caller:
    """Clients to the four services that send one caller's token and keep trying for a while.

    `token` gives the token to send, None for none; `patience_ms` bounds how long a service may be
    away before the failure is handed on.
    """

    def __init__(
        self,
        settings: Settings,
        token: Callable[[], str | None] = lambda: None,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self.patience_ms = patience_ms
        self.dropped: Counter[str] = Counter()
        """Messages of a game's streams that came twice, other than a snapshot at a new start."""
        self._clients = {name: Client(settings.address(name), settings, token) for name in SERVICES}

    def stub(self, service: str, make: Callable[[Any], R]) -> R:
        """A stub on the service's channel."""
        return make(self._clients[service].channel)

    async def call(self, service: str, method: Any, request: Any) -> Any:
        """Call a unary RPC, again and with the same request while the service is away.

        A request with an empty `request_id` is given one first. Raises Refused.
        """
        if "request_id" in request.DESCRIPTOR.fields_by_name and not request.request_id:
            request.request_id = new_request_id()
        backoff = Backoff(self.patience_ms)
        while True:
            try:
                return await self._clients[service].call(method, request)
            except Refused as refused:
                if refused.kind not in RETRIED and refused.retry_after_ms is None:
                    raise
                await backoff.wait(refused)

    def stream(self, service: str, method: Any, request: Message) -> AsyncGenerator[Any, None]:
        """One try of a server stream; raises Refused when it breaks."""
        return self._clients[service].stream(method, request)

    async def close(self) -> None:
        """Let all connections go."""
        for client in self._clients.values():
            await client.close()


class Player(Caller):
    """A signed-in player. Make one with `sign_up` or `sign_in`, close it when done."""

    def __init__(self, settings: Settings, patience_ms: int = PATIENCE_MS) -> None:
        super().__init__(settings, lambda: self._tokens.access_token or None, patience_ms)
        self.player_id = ""
        self.display_name = ""
        self._tokens = identity_pb2.Tokens()
        self._profile: Profile | None = None
        self._renewing = asyncio.Lock()
        self._contributed: set[tuple[str, int]] = set()
        self._acknowledged: dict[str, seeds.Acknowledgement] = {}
        self._signers = seeds.signers(settings)
        self._kept_in: Path | None = None
        self._identity = self.stub("lobby", identity_pb2_grpc.IdentityServiceStub)
        self._games = self.stub("game", game_pb2_grpc.GameServiceStub)

    @property
    def access_token(self) -> str:
        """The token that is sent at present."""
        return self._tokens.access_token

    async def sign_up(self, display_name: str) -> Profile:
        """Make a new guest account and be it."""
        reply = await super().call(
            "lobby", self._identity.SignUp, identity_pb2.SignUpRequest(display_name=display_name)
        )
        profile = Profile(
            reply.player.player_id, reply.player.display_name, reply.secret, new_seed_key()
        )
        self._be(profile, reply.tokens)
        return profile

    async def sign_in(self, profile: Profile, file: ProfileFile | None = None) -> None:
        """Be the account of a profile; what is acknowledged to it is kept beside its file."""
        self._kept_in = None if file is None else file.acknowledgements
        await self._sign_in(profile)

    async def _sign_in(self, profile: Profile) -> None:
        request = identity_pb2.SignInRequest(player_id=profile.player_id, secret=profile.secret)
        reply = await super().call("lobby", self._identity.SignIn, request)
        self._be(profile, reply.tokens)

    async def enter(self, file: ProfileFile, display_name: str) -> str | None:
        """Sign in with the profile file, or sign up and write it.

        Where the server does not know the account, the file is set aside and a new one made; says
        so in a sentence.
        """
        profile = file.read()
        said = None
        if profile is not None:
            try:
                await self.sign_in(profile, file)
                return None
            except Refused as refused:
                if refused.kind not in (Kind.UNAUTHENTICATED, Kind.NOT_FOUND):
                    raise
            aside = file.set_aside(profile)
            said = f"This server has no such account; the old profile is kept in {aside}."
        file.write(await self.sign_up(display_name))
        self._kept_in = file.acknowledgements
        return said

    async def call(self, service: str, method: Any, request: Any) -> Any:
        """As `Caller.call`, with a token that is valid; an expired one is renewed once."""
        await self._renew(REFRESH_SECONDS)
        try:
            return await super().call(service, method, request)
        except Refused as refused:
            if refused.reason != "TOKEN_EXPIRED":
                raise
        await self._renew(float("inf"))
        return await super().call(service, method, request)

    async def view(self, game_id: str) -> view_pb2.GameView:
        """The game as this player sees it now."""
        request = game_pb2.GetGameRequest(game_id=game_id)
        reply: game_pb2.GetGameResponse = await self.call("game", self._games.GetGame, request)
        return reply.view

    async def submit(self, view: view_pb2.GameView, move: variant_pb2.Move) -> view_pb2.GameView:
        """Make a move in the decision that `view` shows; the view after it."""
        request = game_pb2.SubmitMoveRequest(game_id=view.game_id, turn=view.turn, move=move)
        reply: game_pb2.SubmitMoveResponse = await self.call(
            "game", self._games.SubmitMove, request
        )
        return reply.view

    async def leave(self, game_id: str) -> view_pb2.GameView:
        """Leave the game for good; the view after it."""
        request = game_pb2.LeaveGameRequest(game_id=game_id)
        reply: game_pb2.LeaveGameResponse = await self.call("game", self._games.LeaveGame, request)
        return reply.view

    async def watch(self, game_id: str) -> AsyncGenerator[game_pb2.WatchGameResponse, None]:
        """Snapshots and steps of a game until it has ended: in order, no version twice.

        While it lasts the player's seed is committed and revealed when the game asks for it.
        """
        async with aclosing(watch(self, self._games, game_id)) as messages:
            async for message, view in messages:
                await self._contribute(view)
                yield message

    async def _contribute(self, view: view_pb2.GameView) -> None:
        """Commit or reveal this game's seed if that is what the game waits for.

        A seed is revealed only under an acknowledgement of its hash, if there is one to be had.
        """
        if not view.HasField("seat"):
            return
        waits_for = (view.stage, view.seats[view.seat].seed_status)
        step = (view.game_id, view.stage)
        if waits_for not in (COMMIT, REVEAL) or step in self._contributed:
            return
        if self.acknowledged(view.game_id) is None:
            await self._commit(view)
        if waits_for == REVEAL:
            asked = game_pb2.RevealSeedRequest(game_id=view.game_id, seed=self.seed(view.game_id))
            await self._offer(self._games.RevealSeed, asked, TOO_LATE_TO_REVEAL)
        self._contributed.add(step)

    async def _commit(self, view: view_pb2.GameView) -> None:
        """Commit the seed's hash, check what comes back and keep it; once, however often asked.

        The request id follows from the hash, so a client that died before it had the answer is
        given the first one. Raises Refused ACKNOWLEDGEMENT_FALSE.
        """
        seed = self.seed(view.game_id)
        digest = hashlib.sha256(seed).digest()
        asked = game_pb2.CommitSeedRequest(
            request_id=f"seed-{digest.hex()[:32]}", game_id=view.game_id, hash=digest
        )
        reply = await self._offer(self._games.CommitSeed, asked, TOO_LATE_TO_COMMIT)
        if reply is None:
            return
        made = seeds.Acknowledgement(
            game_id=view.game_id,
            seat=view.seat,
            hash=digest.hex(),
            head=reply.head.hex(),
            signature=reply.signature.hex(),
            seed=seed.hex(),
            checked=bool(self._signers),
        )
        if self._signers:
            seeds.check(made, self._signers)
        if self._kept_in is not None:
            await asyncio.to_thread(seeds.keep, self._kept_in, made)
        self._acknowledged[view.game_id] = made

    async def _offer(self, method: Any, asked: Message, late: Collection[str]) -> Any:
        """The reply, None where the game's own phase was over; raises any other refusal."""
        try:
            return await self.call("game", method, asked)
        except Refused as refused:
            if refused.reason in late:
                return None
            raise

    def acknowledged(self, game_id: str) -> seeds.Acknowledgement | None:
        """What the game service acknowledged of this player's seed, as far as it is kept."""
        if game_id not in self._acknowledged and self._kept_in is not None:
            kept = seeds.find(self._kept_in, game_id)
            if kept is not None:
                self._acknowledged[game_id] = kept
        return self._acknowledged.get(game_id)

    def seed(self, game_id: str) -> bytes:
        """This player's seed for a game, 32 bytes: the same after a restart, known to nobody."""
        if self._profile is None:
            raise ValueError("not signed in")
        return hmac.digest(self._profile.seed_key, game_id.encode(), "sha256")

    def _be(self, profile: Profile, tokens: identity_pb2.Tokens) -> None:
        self._profile = profile
        self._tokens = tokens
        self.player_id, self.display_name = profile.player_id, profile.display_name

    async def _renew(self, within_seconds: float) -> None:
        """Renew the tokens if the access token ends within this time."""
        async with self._renewing:
            if self._profile is None:
                return
            expires = self._tokens.access_expire_time.ToMicroseconds() / 1e6
            if expires - time.time() > within_seconds:
                return
            request = identity_pb2.RefreshRequest(refresh_token=self._tokens.refresh_token)
            try:
                reply = await super().call("lobby", self._identity.Refresh, request)
                self._tokens = reply.tokens
            except Refused as refused:
                if refused.kind is not Kind.UNAUTHENTICATED:
                    raise
                await self._sign_in(self._profile)


async def watch(
    caller: Caller, games: Any, game_id: str
) -> AsyncGenerator[tuple[game_pb2.WatchGameResponse, view_pb2.GameView], None]:
    """A game's stream for any caller, taken up again when it breaks, until the game has ended."""
    token, seen = b"", -1
    backoff = Backoff(caller.patience_ms)
    while True:
        request = game_pb2.WatchGameRequest(game_id=game_id, resume_token=token)
        stream, silence = caller.stream("game", games.WatchGame, request), FIRST_SECONDS
        lost = Refused(Kind.UNAVAILABLE, "STREAM_ENDED", "the stream ended")
        begun = False
        try:
            while True:
                async with asyncio.timeout(silence):
                    message: game_pb2.WatchGameResponse = await anext(stream)
                backoff.reset()
                silence = silence_after(message.heartbeat_ms)
                token = message.resume_token or token
                view = view_of(message)
                if view is None:
                    continue
                again, anew, begun = view.version <= seen, not begun, True
                if again:
                    caller.dropped[game_id] += not (anew and message.HasField("snapshot"))
                    continue
                seen = view.version
                yield message, view
                if view.stage in ENDED:
                    return
        except (StopAsyncIteration, TimeoutError):
            pass
        except Refused as refused:
            if refused.reason == "TOKEN_EXPIRED":
                await caller.call("game", games.GetGame, game_pb2.GetGameRequest(game_id=game_id))
            elif refused.kind is Kind.INVALID and token:
                token = b""  # not a token of this server: begin with a snapshot
            elif refused.kind not in (*RETRIED, Kind.EXHAUSTED):
                raise
            lost = refused
        finally:
            await stream.aclose()
        await backoff.wait(lost)


def silence_after(heartbeat_ms: int) -> float:
    """How long to wait for a stream's next message, seconds: half as long again as it promised."""
    return heartbeat_ms * 1.5 / 1000 if heartbeat_ms else SILENCE_SECONDS


def view_of(message: game_pb2.WatchGameResponse) -> view_pb2.GameView | None:
    """The view a message of the stream brings, None for a heartbeat."""
    match message.WhichOneof("event"):
        case "snapshot":
            return message.snapshot.view
        case "step":
            return message.step.view
        case _:
            return None
