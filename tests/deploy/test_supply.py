"""What the image is made of is told whole, and an audit that could not ask says so."""

import json
from typing import Any

import pytest

from tests.deploy.objects import ROOT
from tests.deploy.supply import FINE, KNOWN, LOCKED, UNANSWERED, amiss, judged, locked

HASHED = {"externalReferences": [{"hashes": [{"alg": "SHA-256", "content": "00"}]}]}


def test_every_locked_requirement_is_read() -> None:
    """As often as a hash-locked one begins, and with the version that is installed."""
    text = LOCKED.read_text("utf-8")
    found = locked(text)
    assert len(found) == sum("==" in line for line in text.splitlines())
    assert found["grpcio"].startswith("1.78.")
    assert "uvloop" in found  # it is one for some platforms alone


def bill(**changes: Any) -> dict[str, Any]:
    """A bill of materials of two requirements."""
    components = [
        {"name": "One", "version": "1", **HASHED},
        {"name": "two", "version": "2", **HASHED},
    ]
    return {"components": components, **changes}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (bill(), []),
        (bill(components=bill()["components"][:1]), ["two 2 is not in it"]),
        (bill(components=[*bill()["components"], {"name": "three"}]), ["three is not locked"]),
        (
            bill(components=[bill()["components"][0], {"name": "two", "version": "3"}]),
            ["two 2 is not in it"],
        ),
        (
            bill(components=[bill()["components"][0], {"name": "two", "version": "2"}]),
            ["two has no hash"],
        ),
        (bill(serialNumber="urn:uuid:1"), ["it has a serialNumber"]),
        (bill(metadata={"timestamp": "now"}), ["it has a timestamp"]),
    ],
)
def test_a_bill_of_materials_is_of_what_is_locked(given: dict[str, Any], wrong: list[str]) -> None:
    """Of all of it, of nothing else, with hashes, and the same each time."""
    assert amiss(given, {"one": "1", "two": "2"}) == wrong


SOUND = {"name": "one", "version": "1", "vulns": []}
HURT = {
    "name": "two",
    "version": "2",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": ""}],
}
SILENT = {"name": "three", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ([SOUND], FINE, "nothing is known against 1 requirements"),
        ([SOUND, HURT], KNOWN, "two 2: PYSEC-1, mended in 2.1"),
        ([SOUND, SILENT], UNANSWERED, "1 of 2 requirements could not be looked up"),
        ([HURT, SILENT], KNOWN, "1 of 2 requirements could not be looked up"),
        ([], UNANSWERED, "nothing is known against 0 requirements"),
    ],
)
def test_an_audit_that_could_not_ask_is_no_good_news(
    asked: list[dict[str, Any]], code: int, said: str
) -> None:
    """Neither where one requirement could not be looked up, nor where none could."""
    found, lines = judged(json.dumps({"dependencies": asked, "fixes": []}))
    assert found == code
    assert said in "\n".join(lines)


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"dependencies": ', "no network"])
def test_an_audit_without_an_answer_fails(said: str) -> None:
    """Whatever came in its place."""
    code, lines = judged(said)
    assert code == UNANSWERED
    assert "nothing is known" in lines[0]


def test_the_image_is_given_its_bill() -> None:
    """Where the guide says that it is."""
    recipe = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    assert "COPY build/sbom.json /opt/kozyr/sbom.json" in recipe
    assert "!build/sbom.json" in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "`/opt/kozyr/sbom.json`" in (ROOT / "deploy" / "README.md").read_text("utf-8")
