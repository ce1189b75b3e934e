"""This device's own key, by which it signs in without the account's secret."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kozyr.lobby.v1 import identity_pb2

from services.client.profile import Profile

LABEL = "kozyr device sign-in 1"


def new_device_key() -> bytes:
    """The private key of a device, 32 bytes."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(device_key: bytes) -> bytes:
    """What the lobby is told of a device's key, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(device_key).public_key().public_bytes_raw()


def signed(profile: Profile, challenge: str) -> identity_pb2.SignInWithKeyRequest:
    """The challenge, signed by this device."""
    key = Ed25519PrivateKey.from_private_bytes(profile.device_key)
    text = f"{LABEL}\n{profile.player_id}\n{challenge}\n"
    return identity_pb2.SignInWithKeyRequest(
        player_id=profile.player_id,
        public_key=key.public_key().public_bytes_raw(),
        challenge=challenge,
        signature=key.sign(text.encode("ascii")),
    )
