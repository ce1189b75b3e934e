"""Settings: from the environment, checked, and silent about secrets."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.runtime.server import setting_problems
from services.runtime.settings import SERVICES, Settings, settings_table

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment of the tests."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"KOZYR_{name.upper()}", raising=False)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the prefix and the name in capitals."""
    monkeypatch.setenv("KOZYR_DRAIN_GRACE_MS", "1234")
    monkeypatch.setenv("KOZYR_GAME_DATABASE_URL", f"postgresql+asyncpg://k:{SECRET}@db/game")
    settings = Settings()
    assert settings.drain_grace_ms == 1234
    assert settings.database_url("game").endswith("@db/game")
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()


def test_every_service_has_its_port_and_database() -> None:
    """Four ports, four files, one folder."""
    settings = Settings(data_folder=Path("/somewhere"))
    ports = [settings.listen(service) for service in SERVICES]
    assert ports == [f"127.0.0.1:{7001 + i}" for i in range(4)]
    assert [settings.address(service) for service in SERVICES] == ports
    assert settings.database_url("lobby") == "sqlite+aiosqlite:////somewhere/lobby.db"
    assert settings.keys() == Path("/somewhere/keys")


def test_an_address_for_others_may_differ() -> None:
    """Where a service listens is not where others reach it."""
    settings = Settings(game_listen="0.0.0.0:7002", game_address="dns:///game:7002")
    assert settings.address("game") == "dns:///game:7002"


@pytest.mark.parametrize(
    "changes",
    [
        {"lobby_listen": "7001"}, {"lobby_listen": ":7001"}, {"lobby_listen": "x:y"},
        {"lobby_listen": "x:70000"}, {"log_level": "loud"}, {"drain_grace_ms": -1},
        {"rate_per_second": 0}, {"turn_time_min_ms": 50_000}, {"deadline_default_ms": 61_000},
        {"request_max_bytes": 2**20, "message_max_bytes": 2**16}, {"no_such_setting": 1},
        {"tls_key_file": "k"}, {"tls_cert_file": "c", "tls_ca_file": "a"},
        {"tls_cert_file": "c", "tls_key_file": "k"},
    ],
)  # fmt: skip
def test_bad_settings_are_refused(changes: dict[str, Any]) -> None:
    """Out of bounds, out of order, unknown; and said in a line each."""
    with pytest.raises(ValidationError) as caught:
        Settings(**changes)
    assert setting_problems(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        SECRET, "", "mysql://k:p@db/game", "sqlite:///g", f"postgresql+asyncpg://k:p@db:{SECRET}/g",
        f"postgresql+asyncpg://k@{SECRET}:x:y/g", f"postgresql://k:{SECRET}@db/game",
    ],
)  # fmt: skip
def test_the_url_of_a_database_is_refused_without_its_words(url: str) -> None:
    """Before anything opens it, whose error might tell parts of a password."""
    for name in ("lobby_database_url", "game_database_url", "wallet_database_url"):
        given: dict[str, Any] = {name: url}
        with pytest.raises(ValidationError) as caught:
            Settings(**given)
        (problem,) = setting_problems(caught.value)
        assert name.upper() in problem
        assert SECRET not in problem


def test_the_table_documents_every_setting() -> None:
    """A line a setting, with its default and what it means."""
    table = settings_table()
    for name, field in Settings.model_fields.items():
        assert f"| `KOZYR_{name.upper()}` | " in table
        assert field.description
        assert f"| {field.description} |" in table
    assert len(table.splitlines()) == len(Settings.model_fields) + 2


def test_durations_and_sizes_carry_their_unit() -> None:
    """A bare number of time or octets would be a trap."""
    words = ("interval", "timeout", "age", "notice", "grace", "deadline", "time", "heartbeat")
    for name in Settings.model_fields:
        if any(word in name.split("_") for word in words):
            assert name.endswith("_ms")


@pytest.mark.parametrize("missing", ["tls_cert_file", "tls_key_file", "tls_ca_file"])
def test_a_certificate_is_whole_or_none(missing: str) -> None:
    """What is missing is named; authorities alone are for clients."""
    given: dict[str, Any] = dict.fromkeys(("tls_cert_file", "tls_key_file", "tls_ca_file"), "file")
    assert Settings(**given).tls_cert_file == Path("file")
    del given[missing]
    with pytest.raises(ValidationError) as caught:
        Settings(**given)
    assert f"KOZYR_{missing.upper()} is missing" in "".join(setting_problems(caught.value))
    assert Settings(tls_ca_file=Path("file")).tls_cert_file is None
