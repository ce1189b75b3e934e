"""Rules about who reaches whom: network policies against the calls that are made, and the edge."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from services.runtime.access import ACCESS, PLATFORM
from services.runtime.auth import Role
from services.runtime.settings import SERVICES
from tests.deploy.contents import CALLERS, STORED
from tests.deploy.objects import ROOT, Cluster, Object, Workload, matches, plain

OUTSIDE = "outside"
PROMETHEUS = "prometheus"
"""Who reads metrics, from a namespace of his own."""
MONITORING: Object = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
}
DATABASE_PORT = 5432
DNS = {"UDP 53", "TCP 53"}
PLAYERS_PORT = 8443
INSIDE_ONLY = {"ai"}
"""Services with calls for players that the edge does not lead to: hints come from the game's."""
HEALTH = "/grpc.health.v1.Health/Watch"
"""Is not answered by the edge, which whoever asks without a token must be told."""
Edge = tuple[str, str, int]
"""Who, whom, at which port."""


@cache
def calls() -> frozenset[tuple[str, str]]:
    """Which service calls which, read from the services' own code."""
    found = set()
    for service in SERVICES:
        for path in (ROOT / "services" / service).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr="client"), args=[ast.Constant(value=str(peer))]
                    ):
                        found.add((service, peer))
    return frozenset(found)


def granted() -> set[tuple[str, str]]:
    """Which service may call which by the access table."""
    areas = {(path.split(".")[1], s) for path, row in ACCESS.items() for s in row.services}
    return {(caller, area) for area, caller in areas}


def port_of(cluster: Cluster, name: str) -> int:
    """The port that a service's Service has."""
    service = cluster.find("Service", f"{name}-headless") or cluster.find("Service", name)
    return int(service["spec"]["ports"][0]["port"]) if service else 0


def needed(cluster: Cluster) -> set[Edge]:
    """Every way that is used: the services' calls, the tools', the databases', the players'."""
    there = {workload.name for workload in cluster.workloads()}
    wanted = {(a, b, port_of(cluster, b)) for a, b in calls()}
    wanted |= {(tool, "game", port_of(cluster, "game")) for tool in CALLERS}
    database = "postgres" if "postgres" in there else OUTSIDE
    users = {*STORED, "migrate", "backup"} & there
    wanted |= {(name, database, DATABASE_PORT) for name in users}
    if "edge" in there:
        wanted |= {("edge", name, port_of(cluster, name)) for name in routed()}
        wanted.add((OUTSIDE, "edge", PLAYERS_PORT))
    if "collector" in there:
        wanted |= {(name, "collector", 4317) for name in SERVICES}
        wanted.add(("collector", OUTSIDE, 4318))
    wanted |= {
        (PROMETHEUS, each.name, each.ports["metrics"])
        for each in cluster.workloads()
        if "metrics" in each.ports
    }
    return wanted


def routed() -> set[str]:
    """The services that have calls for players, those aside that the edge keeps inside."""
    allowed = {Role.PLAYER, Role.PUBLIC}
    areas = {
        p.split(".")[1] for p, row in ACCESS.items() if p not in PLATFORM and row.roles & allowed
    }
    return areas - INSIDE_ONLY


def network(cluster: Cluster) -> Iterator[str]:
    """Exactly the ways that are used are open, from both of their ends."""
    wanted, there = needed(cluster), cluster.workloads()
    for a in there:
        if not (denied(cluster, a, "Ingress") and denied(cluster, a, "Egress")):
            yield f"{a.where}: speaks with everybody"
    opened: set[Edge] = set()
    for a in there:
        for b in there:
            for port in ports(b):
                if sends(cluster, a, b, port) and takes(cluster, b, a, port):
                    opened.add((a.name, b.name, port))
        opened |= {(a.name, OUTSIDE, port) for port in to_outside(cluster, a)}
        opened |= {(OUTSIDE, a.name, port) for port in from_outside(cluster, a)}
        opened |= {(PROMETHEUS, a.name, port) for port in from_prometheus(cluster, a)}
    for edge in sorted(wanted - opened):
        yield f"NetworkPolicy: no way from {edge[0]} to {edge[1]} at {edge[2]}"
    for edge in sorted(opened - wanted):
        yield f"NetworkPolicy: a way from {edge[0]} to {edge[1]} at {edge[2]} that nobody needs"


