"""Rules about what serves: ports, probes, replicas, and how a replica goes."""

import re
from collections.abc import Iterator
from decimal import Decimal

from services.runtime.health import LIVENESS
from services.runtime.settings import SERVICES, Settings
from tests.deploy.contents import fields, readable
from tests.deploy.objects import Cluster, Object, Workload
from tests.rpcs import rpcs

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
MARGIN_S = 10
"""What a process may need beside its drain to close its database and end."""
ZONE = "topology.kubernetes.io/zone"
SLEEP = re.compile(r"^\s*sleep (\d+)$", re.MULTILINE)


def selectors(cluster: Cluster) -> Iterator[str]:
    """Whoever means pods by their labels means pods that there are, and the right ones."""
    for workload in cluster.workloads():
        if workload.serves:
            selector = workload.object["spec"]["selector"]
            if cluster.matched(selector) != [workload]:
                yield f"{workload.where}: selects other pods than its own"
    for service in cluster.of("Service"):
        if len(cluster.selected(service["spec"]["selector"])) != 1:
            yield f"Service {service['metadata']['name']}: selects not exactly one workload"
    for each in cluster.of("PodDisruptionBudget"):
        if len(cluster.matched(each["spec"]["selector"])) != 1:
            yield f"PodDisruptionBudget {each['metadata']['name']}: not for exactly one workload"


def target_ports(cluster: Cluster) -> Iterator[str]:
    """A Service's port leads to a port that its pods have, by its name; each service of ours is
    reached by two, one of them headless."""
    for service in cluster.of("Service"):
        where = f"Service {service['metadata']['name']}"
        selected = cluster.selected(service["spec"]["selector"])
        for workload in selected if len(selected) == 1 else ():
            names = workload.ports
            for port in service["spec"]["ports"]:
                if port["targetPort"] not in names:
                    yield f"{where}: no container has the port {port['targetPort']}"
                elif workload.name in SERVICES and port["port"] != names[port["targetPort"]]:
                    yield f"{where}: another port than the service's own"
    for name in SERVICES:
        for found, headless in ((name, False), (f"{name}-headless", True)):
            service = cluster.find("Service", found) or {"spec": {}}
            if (service["spec"].get("clusterIP") == "None") is not headless or not service["spec"]:
                yield f"Service {found}: is not there, or not as it should be"


def listening(cluster: Cluster) -> Iterator[str]:
    """A service listens for everybody, at the ports that its container names."""
    for workload in _ours(cluster):
        settings = _settings(cluster, workload)
        places = {"grpc": settings.listen(workload.name), "health": settings.health_listen or ""}
        if settings.metrics_listen or "metrics" in workload.ports:
            places["metrics"] = settings.metrics_listen or ""
        for name, place in places.items():
            if place != f"0.0.0.0:{workload.ports.get(name)}":
                yield f"{workload.where}: the port {name} is not where it listens ({place})"


def probes(cluster: Cluster) -> Iterator[str]:
    """Each of the three asks a port that is there for something that is served there, and only the
    process itself decides whether it is restarted: never its database."""
    for workload in cluster.workloads():
        if not workload.serves:
            continue
        known = {*workload.ports.keys(), *workload.ports.values()}
        for name in PROBES:
            probe = workload.main.get(name)
            if probe is None:
                yield f"{workload.where}: no {name}"
                continue
            for way in ("grpc", "httpGet", "tcpSocket"):
                if way in probe and probe[way]["port"] not in known:
                    yield f"{workload.where}: {name} asks a port that is not there"
            if workload.name in SERVICES:
                yield from _grpc_probe(workload, name, probe)


def _grpc_probe(workload: Workload, name: str, probe: Object) -> Iterator[str]:
    asked = probe.get("grpc", {})
    own = {method.containing_service.full_name for s, method in rpcs() if s == workload.name}
    ready = name == "readinessProbe"
    if asked.get("port") != workload.ports.get("health"):
        yield f"{workload.where}: {name} does not ask the port of health"
    if asked.get("service") not in (own if ready else {LIVENESS}):
        yield f"{workload.where}: {name} asks for {asked.get('service')}"


def scaling(cluster: Cluster) -> Iterator[str]:
    """An autoscaler scales something that is there, within bounds in their order, by what its
    containers say they need; nobody else says how many replicas there are."""
    scaled: set[str] = set()
    for scaler in cluster.of("HorizontalPodAutoscaler"):
        where, spec = f"HorizontalPodAutoscaler {scaler['metadata']['name']}", scaler["spec"]
        reference = spec["scaleTargetRef"]
        target = cluster.find(reference["kind"], reference["name"])
        if target is None:
            yield f"{where}: its {reference['kind']} {reference['name']} is not there"
            continue
        if reference["name"] in scaled:
            yield f"{where}: {reference['name']} has another"
        scaled.add(reference["name"])
        if not 1 <= spec["minReplicas"] < spec["maxReplicas"]:
            yield f"{where}: from {spec['minReplicas']} to {spec['maxReplicas']} replicas"
        if "replicas" in target["spec"]:
            yield f"{where}: its target has a number of replicas of its own"
    if scaled:
        for each in cluster.of("Deployment"):
            if each["metadata"]["name"] not in scaled:
                yield f"Deployment {each['metadata']['name']}: nobody scales it"


