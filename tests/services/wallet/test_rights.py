"""What the role of the wallet's service may do on PostgreSQL, and what it may not."""

from pathlib import Path

import asyncpg
import pytest

from services.wallet.server import FOLDERS
from tests import postgres
from tests.services.wallet.conftest import database

FINAL = ("postings", "transfers", "requests")
KEPT = (*FINAL, "accounts", "games", "reservations")
FORBIDDEN = (
    *(f"TRUNCATE {table} CASCADE" for table in KEPT),
    *(f"DELETE FROM {table}" for table in KEPT),  # noqa: S608 - made of constants
    "UPDATE postings SET chips = 1",
    "UPDATE transfers SET reason = 'another'",
    "UPDATE requests SET response = body_hash",
    "UPDATE accounts SET kind = 2",
    "UPDATE accounts SET opened_at = 0",
    "UPDATE reservations SET chips = 1",
    "UPDATE reservations SET account_id = game_id",
    "UPDATE games SET id = id",
    "ALTER TABLE postings DISABLE TRIGGER ALL",
    "DROP TABLE postings",
    "UPDATE wallet_version SET version_num = '0001'",
)


async def test_the_service_cannot_rewrite_the_books(tmp_path: Path) -> None:
    """It lacks the right, before any trigger is asked; balances and states it may move."""
    with database("postgresql", tmp_path) as url:
        service = await postgres.migrated(url, FOLDERS)
        connection = await asyncpg.connect(service.replace("+asyncpg", ""))
        for statement in FORBIDDEN:
            with pytest.raises(asyncpg.exceptions.InsufficientPrivilegeError):
                await connection.execute(statement)
        assert await connection.execute("UPDATE reservations SET state = 2") == "UPDATE 0"
        await connection.close()


async def test_rights_are_given_anew_and_exactly(tmp_path: Path) -> None:
    """What somebody gave the role beside them is gone after the next migration."""
    with database("postgresql", tmp_path) as url:
        service = await postgres.migrated(url, FOLDERS)
        plain = url.replace("+asyncpg", "")
        postgres.execute(plain, f"GRANT ALL ON postings TO {postgres.SERVICE}")
        await postgres.migrated(url, FOLDERS)
        connection = await asyncpg.connect(service.replace("+asyncpg", ""))
        held = await connection.fetch(
            "SELECT privilege_type FROM information_schema.role_table_grants "
            "WHERE table_name = 'postings' ORDER BY 1"
        )
        assert [row["privilege_type"] for row in held] == ["INSERT", "SELECT"]
        await connection.close()
