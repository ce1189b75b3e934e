"""The lobby's own tables, beside those of its event store.

Secrets, refresh tokens and request ids are kept as SHA-256 only. Times are database time in Unix
microseconds.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
)

metadata = MetaData()

players = Table(
    "players",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("bot", Boolean, nullable=False),
    Column("sign_up", LargeBinary, unique=True),
    Column("secret", LargeBinary),
    Column("used", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("account_due", Boolean, nullable=False),
)
"""`sign_up` is the hash of the request that made the player; `used` once the secret or a refresh
token was; `account_due` until the wallet has opened the account. Bots have neither hash."""

refresh_tokens = Table(
    "refresh_tokens",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("family", Uuid, nullable=False),
    Column("player_id", Uuid, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("spent", Boolean, nullable=False),
)
"""A family is a sign-in and the tokens traded since; a family that is revoked has no rows."""

choices = Table(
    "choices",
    metadata,
    Column("request", LargeBinary, primary_key=True),
    Column("table_id", Uuid, nullable=False),
)
"""Which table a request to open or find one chose: the same request goes to the same table."""

erasures = Table(
    "erasures",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("erasure_id", Uuid, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("give_up_chips", Boolean, nullable=False),
    Column("leave_claims", Boolean, nullable=False),
    Column("step", Integer, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("chips", BigInteger, nullable=False),
    Column("erased_at", BigInteger),
    Column("ends_at", BigInteger),
)
"""A row from the moment an erasure is asked for: one that is refused has none any more. `asked_by`
is an operator's name, empty for the player himself; `due_at` when somebody is to take it further,
put off while somebody does; `ends_at` when the last of his tokens has ended."""

openings = Table(
    "openings",
    metadata,
    Column("variant", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("table_id", Uuid, nullable=False),
    Column("level", Integer, nullable=False),
    Column("terms", LargeBinary, nullable=False),
)
"""The tables that quick play opened last, by game and in order: with what rules, and what bots
their players wait for. Nobody is named."""
