"""What the image is made of, and what is known against it: `make sbom`, `make audit-deps`.

`python -m tests.deploy.supply sbom FILE` writes the locked requirements as CycloneDX and looks it
over; `audit` asks the package index for advisories. Both run in the environment of
`requirements-supply.txt`, beside whose interpreter the programs lie, so nothing else is imported.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCKED = ROOT / "requirements.txt"
FINE, KNOWN, UNANSWERED = 0, 1, 2
"""How an audit ends: nothing is known, something is, not everything could be asked."""
CHANGING = ("serialNumber", "timestamp")
"""What would make two lists of the same requirements differ."""


def locked(text: str) -> dict[str, str]:
    """The requirements of a lock file: name → version."""
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", text, re.MULTILINE)
    return {name.lower(): version for name, version in found}


def amiss(bill: Mapping[str, Any], requirements: Mapping[str, str]) -> list[str]:
    """What is wrong with a bill of materials: others than are locked, without hashes, not the same
    each time."""
    named = {each["name"].lower(): each for each in bill["components"]}
    wrong = [f"{name} is not locked" for name in sorted(named.keys() - requirements)]
    for name, version in sorted(requirements.items()):
        component = named.get(name, {})
        if component.get("version") != version:
            wrong.append(f"{name} {version} is not in it")
        elif not any(each.get("hashes") for each in component.get("externalReferences", ())):
            wrong.append(f"{name} has no hash")
    wrong += [f"it has a {name}" for name in CHANGING if f'"{name}"' in json.dumps(bill)]
    return wrong


def sbom(to: Path) -> int:
    """Write the bill of materials; 1 where it is not one of exactly what is locked."""
    to.parent.mkdir(exist_ok=True)
    done = run(
        *("cyclonedx-py", "requirements", str(LOCKED), "--pyproject", str(ROOT / "pyproject.toml")),
        *("--mc-type", "application", "--spec-version", "1.6", "--output-reproducible"),
        *("--output-file", str(to)),
    )
    if done.returncode:
        print(done.stderr)
        return KNOWN
    requirements = locked(LOCKED.read_text("utf-8"))
    wrong = amiss(json.loads(to.read_text("utf-8")), requirements)
    print("\n".join(wrong) or f"{to}: {len(requirements)} components")
    return KNOWN if wrong else FINE


def judged(said: str) -> tuple[int, list[str]]:
    """What an audit came to, by pip-audit's JSON: how to end, and lines for people.

    Whatever could not be looked up is no good news, though pip-audit ends well with it.
    """
    try:
        asked = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return UNANSWERED, ["the package index gave no answer: nothing is known about anything"]
    lines = [
        f"{each['name']} {each['version']}: {found['id']}, mended in "
        f"{', '.join(found['fix_versions']) or 'no version yet'}"
        for each in asked
        for found in each.get("vulns", ())
    ]
    silent = [each["name"] for each in asked if "skip_reason" in each]
    if silent:
        lines.append(
            f"{len(silent)} of {len(asked)} requirements could not be looked up, about which "
            f"nothing is known: {', '.join(sorted(silent))}"
        )
    known = any(each.get("vulns") for each in asked)
    if not lines:
        lines = [f"nothing is known against {len(asked)} requirements"]
    return (KNOWN if known else UNANSWERED if silent or not asked else FINE), lines


def audit() -> int:
    """Ask what is known against the locked requirements, and say so."""
    done = run(
        *("pip-audit", "--requirement", str(LOCKED), "--disable-pip", "--require-hashes"),
        *("--progress-spinner", "off", "--format", "json"),
    )
    code, lines = judged(done.stdout)
    print("\n".join(lines))
    if code == UNANSWERED and not done.stdout:
        print(done.stderr.strip().rpartition("\n")[2])
    return code


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that lies beside this interpreter."""
    found = Path(sys.executable).with_name(program)
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sbom", file]:
            sys.exit(sbom(Path(file)))
        case ["audit"]:
            sys.exit(audit())
        case _:
            sys.exit("sbom FILE | audit")
