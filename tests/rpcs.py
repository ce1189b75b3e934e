"""Every RPC of the wire contract, found in the generated code, so that none can be forgotten."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import MethodDescriptor

GENERATED = Path(__file__).parents[1] / "proto" / "gen"
MODULES = sorted(GENERATED.glob("kozyr/**/*_pb2.py"))


def rpcs() -> Iterator[tuple[str, MethodDescriptor]]:
    """Each RPC with the name of the service that serves it: `kozyr.<service>.v1`."""
    for module in MODULES:
        name = ".".join(module.relative_to(GENERATED).with_suffix("").parts)
        file = importlib.import_module(name).DESCRIPTOR
        for declared in file.services_by_name.values():
            for method in declared.methods:
                yield file.package.split(".")[1], method


def path(method: MethodDescriptor) -> str:
    """The RPC's name on the wire."""
    return f"/{method.containing_service.full_name}/{method.name}"
