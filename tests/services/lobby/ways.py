"""How one signs in, over a database alone, by a clock that the test turns."""

from dataclasses import dataclass, field
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.ext.asyncio import AsyncEngine

from services.lobby.challenges import Challenges
from services.lobby.devices import Devices, signed_octets
from services.lobby.erasures import Erasures, Wish
from services.lobby.lockout import Lockout
from services.lobby.logins import Logins, wanted
from services.lobby.passwords import Passwords
from services.lobby.players import Players, SignedUp
from services.lobby.sessions import Refreshing
from services.runtime.settings import Settings

KEY = b"k" * 32
HERE = "203.0.113.7"
PASSWORD = "a long enough password"
CHEAP = {"password_memory_kib": 8, "password_passes": 1}
"""Parameters that cost next to nothing."""


@dataclass(slots=True)
class Clock:
    """A clock that the test turns, Unix microseconds."""

    now: int = 1_700_000_000_000_000

    def __call__(self) -> int:
        """The time it shows."""
        return self.now

    def seconds(self) -> float:
        """The same in seconds."""
        return self.now / 1e6


@dataclass(slots=True)
class Ways:
    """A replica's ways to sign in; two at one database are two replicas."""

    engine: AsyncEngine
    clock: Clock
    settings: Settings = field(default_factory=lambda: Settings(**CHEAP))  # type: ignore[arg-type]
    numbers: int = 0
    players: Players = field(init=False)
    passwords: Passwords = field(init=False)
    lockout: Lockout = field(init=False)
    logins: Logins = field(init=False)
    challenges: Challenges = field(init=False)
    devices: Devices = field(init=False)
    erasures: Erasures = field(init=False)

    def __post_init__(self) -> None:
        """As the lobby is composed."""
        engine, clock = self.engine, self.clock
        self.players = Players(engine, clock, KEY)
        now = self.players.now
        self.passwords = Passwords(self.settings)
        self.lockout = Lockout(engine, KEY, now, self.settings)
        self.logins = Logins(engine, self.players, self.passwords, self.lockout)
        self.challenges = Challenges(engine, KEY, now, clock.seconds)
        self.devices = Devices(engine, self.players, self.challenges)
        self.erasures = Erasures(engine, 1_000, clock)

    def request(self) -> str:
        """A fresh request id."""
        self.numbers += 1
        return f"a-request-nobody-guesses-{self.numbers:06}"

    async def guest(self, name: str = "Nino") -> SignedUp:
        """Somebody who has just signed up."""
        return await self.players.sign_up(name, self.request())

    async def named(self, login: str = "nino", password: str = PASSWORD) -> SignedUp:
        """Somebody who has just chosen a login name and a password."""
        made = await self.guest()
        await self.choose(made, login, password)
        return made

    async def choose(
        self, made: SignedUp, login: str, password: str, old: str = "", request: str = ""
    ) -> str:
        """Choose a login in the session that signed up."""
        asked = wanted(login, password, old)
        session = str(made.refresh.session)
        return await self.logins.set(
            made.player.player, session, asked, request or self.request(), HERE
        )

    async def by_key(self, player: UUID, key: Ed25519PrivateKey) -> Refreshing:
        """Sign in by a device's key."""
        public = key.public_key().public_bytes_raw()
        challenge, _ = self.challenges.make("device", str(player), public.hex())
        signature = key.sign(signed_octets(player, challenge))
        return (await self.devices.sign_in(player, public, challenge, signature))[1]

    async def erase(self, made: SignedUp) -> None:
        """Erase somebody, as far as the lobby's own tables go."""
        wish = Wish(made.player.player, made.player.name, "", True, False)
        await self.erasures.remove(await self.erasures.begin(wish), 1_000)

    def close(self) -> None:
        """Let the threads go."""
        self.passwords.close()
