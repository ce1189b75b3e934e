"""The ledger, and the rules of double entry as the database itself enforces them.

Rows are written in the order postings, accounts, transfers. A posting continues its account's chain
of versions and balances; an account moves only to its last posting; a transfer closes its postings,
which must be two or more, sum to zero and have been carried to their accounts. A posting without a
transfer cannot be committed (a deferred foreign key), one to a closed transfer is refused. So at
every commit postings balance and balances are their sums. PostgreSQL checks sums once more at
commit, because there another transaction may write postings that the closing one does not see.
SQLite checks foreign keys for connections that ask for it, as all of the wallet's do.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

CHIPS_MAX = 2**63 - 1
ISSUER = {
    "sqlite": "'00000000000000000000000000000001'",
    "postgresql": "'00000000-0000-0000-0000-000000000001'::uuid",
}
NOW_US = {
    "sqlite": "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000",
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
}

KEPT = ("accounts", "transfers", "postings", "games", "reservations", "requests")
"""Tables whose rows are never removed."""
FROZEN = ("transfers", "postings", "requests")
"""Tables whose rows are never changed either."""
KEYS = {
    "accounts": ("id",),
    "transfers": ("id",),
    "postings": ("account_id", "version"),
    "games": ("id",),
    "reservations": ("id",),
    "requests": ("subject", "request_id"),
}

RULES = (
    (
        "accounts_open",
        "INSERT",
        "accounts",
        "NEW.balance <> 0 OR NEW.version <> 0",
        "a new account is empty",
    ),
    (
        "accounts_move",
        "UPDATE",
        "accounts",
        (
            "NEW.id <> OLD.id OR NEW.kind <> OLD.kind OR NEW.opened_at <> OLD.opened_at "
            "OR NEW.version <= OLD.version "
            "OR NOT EXISTS (SELECT 1 FROM postings p WHERE p.account_id = NEW.id "
            "AND p.version = NEW.version AND p.balance_after = NEW.balance) "
            "OR EXISTS (SELECT 1 FROM postings p WHERE p.account_id = NEW.id "
            "AND p.version = NEW.version + 1)"
        ),
        "an account moves to its last posting",
    ),
    (
        "postings_chain",
        "INSERT",
        "postings",
        (
            "NOT (NEW.version = 1 AND NEW.balance_before = 0 OR EXISTS "
            "(SELECT 1 FROM postings p WHERE p.account_id = NEW.account_id "
            "AND p.version = NEW.version - 1 AND p.balance_after = NEW.balance_before))"
        ),
        "a posting continues its account",
    ),
    (
        "postings_closed",
        "INSERT",
        "postings",
        (
            "EXISTS (SELECT 1 FROM transfers t WHERE t.id = NEW.transfer_id) OR EXISTS "
            "(SELECT 1 FROM postings p WHERE p.transfer_id = NEW.transfer_id "
            "AND p.account_id = NEW.account_id)"
        ),
        "the transfer is closed, or has a posting to the account",
    ),
    (
        "transfers_balance",
        "INSERT",
        "transfers",
        (
            "(SELECT count(*) < 2 OR coalesce(sum(p.chips), 1) <> 0 FROM postings p "
            "WHERE p.transfer_id = NEW.id)"
        ),
        "the postings of a transfer sum to zero",
    ),
    (
        "transfers_carried",
        "INSERT",
        "transfers",
        (
            "EXISTS (SELECT 1 FROM postings p JOIN accounts a ON a.id = p.account_id "
            "WHERE p.transfer_id = NEW.id AND a.version < p.version)"
        ),
        "balances move with their postings",
    ),
    (
        "games_open",
        "INSERT",
        "games",
        "NEW.state NOT IN (1, 4)",
        "a game starts open or voided",
    ),
    (
        "games_move",
        "UPDATE",
        "games",
        (
            "NEW.id <> OLD.id OR NOT (OLD.state = 1 AND NEW.state IN (2, 4) "
            "OR OLD.state = 2 AND NEW.state IN (3, 4))"
        ),
        "a game goes from open to pinned to settled, or is voided",
    ),
    (
        "games_end",
        "UPDATE",
        "games",
        (
            "NEW.state IN (3, 4) AND EXISTS (SELECT 1 FROM reservations r "
            "WHERE r.game_id = NEW.id AND r.state IN (1, 2))"
        ),
        "an ended game holds no chips",
    ),
    (
        "reservations_make",
        "INSERT",
        "reservations",
        (
            "NEW.state <> 1 OR NOT EXISTS (SELECT 1 FROM games g WHERE g.id = NEW.game_id "
            "AND g.state = 1) "
            "OR NEW.number <> "
            "1 + (SELECT count(*) FROM reservations r WHERE r.game_id = NEW.game_id)"
        ),
        "a reservation starts pending, for an open game, with the next number",
    ),
    (
        "reservations_move",
        "UPDATE",
        "reservations",
        (
            "NEW.id <> OLD.id OR NEW.game_id <> OLD.game_id OR NEW.number <> OLD.number "
            "OR NEW.account_id <> OLD.account_id OR NEW.chips <> OLD.chips "
            "OR NEW.expires_at <> OLD.expires_at "
            "OR NOT (OLD.state = 1 AND NEW.state IN (2, 4) "
            "OR OLD.state = 2 AND NEW.state IN (3, 4))"
        ),
        "a reservation goes from pending to pinned to posted, or is voided",
    ),
)
"""Name, event, table, what must not be (of OLD and NEW), and what the rule says."""

POSTGRES_COMMIT_CHECK = """
CREATE FUNCTION check_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) < 2 OR sum(p.chips) <> 0 FROM postings p
      WHERE p.transfer_id = NEW.transfer_id)
  THEN
    RAISE EXCEPTION 'postings: the postings of a transfer sum to zero' USING ERRCODE = '23514';
  END IF;
  RETURN NULL;
