"""Faults that manifests really have, each seeded into what an overlay renders to.

`FAULTS` names for each the one rule of `policy.py` that sees it; no other may. Nothing here is seen
by a schema: every fault is a valid manifest, most are accepted by a cluster without a word.
"""

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tests.deploy.objects import Object, plain

Change = Callable[[list[Object]], None]


def get(objects: list[Object], kind: str, name: str) -> Any:
    """The object of this kind and name, what kustomize puts behind a name left out."""
    return next(
        each
        for each in objects
        if each["kind"] == kind
        and (each["metadata"]["name"] == name or plain(each["metadata"]["name"]) == name)
    )


def pod(objects: list[Object], name: str, kind: str = "Deployment") -> Any:
    """The pods' spec of a workload."""
    spec = next(
        each["spec"]
        for each in objects
        if each["kind"] == kind and each["metadata"]["name"].startswith(name)
    )
    if kind == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec["template"]["spec"]


def main(objects: list[Object], name: str, kind: str = "Deployment") -> Any:
    """The first container of a workload."""
    return pod(objects, name, kind)["containers"][0]


def put(where: Any, *path: Any) -> None:
    """Sets what the path leads to, its last element being the value."""
    *steps, last, value = path
    for step in steps:
        where = where[step]
    where[last] = value


def drop(objects: list[Object], kind: str, name: str) -> None:
    """Removes an object."""
    objects.remove(get(objects, kind, name))


def setting(name: str, variable: str, value: str) -> Change:
    """A setting of the ConfigMap `name` is another."""
    return lambda o: put(get(o, "ConfigMap", name), "data", variable, value)


def edge(change: Callable[[Any], None]) -> Change:
    """The edge's configuration is another."""

    def changed(objects: list[Object]) -> None:
        data = get(objects, "ConfigMap", "edge")["data"]
        config = yaml.load(data["envoy.yaml"], yaml.CSafeLoader)
        change(config["static_resources"])
        data["envoy.yaml"] = yaml.safe_dump(config)

    return changed


def upstream(change: Callable[[Any], None], file: str = "services.yaml") -> Change:
    """What the edge is told of the services, the first of them, is another."""

    def changed(objects: list[Object]) -> None:
        data = get(objects, "ConfigMap", "edge")["data"]
        config = yaml.load(data[file], yaml.CSafeLoader)
        change(config["resources"][0])
        data[file] = yaml.safe_dump(config)

    return changed


def manager(resources: Any) -> Any:
    """What the edge does with a connection of a player."""
    return resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]


def token_rules(resources: Any) -> Any:
    """Which calls need a token at the edge."""
    filters = {each["name"]: each["typed_config"] for each in manager(resources)["http_filters"]}
    return filters["envoy.filters.http.jwt_authn"]["rules"]


def policy(objects: list[Object], name: str) -> Any:
    """The rules of a network policy."""
    return get(objects, "NetworkPolicy", name)["spec"]


def security(name: str, value: Any) -> Change:
    """The game's container has another security context."""
    return lambda o: put(main(o, "game"), "securityContext", name, value)


def of_pod(field: str, value: Any) -> Change:
    """The game's pods have another field."""
    return lambda o: put(pod(o, "game"), field, value)


def unset(where: Any, *path: Any) -> None:
    """Removes what the path leads to."""
    *steps, last = path
    for step in steps:
        where = where[step]
    del where[last]


