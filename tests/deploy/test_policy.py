"""What is to be applied to a cluster keeps the rules; each rule sees the faults it is there for."""

from collections.abc import Mapping
from functools import cache

import pytest

from services.runtime.settings import SERVICES
from tests.deploy import certificate_faults, edges
from tests.deploy.faults import FAULTS as OTHER_FAULTS
from tests.deploy.faults import Change, get, policy, put, unset
from tests.deploy.objects import (
    APART,
    APPLIED,
    OVERLAYS,
    Cluster,
    Object,
    components_of,
    folders,
    objects_of,
)
from tests.deploy.policy import RULES

FAULTS = {**OTHER_FAULTS, **certificate_faults.FAULTS}


@pytest.mark.parametrize("applied", APPLIED)
def test_what_is_applied_keeps_the_rules(applied: str) -> None:
    """No rule finds anything in an overlay, nor with the components that no overlay has."""
    cluster = Cluster(objects_of(applied))
    assert {workload.name for workload in cluster.workloads()} >= {*SERVICES, "migrate", "edge"}
    found = {name: list(check(cluster)) for name, check in RULES.items()}
    assert {name: each for name, each in found.items() if each} == {}


def test_no_overlay_and_no_component_is_left_out() -> None:
    """What lies in the folders is what is rendered, here and in `make deploy-check`; each component
    adds something."""
    assert folders("overlays") == sorted(OVERLAYS)
    used = {each for overlay in OVERLAYS for each in components_of(overlay)}
    added = {each for applied in APPLIED for each in applied.split("+")[1:]}
    assert sorted(used | added) == folders("components")
    plain = {(o["kind"], o["metadata"]["name"]) for o in objects_of("prod")}
    for each in APART:
        more = {(o["kind"], o["metadata"]["name"]) for o in objects_of(f"prod+{each}")}
        assert more - plain, each


TRACED: Mapping[str, tuple[str, Change]] = {
    "nobody sends": ("addresses", lambda o: unset(*services(o), "KOZYR_OTLP_ENDPOINT")),
    "another port": (
        "addresses",
        lambda o: put(*services(o), "KOZYR_OTLP_ENDPOINT", "http://collector:4318"),
    ),
    "killed while traces are sent": (
        "draining",
        lambda o: put(*services(o), "KOZYR_TRACE_FLUSH_MS", "60000"),
    ),
    "no such share": ("variables", lambda o: put(*services(o), "KOZYR_TRACE_SHARE", "1")),
    "no way to the collector": ("network", lambda o: put(policy(o, "to-collector"), "egress", [])),
}
"""Faults of production with the collector."""


def services(objects: list[Object]) -> tuple[Object, str]:
    """Where the settings of all services are."""
    return get(objects, "ConfigMap", "kozyr"), "data"


@pytest.mark.parametrize("fault", TRACED)
def test_a_fault_of_the_collector_is_seen(fault: str) -> None:
    """By the rule that it breaks."""
    rule, change = TRACED[fault]
    objects = objects_of("prod+collector")
    change(objects)
    assert rule in {name for name, found in findings(objects).items() if found}


def test_every_rule_has_a_fault() -> None:
    """A rule that never finds anything would hold whatever is applied."""
    assert FAULTS.keys() == RULES.keys()
    assert all(FAULTS.values())


@pytest.mark.parametrize(
    ("rule", "fault"), [(r, f) for r, faults in FAULTS.items() for f in faults]
)
def test_a_fault_is_seen_by_the_rule_it_breaks(rule: str, fault: str) -> None:
    """And by no other, so that no rule could be left out."""
    objects = objects_of("prod")
    FAULTS[rule][fault](objects)
    assert objects != objects_of("prod")
    found = findings(objects)
    assert {name for name in RULES if found[name] != sound()[name]} == {rule}, found


def findings(objects: list[Object]) -> dict[str, list[str]]:
    """What each rule finds."""
    cluster = Cluster(objects)
    return {name: list(check(cluster)) for name, check in RULES.items()}


@cache
def sound() -> dict[str, list[str]]:
    """What is found where nothing was changed: nothing, which another test says."""
    return findings(objects_of("prod"))


def test_calls_are_found_in_the_code_and_granted_by_the_table() -> None:
    """The ways between services are those of the code, each of which a row of access allows."""
    assert ("lobby", "wallet") in edges.calls()
    assert edges.calls() <= edges.granted()
