"""Health that can fail: checks run in a loop decide whether the process says SERVING."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

from services.kernel.errors import not_found
from services.runtime import log, metrics

Probe = Callable[[], Awaitable[object]]
"""Raises when the process cannot do its work."""
CHECK_TIMEOUT_S = 5.0
LIVENESS = "liveness"
"""The name under which a process is SERVING for as long as it answers at all, whatever its checks
find and while it drains: to restart it heals no database that is away."""

Context = Any
Status = Any  # an enum value of the health protocol


class Health(HealthServicer):
    """The state of a process's gRPC services, of the process itself under the name ``""``, and
    whether it lives under `LIVENESS`.

    Watchers are told of every change and let go when the process stops, those of services after a
    last NOT_SERVING.
    """

    def __init__(self, services: Sequence[str], checks: Mapping[str, Probe]) -> None:
        self._services = frozenset(("", LIVENESS, *services))
        self._checks = checks
        self._failing: dict[str, bool] = {}
        self._serving = False
        self._stopped = False
        self._changed = asyncio.Condition()

    async def Check(self, request: HealthCheckRequest, _context: Context) -> HealthCheckResponse:  # noqa: N802
        """The state now; NOT_FOUND for a service that is not here."""
        if request.service not in self._services:
            raise not_found("SERVICE_UNKNOWN", "no such service here")
        return HealthCheckResponse(status=self._status(request.service))

    async def Watch(  # noqa: N802
        self, request: HealthCheckRequest, _context: Context
    ) -> AsyncIterator[HealthCheckResponse]:
        """The state now and every change of it."""
        told: Status = None
        while True:
            status = self._status(request.service)
            if status != told:
                told = status
                yield HealthCheckResponse(status=status)
            elif self._stopped:
                return
            else:
                await self._change(request.service, status)

    async def refresh(self) -> bool:
        """Run every check once and publish the outcome; returns whether all passed."""
        good = all([await self._passes(name, check) for name, check in self._checks.items()])
        metrics.SERVING.of().set(good and not self._stopped)
        if good != self._serving:
            async with self._changed:
                self._serving = good
                self._changed.notify_all()
        return good

    async def poll(self, interval_ms: int) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self.refresh()

    async def stop(self) -> None:
        """Say NOT_SERVING from now on, whatever the checks find, and let watchers go."""
        async with self._changed:
            self._stopped = True
            metrics.SERVING.of().set(0)
            self._changed.notify_all()

    async def _change(self, service: str, told: Status) -> None:
        """Wait until the status is another one, or the process stops."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._stopped or self._status(service) != told)

    def _status(self, service: str) -> Status:
        if service not in self._services:
            return HealthCheckResponse.SERVICE_UNKNOWN
        if service == LIVENESS or (self._serving and not self._stopped):
            return HealthCheckResponse.SERVING
        return HealthCheckResponse.NOT_SERVING

    async def _passes(self, name: str, check: Probe) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await check()
        except Exception as error:  # noqa: BLE001 - any failure of a check means the same
            if not self._failing.get(name):
                log.get().error("check_failed", check=name, **log.failure(error))
            self._failing[name] = True
            metrics.CHECKS_FAILED.of(name).inc()
            return False
        if self._failing.get(name):
            log.get().info("check_passed", check=name)
        self._failing[name] = False
        return True
