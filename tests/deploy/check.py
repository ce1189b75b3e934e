"""Manifests against schemas and checkov: what `make deploy-check` does beside the tests.

`python -m tests.deploy.check FOLDER`: the folder holds the programs of `requirements-deploy.txt`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.deploy.objects import APPLIED, ROOT, objects_of

KUBERNETES = ("1.32", "1.37")
"""The oldest and the newest version of Kubernetes that the manifests are for."""
ADDED = {
    "cert-manager.io/v1": {"Certificate", "Issuer"},
    "monitoring.coreos.com/v1": {"PodMonitor", "PrometheusRule"},
}
"""Kinds that operators add to a cluster: Kubernetes has no schema of them."""


def main(programs: Path) -> int:
    """Checks all that is applied; 1 if anything is wrong, which has been printed."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for applied in APPLIED:
            own = [
                o for o in objects_of(applied) if o["kind"] not in ADDED.get(o["apiVersion"], ())
            ]
            files.append(Path(folder) / f"{applied}.yaml")
            files[-1].write_text(yaml.safe_dump_all(own), "utf-8")
        for version in KUBERNETES:
            if not run(programs / "kubernetes-validate", "-k", version, "--strict", *files):
                return 1
        named = [word for file in (*files, ROOT / "deploy" / "Dockerfile") for word in ("-f", file)]
        configured = ("--config-file", ROOT / "deploy" / "checkov.yaml")
        return 0 if run(programs / "checkov", *configured, *named) else 1


def run(*command: str | Path) -> bool:
    """Runs a program, which is heard only when it found something wrong; whether it did not."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr)
    return not done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
