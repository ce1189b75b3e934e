"""A process's log in a test: set up for as long as it is looked at, and put back then."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO, TypeVar

import structlog

from services.runtime import log
from services.runtime.settings import LogFormat

File = TypeVar("File", bound=TextIO)


@contextmanager
def logged(
    to: File, service: str = "game", level: str = "info", form: LogFormat = LogFormat.JSON
) -> Iterator[File]:
    """Logs go to a file meanwhile, those of libraries too."""
    with redirect_stderr(to):
        log.configure(service, level, form)
    library = logging.getLogger()
    ours = library.handlers[:]
    try:
        yield to
    finally:
        structlog.reset_defaults()
        log._straight = None
        for handler in ours:
            library.removeHandler(handler)
