"""Logs: what is not allowed is withheld, whoever logs it and however."""

import ast
import errno
import io
import json
import logging
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from services.runtime import call as calls
from services.runtime import log
from services.runtime.auth import Caller, Role
from services.runtime.call import Call
from services.runtime.settings import LogFormat
from tests.logs import logged

SECRET = "seven-of-clubs"
SERVICES = Path(log.__file__).parents[1]
LEVELS = (".debug", ".info", ".warning", ".error", ".exception", ".critical")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged."""
    with logged(io.StringIO()) as out:
        yield out


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    """The lines as objects."""
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_is_one_json_object(written: io.StringIO) -> None:
    """With time, level and service; levels below the setting are not written."""
    log.get().debug("unseen")
    log.get().info("opened", game=UUID(int=1), version=3, late_ms=1.5, state=None)
    (line,) = lines(written)
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "opened", "level": "info", "service": "game", "game": str(UUID(int=1)),
        "version": 3, "late_ms": 1.5, "state": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {"deck": SECRET},
        {"token": SECRET},
        {"hand": [SECRET]},
        {"game": [SECRET]},
        {"game": {"seed": SECRET}},
        {"game": SECRET.encode()},
        {"game": ValueError(SECRET)},
    ],
)
def test_what_is_not_allowed_is_withheld(written: io.StringIO, fields: dict[str, Any]) -> None:
    """Other keys, and values that are not plain, under any key."""
    log.get().info("happened", **fields)
    assert SECRET not in written.getvalue()
    assert log.WITHHELD in written.getvalue()


def test_whatever_a_line_says_is_allowed() -> None:
    """Every line of ours that is written by its keys: none is withheld from whoever reads logs."""
    told = 0
    for path in sorted(SERVICES.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(LEVELS):
                told += 1
                keys = {word.arg for word in call.keywords} - {None, "exc_info"}
                assert keys <= log.ALLOWED, f"{path}:{call.lineno}: {keys - log.ALLOWED}"
    assert told > 40


def test_exceptions_are_logged_without_their_text(written: io.StringIO) -> None:
    """Type and place are enough to find it."""
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(SECRET) from error
    except ValueError as error:
        log.get().exception("failed", game="g")
        log.get().error("failed", **log.failure(error))
    for line in lines(written):
        assert line["error"] == "ValueError from KeyError"
        assert "test_log.py:" in line["trace"]
    assert len(lines(written)) == 2
    assert SECRET not in written.getvalue()


def test_libraries_log_through_the_same_door(written: io.StringIO) -> None:
    """Their messages pass as templates, without what is filled in; warnings and above."""
    library = logging.getLogger("some.library")
    library.info("unseen")
    library.warning("connection %s lost", SECRET)
    library.error(f"already put together: {SECRET}")
    try:
        raise OSError(SECRET)
    except OSError:
        library.exception("it failed")
    first, second, third = lines(written)
    assert first["hint"] == "connection %s lost"
    assert first["logger"] == "some.library"
    assert second["hint"] == log.WITHHELD
    assert third["error"] == "OSError"
    assert SECRET not in written.getvalue()


def test_what_is_logged_in_a_call_carries_its_request_id(written: io.StringIO) -> None:
    """Unless the line names another."""

    def serve() -> None:
        calls.begin(Call("/a.B/C", "id-1"))
        log.get().info("happened")
        log.get().info("happened", request_id="id-2")

    copy_context().run(serve)
    log.get().info("happened")
    assert [line.get("request_id") for line in lines(written)] == ["id-1", "id-2", None]


@pytest.mark.parametrize("level", ["debug", "info", "warning"])
@pytest.mark.parametrize("quiet", [True, False])
def test_a_calls_line_is_as_all_others(
    level: str, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes straight to the file says what it would say by the way of all lines."""
    call = Call("/a.B/C", "id-1", caller=Caller(Role.PLAYER, "p-1", 9), game="g", version=3)
    with logged(io.StringIO(), level=level) as written:
        log.rpc(call, "OK", 0.0123456, quiet=quiet)
        monkeypatch.setattr(log, "_straight", None)
        log.rpc(call, "OK", 0.0123456, quiet=quiet)
    said = lines(written)
    assert len(said) == (2 if level == "debug" or (level == "info" and not quiet) else 0)
    assert all(each.pop("time").endswith("Z") for each in said)
    assert said[:1] == said[1:]
    for each in said:
        assert each.keys() <= log.ALLOWED
        assert log.WITHHELD not in each.values()


def test_long_texts_are_cut(written: io.StringIO) -> None:
    """A caller cannot fill the disk."""
    log.get().info("happened", reason="x" * 5000)
    assert len(lines(written)[0]["reason"]) == log.TEXT_MAX


def test_the_console_is_for_eyes() -> None:
    """One readable line; the same allow-list."""
    with logged(io.StringIO(), form=LogFormat.CONSOLE) as out:
        log.get().info("opened", version=3, deck=SECRET)
    assert "game opened version=3 deck=<withheld>" in out.getvalue()


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        """Refuse."""
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_cannot_be_written_breaks_nothing() -> None:
    """Neither a full disk nor a closed file reaches whoever logs, or a library that does."""
    closed = io.StringIO()
    closed.close()
    for file in (Full(), closed):
        with logged(file):
            log.get().warning("unseen")
            logging.getLogger("library").error("unseen")
