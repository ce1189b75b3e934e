"""Devices' keys and challenges, over the database."""

import asyncio
from uuid import UUID

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from services.kernel.errors import Refused
from services.lobby.challenges import LIVES_MS
from services.lobby.devices import ANYBODYS, DEVICES_MAX, PRIME, signed_octets, usable
from services.lobby.players import SignedUp
from services.lobby.schema import challenges, devices
from services.lobby.sessions import FRESH_US, Means
from services.runtime.database import read
from tests.services.lobby.ways import Clock, Ways

BOTH = pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)


def octets(key: Ed25519PrivateKey) -> bytes:
    """A key's public one."""
    return key.public_key().public_bytes_raw()


async def device(ways: Ways, made: SignedUp, name: str = "Phone") -> Ed25519PrivateKey:
    """The key of a device that was just added."""
    key = Ed25519PrivateKey.generate()
    await ways.devices.add(made.player.player, str(made.refresh.session), name, octets(key))
    return key


async def test_a_device_signs_in_by_its_key(ways: Ways) -> None:
    """The session bears its name, and the device says when it was used."""
    made = await ways.guest()
    key = await device(ways, made)
    refresh = await ways.by_key(made.player.player, key)
    sessions = await ways.players.sessions.of_player(made.player.player)
    (begun,) = [each for each in sessions if each.session == refresh.session]
    assert (begun.means, begun.device_name) == (Means.KEY, "Phone")
    (known,) = await ways.devices.of_player(made.player.player)
    assert (known.name, known.public_key, known.used_at) == ("Phone", octets(key), ways.clock.now)


@BOTH
async def test_a_challenge_serves_once(ways: Ways, engine: AsyncEngine, clock: Clock) -> None:
    """On whatever replica, however many use it at once; a new one serves again."""
    made, other = await ways.guest(), Ways(engine, clock)
    key = await device(ways, made)
    player, public = made.player.player, octets(key)
    challenge, _ = ways.challenges.make("device", str(player), public.hex())
    signature = key.sign(signed_octets(player, challenge))
    tries = (
        replica.devices.sign_in(player, public, challenge, signature)
        for replica in (ways, other) * 3
    )
    done = await asyncio.gather(*tries, return_exceptions=True)
    refused = [each.reason for each in done if isinstance(each, Refused)]
    assert refused == ["CHALLENGE_USED"] * 5
    await ways.by_key(player, key)
    clock.now += 3 * LIVES_MS * 1_000
    await ways.challenges.sweep()
    async with read(engine) as connection:
        assert (await connection.execute(select(challenges))).all() == []
    with pytest.raises(Refused, match="CHALLENGE_EXPIRED"):
        await ways.devices.sign_in(player, public, challenge, signature)
    other.close()


async def test_a_challenge_is_good_for_its_player_key_and_purpose(ways: Ways) -> None:
    """One for another player, another key, the external issuer, of another service, or changed."""
    made, dato = await ways.guest(), await ways.guest("Dato")
    key, other = await device(ways, made), await device(ways, made, "Other")
    player, public = made.player.player, octets(key)
    right, _ = ways.challenges.make("device", str(player), public.hex())
    foreign = Ways(ways.engine, ways.clock)
    foreign.challenges._key = b"x" * 32
    for challenge in (
        ways.challenges.make("device", str(dato.player.player), public.hex())[0],
        ways.challenges.make("device", str(player), octets(other).hex())[0],
        ways.challenges.make("external")[0],
        foreign.challenges.make("device", str(player), public.hex())[0],
        right[:-2] + "AA",
        "x",
    ):
        signature = key.sign(signed_octets(player, challenge))
        with pytest.raises(Refused, match="BAD_TOKEN"):
            await ways.devices.sign_in(player, public, challenge, signature)
    foreign.close()


