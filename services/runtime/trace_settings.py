"""The part of a process's settings that is about traces."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class TraceSettings(BaseSettings):
    """Where traces go, how many, and what they may take; `Settings` has them as its own."""

    otlp_endpoint: str | None = Field(
        default=None,
        description="Where traces are sent by OTLP over gRPC: `http://host:4317` without TLS, or "
        "`https://host:4317`; unset: there are none.",
    )
    trace_ratio: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Share of the calls from outside, and of the due work, that a trace begins "
        "with; what follows from these is in the trace.",
    )
    trace_queue_max: int = Field(
        default=2_048,
        ge=1,
        le=100_000,
        description="Spans that may wait to be sent; further ones are dropped and counted.",
    )
    trace_batch_max: int = Field(
        default=256, ge=1, le=10_000, description="Spans that are sent at once."
    )
    trace_interval_ms: int = Field(
        default=2_000, ge=10, le=60_000, description="Spans are sent this often."
    )
    trace_timeout_ms: int = Field(
        default=5_000,
        ge=100,
        le=60_000,
        description="The collector has so long to take what is sent; then it is given up.",
    )
    trace_flush_ms: int = Field(
        default=2_000,
        ge=0,
        le=60_000,
        description="At shutdown what waits is sent for this long, after the drain.",
    )

    @field_validator("otlp_endpoint")
    @classmethod
    def _collector(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        try:
            sound = parts.scheme in ("http", "https") and parts.hostname and parts.port
        except ValueError:
            sound = False
        if not sound or parts.path or parts.query or parts.username or parts.password:
            raise ValueError("must be http://host:port or https://host:port")
        return value
