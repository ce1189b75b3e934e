"""Batches: types for the rows that a batch of appends hands over (PostgreSQL).

They are types of their own, not those of the tables, so that a column more in a table is nothing to
a release that knows less of it.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OF = "place integer, stream uuid"
TYPES = {
    "batch_asked": (
        f"{OF}, expected bigint, previous bytea, not_after bigint, ended boolean, version bigint, "
        "head bytea, at bigint, name text, schema integer, payload bytea, secret_digest bytea, "
        "metadata bytea, request_id text, body_hash bytea, hash bytea"
    ),
    "batch_events": (
        f"{OF}, version bigint, name text, schema integer, payload bytea, secret_digest bytea, "
        "metadata bytea, recorded_at bigint, hash bytea"
    ),
    "batch_secrets": f"{OF}, version bigint, sealed bytea",
    "batch_keys": f"{OF}, key_id text, wrapped bytea",
    "batch_gone": f"{OF}, kind text, key text",
    "batch_due": f"{OF}, kind text, key text, version bigint, at bigint",
    "batch_tags": f"{OF}, tag text",
}


def upgrade() -> None:
    """Makes the types."""
    if op.get_bind().dialect.name == "postgresql":
        for name, columns in TYPES.items():
            op.execute(f"CREATE TYPE {name} AS ({columns})")
