"""The service config that clients are given: what it names exists, and it repeats what may be."""

import json
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor

from services.runtime.connection import SERVICE_CONFIG
from tests.rpcs import path, rpcs

CONFIG: dict[str, Any] = json.loads(SERVICE_CONFIG.read_text("utf-8"))
METHODS = {path(method): method for _, method in rpcs()}
READING = (
    *("Get", "List", "Read", "Watch", "Verify", "Check", "Replay", "Export", "Choose", "Trial"),
)
"""How the names of RPCs begin that change nothing."""
AGAIN_ANYHOW = {"/kozyr.game.v1.KeyService/WrapKeys"}
"""Changes without a request id that come to the same when they are made twice."""


def is_repeatable(method: MethodDescriptor) -> bool:
    """Whether a call may be sent again with the same request, and acts once."""
    named = "request_id" in method.input_type.fields_by_name
    return named or method.name.startswith(READING) or path(method) in AGAIN_ANYHOW


def entry_of(method: str) -> dict[str, Any]:
    """What the config says of a method: the most precise name that fits."""
    service, name = method.removeprefix("/").split("/")
    for wanted in ({"service": service, "method": name}, {"service": service}, {}):
        for entry in CONFIG["methodConfig"]:
            if wanted in entry["name"]:
                found: dict[str, Any] = entry
                return found
    return {}


def test_what_it_names_exists() -> None:
    """Every service and method, each once."""
    names = [name for entry in CONFIG["methodConfig"] for name in entry["name"]]
    for name in names:
        assert set(name) <= {"service", "method"}
        if "method" in name:
            assert f"/{name['service']}/{name['method']}" in METHODS
        elif name:
            assert any(method.startswith(f"/{name['service']}/") for method in METHODS)
    assert len({json.dumps(name, sort_keys=True) for name in names}) == len(names)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_may_be_repeated_is_repeated_and_nothing_else(method: str) -> None:
    """Reads, and changes that carry a request id; and only where no answer was given."""
    policy = entry_of(method).get("retryPolicy")
    assert (policy is not None) == is_repeatable(METHODS[method])
    if policy is not None:
        assert policy["retryableStatusCodes"] == ["UNAVAILABLE"]


def test_it_balances_over_replicas_that_say_they_are_well() -> None:
    """Round robin, with the health of the whole process watched on every connection."""
    assert CONFIG["loadBalancingConfig"] == [{"round_robin": {}}]
    assert CONFIG["healthCheckConfig"] == {"serviceName": ""}


def test_a_name_alone_makes_no_call_repeatable() -> None:
    """The rule tells reads and named changes from others; so the law above can fail."""
    assert not is_repeatable(METHODS["/kozyr.lobby.v1.IdentityService/SignIn"])
    assert not is_repeatable(METHODS["/kozyr.lobby.v1.IdentityService/Refresh"])
    assert is_repeatable(METHODS["/kozyr.game.v1.GameService/SubmitMove"])
