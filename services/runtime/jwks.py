"""Public keys as others read them: a JSON Web Key Set (RFC 7517, Ed25519 keys as in RFC 8037)."""

import base64
import json
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PublicKeys = Mapping[str, tuple[str, Ed25519PublicKey]]
"""Issuer and key by key id."""


def key_set(keys: PublicKeys, issuer: str) -> str:
    """An issuer's keys as a JSON Web Key Set, in the order of their ids."""
    found = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "use": "sig",
            "alg": "EdDSA",
            "kid": name,
            "x": base64.urlsafe_b64encode(key.public_bytes_raw()).decode().rstrip("="),
        }
        for name, (by, key) in keys.items()
        if by == issuer
    ]
    return json.dumps({"keys": sorted(found, key=lambda each: each["kid"])})