CONFINEMENT: Mapping[str, Change] = {
    "runs as root": lambda o: put(pod(o, "game"), "securityContext", "runAsUser", 0),
    "runs as the image likes": lambda o: unset(pod(o, "game"), "securityContext", "runAsNonRoot"),
    "no seccomp": lambda o: unset(pod(o, "game"), "securityContext", "seccompProfile"),
    "root that can be written": security("readOnlyRootFilesystem", False),
    "may become more": security("allowPrivilegeEscalation", True),
    "keeps capabilities": security("capabilities", {"drop": ["NET_RAW"]}),
    "is privileged": security("privileged", True),
    "the waiting container is not confined": lambda o: unset(
        pod(o, "game")["initContainers"][0], "securityContext"
    ),
    "network of the host": of_pod("hostNetwork", True),
    "a token of the cluster": of_pod("automountServiceAccountToken", True),
    "variables of all services": of_pod("enableServiceLinks", True),
    "a folder of the host": lambda o: put(
        pod(o, "edge")["volumes"][1], "hostPath", {"path": "/etc"}
    ),
}
RESOURCES: Mapping[str, Change] = {
    "no limit of memory": lambda o: unset(main(o, "ai"), "resources", "limits", "memory"),
    "no request": lambda o: unset(main(o, "ai"), "resources", "requests"),
    "needs more than it may take": lambda o: put(
        main(o, "ai"), "resources", "requests", "memory", "10Gi"
    ),
    "nothing said of the waiting container": lambda o: unset(
        pod(o, "lobby")["initContainers"][0], "resources"
    ),
}
IMAGES: Mapping[str, Change] = {
    "latest": lambda o: put(main(o, "edge"), "image", "envoyproxy/envoy:latest"),
    "no tag": lambda o: put(main(o, "edge"), "image", "registry:5000/envoy"),
    "another version of ours": lambda o: put(
        main(o, "ai"), "image", "registry.example.com/kozyr:9.9.9"
    ),
    "two releases of one image": lambda o: put(
        main(o, "backup", "CronJob"), "image", "envoyproxy/envoy:v1.39.0"
    ),
}
COMMANDS: Mapping[str, Change] = {
    "no such service": lambda o: put(main(o, "ai"), "args", ["serve", "bots"]),
    "no such command": lambda o: put(main(o, "ai"), "args", ["run", "ai"]),
    "no such flag": lambda o: put(main(o, "audit", "CronJob"), "args", ["audit", "--everything"]),
    "a command of its own": lambda o: put(main(o, "ai"), "command", ["python"]),
    "a Job that must change": lambda o: put(
        next(each for each in o if each["kind"] == "Job"), "metadata", "name", "migrate"
    ),
}
RESTARTS: Mapping[str, Change] = {
    "twice at once": lambda o: put(
        get(o, "CronJob", "audit"), "spec", "concurrencyPolicy", "Allow"
    ),
    "failures forgotten": lambda o: put(
        get(o, "CronJob", "audit"), "spec", "failedJobsHistoryLimit", 0
    ),
    "for ever": lambda o: unset(
        get(o, "CronJob", "backup"), "spec", "jobTemplate", "spec", "activeDeadlineSeconds"
    ),
}
SELECTORS: Mapping[str, Change] = {
    "a Service for nobody": lambda o: put(
        get(o, "Service", "edge"), "spec", "selector", "app.kubernetes.io/name", "envoy"
    ),
    "a Service for everybody": lambda o: unset(
        get(o, "Service", "edge"), "spec", "selector", "app.kubernetes.io/name"
    ),
    "a Deployment that takes others' pods": lambda o: unset(
        get(o, "Deployment", "game"), "spec", "selector", "matchLabels", "app.kubernetes.io/name"
    ),
}
TARGET_PORTS: Mapping[str, Change] = {
    "no such port": lambda o: put(
        get(o, "Service", "game"), "spec", "ports", 0, "targetPort", "http"
    ),
    "another number": lambda o: put(get(o, "Service", "game"), "spec", "ports", 0, "port", 7001),
    "no replicas behind the name": lambda o: unset(
        get(o, "Service", "game-headless"), "spec", "clusterIP"
    ),
    "no Service for tools": lambda o: drop(o, "Service", "ai"),
}
LISTENING: Mapping[str, Change] = {
    "heard by itself alone": setting("game", "KOZYR_GAME_LISTEN", "127.0.0.1:7002"),
    "at another port": setting("game", "KOZYR_GAME_LISTEN", "0.0.0.0:7001"),
    "no port for probes": lambda o: unset(
        get(o, "ConfigMap", "kozyr"), "data", "KOZYR_HEALTH_LISTEN"
    ),
}
PROBES: Mapping[str, Change] = {
    "restarted with its database": lambda o: put(
        main(o, "game"), "livenessProbe", "grpc", "service", ""
    ),
    "ready while nothing works": lambda o: put(
        main(o, "game"), "readinessProbe", "grpc", "service", "liveness"
    ),
    "another service's name": lambda o: put(
        main(o, "game"), "readinessProbe", "grpc", "service", "kozyr.lobby.v1.LobbyService"
    ),
    "the port of calls": lambda o: put(main(o, "game"), "startupProbe", "grpc", "port", 7002),
    "never asked": lambda o: unset(main(o, "game"), "livenessProbe"),
    "no such port": lambda o: put(main(o, "edge"), "readinessProbe", "httpGet", "port", "admin"),
}
SCALING: Mapping[str, Change] = {
    "scales nothing": lambda o: put(
        get(o, "HorizontalPodAutoscaler", "ai"), "spec", "scaleTargetRef", "kind", "StatefulSet"
    ),
    "bounds the wrong way round": lambda o: put(
        get(o, "HorizontalPodAutoscaler", "ai"), "spec", "maxReplicas", 2
    ),
    "two say how many": lambda o: put(get(o, "Deployment", "ai"), "spec", "replicas", 3),
}
DISRUPTIONS: Mapping[str, Change] = {
    "a node can never be emptied": lambda o: put(
        get(o, "PodDisruptionBudget", "ai"), "spec", "maxUnavailable", 0
    ),
    "all may go": lambda o: put(get(o, "PodDisruptionBudget", "ai"), "spec", "maxUnavailable", 3),
    "nothing is held": lambda o: drop(o, "PodDisruptionBudget", "ai"),
}
DRAINING: Mapping[str, Change] = {
    "killed while it drains": of_pod("terminationGracePeriodSeconds", 20),
    "the usual grace": lambda o: unset(pod(o, "game"), "terminationGracePeriodSeconds"),
    "a longer drain": setting("kozyr", "KOZYR_DRAIN_GRACE_MS", "60000"),
    "no preStop": lambda o: unset(main(o, "game"), "lifecycle"),
    "the edge is killed": lambda o: put(pod(o, "edge"), "terminationGracePeriodSeconds", 20),
}
ROLLING: Mapping[str, Change] = {
    "an old one goes first": lambda o: put(
        get(o, "Deployment", "game"), "spec", "strategy", "rollingUpdate", "maxUnavailable", 1
    ),
    "all at once": lambda o: put(
        get(o, "Deployment", "game"), "spec", "strategy", {"type": "Recreate"}
    ),
    "trusted too early": lambda o: unset(get(o, "Deployment", "game"), "spec", "minReadySeconds"),
}
SPREADING: Mapping[str, Change] = {
    "one zone": lambda o: unset(pod(o, "game"), "topologySpreadConstraints"),
    "zones if convenient": lambda o: put(
        pod(o, "game"), "topologySpreadConstraints", 0, "whenUnsatisfiable", "ScheduleAnyway"
    ),
    "by all pods together": lambda o: put(
        pod(o, "game"), "topologySpreadConstraints", 0, "matchLabelKeys", ["pod-template-hash"]
    ),
    "by the pods of nobody": lambda o: put(
        *(pod(o, "game"), "topologySpreadConstraints", 0, "labelSelector"),
        {"matchLabels": {"app": "game"}},
    ),
}
VARIABLES: Mapping[str, Change] = {
    "a setting misspelt": setting("game", "KOZYR_GAMES_CASHED", "5000"),
    "a number that is none": setting("kozyr", "KOZYR_RATE_BURST", "many"),
    "out of bounds": setting("kozyr", "KOZYR_HEALTH_INTERVAL_MS", "0"),
    "settings against each other": setting("lobby", "KOZYR_TURN_TIME_MIN_MS", "999999"),
}
REFERENCES: Mapping[str, Change] = {
    "no such secret": lambda o: put(
        main(o, "migrate", "Job"), "env", 0, "valueFrom", "secretKeyRef", "name", "database"
    ),
    "no such key of a secret": lambda o: put(
        main(o, "migrate", "Job"), "env", 0, "valueFrom", "secretKeyRef", "key", "url"
    ),
    "no such file of a ConfigMap": lambda o: put(
        pod(o, "edge")["volumes"][0], "configMap", "items", [{"key": "envoy.yml", "path": "e"}]
    ),
    "no such ConfigMap": lambda o: put(
        main(o, "ai"), "envFrom", [*main(o, "ai")["envFrom"], {"configMapRef": {"name": "ais"}}]
    ),
    "no such claim": lambda o: drop(o, "PersistentVolumeClaim", "checkpoints"),
    "no such account": lambda o: drop(o, "ServiceAccount", "game"),
}


