"""Ed25519 signatures, checked as RFC 8032 says (5.1.7), in plain Python.

Slow, a few milliseconds a signature, and of no use for signing: it needs nothing but arithmetic, so
that a receipt's signature is checked wherever Python runs.
"""

from hashlib import sha512

Point = tuple[int, int, int, int]
"""Extended coordinates X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
NEUTRAL: Point = (0, 1, 1, 0)


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` (64 bytes) is that of the key (32 bytes) under the message."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, nonce = _point(public_key), _point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or nonce is None or scalar >= ORDER:
        return False
    hashed = sha512(signature[:32] + public_key + message).digest()
    challenge = int.from_bytes(hashed, "little") % ORDER
    return _same(_times(scalar, BASE), _sum(nonce, _times(challenge, key)))


def _point(octets: bytes) -> Point | None:
    """The point whose encoding this is, None for none."""
    y = int.from_bytes(octets, "little")
    odd, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = P - x
    return x, y, 1, x * y % P


def _sum(one: Point, two: Point) -> Point:
    a = (one[1] - one[0]) * (two[1] - two[0]) % P
    b = (one[1] + one[0]) * (two[1] + two[0]) % P
    c = 2 * one[3] * two[3] * D % P
    d = 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: Point) -> Point:
    total = NEUTRAL
    while scalar:
        if scalar & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        scalar >>= 1
    return total


def _same(one: Point, two: Point) -> bool:
    return not ((one[0] * two[2] - two[0] * one[2]) % P or (one[1] * two[2] - two[1] * one[2]) % P)


def _base() -> Point:
    found = _point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    if found is None:
        raise AssertionError("the base point is a point")
    return found


BASE = _base()
