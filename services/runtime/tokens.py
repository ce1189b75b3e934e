"""Tokens: EdDSA JWTs that say who calls.

What an issuer may claim is fixed here: `players` only the role player, each service only the role
service and its own name, `operators` only the role operator. Which key belongs to which issuer is
what the folder of keys says, never what a token says.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from services.kernel.errors import Kind, Refused
from services.runtime.auth import Caller, Role
from services.runtime.keyring import Keyring, choose, read_private
from services.runtime.keys import OPERATORS, PLAYERS
from services.runtime.settings import SERVICES

AUDIENCE = "kozyr"
ALGORITHM = "EdDSA"
TOKEN_MAX = 1_024
"""Longest token accepted, in characters."""
SUBJECT_MAX = 64
CACHE_MAX = 20_000

MAY_CLAIM: Mapping[str, Role] = {
    PLAYERS: Role.PLAYER,
    OPERATORS: Role.OPERATOR,
    **dict.fromkeys(SERVICES, Role.SERVICE),
}
"""The one role each issuer may claim."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Issues tokens as one issuer."""

    issuer: str
    key_id: str
    key: Ed25519PrivateKey
    now: Callable[[], float] = time.time

    def issue(self, subject: str, lifetime_ms: int, session: str = "") -> str:
        """A token for `subject` with the one role this issuer may claim.

        A service may name itself only; raises ValueError otherwise. `session` is the sign-in that
        a player's token came from.
        """
        role = MAY_CLAIM[self.issuer]
        if not _sane_subject(subject) or (role is Role.SERVICE and subject != self.issuer):
            raise ValueError(f"{self.issuer} may not issue a token for this subject")
        at = int(self.now())
        claims = {
            "iss": self.issuer,
            "sub": subject,
            "aud": AUDIENCE,
            "role": role.value,
            "iat": at,
            "exp": at + max(1, lifetime_ms // 1000),
            "jti": secrets.token_hex(8),
            **({"sid": session} if session else {}),
        }
        return jwt.encode(claims, self.key, ALGORITHM, headers={"kid": self.key_id})


class Issues(Protocol):
    """What issues tokens as one issuer, by the key that is the right one at the moment."""

    @property
    def issuer(self) -> str:
        """Who it issues as."""

    @property
    def key_id(self) -> str:
        """The key that signs at the moment."""

    def issue(self, subject: str, lifetime_ms: int, session: str = "") -> str:
        """As `Signer.issue`."""


@dataclass(frozen=True, slots=True)
class RingSigner:
    """Issues tokens as one issuer, by the key that its keyring says."""

    issuer: str
    ring: Keyring
    now: Callable[[], float] = time.time

    @property
    def key_id(self) -> str:
        """The key that signs at the moment."""
        return self.ring.signing(self.issuer).key_id

    def issue(self, subject: str, lifetime_ms: int, session: str = "") -> str:
        """As `Signer.issue`."""
        key = self.ring.signing(self.issuer)
        return Signer(self.issuer, key.key_id, key.key, self.now).issue(
            subject, lifetime_ms, session
        )


def load_signer(
    folder: Path, issuer: str, now: Callable[[], float] = time.time, announce_ms: int = 0
) -> Signer:
    """The signer of an issuer whose private key is in the folder; raises OSError or ValueError.

    Of several keys the one that signs now, as `Keyring` says.
    """
    key = choose(read_private(folder, issuer), now() - announce_ms / 1_000)
    return Signer(issuer, key.key_id, key.key, now)


class Verifier:
    """Tells who a token speaks for; verified tokens are remembered, their expiry always checked,
    and forgotten with the key they were signed by."""

    def __init__(
        self, ring: Keyring, clock_skew_ms: int, now: Callable[[], float] = time.time
    ) -> None:
        self._ring = ring
        self._keys = ring.public
        self._skew = clock_skew_ms / 1000
        self._now = now
        self._known: OrderedDict[str, tuple[str, Caller]] = OrderedDict()

    def knows(self, token: str) -> bool:
        """Whether this very token was verified before."""
        return token in self._known

    def verify(self, token: str) -> Caller:
        """Who holds the token.

        Raises Refused UNAUTHENTICATED: TOKEN_EXPIRED, or TOKEN_INVALID for anything else.
        """
        if self._keys is not self._ring.public:
            self._take_over()
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._read(token)
            if len(self._known) > CACHE_MAX:
                self._known.popitem(last=False)
        caller = known[1]
        if self.seconds_left(caller) <= 0:
            self._known.pop(token, None)
            raise expired()
        return caller

    def _take_over(self) -> None:
        """The keys are others now: what a removed one signed is forgotten."""
        keys = self._keys = self._ring.public
        for token in [token for token, (kid, _) in self._known.items() if kid not in keys]:
            del self._known[token]

    def seconds_left(self, caller: Caller) -> float:
        """How long from now until this caller's token is refused as expired; below 0 if it is."""
        return caller.expires_at + self._skew - self._now()

    def _read(self, token: str) -> tuple[str, Caller]:
        """The key that signed a token, and its caller."""
        if len(token) > TOKEN_MAX:
            raise _invalid()
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            if not isinstance(kid, str):
                raise _invalid()
            issuer, key = self._keys[kid]
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=issuer,
                options={
                    "require": ["exp", "iat", "sub", "iss", "aud"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except (jwt.PyJWTError, KeyError, ValueError, TypeError, RecursionError):
            raise _invalid() from None
        return kid, self._claimed(issuer, claims)

    def _claimed(self, issuer: str, claims: Mapping[str, Any]) -> Caller:
        role, subject = MAY_CLAIM[issuer], claims["sub"]
        expires, issued = claims["exp"], claims["iat"]
        if type(expires) is not int or type(issued) is not int or not _sane_subject(subject):
            raise _invalid()
        if claims.get("role") != role.value or issued > self._now() + self._skew:
            raise _invalid()
        if role is Role.SERVICE and subject != issuer:
            raise _invalid()
        session = claims.get("sid", "")
        if not isinstance(session, str) or len(session) > SUBJECT_MAX:
            raise _invalid()
        return Caller(role, subject, expires, session)


def expired() -> Refused:
    """The token was good and its time is over; a fresh one serves."""
    return Refused(Kind.UNAUTHENTICATED, "TOKEN_EXPIRED", "the token has expired")


def _invalid() -> Refused:
    return Refused(Kind.UNAUTHENTICATED, "TOKEN_INVALID", "the token is not valid")


def _sane_subject(subject: object) -> bool:
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MAX:
        return False
    return subject.isascii() and subject.isprintable() and " " not in subject