def database(source: Any) -> Change:
    """The game, and what waits before it, has its database from elsewhere."""

    def changed(objects: list[Object]) -> None:
        for container in (main(objects, "game"), pod(objects, "game")["initContainers"][0]):
            container["env"][0] = {"name": "KOZYR_GAME_DATABASE_URL", **source}

    return changed


SECRECY: Mapping[str, Change] = {
    "the owner's database for a service": database(
        {"valueFrom": {"secretKeyRef": {"name": "database-owner", "key": "game"}}}
    ),
    "a password in the manifests": database({"value": "postgresql+asyncpg://kozyr:word@host/game"}),
    "operators' keys for a service": lambda o: pod(o, "ai")["volumes"][1]["projected"][
        "sources"
    ].append({"secret": {"name": "operator-keys"}}),
    "a secret among the manifests": lambda o: o.append(
        {"kind": "Secret", "metadata": {"name": "game-keys"}, "data": {}}
    ),
    "the account of another": of_pod("serviceAccountName", "lobby"),
}
MOUNTS: Mapping[str, Change] = {
    "no such volume": lambda o: put(main(o, "edge"), "volumeMounts", 0, "name", "conf"),
    "a volume for nobody": lambda o: pod(o, "game")["volumes"].append(
        {"name": "spare", "emptyDir": {}}
    ),
    "keys elsewhere": lambda o: put(main(o, "game"), "volumeMounts", 1, "mountPath", "/keys"),
    "keys that can be written": lambda o: unset(main(o, "game"), "volumeMounts", 1, "readOnly"),
    "no public keys": lambda o: unset(pod(o, "game")["volumes"][1], "projected", "sources", 0),
    "nowhere to write": setting("kozyr", "KOZYR_DATA_FOLDER", "/data"),
}
ADDRESSES: Mapping[str, Change] = {
    "one connection for all": setting("lobby", "KOZYR_GAME_ADDRESS", "game:7002"),
    "no such Service": setting("lobby", "KOZYR_GAME_ADDRESS", "dns:///games-headless:7002"),
    "no such port": setting("lobby", "KOZYR_GAME_ADDRESS", "dns:///game-headless:7001"),
    "another service": setting("lobby", "KOZYR_GAME_ADDRESS", "dns:///wallet-headless:7004"),
    "all players are the edge": lambda o: unset(
        get(o, "ConfigMap", "kozyr"), "data", "KOZYR_TRUSTED_PROXIES"
    ),
}
MIGRATIONS: Mapping[str, Change] = {
    "serves before it is migrated": lambda o: unset(pod(o, "wallet"), "initContainers"),
    "waits for another": lambda o: put(pod(o, "wallet")["initContainers"][0], "args", 1, "lobby"),
    "waits with other settings": lambda o: unset(
        pod(o, "wallet")["initContainers"][0], "envFrom", 1
    ),
    "no rights for the services": lambda o: unset(
        get(o, "ConfigMap", "migrate"), "data", "KOZYR_DATABASE_ROLE"
    ),
    "one database forgotten": lambda o: unset(main(o, "migrate", "Job"), "env", 2),
}


