"""The wallet's tables, as the migrations leave them."""

import sqlalchemy as sa

METADATA = sa.MetaData()

ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("balance", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("opened_at", sa.BigInteger, nullable=False),
)
"""Balances: always those of the last posting, which the database sees to."""

TRANSFERS = sa.Table(
    "transfers",
    METADATA,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("game_id", sa.Uuid),
    sa.Column("reason", sa.Text),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text),
    sa.Column("recorded_at", sa.BigInteger, nullable=False),
)
"""Why chips moved and who asked; a row closes its postings."""

POSTINGS = sa.Table(
    "postings",
    METADATA,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True),
    sa.Column("transfer_id", sa.Uuid, nullable=False),
    sa.Column("chips", sa.BigInteger, nullable=False),
    sa.Column("balance_before", sa.BigInteger, nullable=False),
    sa.Column("balance_after", sa.BigInteger, nullable=False),
)
"""The chips of a transfer that came to or left an account, with the balance before and after."""

GAMES = sa.Table(
    "games",
    METADATA,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("transfer_id", sa.Uuid),
    sa.Column("head", sa.LargeBinary),
    sa.Column("reason", sa.Text),
)
"""What the wallet knows of a game; the row of a voided one refuses late reservations."""

RESERVATIONS = sa.Table(
    "reservations",
    METADATA,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("game_id", sa.Uuid, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("account_id", sa.Uuid, nullable=False),
    sa.Column("chips", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("paid_in", sa.BigInteger, nullable=False),
    sa.Column("paid_out", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text),
)
"""Chips held for a seat of a game."""

REQUESTS = sa.Table(
    "requests",
    METADATA,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("request_id", sa.Text, primary_key=True),
    sa.Column("body_hash", sa.LargeBinary, nullable=False),
    sa.Column("response", sa.LargeBinary, nullable=False),
    sa.Column("recorded_at", sa.BigInteger, nullable=False),
)
"""What was answered to each caller's request, as it was sent."""

PULSE = sa.Table("pulse", METADATA, sa.Column("at", sa.BigInteger, nullable=False))
"""A row that health checks write, to see that the database takes writes."""
