"""An OpenID Connect issuer on the loopback: real HTTP, keys that change, id tokens of all kinds."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "kozyr-client"
MAKERS: dict[str, Any] = {
    "RS256": (lambda: rsa.generate_private_key(65_537, 2_048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (Ed25519PrivateKey.generate, OKPAlgorithm),
}


class Issuer:
    """Publishes its keys at `address`, and signs whatever it is told to."""

    def __init__(self) -> None:
        self.address = ""
        self.keys: dict[str, tuple[str, Any]] = {}
        self.asked: list[str] = []
        self.named_issuer = ""
        self.away = False

    def add(self, kid: str, algorithm: str = "EdDSA") -> None:
        """A key more."""
        self.keys[kid] = (algorithm, MAKERS[algorithm][0]())

    def token(self, nonce: str, kid: str, /, **changes: Any) -> bytes:
        """An id token; a changed claim of None is left out."""
        algorithm, key = self.keys[kid]
        now = int(time.time())
        claims = {"iss": self.address, "sub": "u-1", "aud": AUDIENCE, "nonce": nonce}
        every = claims | {"iat": now, "exp": now + 300} | changes
        given = {name: value for name, value in every.items() if value is not None}
        return jwt.encode(given, key, algorithm, headers={"kid": kid}).encode()

    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        listed = []
        for kid, (algorithm, key) in self.keys.items():
            made = MAKERS[algorithm][1].to_jwk(key.public_key(), as_dict=True)
            listed.append({**made, "kid": kid, "use": "sig", "alg": algorithm})
        listed.append({"kty": "oct", "k": "c2VjcmV0", "kid": "shared", "use": "sig"})
        return {"keys": listed}

    def document(self, path: str) -> Any:
        """What is at a path."""
        if path == "/.well-known/openid-configuration":
            named = self.named_issuer or self.address
            return {"issuer": named, "jwks_uri": f"{self.address}/jwks"}
        return self.jwks() if path == "/jwks" else None


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that answers over HTTP."""
    issuer = Issuer()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            found = None if issuer.away else issuer.document(self.path)
            octets = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
