"""Structured logs: one line an event, JSON or for eyes, on standard error.

What may be logged is an allow-list of keys with plain values. Anything else is withheld, so a
card, a seed, a token or a payload cannot get into a log by carelessness. Exceptions are logged by
type and place; their text may hold anything and stays out.
"""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, cast
from uuid import UUID

import orjson
import structlog

from services.runtime import call as calls
from services.runtime import traces
from services.runtime.call import Call
from services.runtime.settings import LogFormat

WITHHELD = "<withheld>"
TEXT_MAX = 300
"""Longest logged string, in characters."""

ALLOWED = frozenset({
    *("event", "level", "time", "service", "logger", "error", "trace", "hint"),
    *("method", "code", "reason", "ms", "request_id", "trace_id", "subject", "role", "peer"),
    *("game", "table", "account", "version", "seat", "turn", "deal", "rules", "kind", "key"),
    *("transfer", "reservation", "bot", "bot_level", "dispute", "attempts", "count"),
    *("address", "port", "pid", "check", "task", "state", "signal", "path", "setting"),
    *("database", "schema", "after_ms", "late_ms", "batch", "migration"),
    *("stream", "worker", "problem", "session", "limit", "ends_at"),
})  # fmt: skip
"""Keys that may be logged. A new key is a decision: it must never carry a secret."""


@dataclass(frozen=True, slots=True)
class Straight:
    """Writes lines of known, plain fields as JSON; `lowest` is the level they must have."""

    service: str
    lowest: int
    printer: "_Printer"

    def write(self, event: str, level: str, fields: dict[str, Any]) -> None:
        """Write a line, which takes `fields` over."""
        fields["event"] = event
        fields["level"] = level
        fields["time"] = datetime.now(UTC)
        fields["service"] = self.service
        self.printer.msg(orjson.dumps(fields, option=orjson.OPT_UTC_Z).decode())


_straight: Straight | None = None
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}


def configure(service: str, level: str, form: LogFormat) -> None:
    """Set up the logs of this process; standard-library loggers of libraries go the same way."""
    global _straight  # noqa: PLW0603 - a process has one log
    numeric = cast(int, getattr(logging, level.upper()))
    printer = _Printer(sys.stderr)
    _straight = None if form is LogFormat.CONSOLE else Straight(service, numeric, printer)
    structlog.configure(
        processors=[
            _call,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _name(service),
            _failures,
            only_allowed,
            _console if form is LogFormat.CONSOLE else _json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=lambda *_: printer,  # making one for every line is dear
        cache_logger_on_first_use=False,
    )
    library = logging.getLogger()
    library.handlers[:] = [_Library()]
    library.setLevel(max(numeric, logging.WARNING))


def rpc(call: Call, code: str, seconds: float, *, quiet: bool) -> None:
    """Write the line of a call that has ended, at level debug where it is `quiet`.

    Each call leaves this line, with these plain values, so as JSON it goes straight to the file.
    What other lines go through would take longer than all else that a call goes through.
    """
    fields: dict[str, Any] = {
        "method": call.method,
        "code": code,
        "ms": round(seconds * 1000, 2),
        "request_id": call.request_id,
        "reason": call.reason,
        "role": call.caller.role,
        "subject": call.caller.subject,
        "game": call.game,
        "table": call.table,
        "version": call.version,
    }
    level = "debug" if quiet else "info"
    if _straight is None:
        get().log(_LEVELS[level], "rpc", **fields)
    elif _LEVELS[level] >= _straight.lowest:
        if call.span is not None:
            fields["trace_id"] = call.span.trace_id
        _straight.write("rpc", level, fields)


def get() -> Any:
    """The process's logger: `log.get().info("game_opened", game=…)`."""
    return structlog.get_logger()


def failure(error: BaseException) -> dict[str, str]:
    """Fields that say what failed and where, without the error's text."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = (f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
    fields = {"error": type(error).__qualname__, "trace": " > ".join(places)}
    if error.__cause__ is not None:
        fields["error"] += f" from {type(error.__cause__).__qualname__}"
    return fields


def only_allowed(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Keep allowed keys with plain values; withhold what anything else says."""
    for key, value in line.items():
        if key not in ALLOWED:
            line[key] = WITHHELD
        elif isinstance(value, str):
            line[key] = value[:TEXT_MAX]
        elif isinstance(value, UUID):
            line[key] = str(value)
        elif value is not None and type(value) not in (int, float, bool):
            line[key] = WITHHELD
    return line


def _name(service: str) -> Any:
    def add(
        _logger: object, _method: str, line: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        line.setdefault("service", service)
        return line

    return add


def _call(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """What is logged while a call is served carries the call's request id, and its trace's."""
    call, span = calls.current(), traces.current()
    if call is not None:
        line.setdefault("request_id", call.request_id)
    if span is not None:
        line["trace_id"] = span.trace_id
    return line


def _failures(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """What `log.exception(…)` says: type and place of the exception being handled."""
    given = line.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    return line if error is None else {**line, **failure(error)}


def _json(_logger: object, _method: str, line: MutableMapping[str, Any]) -> str:
    return orjson.dumps(dict(line)).decode()


def _console(_logger: object, _method: str, line: MutableMapping[str, Any]) -> str:
    rest = dict(line)
    start = f"{rest.pop('time')} {rest.pop('level'):7} {rest.pop('service')} {rest.pop('event')}"
    return " ".join([start, *(f"{k}={v}" for k, v in rest.items() if v is not None)])


class _Printer:
    """Writes lines. One that cannot be written (full disk, closed pipe) is lost, and only that:
    what a process does must not hang on what it says about it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def msg(self, line: str) -> None:
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except (OSError, ValueError):
            pass

    log = debug = info = warning = warn = error = exception = critical = fatal = failure = msg


class _Library(logging.Handler):
    """Passes on what libraries log: the template of the message without what is filled in."""

    def emit(self, record: logging.LogRecord) -> None:
        # without arguments the message has been put together already and may hold anything
        hint = str(record.msg) if record.args else WITHHELD
        fields = {"logger": record.name, "hint": hint}
        if record.exc_info and record.exc_info[1] is not None:
            fields |= failure(record.exc_info[1])
        structlog.get_logger().log(record.levelno, "library", **fields)
