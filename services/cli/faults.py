"""Faults of games, for people and for machines."""

from typing import Any

from kozyr.game.v1 import audit_pb2


def fault_object(fault: audit_pb2.Fault) -> dict[str, Any]:
    """A fault for machines."""
    return {"version": fault.version, "kind": fault.kind, "detail": fault.detail}


def fault_line(fault: audit_pb2.Fault) -> str:
    """A fault in words: version, kind, detail."""
    where = f"version {fault.version}" if fault.version else "as a whole"
    return f"{where}: {fault.kind}: {fault.detail}"
