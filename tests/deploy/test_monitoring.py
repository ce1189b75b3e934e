"""Alerts and the dashboard ask for metrics that there are; each alert to its section."""

import re
from collections.abc import Callable

import pytest

from services.runtime.metrics import FAMILIES
from services.runtime.settings import SERVICES
from tests.deploy import monitored
from tests.deploy.faults import get, main, policy, put
from tests.deploy.monitored import SERIES, alerts, panels, wrong
from tests.deploy.objects import ROOT, Cluster, Object, Workload
from tests.deploy.policy import RULES

QUERIES = [
    *((rule["alert"], rule["expr"]) for rule in alerts()),
    *((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]),
]


def findings(objects: list[Object]) -> dict[str, list[str]]:
    """What the rules find, those that find something."""
    cluster = Cluster(objects)
    found = {name: list(check(cluster)) for name, check in RULES.items()}
    return {name: each for name, each in found.items() if each}


def test_the_component_keeps_the_rules() -> None:
    """Production with it: Prometheus reaches the four services' metrics, and nobody else does."""
    objects = monitored.objects()
    workloads = {each.name: each for each in Cluster(objects).workloads()}
    assert {name for name, each in workloads.items() if "metrics" in each.ports} == set(SERVICES)
    assert findings(objects) == {}


FAULTS: dict[str, tuple[str, Callable[[list[Object]], None]]] = {
    "nobody listens": (
        "listening",
        lambda o: get(o, "ConfigMap", "kozyr")["data"].pop("KOZYR_METRICS_LISTEN"),
    ),
    "another port": (
        "listening",
        lambda o: put(main(o, "game")["ports"][2], "containerPort", 9465),
    ),
    "no way for Prometheus": ("network", lambda o: put(policy(o, "metrics"), "ingress", [])),
    "a way for all namespaces": (
        "network",
        lambda o: put(
            policy(o, "metrics")["ingress"][0]["from"][0], "namespaceSelector", {"matchLabels": {}}
        ),
    ),
    "Prometheus may call the services": (
        "network",
        lambda o: put(policy(o, "metrics")["ingress"][0]["ports"][0], "port", 7004),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str) -> None:
    """By the rule that it breaks."""
    rule, change = FAULTS[fault]
    objects = monitored.objects()
    change(objects)
    assert rule in findings(objects)


def test_the_monitor_scrapes_the_port_of_every_service() -> None:
    """By the name of the port and the labels of the pods."""
    objects = monitored.objects()
    (monitor,) = (each for each in objects if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    meant: list[Workload] = Cluster(objects).matched(monitor["spec"]["selector"])
    assert {each.name for each in meant} == set(SERVICES)
    assert all(endpoint["port"] in each.ports for each in meant)


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_a_query_leads_somewhere(name: str, query: str) -> None:
    """Metrics, labels and their values are those that the services declare."""
    assert list(wrong(query)) == [], name


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("max(kozyr_no_such)", "no metric"),
        ('sum(rate(kozyr_rpc_calls_total{code="OKAY"}[5m]))', "never OKAY"),
        ('sum(rate(kozyr_rpc_calls_total{cod="OK"}[5m]))', "cod is never"),
        ("sum(kozyr_rpc_calls_total)", "not looked at as a rate"),
        ("sum(rate(kozyr_due_lag_seconds[5m]))", "looked at as a rate"),
        ("sum by (kind) (rate(kozyr_rpc_calls_total[5m]))", "label kind"),
        ("sum(kozyr_due_lag_seconds", "do not match"),
        ("rate(kozyr_rpc_seconds[5m])", "no metric"),
    ],
)
def test_a_query_that_leads_nowhere_is_seen(query: str, fault: str) -> None:
    """What the check above is worth."""
    assert any(fault in each for each in wrong(query))


def test_every_family_is_on_the_dashboard() -> None:
    """What nobody looks at need not be counted."""
    asked = {word for _, query in QUERIES for word in re.findall(r"kozyr_\w+", query)}
    assert {SERIES[name] for name in asked if name in SERIES} == set(FAMILIES)


def test_every_alert_names_a_section_that_names_it() -> None:
    """The heading is there, and says something of this very alert."""
    text = (ROOT / "deploy" / "README.md").read_text("utf-8")
    sections = {
        re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-"): body
        for heading, body in re.findall(r"^#{2,3} (.+)\n\n((?:(?!^#).*\n?)*)", text, re.MULTILINE)
    }
    for rule in alerts():
        place, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert place == "deploy/README.md"
        assert f"`{rule['alert']}`" in sections[anchor], rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
    names = {rule["alert"] for rule in alerts()}
    assert len(names) == len(alerts())
    assert set(re.findall(r"`(Kozyr[A-Z]\w+)`", text)) == names
