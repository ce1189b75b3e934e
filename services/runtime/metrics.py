"""Every metric of every service: its name, unit, what it means, and all values of its labels.

Names are Prometheus' convention: `kozyr_`, a part of the system, what is counted, the unit;
counters end in `_total`. A label has a closed set of values, never an id, so that there are as many
series as can be counted here; any other value becomes `other`. What happens often finds its series
in a dictionary and adds to it. A process has one set of them, which `exposition.py` lays open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from services.runtime.access import ACCESS
from services.runtime.release import release
from services.runtime.settings import SERVICES

M = TypeVar("M", Counter, Gauge, Histogram)

REGISTRY = CollectorRegistry()
OTHER = "other"
"""Stands for a label's value that is not declared."""
UNKNOWN_METHOD = "unknown"
"""The method of calls that no service has."""

CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
DUE_KINDS = (
    *("seeds", "turn", "bot", "end", "pay", "collect"),
    *("start", "idle", "unready", "fill"),
)
CHECKS = ("store", "partitions", "database", "balances", "committer", "workers")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Family(Generic[M]):
    """A metric with all its series. `labels` names its labels and the values each may have."""

    name: str
    about: str
    metric: M
    labels: Mapping[str, frozenset[str]]
    _series: dict[tuple[str, ...], M] = field(default_factory=dict)

    def of(self, *values: str) -> M:
        """The series of these values, in the order of the labels."""
        found = self._series.get(values)
        if found is not None:
            return found
        allowed = zip(values, self.labels.values(), strict=True)
        known = tuple(value if value in among else OTHER for value, among in allowed)
        series: M = self.metric.labels(*known) if known else self.metric
        if known == values:
            self._series[values] = series
        return series


FAMILIES: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
"""All families by the names that their series begin with."""


def _sets(labels: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(values) for name, values in labels.items()}


def _counter(name: str, about: str, **labels: Iterable[str]) -> Family[Counter]:
    metric = Counter(name, about, tuple(labels), registry=REGISTRY)
    family = FAMILIES[name] = Family(name, about, metric, _sets(labels))
    return family


def _gauge(name: str, about: str, **labels: Iterable[str]) -> Family[Gauge]:
    metric = Gauge(name, about, tuple(labels), registry=REGISTRY)
    family = FAMILIES[name] = Family(name, about, metric, _sets(labels))
    return family


def _histogram(
    name: str, about: str, buckets: tuple[float, ...], **labels: Iterable[str]
) -> Family[Histogram]:
    metric = Histogram(name, about, tuple(labels), buckets=buckets, registry=REGISTRY)
    family = FAMILIES[name] = Family(name, about, metric, _sets(labels))
    return family


# ------------------------------------------------------------------------------------ every process

BUILD = _gauge(
    "kozyr_build_info",
    "1; which release this process is.",
    version=(release(),),
    service=SERVICES,
)
SERVING = _gauge("kozyr_health_serving", "Whether the process says SERVING: 1, or 0.")
CHECKS_FAILED = _counter(
    "kozyr_health_checks_failed_total", "Health checks that failed.", check=CHECKS
)
CERTIFICATE_LEFT = _gauge(
    "kozyr_tls_certificate_left_seconds",
    "How long the process's own certificate is good for; below zero it has ended.",
    service=SERVICES,
)
METHODS = (*ACCESS, UNKNOWN_METHOD)
CALLS = _counter(
    "kozyr_rpc_calls_total", "Calls and streams that ended.", method=METHODS, code=CODES
)
CALL_SECONDS = _histogram(
    "kozyr_rpc_seconds", "How long calls took, streams aside.", SECONDS, method=METHODS
)
STREAMS = _gauge("kozyr_rpc_streams", "Streams that are open.", method=METHODS)

SPANS = _counter(
    "kozyr_traces_spans_total",
    "Spans that were made: sent, failed to be sent, dropped because the queue was full.",
    outcome=("sent", "failed", "dropped"),
)

# ------------------------------------------------------------------ the event store: lobby and game

