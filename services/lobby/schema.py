"""The lobby's own tables, beside those of its event store.

Secrets, refresh tokens and request ids are kept as SHA-256 only, passwords as Argon2id. Times are
database time in Unix microseconds. Nothing but `refresh_tokens` refers to `players`: whoever writes
about a player holds his row meanwhile, and an embedded database's tables can be shredded.
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
    UniqueConstraint,
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
    Column("attempt", LargeBinary),
    Column("spent_at", BigInteger),
)
"""A family is a sign-in and the tokens traded since; a family that is revoked has no rows.
`attempt` is the hash of the try that spent the token, where it was named."""

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("player_id", Uuid, nullable=False),
    Column("means", Integer, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("device_id", Uuid),
    Column("started_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger),
)
"""What is known of a family of refresh tokens, its id being the family's; release 0.1.0 wrote none.
`device_id` is the device whose key began it."""

logins = Table(
    "logins",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("login_name", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)
"""Login names and passwords; `request` is the hash of the request that set them."""

devices = Table(
    "devices",
    metadata,
    Column("device_id", Uuid, primary_key=True),
    Column("player_id", Uuid, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    UniqueConstraint("player_id", "public_key", name="devices_key"),
)
"""Keys by which players sign in."""

externals = Table(
    "externals",
    metadata,
    Column("identity", LargeBinary, primary_key=True),
    Column("player_id", Uuid, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""Who an external issuer's subjects are; `identity` is the hash of both."""

failures = Table(
    "failures",
    metadata,
    Column("subject", LargeBinary, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("until_at", BigInteger, nullable=False),
)
"""Failed sign-ins by login name and by address, both as keyed hashes; `until_at` when the next try
is let through. A row is removed an hour after its last failure, or when a longer wait is over."""

challenges = Table(
    "challenges",
    metadata,
    Column("challenge", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
)
"""Challenges that served, until they have expired."""

PERSONAL = (sessions, logins, devices, externals)
"""What is held of a player beside `players` and `refresh_tokens`, by `player_id`."""

choices = Table(
    "choices",
    metadata,
    Column("request", LargeBinary, primary_key=True),
    Column("table_id", Uuid, nullable=False),
    Column("chosen_at", BigInteger),
)
"""Which table a request to open or find one chose, and when it did so last: the same request goes
to the same table. Release 0.1.0 writes no moment."""

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

stakes = Table(
    "stakes",
    metadata,
    Column("game_id", Uuid, primary_key=True),
    Column("player_id", Uuid, primary_key=True),
    Column("table_id", Uuid, nullable=False),
    Column("chips", BigInteger, nullable=False),
    Column("fresh", BigInteger, nullable=False),
    Column("begun_at", BigInteger, nullable=False),
)
"""Who plays in games that have begun and not ended, with which stack; `fresh` is what of it was not
won in an earlier game at the table. Bots have no row."""

player_games = Table(
    "player_games",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("game_id", Uuid, primary_key=True),
    Column("table_id", Uuid, nullable=False),
    Column("variant", Integer, nullable=False),
    Column("begun_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("struck", Boolean, nullable=False),
    Column("people", Boolean, nullable=False),
    Column("place", Integer, nullable=False),
    Column("points", BigInteger, nullable=False),
    Column("first", Boolean, nullable=False),
    Column("durak", Boolean, nullable=False),
    Column("nulled", Boolean, nullable=False),
    Column("chips_in", BigInteger, nullable=False),
    Column("chips_out", BigInteger, nullable=False),
    Column("fresh", BigInteger, nullable=False),
)
"""What a game was to each of its players, once it has ended."""

standings = Table(
    "standings",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("variant", Integer, primary_key=True),
    Column("period", Integer, primary_key=True),
    Column("begun_at", BigInteger, primary_key=True),
    Column("people", Boolean, primary_key=True),
    Column("games", BigInteger, nullable=False),
    Column("firsts", BigInteger, nullable=False),
    Column("duraks", BigInteger, nullable=False),
    Column("nulls", BigInteger, nullable=False),
    Column("points", BigInteger, nullable=False),
    Column("chips_in", BigInteger, nullable=False),
    Column("chips_out", BigInteger, nullable=False),
    Column("listed", Boolean, nullable=False),
    Column("ranked", Boolean, nullable=False),
    Column("measure", BigInteger, nullable=False),
    Column("measure_next", BigInteger, nullable=False),
    Column("measure_last", BigInteger, nullable=False),
)
"""What a player's games of a span of time come to: sums over `player_games`, kept with each game. A
period's `begun_at` is 0 for all time. `ranked` rows are a leaderboard, in the order of the
measures; they belong to players who are `listed`."""

listings = Table(
    "listings",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("variant", Integer, primary_key=True),
    Column("listed", Boolean, nullable=False),
)
"""What players said about being on leaderboards."""

limits = Table(
    "limits",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("kind", Integer, primary_key=True),
    Column("own", BigInteger),
    Column("loosens_at", BigInteger),
    Column("loosened", BigInteger),
    Column("house", BigInteger),
)
"""A player's limits of a kind: his own, what it becomes at `loosens_at`, and the house's."""

exclusions = Table(
    "exclusions",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("own_until", BigInteger, nullable=False),
    Column("house_until", BigInteger, nullable=False),
)
"""Until when a player is excluded, by himself and by the house."""

limit_changes = Table(
    "limit_changes",
    metadata,
    Column("player_id", Uuid, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("changed_at", BigInteger, nullable=False),
    Column("action", Integer, nullable=False),
    Column("kind", Integer, nullable=False),
    Column("amount", BigInteger),
    Column("until", BigInteger),
    Column("effect_at", BigInteger, nullable=False),
    Column("operator", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""Everything that was changed in limits and exclusions. A request is kept as its hash."""
