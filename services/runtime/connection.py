"""Channels to services: TLS where it is asked for, keepalive, round robin over healthy replicas,
retries."""

from collections.abc import Sequence
from pathlib import Path

import grpc

from services.kernel.errors import unavailable
from services.runtime.certificates import Certificates, Credentials
from services.runtime.renewal import RenewedChannel
from services.runtime.settings import Settings

SERVICE_CONFIG = Path(__file__).with_name("service_config.json")
"""How calls are balanced and which are repeated; any client of ours may take it as it is."""


def open_channel(address: str, settings: Settings, service: str | None = None) -> grpc.aio.Channel:
    """A channel to `service` with keepalive, round robin over healthy replicas, and retries.

    As `connect`.
    """
    options: list[tuple[str, str | int]] = [
        ("grpc.service_config", SERVICE_CONFIG.read_text("utf-8")),
        ("grpc.enable_retries", 1),
        # A connection of its own: where channels share one, the death of a health-checked peer
        # crashes this process (grpcio 1.78).
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        # Without it an unanswered ping is noticed after a minute only (grpcio 1.78).
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Who has just asked a name for its replicas and loses them asks again at once; by default
        # half a minute later, and until then there would be none.
        ("grpc.dns_min_time_between_resolutions_ms", 1_000),
        ("grpc.max_receive_message_length", settings.message_max_bytes),
        ("grpc.max_send_message_length", settings.message_max_bytes),
    ]
    return connect(address, settings, service, options)


def connect(
    address: str, settings: Settings, service: str | None, options: Sequence[tuple[str, str | int]]
) -> grpc.aio.Channel:
    """A channel, with TLS where authorities are set.

    Whoever has a certificate of his own is inside: what he calls must show one with the name of
    the `service`, whatever its address. For others the name is that of the address (the edge's).
    Raises Refused CERTIFICATE_UNREADABLE for files that are no good.
    """
    if settings.tls_ca_file is None:
        return grpc.aio.insecure_channel(address, options)
    inside = service is not None and settings.tls_cert_file is not None
    named = [("grpc.ssl_target_name_override", service)] if inside else []

    def opened(shown: Credentials) -> grpc.aio.Channel:
        own = (shown.key, shown.certificate) if shown.key else (None, None)
        credentials = grpc.ssl_channel_credentials(shown.authorities, *own)
        return grpc.aio.secure_channel(address, credentials, [*options, *named])

    try:
        return RenewedChannel(Certificates(settings), opened)
    except (OSError, ValueError):
        raise unavailable(
            "CERTIFICATE_UNREADABLE", "the certificates here are no good (`kozyr doctor` says why)"
        ) from None