END $$
"""
POSTGRES_REFUSAL = """
CREATE FUNCTION refuse_row_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%: stored rows are kept as they are', TG_TABLE_NAME USING ERRCODE = '23514';
END $$
"""


def upgrade() -> None:
    """Makes the tables and their guards, and opens the issuing account."""
    dialect = op.get_bind().dialect.name
    make_accounts(ISSUER[dialect])
    make_transfers(ISSUER[dialect])
    make_games()
    op.create_table(
        "requests",
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("body_hash", sa.LargeBinary, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", "request_id", name="requests_pkey"),
        sa.CheckConstraint("length(body_hash) = 32", name="requests_body_hash"),
    )
    op.create_table("pulse", sa.Column("at", sa.BigInteger, nullable=False))
    run = op.get_bind().exec_driver_sql
    for statement in sqlite_guards() if dialect == "sqlite" else postgres_guards():
        run(statement)
    issuer = f"({ISSUER[dialect]}, 1, 0, 0, {NOW_US[dialect]})"
    run(f"INSERT INTO accounts (id, kind, balance, version, opened_at) VALUES {issuer}")  # noqa: S608


def make_accounts(issuer: str) -> None:
    """Only the issuer may be below zero, and there is one of it."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("balance", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="accounts_pkey"),
        sa.CheckConstraint("kind IN (1, 2, 3, 4)", name="accounts_kind"),
        sa.CheckConstraint(f"(kind = 1) = (id = {issuer})", name="accounts_one_issuer"),
        sa.CheckConstraint("balance >= 0 OR kind = 1", name="accounts_not_negative"),
        sa.CheckConstraint(f"balance >= -{CHIPS_MAX}", name="accounts_bound"),
        sa.CheckConstraint("version >= 0", name="accounts_version"),
        sqlite_with_rowid=False,
    )


