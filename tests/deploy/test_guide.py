"""What deploy/README.md says of Kubernetes: its commands run and make what manifests ask for."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.runtime.keys import ISSUERS
from services.runtime.settings import SERVICES
from tests.deploy import check
from tests.deploy.contents import MADE_OUTSIDE, SECRETS
from tests.deploy.objects import OVERLAYS, ROOT, Cluster, objects_of

GUIDE = (ROOT / "deploy" / "README.md").read_text("utf-8")
SECTION = GUIDE.partition("\n## On Kubernetes\n")[2].partition("\n## ")[0]
CLUSTER = re.compile(r"kubectl (apply|-n kozyr (wait|rollout|port-forward|delete))\b")
"""Commands that need a cluster, which the guide says of them."""
SHELL = """
set -eu
kubectl() { "{kubectl}" "$@" --dry-run=client --output=yaml; echo ---; }
kozyr() { "{python}" -m services.cli.main "$@"; }
"""


def shown() -> list[str]:
    """The commands of the section, in order."""
    return [line.strip() for line in SECTION.splitlines() if line.startswith("    ")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the commands that need no cluster make, run by one shell in the order they are shown."""
    folder = tmp_path_factory.mktemp("guide")
    program = SHELL.replace("{python}", sys.executable)
    program = program.replace("{kubectl}", str(Path(sys.executable).with_name("kubectl")))
    lines = [line for line in shown() if not CLUSTER.match(line) and not line.startswith("make")]
    done = subprocess.run(
        ["bash", "-c", program + "\n".join(lines)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'proto' / 'gen'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    objects = done.stdout.partition("apiVersion: ")
    return [each for each in yaml.safe_load_all("".join(objects[1:])) if each]


def contents(made: list[dict[str, Any]], kind: str) -> dict[str, set[str]]:
    """The keys of what was made, by name."""
    return {
        each["metadata"]["name"]: set(each.get("data", {})) for each in made if each["kind"] == kind
    }


def test_the_guide_makes_what_the_manifests_ask_for(made: list[dict[str, Any]]) -> None:
    """Every secret and every map of public keys, with the names that are asked for, and no more."""
    assert {each["metadata"]["namespace"] for each in made} == {"kozyr"}
    secrets = contents(made, "Secret")
    assert secrets.keys() == SECRETS.keys()
    for name, (keys, _) in SECRETS.items():
        assert not keys or secrets[name] == keys
    for name in SERVICES:
        private = {f"{name}.key", f"{name}.seal"}
        own = {"lobby": {"players.key"}, "game": {"master.key"}}.get(name, set())
        assert secrets[f"{name}-keys"] == private | own
    assert secrets["operator-keys"] == {"operators.key"}
    public = contents(made, "ConfigMap")
    assert public.keys() == MADE_OUTSIDE
    assert public["public-keys"] == {f"{issuer}.pub" for issuer in ISSUERS}


def test_what_needs_a_cluster_is_said_to() -> None:
    """The guide names every kind of command that no test runs."""
    kinds = {word for line in shown() if (word := CLUSTER.match(line)) is not None}
    assert kinds
    named = SECTION.partition("| commands above |")[2].partition("\n")[0]
    for found in kinds:
        assert found[1].split()[-1] in named


def test_the_guide_names_the_versions_that_are_checked() -> None:
    """The oldest and the newest version of Kubernetes."""
    assert f"for Kubernetes {check.KUBERNETES[0]} to {check.KUBERNETES[1]}" in SECTION


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_namespace_of_an_overlay_is_the_one_the_guide_makes(overlay: str) -> None:
    """Everything is in it, and it keeps pods to the strictest of Kubernetes' own standards."""
    cluster = Cluster(objects_of(overlay))
    (namespace,) = cluster.of("Namespace")
    assert namespace["metadata"]["name"] == "kozyr"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [each for each in cluster.objects if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {"kozyr"}


def test_the_edge_is_the_same_with_tls_and_without() -> None:
    """What it is told of the services: TLS aside, the component `tls` says what `edge` does."""
    plain, secured = (
        yaml.safe_load((ROOT / "deploy" / "components" / name / "services.yaml").read_text("utf-8"))
        for name in ("edge", "tls")
    )
    for each in secured["resources"]:
        del each["transport_socket"]
    assert plain == secured
