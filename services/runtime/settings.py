"""Settings of a process: environment variables with the prefix `KOZYR_`, checked at start-up.

Durations and sizes carry their unit in the name. Secrets are `SecretStr` or files, so that they
never appear when settings are printed. `settings_table` writes the documentation.
"""

from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from services.runtime.database_url import DatabaseUrl
from services.runtime.origin import networks
from services.runtime.sign_in_settings import SignInSettings
from services.runtime.trace_settings import TraceSettings

SERVICES = ("lobby", "game", "ai", "wallet")
"""The four services, by the names used in addresses, keys and access rows."""


class LogFormat(StrEnum):
    """How log lines are written: one JSON object a line, or for eyes."""

    JSON = "json"
    CONSOLE = "console"


class EventLoop(StrEnum):
    """Which event loop runs a process; `auto` takes uvloop where it is installed."""

    AUTO = "auto"
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


class Settings(SignInSettings, TraceSettings):
    """Everything a process can be told from outside, with its default and bounds."""

    model_config = SettingsConfigDict(
        env_prefix="KOZYR_", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    data_folder: Path = Field(
        default=Path("data"), description="Folder of embedded databases and keys."
    )
    key_folder: Path | None = Field(
        default=None,
        description="Folder of signing, verifying and sealing keys; default `<data>/keys`.",
    )
    master_key: SecretStr | None = Field(
        default=None,
        description="Base64 of the 32-byte key that wraps the keys of games; or use the file.",
    )
    master_key_file: Path | None = Field(
        default=None, description="File with the same; default `master.key` in the key folder."
    )
    master_key_id: str = Field(
        default="1",
        min_length=1,
        max_length=32,
        description="Name of the master key, stored beside rows.",
    )
    master_keys_lost: str = Field(
        default="",
        description="Ids of master keys that are lost for good, with commas: start without them.",
    )

    lobby_listen: str = Field(default="127.0.0.1:7001", description="Address lobby listens on.")
    game_listen: str = Field(default="127.0.0.1:7002", description="Address game listens on.")
    ai_listen: str = Field(default="127.0.0.1:7003", description="Address ai listens on.")
    wallet_listen: str = Field(default="127.0.0.1:7004", description="Address wallet listens on.")
    health_listen: str | None = Field(
        default=None,
        description="Address where health alone is served as well, for probes; host:port.",
    )
    metrics_listen: str | None = Field(
        default=None,
        description="Address where metrics are served for Prometheus, `/metrics`; host:port.",
    )
    lobby_address: str | None = Field(
        default=None, description="Where others reach lobby; a gRPC target."
    )
    game_address: str | None = Field(default=None, description="Where others reach game.")
    ai_address: str | None = Field(default=None, description="Where others reach ai.")
    wallet_address: str | None = Field(default=None, description="Where others reach wallet.")
    tls_cert_file: Path | None = Field(
        default=None,
        description="This process's certificate, PEM; with it services speak TLS alone.",
    )
    tls_key_file: Path | None = Field(default=None, description="The key of that certificate, PEM.")
    tls_ca_file: Path | None = Field(
        default=None,
        description="Authorities that others' certificates must be from, PEM; alone it serves "
        "clients of a service that asks for no certificate (the edge).",
    )

    lobby_database_url: DatabaseUrl | None = Field(
        default=None, description="Database of lobby; default SQLite in the data folder."
    )
    game_database_url: DatabaseUrl | None = Field(default=None, description="Database of game.")
    wallet_database_url: DatabaseUrl | None = Field(default=None, description="Database of wallet.")
    database_role: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="Role services connect to PostgreSQL as; `kozyr migrate` gives it its rights.",
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lines below this level are not written."
    )
    log_format: LogFormat = Field(default=LogFormat.JSON, description="`json` or `console`.")
    event_loop: EventLoop = Field(
        default=EventLoop.AUTO, description="`auto`, `uvloop` or `asyncio`."
    )

    drain_notice_ms: int = Field(
        default=0,
        ge=0,
        le=60_000,
        description="After NOT_SERVING, calls are still served for this long.",
    )
    drain_stream_ms: int = Field(
        default=1_000, ge=0, le=60_000, description="Streams may end by themselves for this long."
    )
    drain_grace_ms: int = Field(
        default=10_000,
        ge=0,
        le=600_000,
        description="Running calls may finish for this long at shutdown.",
    )
    health_interval_ms: int = Field(
        default=1_000, ge=10, le=60_000, description="Time between two rounds of health checks."
    )

    request_max_bytes: int = Field(
        default=65_536,
        ge=1_024,
        le=2**20,
        description="Largest request; larger ones are INVALID_ARGUMENT.",
    )
    message_max_bytes: int = Field(
        default=4 * 2**20, ge=2**16, le=2**28, description="Largest message the transport carries."
    )
    deadline_default_ms: int = Field(
        default=10_000, ge=10, le=600_000, description="Deadline of a unary call that names none."
    )
    deadline_max_ms: int = Field(
        default=60_000,
        ge=10,
        le=600_000,
        description="Longest a unary call may take whatever it asks.",
    )
    peer_timeout_ms: int = Field(
        default=5_000,
        ge=10,
        le=600_000,
        description="Deadline of a call from one service to another.",
    )
    trusted_proxies: str = Field(
        default="",
        description="Networks of proxies (CIDR, with commas) whose `x-forwarded-for` is believed; "
        "without them all players behind a proxy have one address.",
    )
    rate_per_second: float = Field(
        default=50.0,
        gt=0,
        description="Calls a second a player may make on average; an operator ten times as many.",
    )
    rate_burst: float = Field(default=100.0, ge=1, description="Calls a caller may make at once.")
    peer_rate_per_second: float = Field(
        default=200.0,
        gt=0,
        description="The same for calls without a verified token, by network address.",
    )
    peer_rate_burst: float = Field(default=400.0, ge=1, description="Such calls at once.")
    address_rate_per_second: float = Field(
        default=2_000.0,
        gt=0,
        description="Calls a second that all players at one network address may make together.",
    )
    address_rate_burst: float = Field(default=4_000.0, ge=1, description="Such calls at once.")
    rate_callers_max: int = Field(
        default=50_000,
        ge=1,
        description="Callers remembered for rates; the longest unseen are forgotten.",
    )
    streams_per_caller_max: int = Field(
        default=64,
        ge=1,
        description="Streams a player may have open at once at one process; an operator ten times "
        "as many.",
    )
    streams_per_address_max: int = Field(
        default=256,
        ge=1,
        description="Streams without a token from one network address at once at one process.",
    )
    tables_per_player_max: int = Field(
        default=8, ge=1, le=100, description="Tables a player may sit at."
    )
    games_per_player_max: int = Field(
        default=16,
        ge=1,
        le=1_000,
        description="Games of a player that have not ended; no other begins with him.",
    )
    streams_per_connection_max: int = Field(
        default=1_000, ge=1, description="Calls and streams at once on one connection."
    )

    keepalive_ms: int = Field(
        default=10_000,
        ge=1_000,
        description="A silent connection is pinged after this time, both sides.",
    )
    keepalive_timeout_ms: int = Field(
        default=5_000,
        ge=100,
        description="A client leaves a connection whose ping is unanswered this long; a server "
        "takes up to a minute.",
    )
    connection_age_max_ms: int = Field(
        default=1_800_000,
        ge=1_000,
        description="Connections are renewed after this time, to find new pods.",
    )
    connection_age_grace_ms: int = Field(
        default=60_000,
        ge=0,
        description="Calls and streams may outlive their connection's age this long.",
    )

    games_cached: int = Field(
        default=10_000, ge=1, description="Games a game replica keeps folded in memory."
    )
    due_lease_ms: int = Field(
        default=10_000,
        ge=1_000,
        le=600_000,
        description="Work that is due goes to another replica when the one that took it is silent.",
    )
    checkpoint_ms: int = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="Games that advanced are covered by a signed checkpoint this often.",
    )
    audit_workers: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Processes that check games while an operator audits many.",
    )
    ruling_alone_chips: int = Field(
        default=10_000,
        ge=0,
        description="A ruling on a dispute that moves more chips, together with what rulings on "
        "the same game moved without one, needs a second operator.",
    )
    outage_ms: int = Field(
        default=3_000,
        ge=100,
        le=600_000,
        description="A longer gap in service is credited.",
    )
    bot_delay_ms: int = Field(
        default=800,
        ge=0,
        le=60_000,
        description="A bot's usual pause before a move, drawn from half to twice of this; 0: none.",
    )
    heartbeat_ms: int = Field(
        default=10_000,
        ge=100,
        le=600_000,
        description="A silent stream says that it lives this often.",
    )
    feed_interval_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="Watched streams are looked up this often.",
    )

    player_token_ms: int = Field(
        default=900_000, ge=1_000, description="Lifetime of a player's token."
    )
    service_token_ms: int = Field(
        default=600_000, ge=10_000, description="Lifetime of a service's token."
    )
    clock_skew_ms: int = Field(
        default=5_000,
        ge=0,
        le=60_000,
        description="Clocks of two machines may differ by this much.",
    )

    welcome_chips: int = Field(
        default=10_000, ge=0, le=10**12, description="Chips a new player is given once."
    )
    turn_time_default_ms: int = Field(default=30_000, ge=1, description="Turn time of a new table.")
    turn_time_min_ms: int = Field(default=1_000, ge=1, description="Shortest turn time of a table.")
    turn_time_max_ms: int = Field(
        default=600_000, ge=1, description="Longest turn time of a table."
    )
    time_bank_max_ms: int = Field(
        default=600_000,
        ge=0,
        le=86_400_000,
        description="Longest time bank a table may give each seat for a game.",
    )

    share_keep_ms: int = Field(
        default=2_592_000_000,
        ge=1_000,
        le=31_536_000_000,
        description="A link to an ended game opens for so long.",
    )
    choice_keep_ms: int = Field(
        default=2_592_000_000,
        ge=60_000,
        le=31_536_000_000,
        description="A request that opened or found a table leads to the same one for so long.",
    )
    spent_token_keep_ms: int = Field(
        default=2_592_000_000,
        ge=60_000,
        le=2_592_000_000,
        description="A spent refresh token is known for so long: its use ends the session.",
    )
    talk_keep_ms: int = Field(
        default=86_400_000,
        ge=60_000,
        le=604_800_000,
        description="What is said at a table is kept for so long, and no longer than it is open.",
    )
    talk_span_ms: int = Field(
        default=10_000, ge=100, le=60_000, description="The time within which talk is counted."
    )
    talk_player_max: int = Field(
        default=5, ge=1, le=1_000, description="Lines a player may say at a table in that time."
    )
    talk_table_max: int = Field(
        default=30, ge=1, le=10_000, description="Lines all players of a table may say in it."
    )
    table_idle_ms: int = Field(
        default=3_600_000,
        ge=1_000,
        le=30 * 86_400_000,
        description="A waiting table where nothing happens for this long closes.",
    )
    table_unready_ms: int = Field(
        default=600_000,
        ge=1_000,
        le=30 * 86_400_000,
        description="Who sits at a waiting table and is not ready for this long loses his seat.",
    )

    hints_per_minute: int = Field(
        default=12, ge=1, le=6_000, description="Hints a player may ask of a game replica a minute."
    )
    ai_workers: int = Field(
        default=2, ge=1, le=64, description="Processes that think about bots' moves."
    )
    ai_queue_max: int = Field(
        default=64,
        ge=0,
        le=10_000,
        description="Moves that may wait for such a process; for more a lower level answers.",
    )

    @field_validator(
        *("lobby_listen", "game_listen", "ai_listen", "wallet_listen"),
        *("health_listen", "metrics_listen"),
    )
    @classmethod
    def _host_and_port(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ValueError("must be host:port")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        try:
            networks(value)
        except ValueError:
            raise ValueError("must be networks in CIDR notation, with commas") from None
        return value

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if not self.turn_time_min_ms <= self.turn_time_default_ms <= self.turn_time_max_ms:
            raise ValueError("turn_time_min_ms <= turn_time_default_ms <= turn_time_max_ms")
        if self.deadline_default_ms > self.deadline_max_ms:
            raise ValueError("deadline_default_ms <= deadline_max_ms")
        if self.request_max_bytes > self.message_max_bytes:
            raise ValueError("request_max_bytes <= message_max_bytes")
        return self

    @model_validator(mode="after")
    def _certificate_is_whole(self) -> Self:
        own = {"tls_cert_file": self.tls_cert_file, "tls_key_file": self.tls_key_file}
        if any(own.values()):
            for name, file in (own | {"tls_ca_file": self.tls_ca_file}).items():
                if file is None:
                    given = ", ".join(f"KOZYR_{n.upper()}" for n, f in own.items() if f)
                    raise ValueError(f"KOZYR_{name.upper()} is missing, which goes with {given}")
        return self

    def keys(self) -> Path:
        """The folder of keys."""
        return self.key_folder or self.data_folder / "keys"

    def listen(self, service: str) -> str:
        """Where this service listens, `host:port`; port 0 takes a free one."""
        return str(getattr(self, f"{service}_listen"))

    def address(self, service: str) -> str:
        """Where others reach this service: its own setting, or where it listens."""
        return str(getattr(self, f"{service}_address") or self.listen(service))

    def database_url(self, service: str) -> str:
        """The service's database as a SQLAlchemy URL; holds a password, never log it."""
        given: SecretStr | None = getattr(self, f"{service}_database_url")
        if given is not None:
            return given.get_secret_value()
        return f"sqlite+aiosqlite:///{self.data_folder.absolute() / service}.db"


def settings_table() -> str:
    """All settings as a Markdown table: variable, default, meaning."""
    lines = ["| Variable | Default | Meaning |", "|---|---|---|"]
    apart = (SignInSettings.model_fields, TraceSettings.model_fields)
    own_first = sorted(Settings.model_fields, key=lambda name: [name in part for part in apart])
    for name in own_first:
        field = Settings.model_fields[name]
        default = "–" if field.default is None else f"`{field.default}`"
        lines.append(f"| `KOZYR_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"
