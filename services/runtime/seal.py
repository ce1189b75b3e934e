"""Sealed tokens: what a client keeps for us and must give back unchanged.

Page tokens and resume tokens are signed with the service's key (HMAC-SHA-256) and bound to what
they were made for: a token of another purpose, viewer, game or key does not open. Equal fields
give an equal token, so a token tells nothing but its fields, which the client knows anyway.
"""

import base64
import hmac
from collections.abc import Sequence

import orjson

from services.kernel.errors import Refused, invalid

TOKEN_MAX = 512
"""Longest sealed token, in bytes."""
_MAC_BYTES = 16

Field = str | int | None


def seal_token(key: bytes, purpose: str, bound: Sequence[Field], fields: Sequence[Field]) -> bytes:
    """A token that carries `fields` and opens only with the same key, purpose and `bound`."""
    body = orjson.dumps(list(fields))
    return _short_enough(_mac(key, purpose, bound, body) + body)


class Sealer:
    """Makes tokens that open alike; `seal_token` for many of them, a third as dear."""

    def __init__(self, key: bytes, purpose: str, bound: Sequence[Field]) -> None:
        self._begun = hmac.new(key, _signed(purpose, bound), "sha256")

    def seal(self, fields: Sequence[Field]) -> bytes:
        """What `seal_token` gives for these fields."""
        body = orjson.dumps(list(fields))
        mac = self._begun.copy()
        mac.update(body)
        return _short_enough(mac.digest()[:_MAC_BYTES] + body)


def open_token(
    key: bytes, purpose: str, bound: Sequence[Field], token: bytes, field: str = "resume_token"
) -> tuple[Field, ...]:
    """The fields of a token; raises Refused INVALID_ARGUMENT `BAD_TOKEN` naming `field`."""
    mac, body = token[:_MAC_BYTES], token[_MAC_BYTES:]
    if len(token) > TOKEN_MAX or not hmac.compare_digest(mac, _mac(key, purpose, bound, body)):
        raise _bad(field)
    return tuple(orjson.loads(body))


def seal_page(key: bytes, purpose: str, bound: Sequence[Field], fields: Sequence[Field]) -> str:
    """The same as text: a page token. `bound` holds what must not change between pages."""
    sealed = seal_token(key, f"page:{purpose}", bound, fields)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def open_page(key: bytes, purpose: str, bound: Sequence[Field], text: str) -> tuple[Field, ...]:
    """The fields of a page token; `()` for an empty one, the first page."""
    if not text:
        return ()
    try:
        padded = text + "=" * (-len(text) % 4)
        sealed = base64.b64decode(padded, altchars=b"-_", validate=True)
    except ValueError:
        raise _bad("page_token") from None
    return open_token(key, f"page:{purpose}", bound, sealed, "page_token")


def _mac(key: bytes, purpose: str, bound: Sequence[Field], body: bytes) -> bytes:
    return hmac.digest(key, _signed(purpose, bound) + body, "sha256")[:_MAC_BYTES]


def _signed(purpose: str, bound: Sequence[Field]) -> bytes:
    """What is signed before the fields."""
    signed = orjson.dumps([purpose, list(bound)])
    return len(signed).to_bytes(4, "big") + signed


def _short_enough(token: bytes) -> bytes:
    if len(token) > TOKEN_MAX:
        raise ValueError("too much for a token")
    return token


def _bad(field: str) -> Refused:
    return invalid(field, "is not a token for this request", "BAD_TOKEN")
