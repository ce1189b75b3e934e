"""The event store's schema keeps the rules of a distributed PostgreSQL; the live catalogue is read.

There is no such server here: what is held is what Citus documents of tables it distributes. How
they would be put on one is said in ARCHITECTURE.md.
"""

from typing import Any

import asyncpg
import pytest

from services.runtime.migrate import migrate
from services.runtime.store import migrations
from services.runtime.store.schema import metadata

COLUMN = "stream"
REFERENCE = {"pulse", "archived_months"}
"""Beside the distributed tables: a row for health checks and the months that have left, whole on
every node or local to one."""
LEFT = {"due"}
"""What the release before writes to while it is migrated."""
DISTRIBUTED = {*metadata.tables, *LEFT} - REFERENCE
KEYLESS = {"work"}


@pytest.fixture
async def catalogue(postgres_url: str) -> Any:
    """A connection to a migrated database."""
    await migrate(postgres_url, [migrations.FOLDER])
    connection = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    yield connection
    await connection.close()


async def test_every_distributed_table_has_the_column_of_one_type(catalogue: Any) -> None:
    """Tables are co-located by it: a stream's rows of all tables lie in one shard."""
    found = await catalogue.fetch(
        "SELECT c.relname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition "
        "AND c.relkind IN ('r', 'p') AND a.attname = $1",
        COLUMN,
    )
    assert {row["relname"] for row in found} == DISTRIBUTED
    assert {(row["type"], row["attnotnull"]) for row in found} == {("uuid", True)}


async def test_every_unique_key_contains_the_column(catalogue: Any) -> None:
    """A shard can see to a key only if no other shard may hold the same one; partitions too."""
    found = await catalogue.fetch(
        "SELECT t.relname AS name, array_agg(a.attname::text) AS columns, "
        "i.indexprs IS NULL AS plain "
        "FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid "
        "JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey) "
        "WHERE t.relnamespace = 'public'::regnamespace AND i.indisunique "
        "AND t.relname NOT IN ('store_version', 'archived_months') GROUP BY t.relname, i.indexrelid"
    )
    assert {row["name"] for row in found} >= DISTRIBUTED - KEYLESS
    for row in found:
        assert COLUMN in row["columns"], row["name"]
        assert row["plain"], row["name"]
    exclusion = "SELECT count(*) FROM pg_constraint WHERE contype = 'x'"
    assert await catalogue.fetchval(exclusion) == 0


async def test_partitions_are_by_ranges_of_the_column(catalogue: Any) -> None:
    """One level, by the column itself: a partition is a distributed table with the same shards."""
    found = await catalogue.fetch(
        "SELECT relname, pg_get_partkeydef(oid) FROM pg_class WHERE relkind = 'p' ORDER BY 1"
    )
    key = f"RANGE ({COLUMN})"
    assert [tuple(row) for row in found] == [
        *(("event_secrets", key), ("events", key), ("work", key)),
    ]
    nested = "SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'p'"
    assert await catalogue.fetchval(nested) == 0


async def test_nothing_ties_rows_of_different_shards_together(catalogue: Any) -> None:
    """No foreign key at all, no sequence, no identity, no generated column and no default that
    another node would have to make."""
    queries = {
        "foreign keys": "SELECT count(*) FROM pg_constraint WHERE contype = 'f'",
        "sequences": "SELECT count(*) FROM pg_class WHERE relkind = 'S'",
        "defaults": (
            "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "WHERE c.relnamespace = 'public'::regnamespace "
            "AND (a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> '')"
        ),
        "inheritance": (
            "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE NOT c.relispartition"
        ),
        "rules": (
            "SELECT count(*) FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class "
            "WHERE c.relnamespace = 'public'::regnamespace"
        ),
        "unlogged": (
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relpersistence <> 'p'"
        ),
    }
    found = {name: await catalogue.fetchval(query) for name, query in queries.items()}
    assert found == dict.fromkeys(queries, 0)


async def test_triggers_only_guard_the_log(catalogue: Any) -> None:
    """Triggers are what Citus refuses on a distributed table unless told otherwise. There are none
    but the guards, they look at no other row, and without them the rights of roles still hold."""
    found = await catalogue.fetch(
        "SELECT DISTINCT split_part(c.relname, '_2', 1) AS name, p.proname FROM pg_trigger t "
        "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE NOT t.tgisinternal"
    )
    assert {row["proname"] for row in found} == {"refuse_change"}
    assert {row["name"].removesuffix("_other") for row in found} == {"events", "event_secrets"}
