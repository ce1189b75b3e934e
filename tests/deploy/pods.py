"""Rules about pods: how they are confined, how large they are, what runs in them."""

import argparse
import contextlib
import importlib
import io
import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.deploy.objects import ROOT, Cluster, Object, repository

UNITS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")
TAG = re.compile(r"v?\d[\w.-]*")
UID_MIN = 70
"""The image of PostgreSQL has its own user, which is the lowest."""


def confinement(cluster: Cluster) -> Iterator[str]:
    """No root, nothing of the host, nothing to write to but volumes, no token of the cluster."""
    for workload in cluster.workloads():
        pod, where = workload.pod, workload.where
        context = pod.get("securityContext", {})
        if not (context.get("runAsNonRoot") is True and context.get("runAsUser", 0) >= UID_MIN):
            yield f"{where}: runs as root, or as the image likes"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{where}: no seccomp profile"
        for shared in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(shared):
                yield f"{where}: {shared}"
        if any("hostPath" in volume for volume in pod.get("volumes", ())):
            yield f"{where}: has a folder of its host"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{where}: is given a token of the cluster"
        if pod.get("enableServiceLinks") is not False:
            yield f"{where}: is given the variables of all services"
        for container in workload.containers:
            yield from _confined(f"{where}/{container['name']}", container)


def _confined(where: str, container: Object) -> Iterator[str]:
    context = container.get("securityContext", {})
    wanted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for name, value in wanted.items():
        if context.get(name) != value:
            yield f"{where}: {name} is not {value}"
    for name in context.keys() - wanted:
        yield f"{where}: {name} is its own affair"


def resources(cluster: Cluster) -> Iterator[str]:
    """Every container says how much it needs and how much it may take, the one within the other."""
    for workload in cluster.workloads():
        for container in workload.containers:
            where = f"{workload.where}/{container['name']}"
            given = container.get("resources", {})
            for name in ("cpu", "memory"):
                least, most = (given.get(k, {}).get(name) for k in ("requests", "limits"))
                if least is None or most is None:
                    yield f"{where}: no bound of {name}"
                elif amount(least) > amount(most):
                    yield f"{where}: needs more {name} than it may take"


def amount(quantity: str | int) -> Decimal:
    """A quantity as Kubernetes writes them, in cores or octets; raises ValueError."""
    read = QUANTITY.fullmatch(str(quantity))
    if read is None:
        raise ValueError(f"no quantity: {quantity}")
    return Decimal(read[1]) * UNITS[read[2]]


def images(cluster: Cluster) -> Iterator[str]:
    """Every image has a tag that stays, ours the version that this is, nowhere two of one."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    seen: dict[str, str] = {}
    for workload in cluster.workloads():
        for container in workload.containers:
            image = container["image"]
            tag = image.removeprefix(repository(image)).removeprefix(":")
            where = f"{workload.where}/{container['name']}"
            if TAG.fullmatch(tag) is None:
                yield f"{where}: {image} may be another tomorrow"
            elif workload.ours(container) and tag != version:
                yield f"{where}: {image} is not of this version, {version}"
            if seen.setdefault(repository(image), tag) != tag:
                yield f"{where}: {image} is of another release than {seen[repository(image)]}"


def commands(cluster: Cluster) -> Iterator[str]:
    """What our image is told to do, its command line understands; a Job is named by its release."""
    for workload in cluster.workloads():
        for container in workload.containers:
            if not workload.ours(container):
                continue
            where = f"{workload.where}/{container['name']}"
            words = [str(word) for word in container.get("args", ())]
            if container.get("command") or not words:
                yield f"{where}: does not say what to do, or not to `kozyr`"
            elif (problem := _misread(words)) is not None:
                yield f"{where}: {problem}"
            if workload.kind == "Job":
                tag = container["image"].rpartition(":")[2]
                if workload.object["metadata"]["name"] != f"{workload.name}-{tag}":
                    yield f"{where}: the Job of another release would be changed"


def _misread(words: list[str]) -> str | None:
    from services.cli.main import COMMANDS

    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    parser: argparse.ArgumentParser = importlib.import_module(f"services.cli.{words[0]}").parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(words[1:])
    except SystemExit:
        return said.getvalue().splitlines()[-1]
    return None


def restarts(cluster: Cluster) -> Iterator[str]:
    """What runs and ends: no second at once, an end in time, traces of failures kept."""
    for workload in cluster.workloads():
        spec: Any = workload.object["spec"]
        if workload.kind == "CronJob":
            if spec.get("concurrencyPolicy") != "Forbid":
                yield f"{workload.where}: may run beside itself"
            if not spec.get("failedJobsHistoryLimit"):
                yield f"{workload.where}: keeps no failure"
            spec = spec["jobTemplate"]["spec"]
        if not workload.serves and not spec.get("activeDeadlineSeconds"):
            yield f"{workload.where}: may run for ever"


RULES = (confinement, resources, images, commands, restarts)
