"""A signed-in player: tokens renewed by themselves, seeds committed and revealed, moves."""

import asyncio
import base64
import hashlib
import hmac
import json
import math
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from kozyr.game.v1 import game_pb2, game_pb2_grpc, variant_pb2, view_pb2
from kozyr.lobby.v1 import identity_pb2, identity_pb2_grpc

from services.client import devices, seeds
from services.client.calls import PATIENCE_MS, Caller, new_request_id
from services.client.profile import Profile, ProfileFile, new_seed_key
from services.client.watching import Update, follow
from services.kernel.errors import Kind, Refused
from services.runtime.settings import Settings

REFRESH_SECONDS = 60.0
"""A token is renewed when less than this is left of it, or less than a quarter of its life."""
PROMPT_MS = 2_000
"""How long the first try of a call waits: who answers no sooner is gone or frozen, mostly."""
COMMIT = (view_pb2.STAGE_COMMITTING, view_pb2.SEED_STATUS_AWAITED)
TOO_LATE_TO_COMMIT = ("SEEDS_CLOSED", "SEED_ALREADY_COMMITTED")
TOO_LATE_TO_REVEAL = ("SEEDS_CLOSED", "SEED_NOT_COMMITTED")
"""Why a game may not want a seed any more: its phase was closed, or an earlier try had come in."""
REVEAL = (view_pb2.STAGE_REVEALING, view_pb2.SEED_STATUS_COMMITTED)


class Player(Caller):
    """A signed-in player. Make one with `sign_up` or `sign_in`, close it when done."""

    def __init__(self, settings: Settings, patience_ms: int = PATIENCE_MS) -> None:
        super().__init__(settings, lambda: self._tokens.access_token or None, patience_ms)
        self.prompt_ms = min(PROMPT_MS, settings.peer_timeout_ms)
        self.player_id = ""
        self.display_name = ""
        self._tokens = identity_pb2.Tokens()
        self._attempt = new_request_id()
        self._profile: Profile | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renew_at = self._ends_at = math.inf
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
        self.be(profile, reply.tokens)
        return profile

    async def sign_in(self, profile: Profile, file: ProfileFile | None = None) -> None:
        """Be the account of a profile; what is acknowledged to it is kept beside its file."""
        self._kept_in = None if file is None else file.acknowledgements
        await self._sign_in(profile)

    async def _sign_in(self, profile: Profile) -> None:
        if profile.device_key:
            reply = await self._sign_in_with_key(profile)
        else:
            request = identity_pb2.SignInRequest(player_id=profile.player_id, secret=profile.secret)
            reply = await super().call("lobby", self._identity.SignIn, request)
        self.be(profile, reply.tokens)

    async def _sign_in_with_key(self, profile: Profile) -> identity_pb2.SignInWithKeyResponse:
        """Sign in by this device's key, with another challenge where an answer was lost."""
        public = devices.public_key(profile.device_key)
        asked = identity_pb2.GetChallengeRequest(player_id=profile.player_id, public_key=public)
        for tries_left in (1, 0):
            given = await super().call("lobby", self._identity.GetChallenge, asked)
            signed = devices.signed(profile, given.challenge)
            try:
                reply: identity_pb2.SignInWithKeyResponse = await super().call(
                    "lobby", self._identity.SignInWithKey, signed
                )
            except Refused as refused:
                if refused.reason != "CHALLENGE_USED" or not tries_left:
                    raise
            else:
                return reply
        raise AssertionError

    async def sign_in_with_password(
        self, login_name: str, password: str, device_name: str
    ) -> Profile:
        """Be the account of a login name, and make a key by which this device signs in from now
        on; the profile that holds it."""
        request = identity_pb2.SignInWithPasswordRequest(
            login_name=login_name, password=password, device_name=device_name
        )
        reply = await super().call("lobby", self._identity.SignInWithPassword, request)
        profile = Profile(
            reply.player.player_id,
            reply.player.display_name,
            "",
            new_seed_key(),
            devices.new_device_key(),
        )
        self.be(profile, reply.tokens)
        public = devices.public_key(profile.device_key)
        adding = identity_pb2.AddDeviceRequest(device_name=device_name, public_key=public)
        await self.call("lobby", self._identity.AddDevice, adding)
        return profile

    async def sign_out(self) -> None:
        """End the session that was begun by signing in."""
        await self.call("lobby", self._identity.SignOut, identity_pb2.SignOutRequest())

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
        """As `Caller.call`, with a token that is valid; one that is expired is renewed once.

        A token is renewed in time and beside the calls, so that no call waits for the lobby while
        there is a valid one.
        """
        if time.monotonic() >= self._renew_at:
            renewing = self._renew()
            if time.monotonic() >= self._ends_at:
                await asyncio.shield(renewing)
        sent = self._tokens.access_token
        try:
            return await super().call(service, method, request)
        except Refused as refused:
            if refused.reason != "TOKEN_EXPIRED" or self._profile is None:
                raise
        if sent == self._tokens.access_token:
            await asyncio.shield(self._renew())
        return await super().call(service, method, request)

    async def close(self) -> None:
        """Let all connections go."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await super().close()

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

    async def follow(self, game_id: str) -> AsyncGenerator[Update, None]:
        """A game until it has ended, every version once and in order; see `watching.follow`.

        While it lasts the player's seed is committed and revealed when the game asks for it.
        """
        async with aclosing(follow(self, game_id)) as updates:
            async for update in updates:
                await self._contribute(update.view)
                yield update

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

    def be(self, profile: Profile, tokens: identity_pb2.Tokens) -> None:
        """Be the account of a profile, with tokens that were got elsewhere."""
        self._profile = profile
        self.player_id, self.display_name = profile.player_id, profile.display_name
        self._hold(tokens)

    def _hold(self, tokens: identity_pb2.Tokens) -> None:
        """Use these tokens from now on; how long they last is counted from here."""
        self._tokens = tokens
        self._attempt = new_request_id()
        lasts = seconds_valid(tokens)
        now = time.monotonic()
        self._ends_at = now + lasts
        self._renew_at = self._ends_at - min(REFRESH_SECONDS, lasts / 4)

    def _renew(self) -> asyncio.Task[None]:
        """Renew the tokens, once for everybody who asks meanwhile."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._refresh())
            self._renewing.add_done_callback(_looked_at)
        return self._renewing

    async def _refresh(self) -> None:
        if self._profile is None:
            return
        request = identity_pb2.RefreshRequest(
            refresh_token=self._tokens.refresh_token, attempt_id=self._attempt
        )
        try:
            self._hold((await super().call("lobby", self._identity.Refresh, request)).tokens)
        except Refused as refused:
            if refused.kind is not Kind.UNAUTHENTICATED:
                raise
            await self._sign_in(self._profile)


def seconds_valid(tokens: identity_pb2.Tokens) -> float:
    """How long an access token is valid from its issue on, by the token itself.

    So the clock of this machine does not matter; it is asked only where the token does not say.
    """
    try:
        body = tokens.access_token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return float(claims["exp"] - claims["iat"])
    except (IndexError, ValueError, KeyError, TypeError):
        return tokens.access_expire_time.ToMicroseconds() / 1e6 - time.time()


def _looked_at(task: asyncio.Task[None]) -> None:
    """A renewal that failed is tried again by whoever needs it; nobody else need hear of it."""
    if not task.cancelled():
        task.exception()