def replicas(cluster: Cluster, workload: Workload) -> int:
    """The fewest there are of a workload."""
    for scaler in cluster.of("HorizontalPodAutoscaler"):
        if scaler["spec"]["scaleTargetRef"]["name"] == workload.object["metadata"]["name"]:
            return int(scaler["spec"]["minReplicas"])
    return int(workload.object["spec"].get("replicas", 1))


def disruptions(cluster: Cluster) -> Iterator[str]:
    """A node can be emptied, and never of all replicas at once where there are more than one."""
    budgeted: list[str] = []
    for budget in cluster.of("PodDisruptionBudget"):
        where, spec = f"PodDisruptionBudget {budget['metadata']['name']}", budget["spec"]
        for workload in cluster.matched(spec["selector"]):
            budgeted.append(workload.name)
            there = replicas(cluster, workload)
            gone = int(spec.get("maxUnavailable", there - int(spec.get("minAvailable", 0))))
            if gone < 1:
                yield f"{where}: no pod may ever go"
            elif there > 1 and gone >= there:
                yield f"{where}: all {there} may go at once"
    for each in cluster.of("Deployment"):
        if each["metadata"]["name"] not in budgeted:
            yield f"Deployment {each['metadata']['name']}: nothing holds its last replica"


def draining(cluster: Cluster) -> Iterator[str]:
    """The time a pod has to go is more than it takes: preStop, then the service's own drain, then
    the last traces."""
    for workload in cluster.of("Deployment"):
        each = Workload(workload)
        stop = each.main.get("lifecycle", {}).get("preStop", {})
        before = Decimal(stop.get("sleep", {}).get("seconds", 0))
        if "exec" in stop:
            before = sum(map(Decimal, SLEEP.findall(stop["exec"]["command"][-1])), Decimal(0))
        if not before:
            yield f"{each.where}: goes before everybody knows that it goes"
        if each.name in SERVICES:
            settings = _settings(cluster, each)
            drain = (settings.drain_notice_ms, settings.drain_stream_ms, settings.drain_grace_ms)
            flush_ms = settings.trace_flush_ms if settings.otlp_endpoint else 0
            before += Decimal(sum(drain) + flush_ms) / 1000
        if each.pod.get("terminationGracePeriodSeconds", 30) < before + MARGIN_S:
            yield f"{each.where}: is killed while it drains, which takes {before} s"


def rolling(cluster: Cluster) -> Iterator[str]:
    """A new replica is ready before an old one goes."""
    for each in cluster.of("Deployment"):
        strategy = each["spec"].get("strategy", {})
        rolls = strategy.get("rollingUpdate", {})
        surge, gone = rolls.get("maxSurge", 0), rolls.get("maxUnavailable", 1)
        if strategy.get("type") != "RollingUpdate" or gone != 0 or surge == 0:
            yield f"Deployment {each['metadata']['name']}: an old replica goes first"
        if each["spec"].get("minReadySeconds", 0) < 1:
            yield f"Deployment {each['metadata']['name']}: is trusted at its first good answer"


def spreading(cluster: Cluster) -> Iterator[str]:
    """Where there are more replicas than two, they are spread over zones, each service by itself
    and each release by itself."""
    for each in cluster.of("Deployment"):
        workload = Workload(each)
        if replicas(cluster, workload) < 3:
            continue
        spread = {c["topologyKey"]: c for c in workload.pod.get("topologySpreadConstraints", ())}
        zones = spread.get(ZONE)
        if zones is None or zones["whenUnsatisfiable"] != "DoNotSchedule" or zones["maxSkew"] != 1:
            yield f"{workload.where}: may all be in one zone"
        for key, constraint in spread.items():
            by = {"app.kubernetes.io/name", "pod-template-hash"}
            if workload not in cluster.matched(constraint["labelSelector"]):
                yield f"{workload.where}: is spread over {key} by the pods of others"
            if not by <= set(constraint.get("matchLabelKeys", ())):
                yield f"{workload.where}: is not spread over {key} by itself"


def _ours(cluster: Cluster) -> Iterator[Workload]:
    return (each for each in cluster.workloads() if each.serves and each.name in SERVICES)


def _settings(cluster: Cluster, workload: Workload) -> Settings:
    """The settings of a service; what is wrong in them another rule says."""
    return readable(fields(cluster.environment(workload, workload.main)))


RULES = (
    *(selectors, target_ports, listening, probes, scaling, disruptions),
    *(draining, rolling, spreading),
)