async def test_unknown_players_keys_and_signatures_are_refused_alike(ways: Ways) -> None:
    """Whoever asks learns nothing; the right signature serves with the same challenge after."""
    made, dato = await ways.guest(), await ways.guest("Dato")
    key, stranger = await device(ways, made), Ed25519PrivateKey.generate()
    player, public = made.player.player, octets(key)
    told = set()
    for who, with_key, signed_by in (
        (player, key, stranger),
        (player, stranger, stranger),
        (dato.player.player, key, key),
        (UUID(int=1), stranger, stranger),
        (UUID(int=1), key, stranger),
    ):
        challenge, _ = ways.challenges.make("device", str(who), octets(with_key).hex())
        signature = signed_by.sign(signed_octets(who, challenge))
        with pytest.raises(Refused) as caught:
            await ways.devices.sign_in(who, octets(with_key), challenge, signature)
        told.add((caught.value.kind, caught.value.reason, caught.value.message))
    assert {reason for _, reason, _ in told} == {"SIGN_IN_REFUSED"}
    assert len(told) == 1
    await ways.by_key(player, key)
    assert public == octets(key)


@BOTH
async def test_a_removed_device_ends_what_it_began(ways: Ways) -> None:
    """And nothing else; removing it again changes nothing."""
    made = await ways.guest()
    key, other = await device(ways, made), await device(ways, made, "Other")
    player, session = made.player.player, str(made.refresh.session)
    await ways.by_key(player, key)
    kept = await ways.by_key(player, other)
    (removed,) = [d for d in await ways.devices.of_player(player) if d.name == "Phone"]
    for _ in range(2):
        await ways.devices.remove(player, session, removed.device)
    left = {each.session for each in await ways.players.sessions.of_player(player)}
    assert left == {made.refresh.session, kept.session}
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await ways.by_key(player, key)


async def test_devices_are_bounded_and_a_key_is_there_once(ways: Ways) -> None:
    """Added again, it is the one that is there, also where there is room for no other."""
    made = await ways.guest()
    keys = [await device(ways, made, f"D{n}") for n in range(DEVICES_MAX)]
    with pytest.raises(Refused, match="TOO_MANY_DEVICES"):
        await device(ways, made)
    player, session = made.player.player, str(made.refresh.session)
    again = await ways.devices.add(player, session, "Renamed", octets(keys[0]))
    assert again in await ways.devices.of_player(player)
    assert again.name == "D0"


async def test_devices_are_changed_in_a_fresh_session_of_ones_own(ways: Ways, clock: Clock) -> None:
    """Neither an older one nor somebody else's, nor a token without one."""
    made, dato = await ways.guest(), await ways.guest("Dato")
    player, key = made.player.player, octets(Ed25519PrivateKey.generate())
    for session in ("", str(dato.refresh.session)):
        with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH"):
            await ways.devices.add(player, session, "Phone", key)
    clock.now += FRESH_US
    await ways.players.sessions.refresh(made.refresh.token)
    mine = str(made.refresh.session)
    for asked in (
        ways.devices.add(player, mine, "Phone", key),
        ways.devices.remove(player, mine, UUID(int=1)),
    ):
        with pytest.raises(Refused, match="SIGN_IN_NOT_FRESH"):
            await asked
    _, fresh = await ways.players.sign_in(player, made.secret)
    assert (await ways.devices.add(player, str(fresh.session), "Phone", key)).name == "Phone"


async def test_an_erased_player_has_no_device(ways: Ways, engine: AsyncEngine) -> None:
    """Nor can one be added with a token that is still out."""
    made = await ways.guest()
    key = await device(ways, made)
    await ways.erase(made)
    with pytest.raises(Refused, match="SIGN_IN_REFUSED"):
        await ways.by_key(made.player.player, key)
    with pytest.raises(Refused, match="BEING_ERASED"):
        await device(ways, made)
    async with read(engine) as connection:
        assert (await connection.execute(select(devices))).all() == []


def is_forged(public_key: bytes, signature: bytes, number: int) -> bool:
    """Whether a signature made without any key verifies."""
    try:
        found = Ed25519PublicKey.from_public_bytes(public_key)
        found.verify(signature, number.to_bytes(2, "big"))
    except (InvalidSignature, ValueError):
        return False
    return True


def test_keys_that_anybody_can_sign_with_are_none() -> None:
    """The points of small order, in every spelling; under each some signature of nobody's
    verifies. Others are fine."""
    nobodys = bytes([1]) + bytes(63)
    for number in ANYBODYS:
        for sign in (0, 1 << 255):
            key = (number | sign).to_bytes(32, "little")
            assert not usable(key)
            if 1 < number < PRIME - 1:
                assert any(is_forged(key, nobodys, n) for n in range(400))
    assert all(usable(octets(Ed25519PrivateKey.generate())) for _ in range(20))