APPENDS = _counter(
    "kozyr_store_appends_total",
    "Appends by what became of them: stored, lost to another or told before, too late, failed.",
    outcome=("won", "lost", "late", "failed"),
)
BATCHES = _histogram("kozyr_store_batch_appends", "Appends of one transaction.", SIZES)
APPENDS_WAITING = _gauge("kozyr_store_appends_waiting", "Appends that wait for a transaction.")
DUE_WORKED = _counter(
    "kozyr_due_worked_total",
    "Due work that was taken up: done, refused, failed (both come again), left to other replicas.",
    kind=DUE_KINDS,
    outcome=("done", "refused", "failed", "left"),
)
DUE_WORKING = _gauge("kozyr_due_working", "Due work that is under way.")
DUE_LAG = _gauge(
    "kozyr_due_lag_seconds", "How long the oldest due work that nobody has taken up has been due."
)
FEED_STREAMS = _gauge("kozyr_feed_streams", "Games or tables somebody waits for news of.")
FEED_POLLS = _counter(
    "kozyr_feed_polls_total", "Looks for what other replicas wrote.", outcome=("done", "failed")
)
RELAY_CONNECTED = _gauge(
    "kozyr_relay_connected",
    "Whether replicas hear of each other's news at once: 1, or 0 (they poll).",
    channel=("kozyr_news", "kozyr_talk"),
)
RELAY_NEWS = _counter("kozyr_relay_news_total", "News between replicas.", way=("sent", "heard"))

# --------------------------------------------------------------------------------------------- game

GAMES_RUNNING = _gauge("kozyr_game_running", "Games that are under way, on all replicas together.")
GAMES_WATCHED = _gauge("kozyr_game_watched", "Games that somebody watches here.")
WATCHERS = _gauge("kozyr_game_watchers", "Those who watch a game here, players included.")
WATCHERS_BEHIND = _counter(
    "kozyr_game_watchers_behind_total",
    "Watchers that were too slow and got a snapshot instead of what they had missed.",
)
CHECKPOINTS = _counter(
    "kozyr_game_checkpoint_rounds_total",
    "Rounds that cover new moves with a signed checkpoint.",
    outcome=("done", "store_unavailable", "tree_broken", "failed"),
)
UNCOVERED = _gauge(
    "kozyr_game_uncovered", "Games with moves made here that no checkpoint covers yet."
)
CHECKPOINT_AGE = _gauge(
    "kozyr_game_checkpoint_age_seconds", "How long ago the last round of checkpoints was done."
)
AUDITED = _counter(
    "kozyr_game_audited_total",
    "Games that were audited, by the outcome.",
    outcome=("sound", "faulty"),
)

# ----------------------------------------------------------------------------------------------- ai

THOUGHTS = _histogram(
    "kozyr_ai_thought_seconds",
    "How long bots thought.",
    SECONDS,
    game=("azi", "durak", "rami"),
    level=("easy", "normal", "hard"),
)
SHEDS = _counter(
    "kozyr_ai_sheds_total",
    "Moves that a lower level made: the queue was full, no worker in time, it died, or the level "
    "could make nothing of the view.",
    cause=("full", "slow", "died", "baffled"),
)
WORKERS = _gauge("kozyr_ai_workers", "Processes that are ready to think or think.")
QUESTIONS = _gauge("kozyr_ai_questions", "Questions that are thought about or wait for a worker.")

# ------------------------------------------------------------------------------------------- wallet

COMMANDS = _counter(
    "kozyr_wallet_commands_total",
    "Commands by what became of them: done, refused, failed (the outcome may be unknown).",
    outcome=("done", "refused", "failed"),
)
COMMAND_BATCHES = _histogram("kozyr_wallet_batch_commands", "Commands of one transaction.", SIZES)
CHIPS = _gauge(
    "kozyr_wallet_chips",
    "Chips that all accounts of a kind hold; what is issued is below zero.",
    kind=("issuer", "player", "bot", "escrow", "dispute_reserve"),
)
DRIFT = _gauge(
    "kozyr_wallet_drift_chips", "The sum of all balances: 0, or chips appeared or vanished."
)

ProcessCollector(registry=REGISTRY)
disable_created_metrics()  # type: ignore[no-untyped-call]
