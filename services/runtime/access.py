"""Who may call each RPC of the four services: one row for every method there is.

A method without a row is answered UNIMPLEMENTED, and a test fails for it. What a row allows is
decided before anything is looked up, so a refusal tells nothing about what exists. Whether the
caller may touch *this* table, game or account is the servicer's to decide.
"""

from collections.abc import Mapping

from services.runtime.auth import Access, allow

PLATFORM: Mapping[str, Access] = {
    "/grpc.health.v1.Health/Check": allow("public", limited=False),
    "/grpc.health.v1.Health/Watch": allow("public", limited=False),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": allow("public"),
}

ACCESS: Mapping[str, Access] = {
    **PLATFORM,
}
"""Full method name (`/package.Service/Method`) → who may call it."""
