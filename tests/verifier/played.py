"""Whole games with rows as the store would write them, and their receipts."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kozyr.game.events.v1 import game_pb2 as stored

from services.game import codec, domain, receipts
from services.game.evolve import evolve
from services.game.model import Event, SeedStatus, Stage, State
from services.game.rulebook import engine_for
from services.kernel.envelope import Recorded
from services.kernel.seats import AbsentPolicy
from services.runtime.store import chain
from tests.services.game.logs import opening

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SECOND = 1_000_000
START = 1_800_000_000 * SECOND
SEATS = {"azi": (2, 3, 5), "durak": (2, 3, 6), "rami": (2, 3, 4)}


@dataclass
class Played:
    """A game's log as rows, with the seeds its players gave."""

    rng: Random
    state: State = field(default_factory=State)
    rows: list[Recorded] = field(default_factory=list)
    at: int = START
    seeds: dict[int, bytes] = field(default_factory=dict)

    def when(self, command: domain.GameCommand, actor: str = "server", wait: int = SECOND) -> None:
        """Decide and append, `wait` microseconds later."""
        self.at += wait
        events = tuple(domain.decide(self.state, command))
        request = f"{len(self.rows)}/{self.rng.getrandbits(64):x}"
        metadata = stored.Metadata(actor=actor, reason="high card" if actor == "bot" else "")
        for event in events:
            row = self._row(event, request if event is events[0] else None, metadata)
            self.rows.append(row)
            self.state = evolve(self.state, event, self.at)

    def _row(self, event: Event, request: str | None, metadata: stored.Metadata) -> Recorded:
        new = codec.encode(event)
        salt = None if new.secret is None else self.rng.randbytes(32)
        digest = None
        if new.secret is not None and salt is not None:
            digest = chain.secret_digest(salt, new.secret)
        row = Recorded(
            stream=self.state.game_id if self.rows else UUID(getattr(event, "game_id", "")),
            version=len(self.rows) + 1,
            name=new.name,
            schema=new.schema,
            payload=new.payload,
            metadata=metadata.SerializeToString(deterministic=True),
            request_id=request,
            body_hash=None if request is None else self.rng.randbytes(32),
            recorded_at=self.at,
            secret_digest=digest,
            salt=salt,
            secret=new.secret,
            hash=b"",
        )
        previous = self.rows[-1].hash if self.rows else chain.GENESIS
        return replace(row, hash=chain.link(previous, row))

    def seed(self) -> None:
        """Some players commit, some of these reveal; the rest is closed."""
        for seat, each in enumerate(self.state.seats):
            if each.seed_status is SeedStatus.AWAITED and self.rng.random() < 0.85:
                self.seeds[seat] = self.rng.randbytes(self.rng.randint(16, 64))
                hashed = hashlib.sha256(self.seeds[seat]).digest()
                self.when(domain.CommitSeed(seat, hashed), "player")
        if self.state.stage is Stage.COMMITTING:
            self.when(domain.CloseSeeds(Stage.COMMITTING), wait=self.state.seed_ms * 1_000)
        for seat, seed in self.seeds.items():
            if self.rng.random() < 0.9:
                self.when(domain.RevealSeed(seat, seed), "player")
        if self.state.stage is Stage.REVEALING:
            self.when(domain.CloseSeeds(Stage.REVEALING), wait=self.state.seed_ms * 1_000)

    def play(self, moves: int = 100_000) -> None:
        """Moves of players and bots, expired turns, seats that are left, a player who is away."""
        engine = engine_for(self.state.rules)
        seats = len(self.state.seats)
        away = self.rng.randrange(seats) if self.rng.random() < 0.6 else None
        while not self.state.ended and moves:
            moves -= 1
            seat = self.rng.choice(engine.to_act(self.state.engine))
            staying = [n for n, s in enumerate(self.state.seats) if not s.left]
            luck = self.rng.random()
            left = (self.state.deadline_of(seat) or 0) - self.at
            back = [n for n in staying if self.state.seats[n].is_away and n != away]
            gone = seat == away and not self.state.seats[seat].is_bot
            if luck < 0.03 or left < SECOND or gone:
                self.when(domain.Expire(seat, self.state.turn), wait=max(0, left))
            elif luck < 0.035 and staying:
                self.when(domain.LeaveSeat(self.rng.choice(staying)), "player")
            elif luck < 0.045:
                self.when(domain.Credit(self.state.turn, self.state.credit_ms + 500))
            elif luck < 0.1 and back:
                self.when(domain.Return(back[0]), "player")
            else:
                slow = bool(self.state.banks) and luck > 0.7
                move = self.rng.choice(engine.legal(self.state.engine, seat))
                bot = self.state.seats[seat].is_bot
                play = domain.Play(seat, self.state.turn, move, by_bot=bot)
                wait = self.rng.randint(0, left) if slow else SECOND
                self.when(play, "bot" if bot else "player", wait)

    def receipt(self, viewer: int | None = None, *, auditor: bool = False) -> bytes:
        """The receipt as the game service makes it."""
        return receipts.document(KEY, self.state, self.rows, viewer, auditor=auditor)


def options_of(variant: str, rng: Random, reveal: str) -> Any:
    """Options of a table, some of them chosen by chance."""
    options = replace(opening(variant).options, reveal=reveal)
    if variant == "azi":
        return replace(
            options,
            deal_size=rng.choice((3, 4)),
            entry_fee=rng.choice((1, 10)),
            min_bet=10,
            azi_entry=rng.choice(("survivors", "half_bank")),
            blind_bets=rng.random() < 0.5,
        )
    if variant == "durak":
        return replace(options, auto_pass=rng.random() < 0.5)
    return replace(options, target=rng.choice((1, 40)))


def played(
    variant: str, number: int, reveal: str = "full", moves: int = 100_000, seats: int = 0
) -> Played:
    """Random game `number` of a kind, up to so many moves; every one has seeds of its own."""
    rng = Random(f"{variant} {number} {reveal}")
    count = seats or rng.choice(SEATS[variant])
    made = Played(rng)
    made.when(
        opening(
            variant,
            count,
            people=rng.randint(0, count) if number % 2 else count,
            options=options_of(variant, rng, reveal),
            game_id=UUID(bytes=bytes(6) + b"\x70" + rng.randbytes(1) + b"\x80" + rng.randbytes(7)),
            server_seed=rng.randbytes(32),
            bot_seed=rng.randbytes(32),
            absent_policy=(AbsentPolicy.BOT, AbsentPolicy.EXPIRE)[number // 2 % 2],
            time_bank_ms=(0, 40_000)[number % 3 == 1],
            bot_after=number % 4,
            last_winner=rng.choice((None, 0)) if variant == "azi" else None,
        ),
    )
    if made.state.stage is Stage.COMMITTING:
        made.seed()
    made.play(moves)
    return made


def many(variants: Sequence[str], games: int, reveal: str) -> list[Played]:
    """So many games of each kind, played to their end."""
    return [played(variant, n, reveal) for variant in variants for n in range(games)]
