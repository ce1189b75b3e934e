"""An external issuer of identities (OpenID Connect), by configuration: its id tokens, verified.

What is checked: the signature by a key of the issuer, found by the token's `kid`, with an algorithm
of the list and of the key's own kind; issuer, audience (`azp` where there are several), expiry,
issue and the presence of subject and nonce. Keys come from a file, or from an address that is named
or discovered; they are fetched again when they are old, and when a token names an unknown one.
"""

import asyncio
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from services.kernel.errors import Kind, Refused, precondition, unavailable
from services.runtime import log
from services.runtime.settings import Settings

FRESH_S = 300.0
"""Keys older than this are fetched again before one is used, in seconds."""
KEPT_S = 3_600.0
"""Keys older than this are used no longer, though the issuer does not answer, in seconds."""
AGAIN_S = 5.0
"""How long after a try to fetch them the next one may be made, in seconds."""
FETCH_S = 4.0
FETCH_MAX_BYTES = 262_144
DISCOVERY = "/.well-known/openid-configuration"
SUBJECT_MAX = 255
KINDS = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("EdDSA",)}
"""What algorithms of a key's kind begin with."""

Fetch = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Claims:
    """Who an id token speaks of, and the nonce it was asked for with."""

    issuer: str
    subject: str = field(repr=False)
    nonce: str = field(repr=False)


class Unreachable(Exception):
    """The issuer's keys could not be had."""


async def fetch(address: str) -> bytes:
    """What is at an address of the issuer; raises Unreachable."""
    return await asyncio.to_thread(_fetch, address)


class ExternalIssuer:
    """The issuer that the settings name, if they name one."""

    def __init__(
        self, settings: Settings, fetch: Fetch = fetch, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = settings.oidc_issuer or ""
        self._audience = settings.oidc_audience or ""
        self._address = settings.oidc_jwks_url
        self._file = settings.oidc_jwks_file
        self._algorithms = settings.oidc_algorithms.split(",")
        self._skew_s = settings.clock_skew_ms / 1_000
        self._fetch = fetch
        self._now = now
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_at = self._tried_at = -KEPT_S
        self._turn = asyncio.Lock()

    async def read(self, token: str) -> Claims:
        """Whom an id token speaks of.

        Raises Refused EXTERNAL_SIGN_IN_UNCONFIGURED; UNAUTHENTICATED EXTERNAL_TOKEN_EXPIRED, and
        EXTERNAL_TOKEN_INVALID for anything else that is wrong with it; UNAVAILABLE
        EXTERNAL_ISSUER_UNAVAILABLE.
        """
        if not self._issuer:
            raise precondition("EXTERNAL_SIGN_IN_UNCONFIGURED", "there is no external issuer")
        try:
            head = jwt.get_unverified_header(token)
            algorithm, kid = head.get("alg"), head.get("kid")
            if algorithm not in self._algorithms or not isinstance(kid, str):
                raise _invalid()
            key = await self._key(kid)
            if not algorithm.startswith(KINDS.get(str(key.key_type), ())):
                raise _invalid()
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={"require": ["exp", "iat", "sub", "iss", "aud", "nonce"]},
            )
        except jwt.ExpiredSignatureError:
            raise Refused(
                Kind.UNAUTHENTICATED, "EXTERNAL_TOKEN_EXPIRED", "the id token has expired"
            ) from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise _invalid() from None
        return self._claims(claims)

    def _claims(self, claims: Mapping[str, Any]) -> Claims:
        subject, nonce, audience = claims["sub"], claims["nonce"], claims["aud"]
        if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MAX:
            raise _invalid()
        several = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if several else self._audience) != self._audience:
            raise _invalid()
        if not isinstance(nonce, str):
            raise _invalid()
        return Claims(self._issuer, subject, nonce)

    async def _key(self, kid: str) -> jwt.PyJWK:
        async with self._turn:
            age, rested = self._now() - self._read_at, self._now() - self._tried_at
            if rested >= AGAIN_S and (age >= FRESH_S or kid not in self._keys):
                await self._load()
            if self._now() - self._read_at >= KEPT_S:
                raise unavailable("EXTERNAL_ISSUER_UNAVAILABLE", "the issuer does not answer")
        if kid not in self._keys:
            raise _invalid()
        return self._keys[kid]

    async def _load(self) -> None:
        self._tried_at = self._now()
        try:
            self._keys = read_keys(await self._document())
            self._read_at = self._now()
        except (Unreachable, OSError, ValueError, TypeError) as error:
            log.get().warning("external_keys_not_read", problem=type(error).__name__)

    async def _document(self) -> bytes:
        if self._file is not None:
            return await asyncio.to_thread(Path(self._file).read_bytes)
        if self._address is not None:
            return await self._fetch(self._address)
        found = json.loads(await self._fetch(self._issuer.rstrip("/") + DISCOVERY))
        if not isinstance(found, dict) or found.get("issuer") != self._issuer:
            raise Unreachable
        return await self._fetch(str(found.get("jwks_uri")))


def read_keys(document: bytes) -> dict[str, jwt.PyJWK]:
    """The keys of a JSON Web Key Set that verify signatures, by key id; raises ValueError."""
    told = json.loads(document)
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no key set")
    keys = {}
    for each in listed:
        if not isinstance(each, dict) or each.get("kty") not in KINDS:
            continue
        if each.get("use", "sig") != "sig" or not isinstance(each.get("kid"), str):
            continue
        try:
            keys[each["kid"]] = jwt.PyJWK(each)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
    return keys


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: an address is what the operator or the issuer named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Nowhere."""


def _fetch(address: str) -> bytes:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_here(parts.hostname)):
        raise Unreachable
    opener = urllib.request.build_opener(
        _Straight, urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    try:
        with opener.open(address, timeout=FETCH_S) as answer:
            octets: bytes = answer.read(FETCH_MAX_BYTES + 1)
    except (OSError, HTTPException, urllib.error.URLError, ValueError):
        raise Unreachable from None
    if len(octets) > FETCH_MAX_BYTES:
        raise Unreachable
    return octets


def _is_here(host: str | None) -> bool:
    """Whether a host is this machine, which needs no encryption to be reached."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def _invalid() -> Refused:
    return Refused(Kind.UNAUTHENTICATED, "EXTERNAL_TOKEN_INVALID", "the id token is not valid")
