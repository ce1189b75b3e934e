"""What the component `monitoring` asks Prometheus, and production with it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from prometheus_client import Counter, Histogram

from services.runtime.metrics import FAMILIES, OTHER
from tests.deploy.objects import ROOT, Object, objects_of

COMPONENT = ROOT / "deploy" / "components" / "monitoring"
FUNCTIONS = frozenset({
    *("sum", "max", "min", "count", "by", "rate", "increase", "abs", "absent", "or"),
    "histogram_quantile",
})  # fmt: skip
OF_THE_TARGET = frozenset({"instance", "service"})
"""Labels that Prometheus adds by itself, or as `scraping.yaml` says."""
PROCESS = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
SELECTOR = re.compile(r"([a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')


def objects() -> list[Object]:
    """Production with the component, to be changed at will."""
    return objects_of("prod+monitoring")


def alerts() -> list[Any]:
    """The alert rules."""
    rules = yaml.safe_load((COMPONENT / "rules.yaml").read_text("utf-8"))
    return [rule for group in rules["spec"]["groups"] for rule in group["rules"]]


def panels() -> list[Any]:
    """The dashboard's panels."""
    found: list[Any] = json.loads((COMPONENT / "kozyr.json").read_text("utf-8"))["panels"]
    return found


def series_of(family: str) -> set[str]:
    """The names of a family's series."""
    metric = FAMILIES[family].metric
    if isinstance(metric, Histogram):
        return {f"{family}_{part}" for part in ("bucket", "sum", "count")}
    return {family}


SERIES = {name: family for family in FAMILIES for name in series_of(family)}


def wrong(query: str) -> Iterator[str]:
    """What in a query leads nowhere: brackets, metrics, labels, values of labels; a counter that is
    not looked at as a rate."""
    for one, other in ("()", "{}", "[]"):
        if query.count(one) != query.count(other):
            yield f"{one}{other} do not match"
    bare = re.sub(r"\[[^]]*\]", "", query)
    labels: set[str] = set(OF_THE_TARGET)
    grouped = {
        label.strip() for names in re.findall(r"by \(([^)]*)\)", bare) for label in names.split(",")
    }
    for name, matchers in SELECTOR.findall(re.sub(r"by \([^)]*\)", "by", bare)):
        if name in FUNCTIONS or name in PROCESS or not name.strip("_"):
            continue
        if name not in SERIES:
            yield f"{name} is no metric"
            continue
        family = FAMILIES[SERIES[name]]
        labels |= {*family.labels} | ({"le"} if name.endswith("_bucket") else set())
        for label, sign, value in MATCHER.findall(matchers):
            allowed = family.labels.get(label, frozenset())
            for one in value.split("|") if sign == "=~" else [value]:
                if label not in OF_THE_TARGET and one not in allowed | {OTHER}:
                    yield f"{name}: {label} is never {one}"
        counted = isinstance(family.metric, Counter | Histogram)
        if counted is not bool(re.search(rf"(rate|increase)\({name}\b", query)):
            yield f"{name} is {'not ' if counted else ''}looked at as a rate"
    for label in sorted(grouped - labels):
        yield f"no series of it has the label {label}"
