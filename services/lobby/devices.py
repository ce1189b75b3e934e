"""Devices: Ed25519 keys by which a player signs in without a password."""

import secrets
from dataclasses import dataclass
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.kernel.errors import Kind, Refused, precondition
from services.lobby.challenges import Challenges
from services.lobby.players import Player, Players
from services.lobby.schema import devices, players, sessions
from services.lobby.sessions import Beginning, Means, Refreshing, end_sessions, hold_player
from services.runtime.database import read, write

DEVICES_MAX = 10
"""Most devices of a player."""
KEY_BYTES = 32
SIGNATURE_BYTES = 64
LABEL = "kozyr device sign-in 1"
PRIME = (1 << 255) - 19
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
ANYBODYS = frozenset((0, 1, PRIME - 1, PRIME, PRIME + 1, EIGHTH, PRIME - EIGHTH))
"""The second coordinates of the points of small order: under them anybody can sign."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device; moments are database time in microseconds."""

    device: UUID
    name: str
    public_key: bytes
    created_at: int
    used_at: int | None


class Devices:
    """The devices of one database; every method raises StoreUnavailable when it is gone."""

    def __init__(self, engine: AsyncEngine, players: Players, challenges: Challenges) -> None:
        self._engine = engine
        self._players = players
        self._challenges = challenges
        self._now = players.now

    async def of_player(self, player: UUID) -> list[Device]:
        """A player's devices, the oldest first."""
        query = select(devices).where(devices.c.player_id == player)
        async with read(self._engine) as connection:
            rows = await connection.execute(
                query.order_by(devices.c.created_at, devices.c.device_id)
            )
            return [_device(row) for row in rows]

    async def add(self, player: UUID, session: str, name: str, public_key: bytes) -> Device:
        """Add a key; one that is there stays. Raises Refused SIGN_IN_NOT_FRESH, TOO_MANY_DEVICES,
        BEING_ERASED."""
        mine = devices.c.player_id == player
        async with write(self._engine) as connection:
            await hold_player(connection, player)
            await self._players.sessions.require_fresh(connection, player, session)
            query = select(devices).where(mine, devices.c.public_key == public_key)
            row = (await connection.execute(query)).one_or_none()
            if row is not None:
                return _device(row)
            count = select(func.count()).select_from(devices).where(mine)
            if (await connection.execute(count)).scalar_one() >= DEVICES_MAX:
                raise precondition(
                    "TOO_MANY_DEVICES",
                    "remove a device first",
                    limit="devices",
                    most=str(DEVICES_MAX),
                )
            now, made = await self._now(connection), UUID(bytes=secrets.token_bytes(16))
            device = Device(made, name, public_key, now, None)
            await connection.execute(
                insert(devices).values(
                    device_id=made,
                    player_id=player,
                    device_name=name,
                    public_key=public_key,
                    created_at=now,
                )
            )
            return device

    async def remove(self, player: UUID, session: str, device: UUID) -> None:
        """Remove a key and end what it began; raises Refused SIGN_IN_NOT_FRESH, BEING_ERASED."""
        mine = devices.c.player_id == player
        async with write(self._engine) as connection:
            await hold_player(connection, player)
            await self._players.sessions.require_fresh(connection, player, session)
            await connection.execute(delete(devices).where(mine, devices.c.device_id == device))
            begun = select(sessions.c.session_id).where(
                sessions.c.player_id == player, sessions.c.device_id == device
            )
            ended = (await connection.execute(begun)).scalars().all()
            await end_sessions(connection, player, ended)

    async def sign_in(
        self, player: UUID, public_key: bytes, challenge: str, signature: bytes
    ) -> tuple[Player, Refreshing]:
        """Begin a session by a signature under a challenge for this player and key.

        Whether there is such a player or key is not told, and the same is done where there is none.
        Raises Refused SIGN_IN_REFUSED, what `Challenges` raises, and BEING_ERASED.
        """
        self._challenges.check(challenge, "device", str(player), public_key.hex())
        signed = signed_octets(player, challenge)
        good = _verifies(public_key, signature, signed)
        async with write(self._engine) as connection:
            device, who = await _find(connection, player, public_key)
            if not good or device is None or who is None:
                raise Refused(
                    Kind.UNAUTHENTICATED, "SIGN_IN_REFUSED", "no such player, or another key"
                )
            await self._challenges.spend(connection, challenge)
            await hold_player(connection, player)
            used = update(devices).where(devices.c.device_id == device.device)
            await connection.execute(used.values(used_at=await self._now(connection)))
            beginning = Beginning(Means.KEY, device.name, device.device)
            return who, await self._players.sessions.begin(connection, player, beginning)


def signed_octets(player: UUID, challenge: str) -> bytes:
    """What a device signs."""
    return f"{LABEL}\n{player}\n{challenge}\n".encode("ascii")


def usable(public_key: bytes) -> bool:
    """Whether a key is one that only its holder can sign with."""
    return int.from_bytes(public_key, "little") & ((1 << 255) - 1) not in ANYBODYS


def _verifies(public_key: bytes, signature: bytes, signed: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


async def _find(
    connection: AsyncConnection, player: UUID, public_key: bytes
) -> tuple[Device | None, Player | None]:
    who = select(players).where(players.c.player_id == player).with_for_update()
    found = (await connection.execute(who)).one_or_none()
    query = select(devices).where(devices.c.player_id == player, devices.c.public_key == public_key)
    row = (await connection.execute(query)).one_or_none()
    known = None if found is None else Player(found.player_id, found.display_name, found.bot)
    return (None if row is None else _device(row)), known


def _device(row: object) -> Device:
    columns = ("device_id", "device_name", "public_key", "created_at", "used_at")
    return Device(*(getattr(row, column) for column in columns))
