"""How Kubernetes replaces a service's replicas, read from the manifests that it is given."""

from dataclasses import dataclass, replace
from functools import cache

from services.runtime.settings import SERVICES
from tests.deploy.objects import Cluster, objects_of

OVERLAY = "prod"
TIMED = ("KOZYR_DRAIN_NOTICE_MS", "KOZYR_DRAIN_STREAM_MS", "KOZYR_DRAIN_GRACE_MS")
"""Variables of a drain."""
ONE_MORE = {"maxSurge": 1, "maxUnavailable": 0}
"""A new replica first, one at a time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a roll-out, seconds, and the drain's variables.

    A new replica counts once it has been ready for `min_ready`; an old one is sent SIGTERM
    `pre_stop` after nobody is led to it any more, and SIGKILL when `grace` has passed as a whole.
    Its readiness is asked for every `probe`, by the name `service`.
    """

    service: str
    min_ready: float
    pre_stop: float
    grace: float
    probe: float
    drain: tuple[tuple[str, int], ...]

    def hurried(self, factor: float) -> "Pace":
        """The same, so many times as fast; the grace stays."""
        return replace(
            self,
            min_ready=self.min_ready / factor,
            pre_stop=self.pre_stop / factor,
            probe=self.probe / factor,
            drain=tuple((name, round(ms / factor)) for name, ms in self.drain),
        )


@cache
def paces() -> dict[str, Pace]:
    """What the manifests say of each service."""
    cluster = Cluster(objects_of(OVERLAY))
    found = {}
    for workload in cluster.workloads():
        if workload.name not in SERVICES:
            continue
        spec, main = workload.object["spec"], workload.main
        probe = main["readinessProbe"]
        if spec["strategy"]["rollingUpdate"] != ONE_MORE:
            raise ValueError(f"{workload.where}: replaced in another way")
        given = cluster.environment(workload, main)
        found[workload.name] = Pace(
            service=probe["grpc"]["service"],
            min_ready=spec["minReadySeconds"],
            pre_stop=main["lifecycle"]["preStop"]["sleep"]["seconds"],
            grace=workload.pod["terminationGracePeriodSeconds"],
            probe=probe["periodSeconds"],
            drain=tuple((name, int(given[name])) for name in TIMED),
        )
    return found
