"""The part of a process's settings that is about signing in and the keys of tokens."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings

OIDC_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures of id tokens that may be allowed: those with a public key."""


class SignInSettings(BaseSettings):
    """Keys, passwords, failures and the external issuer; `Settings` has them as its own."""

    key_reread_ms: int = Field(
        default=5_000,
        ge=50,
        le=60_000,
        description="The key folder is looked at this often; keys change without a restart.",
    )
    key_announce_ms: int = Field(
        default=300_000,
        ge=0,
        le=86_400_000,
        description="A new key signs after it has lain in the key folder for so long.",
    )
    password_memory_kib: int = Field(
        default=19_456,
        ge=8,
        le=2**20,
        description="Memory that a password's hash (Argon2id) takes while it is made.",
    )
    password_passes: int = Field(
        default=2, ge=1, le=100, description="How often a password's hash goes over that memory."
    )
    password_hashes_at_once: int = Field(
        default=2, ge=1, le=64, description="Hashes of passwords made at once, each on a core."
    )
    password_hashes_waiting_max: int = Field(
        default=32,
        ge=0,
        le=10_000,
        description="Hashes that may wait for that; who comes beyond is told to come back.",
    )
    sign_in_failures_max: int = Field(
        default=5,
        ge=1,
        le=1_000,
        description="Wrong passwords for a login name before waits begin, 2 s and doubling.",
    )
    sign_in_address_failures_max: int = Field(
        default=50, ge=1, le=100_000, description="The same for an address."
    )
    sign_in_wait_max_ms: int = Field(
        default=900_000,
        ge=1_000,
        le=86_400_000,
        description="Longest such wait; an hour without a failure forgets them.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        description="External issuer (OpenID Connect) whose users may sign in; none if unset.",
    )
    oidc_audience: str | None = Field(
        default=None, description="The client id that its id tokens must be for."
    )
    oidc_jwks_url: str | None = Field(
        default=None, description="Where its keys are; by default its discovery document says."
    )
    oidc_jwks_file: Path | None = Field(
        default=None, description="A file with its keys, instead of an address."
    )
    oidc_algorithms: str = Field(
        default="RS256,ES256,EdDSA",
        description="Signatures it may use, with commas; of " + ", ".join(OIDC_ALGORITHMS) + ".",
    )

    @model_validator(mode="after")
    def _doors_are_shut(self) -> Self:
        if self.oidc_issuer and not self.oidc_audience:
            raise ValueError("oidc_issuer needs oidc_audience")
        if not set(self.oidc_algorithms.split(",")) <= set(OIDC_ALGORITHMS):
            raise ValueError("oidc_algorithms: of " + ", ".join(OIDC_ALGORITHMS))
        if self.key_announce_ms < 2 * self.key_reread_ms:
            raise ValueError("2 * key_reread_ms <= key_announce_ms")
        return self
