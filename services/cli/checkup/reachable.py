"""Whether each service answers, is itself, says SERVING, and plays by the rules known here."""

import asyncio
from collections.abc import Mapping
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from kozyr.lobby.v1 import lobby_pb2, lobby_pb2_grpc

from engines.rulebook import CURRENT
from services.cli.checkup import handshake
from services.cli.checkup.symptoms import Symptom, bad, ok, warn
from services.kernel.errors import Kind, Refused
from services.runtime import access
from services.runtime.clients import Client
from services.runtime.connection import connect
from services.runtime.settings import SERVICES, Settings
from services.runtime.status import from_rpc_error

PATIENCE_MS = 3_000
SERVING = HealthCheckResponse.SERVING
UNKNOWN = "SERVICE_UNKNOWN"
BARE: tuple[tuple[str, str | int], ...] = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)
SEE = "see `certificates`"
PARTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(sorted({method.split("/")[1] for method in methods}))
    for name, methods in {
        "lobby": access.LOBBY,
        "game": access.GAME,
        "ai": access.AI,
        "wallet": access.WALLET,
    }.items()
}
"""The gRPC services that each process has in this release."""


async def look(settings: Settings) -> tuple[list[Symptom], frozenset[str]]:
    """What each service says of itself, and which of them answer."""
    found = await asyncio.gather(*(_service(settings, name) for name in SERVICES))
    symptoms = [symptom for symptom, _ in found]
    reached = frozenset(n for n, (_, answers) in zip(SERVICES, found, strict=True) if answers)
    if "lobby" in reached:
        symptoms.append(await _rules(settings))
    return symptoms, reached


async def _service(settings: Settings, name: str) -> tuple[Symptom, bool]:
    """How a service is, and whether it can be asked anything else.

    Channels that calls go over lead to healthy processes alone; this one leads to any.
    """
    check, address = f"service {name}", settings.address(name)
    try:
        opened = connect(address, settings, name, BARE)
    except Refused:
        return bad(check, f"{address} was not asked: our certificates cannot be read", SEE), False
    async with opened as channel:
        health: Any = HealthStub(channel)
        try:
            whole = await _status(health, "")
            parts = [part for part in PARTS[name] if await _status(health, part) is None]
        except Refused as refused:
            return await _silent(settings, name, refused), False
    if len(parts) == len(PARTS[name]):
        return bad(
            check,
            f"what answers at {address} is not {name}",
            f"put KOZYR_{name.upper()}_ADDRESS right, here and for the other services",
        ), False
    if whole != SERVING:
        return bad(
            check,
            f"{address} says NOT_SERVING",
            f"it drains, or a check of its health fails: the newest line `check_failed` in the log "
            f"of {name} says which (deploy/README.md, Health)",
        ), False
    if parts:
        return warn(
            check,
            f"{address} is of another release: it has no {', '.join(parts)}",
            "finish the upgrade, or use the `kozyr` of the release that runs",
        ), True
    return ok(check, f"{address} serves"), True


async def _silent(settings: Settings, name: str, refused: Refused) -> Symptom:
    """What there is to do about a service that does not answer."""
    check, address = f"service {name}", settings.address(name)
    shown = await handshake.shown(address)
    if shown is None and settings.tls_ca_file is not None and await handshake.listens(address):
        return bad(
            check,
            f"{address} speaks no TLS",
            f"give {name} a certificate (deploy/README.md, Certificates), or unset "
            "KOZYR_TLS_CA_FILE here",
        )
    if shown is not None and settings.tls_ca_file is None:
        return bad(
            check,
            f"{address} speaks TLS",
            "give us its authority and a certificate of our own: KOZYR_TLS_CA_FILE, "
            "KOZYR_TLS_CERT_FILE, KOZYR_TLS_KEY_FILE",
        )
    if shown is not None:
        return bad(
            check,
            f"{address} does not take our certificate, or we not its: it shows {shown}",
            "both must be of an authority that the other trusts, must not have ended, and its must "
            f"bear the name {name}; see `certificates`",
        )
    return bad(
        check,
        f"{address} does not answer ({refused.reason})",
        f"start it (`kozyr serve {name}`), its log says why it ended; if it is elsewhere, "
        f"name where: KOZYR_{name.upper()}_ADDRESS or --{name}-address",
    )


async def _status(health: Any, name: str) -> int | None:
    """What the health of a name is, None for no such name; raises Refused where nobody answers."""
    try:
        answer = await health.Check(
            HealthCheckRequest(service=name), timeout=PATIENCE_MS / 1_000, wait_for_ready=False
        )
    except grpc.aio.AioRpcError as error:
        refused = from_rpc_error(error)
        if refused.reason == UNKNOWN or refused.kind is Kind.NOT_FOUND:
            return None
        raise refused from None
    return int(answer.status)


async def _rules(settings: Settings) -> Symptom:
    """Whether new games are opened by the rules that this program knows as the present ones."""
    client = Client(settings.address("lobby"), settings, timeout_ms=PATIENCE_MS, service="lobby")
    try:
        stub: Any = lobby_pb2_grpc.LobbyServiceStub(client.channel)
        answer = await client.call(stub.ListVariants, lobby_pb2.ListVariantsRequest())
    except Refused as refused:
        return bad("rules", f"lobby does not name them ({refused.reason})", "see `service lobby`")
    finally:
        await client.close()
    served, known = {each.rules for each in answer.variants}, set(CURRENT.values())
    if served == known:
        return ok("rules", ", ".join(sorted(served)))
    return warn(
        "rules",
        f"games are opened by {', '.join(sorted(served))}; this program has "
        f"{', '.join(sorted(known))}",
        "finish the upgrade, or use the `kozyr` of the release that runs",
    )
