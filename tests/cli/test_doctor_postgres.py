"""`kozyr doctor` at a PostgreSQL: months that run out, and rights that are enough."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from services.cli.checkup import stored
from services.cli.checkup.symptoms import Level, Symptom
from services.cli.migrate import migrate_service
from services.runtime.settings import Settings
from tests.postgres import SERVICE, as_service, execute


async def wrong_in(settings: Settings) -> dict[str, Symptom]:
    """What is not in order, by the name of the check."""
    found = await stored.look(settings)
    return {each.check: each for each in found if each.level is not Level.OK}


@pytest.fixture
def months(postgres_url: str) -> Settings:
    """Settings of a game database on PostgreSQL."""
    return Settings.model_validate({"game_database_url": postgres_url})


async def test_months_that_run_out(months: Settings, tmp_path: Path) -> None:
    """Partitions that were not made ahead; a database that was never migrated."""
    where = months.model_copy(update={"data_folder": tmp_path})
    assert "have not been applied" in (await wrong_in(where))["schema game"].said
    await migrate_service(where, "game")
    role = as_service(where.database_url("game"))
    owned = {"database_role": SERVICE}
    await migrate_service(where.model_copy(update=owned), "game")
    limited = where.model_copy(update={"game_database_url": SecretStr(role)})
    assert (await wrong_in(limited)).keys() == {
        *("database lobby", "database wallet", "master keys")
    }
    assert "months game" not in await wrong_in(where)
    url = where.database_url("game").replace("+asyncpg", "")
    drop = """
        DO $$ DECLARE month regclass; BEGIN
            FOR month IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'work'::regclass
                AND inhrelid::regclass::text ~ '_[0-9]+_[0-9]+$'
                ORDER BY inhrelid::regclass::text DESC LIMIT {0}
            LOOP EXECUTE 'DROP TABLE ' || month; END LOOP;
        END $$"""
    execute(url, drop.format(1))
    wrong = await wrong_in(where)
    assert wrong["months game"].level is Level.WARN
    execute(url, drop.format(9))
    wrong = await wrong_in(where)
    assert (wrong["months game"].level, "for 0 s only" in wrong["months game"].said) == (
        Level.BAD,
        True,
    )
