"""Rules about what pods are given: variables, configuration, secrets, volumes, addresses."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError

from services.runtime.settings import SERVICES, Settings
from tests.deploy.objects import Cluster, Object, Workload

PREFIX = "KOZYR_"
STORED = ("lobby", "game", "wallet")
CALLERS = ("checkpoints", "audit")
"""Tools of ours that call services."""
SECRETS: Mapping[str, tuple[set[str], set[str]]] = {
    **{f"{name}-keys": (set(), {name}) for name in SERVICES},
    **{f"{name}-database": ({"url"}, {name}) for name in STORED},
    "operator-keys": (set(), set(CALLERS)),
    "database-owner": (set(STORED), {"migrate"}),
    "backup": (set(STORED), {"backup"}),
    "players-tls": ({"tls.crt", "tls.key"}, {"edge"}),
    "postgres": ({"password", "owner", "service"}, {"postgres"}),
}
"""What is made outside (deploy/README.md says how): the keys that are asked for by name, and who
may have it at all."""
ISSUED: Mapping[str, set[str]] = {
    **{f"{name}-tls": {name} for name in (*SERVICES, "edge")},
    "operators-tls": set(CALLERS),
}
"""Secrets that cert-manager makes (`certified.py` looks for what from), and who may have each."""
MADE_OUTSIDE = {"public-keys", "edge-jwks"}
"""Configuration that is made from the folder of keys."""


def variables(cluster: Cluster) -> Iterator[str]:
    """Every variable of our image is a setting, and what they say together is accepted."""
    for workload in cluster.workloads():
        for container in workload.containers:
            if not workload.ours(container):
                continue
            where = f"{workload.where}/{container['name']}"
            given = cluster.environment(workload, container)
            known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
            for name in sorted(given.keys() - known):
                yield f"{where}: {name} is no setting"
            yield from (f"{where}: {problem}" for problem in problems(fields(given)))


Fields = tuple[tuple[str, Any], ...]


def fields(given: Mapping[str, str]) -> Fields:
    """The fields of the settings that variables are, secrets and strange names left out."""
    names = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    return tuple((names[key], given[key]) for key in sorted(given) if key in names and given[key])


@cache
def problems(given: Fields) -> tuple[str, ...]:
    """Why these settings are refused."""
    try:
        Settings(**dict(given))
    except ValidationError as error:
        found = error.errors(include_input=False)
        return tuple(f"{'.'.join(map(str, each['loc']))} {each['msg']}" for each in found)
    return ()


@cache
def readable(given: Fields) -> Settings:
    """The settings of these fields, those left out that `problems` is about."""
    if not problems(given):
        return Settings(**dict(given))
    taken: Fields = ()
    for field in given:
        if not problems((*taken, field)):
            taken = (*taken, field)
    return Settings(**dict(taken))


def references(cluster: Cluster) -> Iterator[str]:
    """What a pod names is there: configuration with its keys, secrets that are known to be made,
    claims of volumes, and an account of its own."""
    for workload in cluster.workloads():
        for kind, name, key in _named(workload):
            match kind:
                case "ConfigMap":
                    found = cluster.find("ConfigMap", name)
                    if name not in MADE_OUTSIDE and found is None:
                        yield f"{workload.where}: there is no ConfigMap {name}"
                    elif found is not None and key and key not in found["data"]:
                        yield f"{workload.where}: ConfigMap {name} has no {key}"
                case "Secret":
                    keys = SECRETS.get(name, (set(), set()))[0]
                    if (key and key not in keys) or name not in {*SECRETS, *ISSUED}:
                        yield f"{workload.where}: nobody makes the secret {name} with {key or 'it'}"
                case "PersistentVolumeClaim" | "ServiceAccount":
                    if cluster.find(kind, name) is None:
                        yield f"{workload.where}: there is no {kind} {name}"
                case other:
                    raise ValueError(f"no rule for {other}")


def secrecy(cluster: Cluster) -> Iterator[str]:
    """A secret is given to those who need it and to nobody else; none stands in the manifests."""
    holders = {**{name: who for name, (_, who) in SECRETS.items()}, **ISSUED}
    for workload in cluster.workloads():
        for kind, name, _ in _named(workload):
            if kind == "Secret" and workload.name not in holders.get(name, {workload.name}):
                yield f"{workload.where}: has the secret {name}"
        for container in workload.containers:
            for variable, value in cluster.environment(workload, container).items():
                word = variable.endswith(("_URL", "PASSWORD", "_KEY", "TOKEN", "SECRET"))
                if word and value:
                    yield f"{workload.where}: {variable} stands in the manifests"
    for each in cluster.of("Secret"):
        yield f"Secret {each['metadata']['name']}: stands in the manifests"
    for workload in cluster.workloads():
        account = workload.pod.get("serviceAccountName", "default")
        sharing = [w.name for w in cluster.workloads() if account == w.pod["serviceAccountName"]]
        if account == "default" or len(sharing) > (2 if workload.name in CALLERS else 1):
            yield f"{workload.where}: its account is not its own"


def _named(workload: Workload) -> Iterator[tuple[str, str, str]]:
    """What a pod names outside itself: kind, name, and the key of it that is meant, if one is."""
    yield "ServiceAccount", workload.pod.get("serviceAccountName", "default"), ""
    for container in workload.containers:
        for source in container.get("envFrom", ()):
            if "configMapRef" in source:
                yield "ConfigMap", source["configMapRef"]["name"], ""
            if "secretRef" in source:
                yield "Secret", source["secretRef"]["name"], ""
        for variable in container.get("env", ()):
            source = variable.get("valueFrom", {})
            if "configMapKeyRef" in source:
                yield (
                    "ConfigMap",
                    source["configMapKeyRef"]["name"],
                    source["configMapKeyRef"]["key"],
                )
            if "secretKeyRef" in source:
                yield "Secret", source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]
    for volume in workload.pod.get("volumes", ()):
        for each in (volume, *volume.get("projected", {}).get("sources", ())):
            yield from _held(each)


def _held(volume: Object) -> Iterator[tuple[str, str, str]]:
    if "persistentVolumeClaim" in volume:
        yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], ""
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if field in volume:
            name = volume[field].get("name") or volume[field].get("secretName")
            items = [item["key"] for item in volume[field].get("items", ())]
            for key in items or [""]:
                yield kind, name, key


def mounts(cluster: Cluster) -> Iterator[str]:
    """A container mounts volumes that there are; what is not written to cannot be; whoever signs
    has a folder of keys where his settings look for it, and all have somewhere to write."""
    for workload in cluster.workloads():
        claimed = workload.object["spec"].get("volumeClaimTemplates", ())
        volumes = {volume["name"]: volume for volume in workload.pod.get("volumes", ())}
        volumes |= {claim["metadata"]["name"]: claim for claim in claimed}
        used: set[str] = set()
        for container in workload.containers:
            for mount in container.get("volumeMounts", ()):
                where = f"{workload.where}/{container['name']}"
                used.add(mount["name"])
                volume = volumes.get(mount["name"], {})
                if not volume:
                    yield f"{where}: there is no volume {mount['name']}"
                fixed = {"configMap", "secret", "projected"} & volume.keys()
                if fixed and mount.get("readOnly") is not True:
                    yield f"{where}: {mount['name']} is not mounted for reading alone"
        for name in volumes.keys() - used:
            yield f"{workload.where}: nobody mounts {name}"
        yield from _folders(cluster, workload, volumes)


def _folders(cluster: Cluster, workload: Workload, volumes: Mapping[str, Object]) -> Iterator[str]:
    for container in workload.containers:
        if not workload.ours(container):
            continue
        settings = readable(fields(cluster.environment(workload, container)))
        held = {m["mountPath"]: volumes.get(m["name"], {}) for m in container["volumeMounts"]}
        where = f"{workload.where}/{container['name']}"
        if "emptyDir" not in held.get(str(settings.data_folder), {}):
            yield f"{where}: can write nothing into its data folder"
        signs = workload.name in (*SERVICES, *CALLERS) and container is workload.main
        sources = held.get(str(settings.keys()), {}).get("projected", {}).get("sources", [])
        if signs and {source for each in sources for source in each} != {"configMap", "secret"}:
            yield f"{where}: has no keys of its own and of the others where it looks for them"


def addresses(cluster: Cluster) -> Iterator[str]:
    """An address names a service's replicas one by one, and a port that it has; who comes through
    the edge is told apart; traces are sent to the collector, where there is one."""
    for workload in cluster.workloads():
        for container in workload.containers:
            given = cluster.environment(workload, container) if workload.ours(container) else {}
            for name in SERVICES:
                address = given.get(f"{PREFIX}{name.upper()}_ADDRESS")
                if address is None:
                    continue
                scheme, _, place = address.rpartition("/")
                host, _, port = place.rpartition(":")
                found = cluster.find("Service", host) or {"spec": {"ports": []}}
                ports = {str(each["port"]) for each in found["spec"]["ports"]}
                right = scheme == "dns://" and host == f"{name}-headless" and port in ports
                if not right:
                    yield f"{workload.where}: {address} does not lead to each replica of {name}"
        behind = cluster.find("Service", "edge") and workload.serves and workload.name in STORED
        given = cluster.environment(workload, workload.main)
        if behind and not given.get("KOZYR_TRUSTED_PROXIES"):
            yield f"{workload.where}: takes the edge for the caller of all calls"
        collector = cluster.find("Service", "collector")
        sent_to = f"http://collector:{collector['spec']['ports'][0]['port']}" if collector else None
        if workload.name in SERVICES and given.get("KOZYR_OTLP_ENDPOINT") != sent_to:
            yield f"{workload.where}: sends its traces where no collector is"


def migrations(cluster: Cluster) -> Iterator[str]:
    """A service with a database waits until the migration of its release has been there, with the
    same configuration and rights; the migration gives the services' role its rights."""
    for workload in cluster.workloads():
        if workload.serves and workload.name in STORED:
            first = workload.pod.get("initContainers", [{}])[0]
            words = first.get("args", [])
            if words[:3] != ["migrate", workload.name, "--wait"]:
                yield f"{workload.where}: does not wait for its database"
                continue
            for same in ("image", "envFrom", "env"):
                if first.get(same) != workload.main.get(same):
                    yield f"{workload.where}: waits with another {same} than it serves with"
        if workload.name == "migrate":
            given = cluster.environment(workload, workload.main)
            if not given.get("KOZYR_DATABASE_ROLE"):
                yield f"{workload.where}: gives the services' role no rights"
            urls = {f"{PREFIX}{name.upper()}_DATABASE_URL" for name in STORED}
            if workload.main.get("args") != ["migrate", "all"] or not urls <= given.keys():
                yield f"{workload.where}: does not migrate all databases"


RULES = (variables, references, secrecy, mounts, addresses, migrations)
