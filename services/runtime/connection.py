"""Channels to services: keepalive, round robin over healthy replicas, retries."""

from pathlib import Path

import grpc

from services.runtime.settings import Settings

SERVICE_CONFIG = Path(__file__).with_name("service_config.json")
"""How calls are balanced and which are repeated; any client of ours may take it as it is."""


def open_channel(address: str, settings: Settings) -> grpc.aio.Channel:
    """A channel with keepalive, round robin over healthy replicas, and retries."""
    options = [
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
        ("grpc.max_receive_message_length", settings.message_max_bytes),
        ("grpc.max_send_message_length", settings.message_max_bytes),
    ]
    return grpc.aio.insecure_channel(address, options=options)
