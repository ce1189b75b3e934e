"""Rules about certificates: who shows which, who issues it, what the edge shows and believes."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from services.cli.checkup.certificates import SOON_MS
from services.runtime.identity import EDGE
from services.runtime.settings import SERVICES
from tests.authority import FILES, OPERATORS
from tests.deploy.contents import CALLERS, fields
from tests.deploy.edges import configured, upstreams
from tests.deploy.objects import Cluster, Object, Workload

HOUR_MS = 3_600_000


def bearer(workload: Workload) -> str:
    """In whose name a workload speaks."""
    return OPERATORS if workload.name in CALLERS else workload.name


def speakers(cluster: Cluster) -> Iterator[tuple[Workload, dict[str, str]]]:
    """The services, and the tools that call them, with the settings about certificates."""
    for workload in cluster.workloads():
        if workload.name in (*SERVICES, *CALLERS):
            given = dict(fields(cluster.environment(workload, workload.main)))
            yield workload, {name: given[name] for name in FILES if name in given}


def secured(cluster: Cluster) -> bool:
    """Whether TLS is spoken between services."""
    return any(paths for _, paths in speakers(cluster))


def held(workload: Workload, folder: PurePosixPath) -> tuple[str, bool]:
    """The secret that a workload finds in a folder (empty for none), and whether it follows when
    the secret changes."""
    volumes = {volume["name"]: volume for volume in workload.pod.get("volumes", ())}
    for mount in workload.main.get("volumeMounts", ()):
        if PurePosixPath(mount["mountPath"]) == folder:
            secret = volumes.get(mount["name"], {}).get("secret", {})
            return secret.get("secretName", ""), "subPath" not in mount
    return "", True


def showing(cluster: Cluster) -> Iterator[str]:
    """All speak TLS or none does; whoever does finds a certificate in his own name where he looks
    for it, as a folder that follows the secret."""
    everybody = secured(cluster)
    for workload, paths in speakers(cluster):
        if everybody and not paths:
            yield f"{workload.where}: speaks no TLS, and others do"
        for name, path in paths.items():
            place, file, wanted = PurePosixPath(path), FILES[name], f"{bearer(workload)}-tls"
            secret, follows = held(workload, place.parent)
            if secret != wanted or place.name != file:
                yield f"{workload.where}: finds no {file} of {wanted} at {place}"
            elif not follows:
                yield f"{workload.where}: {place} stays as it is when the secret changes"


def issuing(cluster: Cluster) -> Iterator[str]:
    """A certificate for everybody who shows one and for nobody else: in his name alone, for what he
    does with it, with a new key each time, renewed long before an alert says that it is late."""
    bearers = {bearer(workload) for workload, _ in speakers(cluster)} if secured(cluster) else set()
    bearers |= {EDGE} & {workload.name for workload in cluster.workloads()} if bearers else set()
    issued = {
        each["spec"]["secretName"].removesuffix("-tls"): each["spec"]
        for each in cluster.of("Certificate")
        if not each["spec"].get("isCA")
    }
    for name in sorted(bearers ^ issued.keys()):
        yield f"Certificate {name}: {'is not issued' if name in bearers else 'is for nobody'}"
    for name in sorted(bearers & issued.keys()):
        yield from (
            f"Certificate {name}: {wrong}" for wrong in _issued(cluster, name, issued[name])
        )


def _issued(cluster: Cluster, name: str, spec: Object) -> Iterator[str]:
    called = (
        {each["metadata"]["name"] for each in cluster.of("Service")} if name in SERVICES else ()
    )
    names = {name, *({f"{name}-headless"} & set(called))}
    if set(spec["dnsNames"]) != names:
        yield f"is for {spec['dnsNames']}"
    uses = {"digital signature", "client auth", *(["server auth"] if name in SERVICES else [])}
    if set(spec["usages"]) != uses:
        yield f"is good for {spec['usages']}"
    if spec["privateKey"].get("rotationPolicy") != "Always":
        yield "keeps its key"
    ends, renewed = hours(spec["duration"]), hours(spec["renewBefore"])
    if not SOON_MS // HOUR_MS < renewed < ends:
        yield f"is renewed {renewed} h before it ends after {ends} h"
    ca = _signer(cluster, spec["issuerRef"]["name"])
    if ca is None:
        yield "is issued by no authority of ours"


def _signer(cluster: Cluster, name: str) -> Object | None:
    """The certificate of an authority by which an issuer signs."""
    issuer = cluster.find("Issuer", name) or {"spec": {}}
    secret = issuer["spec"].get("ca", {}).get("secretName")
    return next(
        (
            each
            for each in cluster.of("Certificate")
            if each["spec"].get("isCA") and each["spec"]["secretName"] == secret
        ),
        None,
    )


def hours(span: str) -> int:
    """A span as cert-manager writes it; raises ValueError."""
    return int(span.removesuffix("h"))


def leading(cluster: Cluster) -> Iterator[str]:
    """The edge speaks TLS to services where they do: it shows its certificate, believes their
    authority alone, and each service by its name."""
    edge = next((each for each in cluster.workloads() if each.name == EDGE), None)
    if edge is None:
        return
    for upstream in upstreams(cluster):
        name, socket = upstream["name"], upstream.get("transport_socket")
        if (socket is not None) is not secured(cluster):
            yield f"edge: {name} is spoken to {'without' if socket is None else 'by'} TLS"
        if socket is None:
            continue
        told = socket["typed_config"]
        common = told["common_tls_context"]
        believed = common["combined_validation_context"]
        names = believed["default_validation_context"]["match_typed_subject_alt_names"]
        if [each["matcher"] for each in names] != [{"exact": name}] or told["sni"] != name:
            yield f"edge: {name} may bear another name"
        own = common["tls_certificate_sds_secret_configs"]
        files = [each["sds_config"]["path_config_source"]["path"] for each in own]
        trust = believed["validation_context_sds_secret_config"]
        files.append(trust["sds_config"]["path_config_source"]["path"])
        for file in files:
            yield from _inside(cluster, edge, PurePosixPath(file).name)


def _inside(cluster: Cluster, edge: Workload, name: str) -> Iterator[str]:
    """What a file about a secret says lies in the secret of the edge's own certificate."""
    text = configured(cluster, name)
    if text is None:
        yield f"edge: there is no {name}"
        return
    (secret,) = text["resources"]
    holder: Any = secret.get("tls_certificate") or secret["validation_context"]
    paths = [each["filename"] for each in holder.values() if "filename" in each]
    for path in map(PurePosixPath, paths):
        found, follows = held(edge, path.parent)
        if found != f"{EDGE}-tls" or path.name not in FILES.values() or not follows:
            yield f"edge: {path} is not of the secret {EDGE}-tls"
        if holder.get("watched_directory") != {"path": str(path.parent)}:
            yield f"edge: {path} is read once"


RULES = (showing, issuing, leading)
