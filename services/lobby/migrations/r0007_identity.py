"""Sessions, login names, devices, external identities, failed sign-ins."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables."""
    op.add_column("refresh_tokens", sa.Column("attempt", sa.LargeBinary))
    op.add_column("refresh_tokens", sa.Column("spent_at", sa.BigInteger))
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Uuid, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("means", sa.Integer, nullable=False),
        sa.Column("device_name", sa.Text, nullable=False),
        sa.Column("device_id", sa.Uuid),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("renewed_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("session_id", name="sessions_pkey"),
    )
    op.create_index("sessions_player", "sessions", ["player_id"])
    op.create_table(
        "logins",
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("login_name", sa.Text, nullable=False),
        sa.Column("password", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("player_id", name="logins_pkey"),
        sa.UniqueConstraint("login_name", name="logins_login_name"),
    )
    op.create_table(
        "devices",
        sa.Column("device_id", sa.Uuid, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("device_name", sa.Text, nullable=False),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("device_id", name="devices_pkey"),
        sa.UniqueConstraint("player_id", "public_key", name="devices_key"),
        sa.CheckConstraint("length(public_key) = 32", name="devices_public_key"),
    )
    op.create_table(
        "externals",
        sa.Column("identity", sa.LargeBinary, nullable=False),
        sa.Column("player_id", sa.Uuid, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("identity", name="externals_pkey"),
    )
    op.create_index("externals_player", "externals", ["player_id"])
    _passing()


def _passing() -> None:
    op.create_table(
        "failures",
        sa.Column("subject", sa.LargeBinary, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("until_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="failures_pkey"),
    )
    op.create_index("failures_last", "failures", ["last_at"])
    op.create_table(
        "challenges",
        sa.Column("challenge", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("challenge", name="challenges_pkey"),
    )
    op.create_index("challenges_expire", "challenges", ["expires_at"])
