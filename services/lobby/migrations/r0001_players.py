"""Players, their refresh tokens, and the tables that requests chose."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "players",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("bot", sa.Boolean, nullable=False),
        sa.Column("sign_up", sa.LargeBinary),
        sa.Column("secret", sa.LargeBinary),
        sa.Column("used", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("account_due", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("player_id", name="players_pkey"),
        sa.UniqueConstraint("sign_up", name="players_sign_up"),
        sa.CheckConstraint("length(sign_up) = 32", name="players_sign_up_hash"),
        sa.CheckConstraint("length(secret) = 32", name="players_secret_hash"),
    )
    op.create_index(
        "players_account_due",
        "players",
        ["created_at"],
        sqlite_where=sa.text("account_due"),
        postgresql_where=sa.text("account_due"),
    )
    op.create_table(
        "refresh_tokens",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("family", sa.Uuid, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="refresh_tokens_pkey"),
        sa.ForeignKeyConstraint(["player_id"], ["players.player_id"], "refresh_tokens_player"),
        sa.CheckConstraint("length(hash) = 32", name="refresh_tokens_hash"),
    )
    op.create_index("refresh_tokens_family", "refresh_tokens", ["family"])
    op.create_index("refresh_tokens_player", "refresh_tokens", ["player_id", "expires_at"])
    op.create_table(
        "choices",
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("table_id", sa.Uuid, nullable=False),
        sa.PrimaryKeyConstraint("request", name="choices_pkey"),
        sa.CheckConstraint("length(request) = 32", name="choices_request_hash"),
    )