def both_ends(one: str, other: str, change: Callable[[Any, Any], None]) -> Change:
    """Two network policies are others."""
    return lambda o: change(policy(o, one), policy(o, other))


def close_way(sender: Any, taker: Any) -> None:
    """The lobby cannot call the wallet."""
    sender["egress"] = [r for r in sender["egress"] if "7004" not in str(r)]
    taker["ingress"][0]["from"] = [p for p in taker["ingress"][0]["from"] if "lobby" not in str(p)]


def open_way(sender: Any, taker: Any) -> None:
    """The ai may call the game service."""
    peer = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "game"}}}
    ports = [{"protocol": "TCP", "port": 7002}]
    sender["egress"] = [{"to": [peer], "ports": ports}]
    ai = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "ai"}}}
    taker["ingress"][0]["from"].append(ai)


NETWORK: Mapping[str, Change] = {
    "a way is closed": both_ends("lobby", "wallet", close_way),
    "a way that nobody needs": both_ends("ai", "game", open_way),
    "the internet": lambda o: policy(o, "game")["egress"].append(
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"protocol": "TCP", "port": 443}]}
    ),
    "everybody may call": lambda o: policy(o, "wallet")["ingress"].append(
        {"ports": [{"protocol": "TCP", "port": 7004}]}
    ),
    "no way to the database": lambda o: put(
        *(policy(o, "databases"), "podSelector", "matchExpressions", 0, "values"),
        ["lobby", "game", "migrate", "backup"],
    ),
    "at another port of the database": lambda o: put(
        policy(o, "databases"), "egress", 0, "ports", 0, "port", 6432
    ),
    "players are kept out": lambda o: put(policy(o, "edge"), "ingress", 0, "ports", 0, "port", 443),
}
HALF_OPEN: Mapping[str, Change] = {
    "one end alone": lambda o: (
        policy(o, "ai")
        .setdefault("egress", [])
        .append(
            {
                "to": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "wallet"}}}],
                "ports": [{"protocol": "TCP", "port": 7004}],
            }
        )
    ),
    "no names": lambda o: put(policy(o, "dns"), "egress", 0, "ports", []),
    "names by UDP alone": lambda o: unset(policy(o, "dns"), "egress", 0, "ports", 1),
}
ENVOY: Mapping[str, Change] = {
    "another port than its container's": edge(
        lambda r: put(r["listeners"][0], "address", "socket_address", "port_value", 443)
    ),
    "no such service": upstream(
        lambda r: put(
            *(r["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"],),
            *("address", "socket_address", "address", "lobbies"),
        )
    ),
    "healthy by no name": upstream(
        lambda r: put(r["health_checks"][0], "grpc_health_check", "service_name", "lobby")
    ),
    "a call without a token": edge(
        lambda r: token_rules(r).insert(
            0, {"match": {"path": "/kozyr.game.v1.GameService/GetGame"}}
        )
    ),
    "a token to sign up": edge(lambda r: token_rules(r).pop(0)),
    "no token at all": edge(lambda r: token_rules(r).pop()),
    "leads to the wrong service": edge(
        lambda r: put(
            manager(r)["route_config"]["virtual_hosts"][0]["routes"][0], "route", "cluster", "game"
        )
    ),
}

FAULTS: Mapping[str, Mapping[str, Change]] = {
    "confinement": CONFINEMENT,
    "resources": RESOURCES,
    "images": IMAGES,
    "commands": COMMANDS,
    "restarts": RESTARTS,
    "selectors": SELECTORS,
    "target_ports": TARGET_PORTS,
    "listening": LISTENING,
    "probes": PROBES,
    "scaling": SCALING,
    "disruptions": DISRUPTIONS,
    "draining": DRAINING,
    "rolling": ROLLING,
    "spreading": SPREADING,
    "variables": VARIABLES,
    "references": REFERENCES,
    "secrecy": SECRECY,
    "mounts": MOUNTS,
    "addresses": ADDRESSES,
    "migrations": MIGRATIONS,
    "network": NETWORK,
    "half_open": HALF_OPEN,
    "envoy": ENVOY,
}
"""Rule → fault → how it is made."""