def half_open(cluster: Cluster) -> Iterator[str]:
    """No end of a way is open whose other end is closed, and names can be resolved by all."""
    there = cluster.workloads()
    for a in there:
        for b in there:
            for port in ports(b):
                if sends(cluster, a, b, port) != takes(cluster, b, a, port):
                    yield f"NetworkPolicy: {a.name} to {b.name} at {port} is open at one end"
        if not resolves(cluster, a):
            yield f"NetworkPolicy: {a.name} cannot resolve names"


def ports(workload: Workload) -> list[int]:
    """The ports of a workload's container, those of probes aside: a node reaches them anyway."""
    return [port for name, port in workload.ports.items() if name not in ("health", "ready")]


def policies(cluster: Cluster, workload: Workload, direction: str) -> list[Object]:
    """The policies about one direction of a workload's pods."""
    return [
        each["spec"]
        for each in cluster.of("NetworkPolicy")
        if direction in each["spec"]["policyTypes"]
        and matches(each["spec"]["podSelector"], workload.labels)
    ]


def denied(cluster: Cluster, workload: Workload, direction: str) -> bool:
    """Whether what no policy allows is refused."""
    return bool(policies(cluster, workload, direction))


def rules(cluster: Cluster, workload: Workload, direction: str) -> Iterator[Object]:
    """What policies allow a workload's pods in one direction."""
    field = direction.lower()
    for policy in policies(cluster, workload, direction):
        yield from policy.get(field, ())


def at(rule: Object, port: int) -> bool:
    """Whether a rule is about a TCP port."""
    asked = rule.get("ports")
    return asked is None or any(
        each.get("port", port) == port and each.get("protocol", "TCP") == "TCP" for each in asked
    )


def means(peers: Any, workload: Workload) -> bool:
    """Whether the peers of a rule are this workload's pods, in this namespace."""
    if peers is None:
        return True
    return any(
        "podSelector" in peer
        and "namespaceSelector" not in peer
        and matches(peer["podSelector"], workload.labels)
        for peer in peers
    )


def sends(cluster: Cluster, a: Workload, b: Workload, port: int) -> bool:
    """Whether pods of `a` may call pods of `b`, as far as their own policies go."""
    given = rules(cluster, a, "Egress")
    return any(at(rule, port) and means(rule.get("to"), b) for rule in given)


def takes(cluster: Cluster, b: Workload, a: Workload, port: int) -> bool:
    """Whether pods of `b` take calls from pods of `a`; whoever takes all is for outside."""
    given = rules(cluster, b, "Ingress")
    return any(at(rule, port) and "from" in rule and means(rule["from"], a) for rule in given)


def to_outside(cluster: Cluster, workload: Workload) -> set[int]:
    """Ports at which a workload may call what is no pod of ours; 0 for all."""
    found: set[int] = set()
    for rule in rules(cluster, workload, "Egress"):
        peers = rule.get("to")
        if peers is None or any("ipBlock" in peer for peer in peers):
            found |= {each["port"] for each in rule.get("ports", [{"port": 0}])}
    return found


def from_outside(cluster: Cluster, workload: Workload) -> set[int]:
    """Ports at which a workload takes calls from anybody; 0 for all."""
    found: set[int] = set()
    for rule in rules(cluster, workload, "Ingress"):
        peers = rule.get("from")
        if peers is None or any(strange(peer) for peer in peers):
            found |= {each["port"] for each in rule.get("ports", [{"port": 0}])}
    return found


def strange(peer: Object) -> bool:
    """Whether a peer is none of our pods and not Prometheus."""
    return "ipBlock" in peer or ("namespaceSelector" in peer and peer != MONITORING)