def make_transfers(issuer: str) -> None:
    """Postings refer to their transfer only at commit: they are written before it closes them."""
    op.create_table(
        "transfers",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("game_id", sa.Uuid),
        sa.Column("reason", sa.Text),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="transfers_pkey"),
        sa.CheckConstraint("kind IN (1, 2, 3, 4, 5)", name="transfers_kind"),
        sa.CheckConstraint("kind IN (1, 2) OR game_id IS NOT NULL", name="transfers_game"),
        sqlite_with_rowid=False,
    )
    op.create_index("transfers_of_game", "transfers", ["game_id"])
    op.create_table(
        "postings",
        sa.Column("account_id", sa.Uuid, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("transfer_id", sa.Uuid, nullable=False),
        sa.Column("chips", sa.BigInteger, nullable=False),
        sa.Column("balance_before", sa.BigInteger, nullable=False),
        sa.Column("balance_after", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "version", name="postings_pkey"),
        sa.UniqueConstraint("transfer_id", "account_id", name="postings_transfer"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="postings_account_id"),
        sa.ForeignKeyConstraint(
            ["transfer_id"],
            ["transfers.id"],
            name="postings_transfer_id",
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.CheckConstraint("version >= 1", name="postings_version"),
        sa.CheckConstraint(
            f"chips <> 0 AND chips >= -{CHIPS_MAX}",
            name="postings_chips",
        ),
        sa.CheckConstraint("balance_after = balance_before + chips", name="postings_sum"),
        sa.CheckConstraint(
            f"balance_after >= 0 OR account_id = {issuer}", name="postings_not_negative"
        ),
        sqlite_with_rowid=False,
    )


def make_games() -> None:
    """Games before reservations: their rows are locked in this order too."""
    op.create_table(
        "games",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("transfer_id", sa.Uuid),
        sa.Column("head", sa.LargeBinary),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("id", name="games_pkey"),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfers.id"], name="games_transfer_id"),
        sa.CheckConstraint("state IN (1, 2, 3, 4)", name="games_state"),
        sa.CheckConstraint(
            "(state = 3) = (transfer_id IS NOT NULL) AND (state = 3) = (head IS NOT NULL)",
            name="games_settled",
        ),
        sa.CheckConstraint("length(head) = 32", name="games_head"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("game_id", sa.Uuid, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("account_id", sa.Uuid, nullable=False),
        sa.Column("chips", sa.BigInteger, nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("paid_in", sa.BigInteger, nullable=False),
        sa.Column("paid_out", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("id", name="reservations_pkey"),
        sa.UniqueConstraint("game_id", "number", name="reservations_number"),
        sa.ForeignKeyConstraint(["game_id"], ["games.id"], name="reservations_game_id"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="reservations_account_id"),
        sa.CheckConstraint("state IN (1, 2, 3, 4)", name="reservations_state"),
        sa.CheckConstraint("chips >= 1", name="reservations_chips"),
        sa.CheckConstraint(
            "paid_in >= 0 AND paid_out >= 0 AND (state = 3 OR paid_in = 0 AND paid_out = 0)",
            name="reservations_paid",
        ),
        sa.CheckConstraint("chips - paid_in + paid_out >= 0", name="reservations_final"),
        sa.CheckConstraint("(state = 4) = (reason IS NOT NULL)", name="reservations_reason"),
        sqlite_with_rowid=False,
    )
    held = sa.text("state IN (1, 2)")
    op.create_index(
        "reservations_held",
        "reservations",
        ["account_id"],
        sqlite_where=held,
        postgresql_where=held,
    )
    pending = sa.text("state = 1")
    op.create_index(
        "reservations_pending",
        "reservations",
        ["expires_at"],
        sqlite_where=pending,
        postgresql_where=pending,
    )


def sqlite_guards() -> list[str]:
    """Triggers of SQLite. REPLACE removes what it collides with and asks no delete trigger."""
    made = []
    for table in KEPT:
        key = " AND ".join(f"{column} = NEW.{column}" for column in KEYS[table])
        exists = f"EXISTS (SELECT 1 FROM {table} WHERE {key})"  # noqa: S608 - constants
        made.append(sqlite_trigger(f"{table}_no_replace", "INSERT", table, exists, "rows are kept"))
        made.append(sqlite_trigger(f"{table}_no_delete", "DELETE", table, "1", "rows are kept"))
    made += [
        sqlite_trigger(f"{table}_no_update", "UPDATE", table, "1", "rows are final")
        for table in FROZEN
    ]
    whole = " OR ".join(
        f"typeof(NEW.{column}) <> 'integer'"
        for column in ("version", "chips", "balance_before", "balance_after")
    )
    made.append(sqlite_trigger("postings_whole", "INSERT", "postings", whole, "chips are whole"))
    return [*made, *(sqlite_trigger(*rule) for rule in RULES)]


def sqlite_trigger(name: str, when: str, table: str, wrong: str, text: str) -> str:
    """A trigger that refuses a row before it is written."""
    return (
        f"CREATE TRIGGER {name} BEFORE {when} ON {table} WHEN {wrong} "
        f"BEGIN SELECT RAISE(ABORT, '{table}: {text}'); END"
    )


def postgres_guards() -> list[str]:
    """Triggers of PostgreSQL; ALWAYS: also for a session that calls itself a replica."""
    made = [POSTGRES_REFUSAL, POSTGRES_COMMIT_CHECK]
    for table in KEPT:
        changes = "UPDATE OR DELETE" if table in FROZEN else "DELETE"
        for name, when, each in (("change", changes, "ROW"), ("truncate", "TRUNCATE", "STATEMENT")):
            made.append(
                f"CREATE TRIGGER {table}_no_{name} BEFORE {when} ON {table} "
                f"FOR EACH {each} EXECUTE FUNCTION refuse_row_change()"
            )
            made.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_{name}")
    for name, when, table, wrong, text in RULES:
        made.append(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF {wrong} THEN RAISE EXCEPTION '{table}: {text}' USING ERRCODE = '23514'; END IF; "
            "RETURN NEW; END $$"
        )
        made.append(
            f"CREATE TRIGGER {name} BEFORE {when} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
        )
        made.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
    made.append(
        "CREATE CONSTRAINT TRIGGER postings_balance AFTER INSERT ON postings "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_balance()"
    )
    made.append("ALTER TABLE postings ENABLE ALWAYS TRIGGER postings_balance")
    return made
