"""Faults about certificates, each seeded into what an overlay renders to, as in `faults.py`."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from tests.deploy.faults import Change, drop, get, main, pod, put, setting, unset, upstream
from tests.deploy.objects import Object

VARIABLES = ("KOZYR_TLS_CERT_FILE", "KOZYR_TLS_KEY_FILE", "KOZYR_TLS_CA_FILE")


def certificate(name: str, *change: Any) -> Change:
    """A certificate's specification has another value where the path leads."""
    return lambda o: put(get(o, "Certificate", name)["spec"], *change)


def one_alone(objects: list[Object]) -> None:
    """The lobby alone speaks TLS."""
    everybody, lobby = (get(objects, "ConfigMap", name)["data"] for name in ("kozyr", "lobby"))
    for name in VARIABLES:
        lobby[name] = everybody.pop(name)


def another(objects: list[Object]) -> None:
    """There is a certificate that nobody asked for."""
    spare = copy.deepcopy(get(objects, "Certificate", "ai"))
    spare["metadata"]["name"] = "spare"
    spare["spec"]["secretName"] = "spare-tls"
    objects.append(spare)


def by_the_job(objects: list[Object]) -> None:
    """The nightly audit is given no certificate."""
    container, given = main(objects, "audit", "CronJob"), pod(objects, "audit", "CronJob")
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "tls"]
    given["volumes"] = [volume for volume in given["volumes"] if volume["name"] != "tls"]


def telling(change: Callable[[Any], None]) -> Change:
    """What the edge is told of TLS to the first service is another."""
    return upstream(lambda r: change(r["transport_socket"]["typed_config"]))


def believed(told: Any) -> Any:
    """Whom the edge believes."""
    return told["common_tls_context"]["combined_validation_context"]


SHOWING: Mapping[str, Change] = {
    "one alone": one_alone,
    "a folder that is not there": setting("kozyr", VARIABLES[0], "/run/kozyr/keys/tls.crt"),
    "another file": setting("kozyr", VARIABLES[2], "/run/kozyr/tls/tls.crt"),
    "a file that stays": lambda o: put(main(o, "ai")["volumeMounts"][-1], "subPath", "tls.crt"),
    "none for the job": by_the_job,
}
ISSUING: Mapping[str, Change] = {
    "none is issued": lambda o: drop(o, "Certificate", "ai"),
    "one for nobody": another,
    "not for the name that is called": certificate("ai", "dnsNames", ["ai"]),
    "for another as well": certificate("ai", "dnsNames", ["ai", "ai-headless", "game"]),
    "not to call with": certificate("ai", "usages", ["digital signature", "server auth"]),
    "not to serve with": certificate("ai", "usages", ["digital signature", "client auth"]),
    "the edge may serve": certificate(
        "edge", "usages", ["digital signature", "client auth", "server auth"]
    ),
    "the key of last time": lambda o: unset(
        get(o, "Certificate", "ai")["spec"], "privateKey", "rotationPolicy"
    ),
    "renewed on the last day": certificate("ai", "renewBefore", "24h"),
    "signed by itself": certificate("ai", "issuerRef", "name", "self-signed"),
    "by an authority that signs nothing": lambda o: unset(
        get(o, "Certificate", "authority")["spec"], "isCA"
    ),
}
LEADING: Mapping[str, Change] = {
    "without TLS": upstream(lambda r: unset(r, "transport_socket")),
    "another's name": telling(
        lambda t: put(
            believed(t)["default_validation_context"]["match_typed_subject_alt_names"][0],
            *("matcher", "exact", "wallet"),
        )
    ),
    "any name": telling(
        lambda t: put(
            believed(t)["default_validation_context"], "match_typed_subject_alt_names", []
        )
    ),
    "asks for another": telling(lambda t: put(t, "sni", "wallet")),
    "no such file": telling(
        lambda t: put(
            believed(t)["validation_context_sds_secret_config"]["sds_config"],
            *("path_config_source", "path", "/etc/envoy/authorities.yaml"),
        )
    ),
    "shows what players see": upstream(
        lambda r: put(r["tls_certificate"], "private_key", "filename", "/run/edge/tls/tls.key"),
        "inside.yaml",
    ),
    "shows the same for ever": upstream(
        lambda r: unset(r["tls_certificate"], "watched_directory"), "inside.yaml"
    ),
    "believes the same for ever": upstream(
        lambda r: unset(r["validation_context"], "watched_directory"), "authority.yaml"
    ),
}

FAULTS: Mapping[str, Mapping[str, Change]] = {
    "showing": SHOWING,
    "issuing": ISSUING,
    "leading": LEADING,
}
"""Rule → fault → how it is made."""