def from_prometheus(cluster: Cluster, workload: Workload) -> set[int]:
    """Ports at which a workload lets Prometheus in; 0 for all."""
    found: set[int] = set()
    for rule in rules(cluster, workload, "Ingress"):
        if MONITORING in (rule.get("from") or ()):
            found |= {each["port"] for each in rule.get("ports", [{"port": 0}])}
    return found


def resolves(cluster: Cluster, workload: Workload) -> bool:
    """Whether the cluster's name servers can be asked, by UDP and TCP."""
    asked = set()
    for rule in rules(cluster, workload, "Egress"):
        if any("namespaceSelector" in peer for peer in rule.get("to", ())):
            asked |= {f"{each['protocol']} {each['port']}" for each in rule["ports"]}
    return asked == DNS


def envoy(cluster: Cluster) -> Iterator[str]:
    """The edge's own configuration: services and ports that there are, files that it is given, and
    calls without a token exactly where the services want none."""
    edge = next((each for each in cluster.workloads() if each.name == "edge"), None)
    if edge is None:
        return
    config = (configured(cluster, "envoy.yaml") or {})["static_resources"]
    containers = set(edge.ports.values())
    places = [each["address"]["socket_address"] for each in config["listeners"]]
    listens = {place["port_value"] for place in places if place["address"] != "127.0.0.1"}
    if listens != containers:
        yield f"edge: listens at {sorted(listens)}, its container has {sorted(containers)}"
    for upstream in upstreams(cluster):
        (endpoint,) = upstream["load_assignment"]["endpoints"][0]["lb_endpoints"]
        place = endpoint["endpoint"]["address"]["socket_address"]
        service = cluster.find("Service", place["address"]) or {"spec": {"ports": []}}
        if place["port_value"] not in {each["port"] for each in service["spec"]["ports"]}:
            yield f"edge: {upstream['name']} is not at {place['address']}:{place['port_value']}"
        asked = upstream["health_checks"][0]["grpc_health_check"]["service_name"]
        if f"/{asked}" not in {path.rpartition("/")[0] for path in ACCESS}:
            yield f"edge: {upstream['name']} has no {asked} to be healthy"
    yield from _calls(config)


def configured(cluster: Cluster, name: str) -> Object | None:
    """One of the edge's files."""
    held = [each for each in cluster.of("ConfigMap") if plain(each["metadata"]["name"]) == "edge"]
    text = held[0]["data"].get(name)
    return None if text is None else _read(text)


def upstreams(cluster: Cluster) -> list[Object]:
    """The services that the edge leads to, as it is told of them."""
    found: list[Object] = (configured(cluster, "services.yaml") or {})["resources"]
    return found


@cache
def _read(text: str) -> Object:
    config: Object = yaml.load(text, yaml.CSafeLoader)
    return config


def _calls(config: Object) -> Iterator[str]:
    (manager,) = config["listeners"][0]["filter_chains"][0]["filters"]
    manager = manager["typed_config"]
    filters = {each["name"]: each["typed_config"] for each in manager["http_filters"]}
    rules = filters["envoy.filters.http.jwt_authn"]["rules"]
    free = {rule["match"].get("path", rule["match"]) for rule in rules if "requires" not in rule}
    areas = tuple(f"/kozyr.{name}." for name in routed())
    public = {p for p, row in ACCESS.items() if row.public and p.startswith(areas)}
    for path in sorted((public | {HEALTH}) ^ free):
        word = "none, which the services want" if path in free else "one, which they do not"
        yield f"edge: {path} needs {word} (a line under `rules` of components/edge/envoy.yaml)"
    if rules[-1]["match"] != {"prefix": "/"} or "requires" not in rules[-1]:
        yield "edge: not all other calls need a token"
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    led = {(each["match"].get("prefix"), each["route"]["cluster"]) for each in routes}
    if led != {(f"/kozyr.{name}.v1.", name) for name in routed()}:
        yield f"edge: leads to {sorted(led)}"


RULES = (network, half_open, envoy)
